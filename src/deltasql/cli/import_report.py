"""What an import, a dry run or a comparison reports: facts for programs, sentences for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, Literal

from deltasql.api.catalog import Catalog
from deltasql.cli.output import Output, count_text, size_text, time_text
from deltasql.cli.remedies import advice_for_shell
from deltasql.errors import DeltaSqlError
from deltasql.imports.job import Imported
from deltasql.imports.lake import Lake, LakeOutcome, LakeTable
from deltasql.imports.plan.listing import corrupt_checkpoint
from deltasql.imports.preview import Preview
from deltasql.imports.validate.differences import Validation
from deltasql.imports.validate.validator import Verdict, verdict_of

if TYPE_CHECKING:
    from deltasql.imports.load.loader import LoadCounts
    from deltasql.imports.plan.listing import PlanWarning
    from deltasql.imports.validate.differences import Check

_KINDS = {
    "adds": "add",
    "removes": "remove",
    "metadata": "metaData",
    "protocols": "protocol",
    "txns": "txn",
    "domains": "domainMetadata",
}

# A schema or a map of transactions on one line is for programs.
_LONGEST = 160
_FEW = 10

_DIFFERENT = 3
_COLUMNS = ["table", "outcome", "versions", "version", "validation", "detail"]


@dataclass(frozen=True, slots=True)
class Totals:
    """What the import has left behind: live files and their bytes, the database, the time."""

    files: int
    bytes: int
    database_bytes: int
    seconds: float


def imported_facts(
    done: Imported, totals: Totals, verdict: Verdict | None, commands: Sequence[str]
) -> dict[str, Any]:
    """Return what an import did, for programs."""
    return {
        "table": done.row.full_name,
        "table_id": done.table_id,
        "source": done.source,
        "state": str(done.row.state),
        "first_version": done.row.oldest_version,
        "version": done.row.current_version,
        "engine": done.engine,
        "imported": count_facts(done.counts),
        "files": totals.files,
        "bytes": totals.bytes,
        "database_bytes": totals.database_bytes,
        "seconds": round(totals.seconds, 3),
        "validation": validation_facts(done.validation, verdict),
        "warnings": list(map(warning_facts, done.warnings)),
        "next": list(commands),
    }


def imported_text(done: Imported, totals: Totals, verdict: Verdict | None) -> dict[str, str]:
    """Return what an import did, a line for each fact."""
    first, last = done.row.oldest_version, done.row.current_version
    came = count_text(done.counts.versions, "version")
    verb = "imported" if done.counts.versions <= last - first + 1 else "read"
    return {
        "table": done.row.full_name,
        "state": str(done.row.state),
        "source": done.source,
        "versions": f"{came} {verb}; the table has {first} to {last}",
        "actions": actions_text(done.counts),
        "files": f"{count_text(totals.files, 'live file')}, {size_text(totals.bytes)}",
        "database": size_text(totals.database_bytes),
        "time": f"{time_text(totals.seconds)} on the {done.engine} engine",
        "validation": validation_text(done.validation, verdict),
    }


def preview_facts(preview: Preview) -> dict[str, Any]:
    """Return what an import would do, for programs."""
    return {
        "table": preview.table,
        "source": preview.source,
        "dry_run": "quick" if preview.counts is None else "full",
        "replaces": preview.replaces,
        "first_version": preview.first,
        "version": preview.plan.head,
        "versions": preview.versions,
        "begins_with_checkpoint": preview.plan.base_version,
        "commit_bytes": preview.sizes.json_bytes,
        "would_insert": None if preview.counts is None else count_facts(preview.counts),
        "live_files": preview.live_files,
        "estimated_seconds": round(preview.estimate.seconds, 1),
        "estimated_database_bytes": preview.estimate.database_bytes,
        "engine": preview.engine,
        "differences": [check_facts(check) for check in preview.checks if not check.is_equal],
        "warnings": list(map(warning_facts, preview.warnings)),
    }


def preview_lines(preview: Preview) -> Iterator[str]:
    """Return what an import would do, as sentences."""
    versions = count_text(preview.versions, "version")
    span = f", {preview.first} to {preview.plan.head}" if preview.versions else ""
    yield f"Would import {versions} of {preview.source} as {preview.table}{span}"
    if preview.plan.first < preview.plan.oldest == preview.first:
        yield (
            f"Would read the log from version {preview.plan.first} on, for the state of "
            f"version {preview.first}"
        )
    if preview.replaces is not None:
        yield f"Would replace the table {preview.table} that is there"
    if preview.counts is not None:
        yield f"Would insert {actions_text(preview.counts, noun='action')}"
        yield f"The table has {count_text(preview.live_files or 0, 'live file')} then"
    yield f"Estimated time: {time_text(preview.estimate.seconds)} on the {preview.engine} engine"
    yield f"Estimated database size: {size_text(preview.estimate.database_bytes)}"
    if preview.counts is None:
        yield "Only names and sizes were read; --dry-run without =quick reads and checks the log"


def actions_text(counts: LoadCounts, noun: str = "") -> str:
    """Return the counts of each kind, such as `50,000 add, 10,000 remove`."""
    shown = [(getattr(counts, field), kind) for field, kind in _KINDS.items()]
    parts = [
        count_text(count, f"{kind} {noun}") if noun else f"{count:,} {kind}"
        for count, kind in shown
        if count
    ]
    if counts.state_files:
        parts.append(f"{count_text(counts.state_files, 'file')} of a checkpoint")
    return ", ".join(parts) or "nothing"


def count_facts(counts: LoadCounts) -> dict[str, int]:
    """Return the counts by their names in the log."""
    return {
        "versions": counts.versions,
        "actions": counts.actions,
        **{kind: getattr(counts, field) for field, kind in _KINDS.items()},
        "checkpoint_files": counts.state_files,
        "commit_bytes": counts.bytes,
    }


def validation_facts(outcome: Validation | None, verdict: Verdict | None) -> dict[str, Any]:
    """Return a comparison with all its differences; `outcome` is None where nothing was new."""
    facts: dict[str, Any] = {"outcome": None if verdict is None else str(verdict)}
    if outcome is None:
        return facts
    return facts | {
        "version": outcome.version,
        "compared_with": list(outcome.compared_with),
        "checks": len(outcome.checks),
        "differences": [check_facts(check) for check in outcome.failed],
        "files": [asdict(file) for file in outcome.files],
        "more_files": outcome.more,
        "unreadable": list(outcome.unreadable),
    }


def validation_text(outcome: Validation | None, verdict: Verdict | None) -> str:
    """Return the outcome of a comparison in one line."""
    told = str(verdict or "unknown")
    if outcome is None:
        return told if told in {"skipped", "unknown"} else f"{told}, as it was before"
    against = " and ".join(outcome.compared_with)
    return f"{told}: {len(outcome.checks)} checks at version {outcome.version} with {against}"


def difference_rows(outcome: Validation) -> list[dict[str, Any]]:
    """Return the differences as rows of a table."""
    rows = [
        {
            "difference": check.name,
            "version": check.version,
            "log": _short(check.expected),
            "sql": _short(check.found),
        }
        for check in outcome.failed
    ]
    rows += [
        {
            "difference": file.kind,
            "version": file.version,
            "log": _file(file.path, file.expected),
            "sql": _file(file.path, file.found),
        }
        for file in outcome.files
    ]
    if outcome.more:
        rows.append({"difference": f"and {outcome.more} more files"})
    return rows


def check_facts(check: Check) -> dict[str, Any]:
    """Return one comparison for programs."""
    return {
        "check": check.name,
        "version": check.version,
        "log": plain_value(check.expected),
        "sql": plain_value(check.found),
    }


def warning_facts(warning: PlanWarning) -> dict[str, Any]:
    """Return one remark on the source's log."""
    return {
        "code": str(warning.code),
        "level": "note" if warning.is_note else "warning",
        "message": warning.message,
        "key": warning.key,
        "count": warning.count,
    }


