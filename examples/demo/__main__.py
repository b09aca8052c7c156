"""The demo: the whole way of a table, from another writer's log to a repaired mirror.

`make demo` runs it; `python examples/demo --help` shows its options.
"""

import argparse
import shutil
import sys
from pathlib import Path

from story import Story

_MARKER = ".deltasql-demo"
_DIFFERENCE = 3


def main() -> int:
    parser = argparse.ArgumentParser(prog="demo", description=__doc__.splitlines()[0])
    parser.add_argument("--dir", default=".demo", help="where to work (.demo)")
    parser.add_argument("--jars", help="folder of Delta's jars: then Spark reads the log by itself")
    given = parser.parse_args()
    home = Path(given.dir).resolve()
    if home.exists() and not (home / _MARKER).exists() and any(home.iterdir()):
        parser.error(f"{given.dir} is not empty and was not made by the demo.")
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    (home / _MARKER).touch()
    with Story.begin(home, Path(given.dir), given.jars) as story:
        counts = story.tell()
    _print_table(counts)
    story.tell_next()
    return _DIFFERENCE if any(row["verdict"] == "different" for row in counts) else 0


def _print_table(rows: list[dict]) -> None:
    print(f"\n{'reader':<9}  {'rows':>5}  {'sum':>10}  verdict")
    for row in rows:
        cells = f"{row.get('rows', ''):>5}  {row.get('sum', ''):>10}"
        print(f"{row['reader']:<9}  {cells}  {row['verdict']}")


if __name__ == "__main__":
    sys.exit(main())
