"""What is to be said of one table or a whole lake, in the format that was asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from deltasql.cli import import_output as words
from deltasql.cli.output import Output
from deltasql.cli.remedies import advice_for_shell
from deltasql.cli.units import count_text, size_text, time_text
from deltasql.client.catalog import Catalog
from deltasql.client.dry_run import Preview
from deltasql.client.imports import Imported
from deltasql.client.lake import Lake, LakeOutcome, LakeTable
from deltasql.client.validate import Verdict, verdict_of
from deltasql.errors import DeltaSqlError
from deltasql.importer.plan_warnings import corrupt_checkpoint
from deltasql.parity.differences import Validation

_DIFFERENT = 3
_COLUMNS = ["table", "outcome", "versions", "version", "validation", "detail"]


@dataclass(frozen=True, slots=True)
class Told:
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


def imported(catalog: Catalog, done: Imported, seconds: float, commands: Sequence[str]) -> Told:
    """Tell of an import."""
    summary = catalog.table(done.row.full_name).snapshot().summary()
    size = catalog.imports.database_bytes()
    totals = words.Totals(summary.files, summary.bytes, size, seconds)
    verdict = verdict_of(done.row)
    is_different = verdict is Verdict.DIFFERENT
    steps = [] if is_different else commands

    def text(out: Output) -> None:
        out.record(words.imported_text(done, totals, verdict))
        words.tell_warnings(out, done.warnings)
        if is_different and done.validation is not None:
            words.tell_differences(out, done.validation, done.row.full_name)
        elif steps:
            out.note("Next:")
            for step in steps:
                out.note(f"  {step}")

    came = words.imported_text(done, totals, verdict)
    line = f"{came['versions']}; {came['validation']}"
    facts = words.imported_facts(done, totals, verdict, steps)
    return Told("imported", facts, line, text, _DIFFERENT if is_different else 0)


def previewed(preview: Preview, *, accept: bool) -> Told:
    """Tell of a dry run."""
    lines = list(words.preview_lines(preview))

    def text(out: Output) -> None:
        for line in lines:
            out.raw(line + "\n")
        words.tell_warnings(out, preview.warnings)
        for check in preview.checks:
            if not check.is_equal:
                out.note(f"difference: {words.check_text(check)}")

    code = 0 if preview.is_equal or accept else _DIFFERENT
    return Told("previewed", words.preview_facts(preview), lines[0], text, code)


def compared(table: LakeTable, outcome: Validation, *, accept: bool) -> Told:
    """Tell of a comparison."""
    verdict = Verdict.EQUAL if outcome.is_equal else Verdict.DIFFERENT
    verdict = Verdict.ACCEPTED if accept and not outcome.is_equal else verdict
    line = words.validation_text(outcome, verdict)

    def text(out: Output) -> None:
        out.raw(f"{table.name}: {line}\n")
        words.tell_warnings(out, [corrupt_checkpoint(text) for text in outcome.unreadable])
        if not outcome.is_equal:
            out.rows(words.difference_rows(outcome), ["difference", "version", "log", "sql"])

    found = words.validation_facts(outcome, verdict)
    facts = {"table": table.name, "source": table.source, "validation": found}
    return Told("compared", facts, line, text, _DIFFERENT if verdict is Verdict.DIFFERENT else 0)


def skipped(table: LakeTable, reason: str) -> Told:
    """Tell of a table that nothing was to be done with."""
    facts = {"table": table.name, "source": table.source, "reason": reason}
    return Told("skipped", facts, f"skipped: {reason}", lambda out: out.note(reason))


def tell_lake(out: Output, root: str, lake: Lake, outcomes: Sequence[LakeOutcome[Told]]) -> int:
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


def tell_outcome(out: Output, outcome: LakeOutcome[Told]) -> None:
    """Say at once what became of one table of a lake; the report comes at the end."""
    if out.format == "ndjson":
        out.record(_facts(outcome))
        out.stdout.flush()
        return
    told, error = outcome.result, outcome.error
    line = f"error[{error.code}]: {error.message}" if error else told.line if told else ""
    out.note(f"{outcome.table.name}: {line}")


def _counts(outcomes: Sequence[LakeOutcome[Told]]) -> dict[str, Any]:
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


def _code(outcome: LakeOutcome[Told]) -> int:
    if outcome.error is not None:
        return outcome.error.exit_code
    return outcome.result.code if outcome.result else 0


def _facts(outcome: LakeOutcome[Told]) -> dict[str, Any]:
    if outcome.result is not None:
        return {
            "event": outcome.result.event,
            "folder": outcome.table.folder,
        } | outcome.result.facts
    table, error = outcome.table, outcome.error
    facts = {"event": "failed", "folder": table.folder, "table": table.name, "source": table.source}
    return facts | (_error_facts(error) if error else {})


def _row(outcome: LakeOutcome[Told]) -> dict[str, Any]:
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