def tell_warnings(out: Output, warnings: Sequence[PlanWarning]) -> None:
    """Say what a reader would pass over, each remark by its name."""
    for warning in warnings:
        level = "note" if warning.is_note else "warning"
        out.note(f"{level}[{warning.code}]: {warning.message}")


def check_text(check: Check) -> str:
    """Return one comparison as a sentence."""
    expected, found = _short(check.expected), _short(check.found)
    return f"{check.name} at version {check.version}: the log has {expected}, SQL has {found}"


def tell_differences(out: Output, outcome: Validation, table: str) -> None:
    """Say what differs, and what can be done."""
    for check in outcome.failed:
        out.note(f"difference: {check_text(check)}")
    for file in outcome.files[:_FEW]:
        told = _file(file.path, file.expected), _file(file.path, file.found)
        out.note(f"difference: {file.kind} at version {file.version}: {told[0]}, {told[1]}")
    out.note(f"{table} stays read-only and cannot be cut over: look at all differences with")
    out.note("--validate-only, then accept them (with --accept-differences) or import again.")


def plain_value(value: Any) -> Any:
    """Return a value of a comparison as what JSON holds."""
    import msgspec

    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return {str(key): plain_value(inner) for key, inner in value.items()}
    return msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else value


def _short(value: Any) -> str:
    text = str(plain_value(value))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"


