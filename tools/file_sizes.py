"""Fail when the house has outgrown its budgets: long files, too many modules, crowded folders.

A file that is too long holds two ideas; a folder that is too full needs one below it. Raise a
budget only together with a feature that needs it, and say so in the commit.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

LONGEST_FILE = 550
FOLDERS = ("src", "tests", "tools", "bench")
MODULES = 249  # of src, `__init__` among them
LINES = 53_000  # of src
ENTRIES = 16  # modules and folders in one folder of src, `__init__` not among them
ROOT_ENTRIES = 28  # the package itself: public modules, features and what all of them share
SAME_NAME = 2  # modules of one name


def main() -> int:
    root = Path(__file__).parent.parent
    problems = [*long_files(root), *too_much_source(root), *full_folders(root), *same_names(root)]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def length(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


def long_files(root: Path) -> Iterator[str]:
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*.py")):
            if length(file) > LONGEST_FILE:
                yield f"{file.relative_to(root)}: {length(file)} lines, at most {LONGEST_FILE}"


def too_much_source(root: Path) -> Iterator[str]:
    files = list((root / "src").rglob("*.py"))
    lines = sum(map(length, files))
    if len(files) > MODULES:
        yield f"src has {len(files)} modules, at most {MODULES}"
    if lines > LINES:
        yield f"src has {lines} lines, at most {LINES}"


def full_folders(root: Path) -> Iterator[str]:
    package = root / "src/deltasql"
    for folder in [package, *(file.parent for file in sorted(package.rglob("*/__init__.py")))]:
        names = {entry.name for entry in folder.iterdir()} - {"__init__.py", "__pycache__"}
        most = ROOT_ENTRIES if folder == package else ENTRIES
        if len(names) > most:
            yield f"{folder.relative_to(root)} has {len(names)} entries, at most {most}"


def same_names(root: Path) -> Iterator[str]:
    names = Counter(file.stem for file in (root / "src").rglob("*.py"))
    for name, count in sorted(names.items()):
        if count > SAME_NAME and name != "__init__":
            yield f"{count} modules of src are called {name}, at most {SAME_NAME}"


if __name__ == "__main__":
    sys.exit(main())
