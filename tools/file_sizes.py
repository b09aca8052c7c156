"""Fail when a source file has grown past the length that one idea needs."""

import sys
from pathlib import Path

LIMIT = 550
FOLDERS = ("src", "tests", "tools", "bench")


def main() -> int:
    root = Path(__file__).parent.parent
    files = [file for folder in FOLDERS for file in sorted((root / folder).rglob("*.py"))]
    lengths = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in files}
    long = {file: length for file, length in lengths.items() if length > LIMIT}
    for file, length in long.items():
        print(f"{file.relative_to(root)}: {length} lines, at most {LIMIT}", file=sys.stderr)
    return 1 if long else 0


if __name__ == "__main__":
    sys.exit(main())