def _file(path: str, size: int | None) -> str | None:
    return None if size is None else f"{path} ({size} bytes)"


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The outcome for one table: facts for programs, text for people, the exit code."""

    event: Literal["imported", "previewed", "compared", "skipped"]
    facts: dict[str, Any]
    line: str
    text: Callable[[Output], None]
    code: int = 0

    def tell(self, out: Output) -> None:
        """Print it."""
        if out.format == "ndjson":
            out.record({"event": self.event, **self.facts})
        elif out.format == "json":
            out.record(self.facts)
        else:
            self.text(out)


def imported(
    catalog: Catalog, done: Imported, seconds: float, commands: Sequence[str]
) -> ImportReport:
    """Tell of an import."""
    summary = catalog.table(done.row.full_name).snapshot().summary()
    size = catalog.imports.database_bytes()
    totals = Totals(summary.files, summary.bytes, size, seconds)
    verdict = verdict_of(done.row)
    is_different = verdict is Verdict.DIFFERENT
    steps = [] if is_different else commands

    def text(out: Output) -> None:
        out.record(imported_text(done, totals, verdict))
        tell_warnings(out, done.warnings)
        if is_different and done.validation is not None:
            tell_differences(out, done.validation, done.row.full_name)
        elif steps:
            out.note("Next:")
            for step in steps:
                out.note(f"  {step}")

    came = imported_text(done, totals, verdict)
    line = f"{came['versions']}; {came['validation']}"
    facts = imported_facts(done, totals, verdict, steps)
    return ImportReport("imported", facts, line, text, _DIFFERENT if is_different else 0)


def previewed(preview: Preview, *, accept: bool) -> ImportReport:
    """Tell of a dry run."""
    lines = list(preview_lines(preview))

    def text(out: Output) -> None:
        for line in lines:
            out.raw(line + "\n")
        tell_warnings(out, preview.warnings)
        for check in preview.checks:
            if not check.is_equal:
                out.note(f"difference: {check_text(check)}")

    code = 0 if preview.is_equal or accept else _DIFFERENT
    return ImportReport("previewed", preview_facts(preview), lines[0], text, code)


def compared(table: LakeTable, outcome: Validation, *, accept: bool) -> ImportReport:
    """Tell of a comparison."""
    verdict = Verdict.EQUAL if outcome.is_equal else Verdict.DIFFERENT
    verdict = Verdict.ACCEPTED if accept and not outcome.is_equal else verdict
    line = validation_text(outcome, verdict)

    def text(out: Output) -> None:
        out.raw(f"{table.name}: {line}\n")
        tell_warnings(out, [corrupt_checkpoint(text) for text in outcome.unreadable])
        if not outcome.is_equal:
            out.rows(difference_rows(outcome), ["difference", "version", "log", "sql"])

    found = validation_facts(outcome, verdict)
    facts = {"table": table.name, "source": table.source, "validation": found}
    return ImportReport(
        "compared", facts, line, text, _DIFFERENT if verdict is Verdict.DIFFERENT else 0
    )


def skipped(table: LakeTable, reason: str) -> ImportReport:
    """Tell of a table that nothing was to be done with."""
    facts = {"table": table.name, "source": table.source, "reason": reason}
    return ImportReport("skipped", facts, f"skipped: {reason}", lambda out: out.note(reason))


def tell_lake(
    out: Output, root: str, lake: Lake, outcomes: Sequence[LakeOutcome[ImportReport]]
) -> int:
    """Print the report of a lake and return the exit code: that of the first trouble."""
    totals = _counts(outcomes) | {"without_commit": lake.without_commit}
    if out.format == "text":
        out.rows([_row(one) for one in outcomes], _COLUMNS)
        out.note(_totals_text(totals))
        for folder in lake.without_commit:
            out.note(f"skipped {folder or root}: its _delta_log holds no commit")
    elif out.format == "ndjson":
        out.record({"event": "lake", "root": root, **totals})
    else:
        tables = [_facts(one) for one in outcomes]
        out.record({"root": root, **totals, "tables": tables})
    return next((code for code in map(_code, outcomes) if code), 0)


def tell_outcome(out: Output, outcome: LakeOutcome[ImportReport]) -> None:
    """Say at once what became of one table of a lake; the report comes at the end."""
    if out.format == "ndjson":
        out.record(_facts(outcome))
        out.stdout.flush()
        return
    told, error = outcome.result, outcome.error
    line = f"error[{error.code}]: {error.message}" if error else told.line if told else ""
    out.note(f"{outcome.table.name}: {line}")


def _counts(outcomes: Sequence[LakeOutcome[ImportReport]]) -> dict[str, Any]:
    facts = [_facts(one) for one in outcomes]
    loaded = [one for one in facts if isinstance(one.get("imported"), dict)]
    return {
        "count": len(outcomes),
        "failed": sum(1 for one in outcomes if _code(one)),
        "outcomes": dict(sorted(Counter(str(one["event"]) for one in facts).items())),
        "versions": sum(one["imported"]["versions"] for one in loaded),
        "files": sum(one["files"] for one in loaded),
        "bytes": sum(one["bytes"] for one in loaded),
        "seconds": round(sum(one["seconds"] for one in loaded), 3),
    }


def _totals_text(totals: Mapping[str, Any]) -> str:
    outcomes = ", ".join(f"{count} {event}" for event, count in totals["outcomes"].items())
    line = f"{count_text(totals['count'], 'table')}: {outcomes or 'nothing was done'}"
    if not totals["versions"]:
        return line
    versions = count_text(totals["versions"], "version")
    files, size = count_text(totals["files"], "live file"), size_text(totals["bytes"])
    return f"{line}; {versions}, {files}, {size} in {time_text(totals['seconds'])}"


def _code(outcome: LakeOutcome[ImportReport]) -> int:
    if outcome.error is not None:
        return outcome.error.exit_code
    return outcome.result.code if outcome.result else 0


def _facts(outcome: LakeOutcome[ImportReport]) -> dict[str, Any]:
    if outcome.result is not None:
        return {
            "event": outcome.result.event,
            "folder": outcome.table.folder,
        } | outcome.result.facts
    table, error = outcome.table, outcome.error
    facts = {"event": "failed", "folder": table.folder, "table": table.name, "source": table.source}
    return facts | (_error_facts(error) if error else {})


def _row(outcome: LakeOutcome[ImportReport]) -> dict[str, Any]:
    facts = _facts(outcome)
    is_loaded = isinstance(facts.get("imported"), dict)
    return {
        "table": outcome.table.name,
        "outcome": facts["event"],
        "versions": facts["imported"]["versions"] if is_loaded else facts.get("versions"),
        "version": facts.get("version"),
        "validation": (facts.get("validation") or {}).get("outcome"),
        "detail": facts.get("message") or facts.get("reason"),
    }


def _error_facts(error: DeltaSqlError) -> dict[str, Any]:
    return {"code": error.code, "message": error.message, "hint": advice_for_shell(error)}
