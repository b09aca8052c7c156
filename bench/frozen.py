"""A frozen copy of the library: a run measures one state of the source, whatever is edited.

Children get it by PYTHONPATH, ahead of the installed one, and with compiled bytecode kept: a
process that compiles its imports anew each time would make `--help` a measure of the compiler.
"""

import hashlib
import os
import shutil
from pathlib import Path

from bench.server import ROOT

_SOURCE = ROOT / "src"


def freeze(home: Path) -> str:
    """Copy the library and set the environment of all children; return the copy's digest."""
    copy = home / "src"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(_SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    os.environ["PYTHONPATH"] = str(copy)
    os.environ["PYTHONPYCACHEPREFIX"] = str(home / "bytecode")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    return digest(copy)


def digest(folder: Path) -> str:
    """Return a short digest of names and contents."""
    found = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.suffix in {".py", ".sql"}:
            found.update(str(file.relative_to(folder)).encode() + b"\0" + file.read_bytes())
    return found.hexdigest()[:12]
