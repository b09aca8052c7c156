"""Laws of the package as a whole."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import deltasql
from deltasql.errors import DeltaSqlError

SOURCE = Path(deltasql.__file__).parent
HEAVY = {"pyarrow", "psycopg", "rich", "obstore", "msgspec", "adbc_driver_manager", "polars"}


def imports(file):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def test_no_module_imports_a_second_sqlite_library():
    # two SQLite libraries in one process cancel each other's locks and lose commits
    files = list(SOURCE.rglob("*.py"))
    assert len(files) > 100
    users = [str(file) for file in files if "sqlite3" in set(imports(file))]
    assert users == []


@pytest.mark.parametrize("statement", ["import deltasql", "import deltasql.cli.main"])
def test_importing_the_package_loads_nothing_heavy(statement):
    code = f"import sys; {statement}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert HEAVY & {name.partition(".")[0] for name in loaded} == set()


def errors(kind=DeltaSqlError):
    return [kind, *(found for child in kind.__subclasses__() for found in errors(child))]


def test_every_error_has_a_code_of_its_own_and_a_sentence():
    ours = [kind for kind in errors() if kind.__module__.startswith("deltasql.errors")]
    assert len(ours) >= 50
    shared = {kind.code for kind in ours if [one.code for one in ours].count(kind.code) > 1}
    assert shared == set()
    for kind in ours:
        assert kind.__name__.endswith("Error")
        assert (kind.__doc__ or "").splitlines()[0].endswith(".")
        assert kind.exit_code in {1, 2, 3, 4, 5, 6}


def test_every_error_survives_a_pickle():
    import pickle

    for kind in errors():
        again = pickle.loads(pickle.dumps(kind("A sentence.", hint="Do this.", table="t")))
        assert (type(again), again.message, again.advice) == (kind, "A sentence.", "Do this.")
        assert again.context == {"table": "t"}


def test_every_error_carries_its_code_and_hint_as_notes():
    for kind in errors():
        assert kind("A sentence.", hint="Do this.").__notes__ == [f"[{kind.code}] hint: Do this."]
        assert kind("A sentence.", hint="").__notes__ == [f"[{kind.code}]"]
