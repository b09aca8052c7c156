"""Which test shows which requirement, read from the `@pytest.mark.req(...)` marks."""

import ast
from collections import defaultdict
from pathlib import Path


def requirements_page(root: Path) -> str:
    texts = _texts(root / "tools/requirements.txt")
    tests = _marked(root / "tests", root)
    unknown = sorted(tests.keys() - texts.keys())
    if unknown:
        raise SystemExit(f"tests name unknown requirements: {', '.join(unknown)}")
    shown = sum(number in tests for number in texts)
    lines = [
        "# Requirements and the tests that show them\n",
        f"{shown} of {len(texts)} requirements are shown by a test that names them.\n",
        "| | requirement | shown by |",
        "|---|---|---|",
    ]
    for number, text in texts.items():
        names = "<br>".join(f"`{name}`" for name in sorted(tests.get(number, ())))
        lines.append(f"| {number} | {text} | {names} |")
    return "\n".join(lines) + "\n"


def _texts(file: Path) -> dict[str, str]:
    lines = file.read_text(encoding="utf-8").splitlines()
    pairs = (line.split(maxsplit=1) for line in lines if line.strip())
    return {number: text.replace("|", "\\|") for number, text in pairs}


def _marked(tests: Path, root: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for file in sorted(tests.rglob("test_*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        name = file.relative_to(root).as_posix()
        for number in _numbers(_module_marks(tree)):
            found[number].add(name)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for number in _numbers(node.decorator_list):
                    found[number].add(f"{name}::{node.name}")
    return found


def _module_marks(tree: ast.Module) -> list[ast.expr]:
    marks: list[ast.expr] = []
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            marks += node.value.elts if isinstance(node.value, ast.List) else [node.value]
    return marks


def _numbers(marks: list[ast.expr]) -> list[str]:
    calls = [mark for mark in marks if isinstance(mark, ast.Call)]
    named = [call for call in calls if ast.unparse(call.func) == "pytest.mark.req"]
    return [ast.literal_eval(argument) for call in named for argument in call.args]
