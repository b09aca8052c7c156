"""Adopt foreign commits whose numbers SQL has given out too: theirs stay, ours move above them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from deltasql.catalog.catalog import SqlCatalog
from deltasql.catalog.renumber import Move, Renumberer, RenumberPlan
from deltasql.catalog.rows import TableRow, TableState
from deltasql.errors import TableStateError
from deltasql.log.writer import write_commit
from deltasql.mirror.contest import read_contest
from deltasql.parity.log import Difference, Finding
from deltasql.protocol.files import commit_key
from deltasql.storage.port import ObjectStore


@dataclass(frozen=True, slots=True)
class Repaired:
    """A difference, and what was done about it; `done` is false where somebody must decide."""

    finding: Finding
    done: bool
    what: str


@dataclass(frozen=True, slots=True)
class Adoption:
    """Plans and makes the adoption of contested commits."""

    catalog: SqlCatalog
    renumberer: Renumberer
    clock: Callable[[], int]

    def plan(
        self, row: TableRow, store: ObjectStore, findings: Sequence[Finding]
    ) -> list[Repaired]:
        """Return what `adopt` would do: which commits stay, which of ours go where, or why not."""
        plan = self.renumberer.plan(row, read_contest(row, store, findings))
        return _told(plan, findings)

    def adopt(
        self, row: TableRow, store: ObjectStore, findings: Sequence[Finding]
    ) -> list[Repaired]:
        """Take the contested commits into SQL and move ours above them, in one transaction.

        Raises:
            RebaseError: a commit of ours cannot move; nothing was changed.
        """
        plan = self.renumberer.plan(row, read_contest(row, store, findings))
        plan.require()
        self._put_missing(row, store, findings, below=plan.first)
        with self._stopped(row):
            now = self.catalog.table_by_id(row.table_id)
            found = read_contest(now, store, findings)
            plan = self.renumberer.renumber(row.table_id, found, now=self.clock())
        return _told(plan, findings)

    def _put_missing(
        self, row: TableRow, store: ObjectStore, findings: Sequence[Finding], *, below: int
    ) -> None:
        """Fill gaps of ours below the contested numbers: the log must be whole there."""
        for finding in findings:
            version = finding.version
            if finding.difference is not Difference.MISSING_COMMIT or version is None:
                continue
            if version < below:
                write_commit(store, version, self.catalog.payload(row.table_id, version))

    @contextmanager
    def _stopped(self, row: TableRow) -> Iterator[None]:
        """Let nobody commit meanwhile; a table that took commits takes them again afterwards."""
        if row.state is not TableState.ACTIVE:
            yield
            return
        active, conflict = TableState.ACTIVE, TableState.CONFLICT
        self.catalog.set_state(row.table_id, conflict, expected=[active])
        try:
            yield
        except Exception:
            with suppress(TableStateError):
                self.catalog.set_state(row.table_id, active, expected=[conflict])
            raise


def _told(plan: RenumberPlan, findings: Sequence[Finding]) -> list[Repaired]:
    """Return the plan as rows: the foreign commits, ours, and what a repair mends on its way."""
    possible = plan.is_possible
    rows = []
    for finding in findings:
        version = finding.version
        if finding.difference in _FOREIGN and version is not None and version >= plan.first:
            what = f"becomes version {version} of SQL" if possible else "stays as it is"
            rows.append(Repaired(finding, possible, what))
        elif finding.difference is Difference.MISSING_COMMIT and (version or 0) < plan.first:
            rows.append(Repaired(finding, possible, "the stored bytes are put again"))
    return rows + [Repaired(_own(move), *_outcome(move, possible=possible)) for move in plan.moves]


_FOREIGN = frozenset(
    {Difference.CHANGED_COMMIT, Difference.FOREIGN_COMMIT, Difference.UNKNOWN_COMMIT}
)


def _own(move: Move) -> Finding:
    entry = move.entry
    who = f" by {entry.committer}" if entry.committer else ""
    detail = f"{entry.operation}{who}, {entry.adds} added, {entry.removes} removed"
    key = commit_key(move.new_version)
    return Finding(Difference.OWN_COMMIT, key, move.old_version, detail)


def _outcome(move: Move, *, possible: bool) -> tuple[bool, str]:
    if move.obstacle is not None:
        return False, f"cannot become version {move.new_version}: {move.obstacle}"
    return possible, f"version {move.old_version} becomes version {move.new_version}"
