"""What an import, a dry run or a comparison says: facts for programs, sentences for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import TYPE_CHECKING, Any

from deltasql.cli.output import Output
from deltasql.cli.units import count_text, size_text, time_text

if TYPE_CHECKING:
    from deltasql.client.dry_run import Preview
    from deltasql.client.imports import Imported
    from deltasql.client.validate import Verdict
    from deltasql.importer.plan_warnings import PlanWarning
    from deltasql.importer.progress import LoadCounts
    from deltasql.parity.differences import Check, Validation

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
