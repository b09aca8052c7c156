"""Commands that bring tables under SQL: import, cutover."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from deltasql.cli.app import App, Command, command, parse_pairs, pass_app
from deltasql.cli.arguments import table_argument, yes_option
from deltasql.errors import BadArgumentError

if TYPE_CHECKING:
    from deltasql.cli.import_run import Mode

_EXAMPLE = """\
deltasql import s3://bucket/orders deltasql://postgres/lake/public/orders --dry-run
deltasql import s3://bucket/orders deltasql://postgres/lake/public/orders
deltasql import s3://bucket/orders deltasql://postgres/lake/public/orders --resume
deltasql import --lake s3://bucket/lake deltasql://sqlite/metadata.db"""
# What only makes sense where something is imported.
_LOADING = (
    "resume",
    "force",
    "skip_validation",
    "checkpoint_only",
    "from_version",
    "up_to_version",
    "dry_run",
)


class ImportCommand(Command):
    """`--dry-run` may stand alone before the source, which is not its value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give a lone --dry-run its value."""
        end = args.index("--") if "--" in args else len(args)
        given = ["--dry-run=full" if word == "--dry-run" else word for word in args[:end]]
        return super().parse_args(ctx, given + args[end:])


@click.command("import", cls=ImportCommand, example=_EXAMPLE)
@click.argument("source", metavar="SOURCE_TABLE_URI")
@click.argument("target", metavar="[TARGET_DB_URI]", required=False)
@click.option("--name", help="Call the table so.  [default: that of the URI, or its folder]")
@click.option("--lake", is_flag=True, help="The source is a root: import all tables below it.")
@click.option(
    "--dry-run",
    type=click.Choice(["full", "quick"]),
    metavar="[=quick]",
    help="Read and check everything, tell counts, time and size, change nothing; "
    "`=quick` only lists the log.",
)
@click.option("--resume", is_flag=True, help="Go on with an import, or follow its source.")
@click.option("--force", is_flag=True, help="Replace the table that has the name or the place.")
@click.option("--from-version", type=click.IntRange(min=0), help="Keep no version before this one.")
@click.option("--up-to-version", type=click.IntRange(min=0), help="Import no later version.")
@click.option(
    "--checkpoint-only", is_flag=True, help="Begin with the newest checkpoint: skip the history."
)
@click.option("--skip-validation", is_flag=True, help="Do not compare with the source afterwards.")
@click.option("--validate-only", is_flag=True, help="Compare an imported table with its source.")
@click.option("--accept-differences", is_flag=True, help="Take what differs from the source.")
@click.option("--lenient", is_flag=True, help="Accept a log that breaks the letter of Delta.")
@click.option(
    "--engine",
    type=click.Choice(["auto", "spark", "local"]),
    default="auto",
    show_default=True,
    help="Who reads the log: Spark, or this process.",
)
@click.option("--master", metavar="URL", help="Spark's master, such as local[4].")
@click.option("--conf", "conf", metavar="KEY=VALUE", multiple=True, help="A setting of Spark.")
@yes_option
@pass_app
def import_(app: App, /, *, source: str, target: str | None, **given: Any) -> None:
    """Import existing Delta tables with their history.

    The table stays where it is and its log is only read. It is read-only in SQL afterwards, until
    `deltasql cutover` lets SQL take over; --resume follows a source that others still write.

    Leaves with 3 where the import differs from its source, with 5 where the source is damaged.
    With --lake it leaves with the code of the first table that failed; the others are imported.
    """
    _refuse_contradictions(given)
    if target is not None:
        if app.uri not in (None, target):
            raise BadArgumentError("Give the target as an argument or by --uri, not both.")
        app.uri = target
    from deltasql.cli.import_run import ImportRun, Request
    from deltasql.client.import_call import ImportCall
    from deltasql.client.imports import ImportOptions

    options = ImportOptions(
        up_to_version=given["up_to_version"],
        from_version=given["from_version"],
        checkpoint_only=given["checkpoint_only"],
        lenient=given["lenient"],
        resume=given["resume"],
        force=given["force"],
        validate=not given["skip_validation"],
        accept_differences=given["accept_differences"],
    )
    call = ImportCall(given["engine"], given["master"], parse_pairs(given["conf"], "--conf"))
    request = Request(source, target, given["name"], options, call, _mode(given), given["is_sure"])
    code = ImportRun(app, request).lake() if given["lake"] else ImportRun(app, request).one()
    raise click.exceptions.Exit(code)


@command(example="deltasql cutover orders")
@table_argument
@click.option("--no-fence", is_flag=True, help="Let other writers go on, at their own risk.")
@click.option(
    "--follow", is_flag=True, help="Take along what others have committed since the import."
)
@pass_app
def cutover(app: App, *, table: str | None, no_fence: bool, follow: bool) -> None:
    """Let SQL take over the log of an imported table.

    A commit of ours wins the log's next number; what others commit meanwhile is imported first.
    From then on the table takes commits through SQL only, and the fence keeps other writers out.
    `deltasql detach` gives it back.
    """
    name = app.table_name(table)
    with app.connect() as catalog:
        done = catalog.cutover(name, fence=not no_fence, follow=follow)
    facts = {
        "table": done.table,
        "version": done.version,
        "state": str(done.row.state),
        "fenced": not no_fence,
        "races_lost": done.lost,
    }
    lost = f", after {done.lost} races lost to other writers" if done.lost else ""
    app.out.done(f"SQL has taken over {done.table} with version {done.version}{lost}.", facts)
    app.out.note(f"`deltasql detach {done.table}` gives it back.")


def _mode(given: dict[str, Any]) -> Mode:
    if given["validate_only"]:
        return "validate"
    found: Mode = given["dry_run"] or "import"
    return found


def _refuse_contradictions(given: dict[str, Any]) -> None:
    if given["resume"] and given["force"]:
        raise BadArgumentError(
            "Give --resume or --force, not both.",
            hint="--resume goes on with the table that is there, --force replaces it.",
        )
    if given["checkpoint_only"] and given["from_version"] is not None:
        raise BadArgumentError(
            "Give --from-version or --checkpoint-only, not both.",
            hint="--checkpoint-only begins the history at the newest checkpoint.",
        )
    if given["skip_validation"] and given["accept_differences"]:
        raise BadArgumentError(
            "--skip-validation finds no differences that --accept-differences could take."
        )
    if given["validate_only"]:
        for name in _LOADING:
            if given[name] is not None and given[name] is not False:  # version 0 is one
                told = f"--{name.replace('_', '-')}"
                raise BadArgumentError(f"--validate-only imports nothing: leave out {told}.")
    if given["lake"]:
        for name in ("name", "up_to_version"):
            if given[name] is not None:
                told = f"--{name.replace('_', '-')}"
                raise BadArgumentError(f"{told} is for one table; --lake imports many.")
