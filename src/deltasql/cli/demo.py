"""The demo: the whole way of a table, from another writer's log to a repaired mirror."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import click

from deltasql.cli.app import App, command, pass_app
from deltasql.errors import BadArgumentError

_MARKER: Final = ".deltasql-demo"
_DIFFERENCE: Final = 3


@command(example="deltasql demo --dir .demo")
@click.option("--dir", "folder", default=".demo", show_default=True, help="Where to work.")
@click.option("--jars", help="Folder of Delta's jars: then Spark reads the log by itself.")
@pass_app
def demo(app: App, folder: str, jars: str | None) -> None:
    """Take a legacy table over, damage its log, repair it: the whole way.

    The folder is emptied first if an earlier demo made it.
    """
    from deltasql.cli.demo_story import Story

    home = _fresh(Path(folder))
    with Story.begin(app.out, home, Path(folder), jars) as story:
        counts = story.tell()
    app.out.rows(counts, ["reader", "rows", "sum", "verdict"])
    story.tell_next()
    if any(row["verdict"] == "different" for row in counts):
        raise click.exceptions.Exit(_DIFFERENCE)


def _fresh(folder: Path) -> Path:
    home = folder.resolve()
    if home.exists() and not (home / _MARKER).exists() and any(home.iterdir()):
        raise BadArgumentError(f"{folder} is not empty and was not made by the demo.")
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    (home / _MARKER).touch()
    return home
