"""Make a log equal to SQL again: put what is missing, rebuild checkpoints, write the hint anew.

Bytes that are not ours are never overwritten on our own word: an operator decides. Commits above
SQL's newest version can be adopted; contested numbers stay SQL's (see `settlement`).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from deltasql.crash import crash_point
from deltasql.errors import BadArgumentError, MirrorConflictError
from deltasql.maintenance.recover import Adopter
from deltasql.maintenance.settlement import (
    CONTESTED,
    Contest,
    Repaired,
    Settlement,
    find_contest,
    keep_aside,
    read_whole,
)
from deltasql.metastore.log_state import LogFiles
from deltasql.metastore.table_row import TableRow, TableState
from deltasql.mirror.checkpoints.write import Checkpointer
from deltasql.mirror.compare import Difference, Finding, VerifyThrottle, compare_log, is_checkpoint
from deltasql.mirror.engine import MirrorEngine
from deltasql.mirror.queue import MirrorStatusTracker
from deltasql.protocol.log_names import LOG_FOLDER, LogFile, LogFileKind
from deltasql.storage.port import ObjectStore


class Decision(enum.StrEnum):
    """What an operator has decided about foreign commits."""

    NONE = "none"
    REPLACE = "replace"
    RECOMMIT = "recommit"
    ADOPT = "adopt"


@dataclass(slots=True)
class MirrorRepair:
    """Repairs the logs of one catalog."""

    engine: MirrorEngine
    checkpointer: Checkpointer
    tracker: MirrorStatusTracker
    log_files: LogFiles
    adopter: Adopter
    settlement: Settlement

    def verify(self, row: TableRow, effort: VerifyThrottle | None = None) -> list[Finding]:
        """Return how the log differs from SQL; changes nothing in the log.

        Every object is read, unless the effort says otherwise.
        """
        store = self.engine.connection.store_of(row)
        return compare_log(self.engine.connection.metastore, self.log_files, row, store, effort)

    def plan(
        self, row: TableRow, decision: Decision, *, version: int | None = None
    ) -> list[Repaired]:
        """Return what `repair` would do; changes nothing."""
        store = self.engine.connection.store_of(row)
        findings = self.verify(row)
        contest = find_contest(findings, store)
        _refuse_part(contest, decision, version)
        rows = [] if contest is None else self._plan_contest(row, store, contest, decision)
        rest = _without(findings, contest)
        rows += [Repaired(f, self._can_do(f, decision, contest), f.action) for f in rest]
        return [one for one in rows if version in (None, one.finding.version)]

    def repair(
        self, row: TableRow, decision: Decision, *, version: int | None = None
    ) -> list[Repaired]:
        """Repair a table's log, or one version of it, and make what waits due at once.

        Raises:
            RecommitError: a foreign commit cannot be committed again; nothing was changed.
            MirrorConflictError: contested commits cannot be adopted; nothing was changed.
        """
        store = self.engine.connection.store_of(row)
        findings = self.verify(row)
        contest = find_contest(findings, store)
        _refuse_part(contest, decision, version)
        self.engine.connection.ownership.forget(row.table_id)
        done: list[Repaired] = []
        if contest is not None and decision is Decision.NONE:
            done = self.settlement.plan_both(row, store, contest)
            findings = _without(findings, contest)
        elif contest is not None:
            done = self._settle(row, store, contest, decision)
            row, contest = self.engine.connection.metastore.table_by_id(row.table_id), None
            findings = self.verify(row)  # what is left: checkpoints, the hint, other files
        findings = [f for f in findings if version in (None, f.version)]
        done += [self._one(row, store, f, decision, contest) for f in findings]
        self.tracker.reset(row.table_id, now=self.engine.connection.now_ms())
        settled = all(one.done or one.finding.difference is Difference.FOREIGN_FILE for one in done)
        state = self.engine.connection.metastore.table_by_id(row.table_id).state
        if decision is not Decision.NONE and state is TableState.CONFLICT and settled:
            self.engine.connection.metastore.set_state(
                row.table_id, TableState.ACTIVE, expected=[TableState.CONFLICT]
            )
        return [one for one in done if version in (None, one.finding.version)]

    def _plan_contest(
        self, row: TableRow, store: ObjectStore, contest: Contest, decision: Decision
    ) -> list[Repaired]:
        match decision:
            case Decision.REPLACE:
                return self.settlement.plan_replace(row, store, contest)
            case Decision.RECOMMIT:
                return self.settlement.plan_recommit(row, store, contest)
        return self.settlement.plan_both(row, store, contest)

    def _settle(
        self, row: TableRow, store: ObjectStore, contest: Contest, decision: Decision
    ) -> list[Repaired]:
        if decision is Decision.ADOPT:
            raise MirrorConflictError(
                f"Version {contest.first} of {row.full_name} is in SQL and, with other bytes, in "
                "the log; only commits above SQL's newest version can be adopted.",
                hint="Nothing was changed. `deltasql mirror repair` with `recommit=True` commits "
                "the foreign commits above SQL's, with `replace=True` keeps them aside only.",
                table=row.full_name,
                version=contest.first,
            )
        self.engine.connection.ownership.refuse_others(row, store)
        if decision is Decision.RECOMMIT:
            return self.settlement.recommit(row, store, contest)
        return self.settlement.replace(row, store, contest)

    def _can_do(self, finding: Finding, decision: Decision, contest: Contest | None) -> bool:
        if finding.difference is Difference.COMMIT_NOT_IN_CATALOG:
            return decision is Decision.ADOPT
        if finding.difference is Difference.MISSING_COMMIT and decision is Decision.NONE:
            # ours above a foreign commit would make a history that neither side had
            return contest is None or (finding.version or 0) < contest.first
        blocked = {Difference.FOREIGN_FILE, Difference.WRONG_OWNER, *CONTESTED}
        return finding.difference not in blocked

    def _one(
        self,
        row: TableRow,
        store: ObjectStore,
        finding: Finding,
        decision: Decision,
        contest: Contest | None,
    ) -> Repaired:
        if not self._can_do(finding, decision, contest):
            return Repaired(finding, done=False, what=finding.action)
        is_others = not is_checkpoint(finding.key)
        match finding.difference:
            case Difference.MISSING_COMMIT:
                version = finding.version or 0
                self.engine.put_again(row, version)
                return Repaired(finding, done=True, what="the stored bytes were put again")
            case Difference.COMMIT_NOT_IN_CATALOG:
                self.adopter.adopt(row, store, finding.version or 0)
                return Repaired(finding, done=True, what="adopted into SQL")
            case Difference.MISSING_FILE | Difference.CHANGED_FILE if is_others:
                return self._let_go(row, store, finding)
            case _:
                done = self._checkpoint_again(row, store, finding)
                what = "written again" if done else "another worker writes checkpoints just now"
                return Repaired(finding, done=done, what=what)

    def _let_go(self, row: TableRow, store: ObjectStore, finding: Finding) -> Repaired:
        """Nobody can write anew what another writer left beside our commits.

        Readers of a commit from before our first one need it as long as no checkpoint is above it.
        """
        if not self._stands_without(row, finding):
            what = "another worker writes checkpoints just now"
            return Repaired(finding, done=False, what=what)
        what = "another writer's; no longer looked for"
        if finding.difference is Difference.CHANGED_FILE:
            what = f"another writer's; put aside at {_keep_aside(store, finding.key)}"
            store.delete(finding.key)
            crash_point("inherited-put-aside")
        self.log_files.forget(row.table_id, finding.key)
        return Repaired(finding, done=True, what=what)

    def _stands_without(self, row: TableRow, finding: Finding) -> bool:
        """Make sure that a checkpoint is above a commit that is lost."""
        file = LogFile.parse(finding.key.removeprefix(LOG_FOLDER))
        if file is None or file.kind is not LogFileKind.COMMIT:
            return True
        newest = self.log_files.newest_checkpoint(row.table_id)
        if newest is not None and newest.version >= file.version:
            return True
        return self.checkpointer.write(row, row.mirrored_through) is not None

    def _checkpoint_again(self, row: TableRow, store: ObjectStore, finding: Finding) -> bool:
        """Write a checkpoint anew, or the hint that names it; False while another worker does."""
        if finding.difference is not Difference.LAST_CHECKPOINT_WRONG:
            if finding.difference is Difference.CHANGED_FILE:
                _keep_aside(store, finding.key)
            if self.checkpointer.write(row, finding.version or 0, replace=True) is None:
                return False
        self.checkpointer.hint_again(row)
        return True


def _keep_aside(store: ObjectStore, key: str) -> str:
    return keep_aside(store, key, read_whole(store, key))


def _without(findings: list[Finding], contest: Contest | None) -> list[Finding]:
    settled = set() if contest is None else {finding.key for finding in contest.findings}
    return [finding for finding in findings if finding.key not in settled]


def _refuse_part(contest: Contest | None, decision: Decision, version: int | None) -> None:
    if contest is not None and decision is not Decision.NONE and version is not None:
        raise BadArgumentError(
            "Contested commits are settled together, not one version at a time.",
            hint="Leave the version out.",
        )
