"""Make a log equal to SQL again: put what is missing, rebuild checkpoints, write the hint anew.

Bytes that are not ours are never overwritten on our own word: an operator says `replace`, and the
others' bytes are kept aside first; or `adopt`, and ours move above them (see `adoption`).
"""

from __future__ import annotations

from dataclasses import dataclass

from deltasql.catalog.adopt import Adopter
from deltasql.catalog.log_files import LogFiles
from deltasql.catalog.mirror_status import MirrorStatusTracker
from deltasql.catalog.rows import TableRow, TableState
from deltasql.crash import crash_point
from deltasql.errors import BadArgumentError, MirrorError
from deltasql.log.writer import write_commit
from deltasql.mirror.adoption import Adoption, Repaired
from deltasql.mirror.checkpoints import Checkpointer
from deltasql.mirror.contest import CONTESTED
from deltasql.mirror.engine import MirrorEngine
from deltasql.parity.log import Difference, Effort, Finding, compare_log, is_checkpoint
from deltasql.protocol.codec import digest
from deltasql.protocol.files import LOG_FOLDER
from deltasql.storage.port import ObjectStore

_DRAIN_S = 60.0
SAVED = f"{LOG_FOLDER}_deltasql_saved/"


@dataclass(slots=True)
class MirrorRepair:
    """Repairs the logs of one catalog."""

    engine: MirrorEngine
    checkpointer: Checkpointer
    tracker: MirrorStatusTracker
    log_files: LogFiles
    adopter: Adopter
    adoption: Adoption

    def verify(self, row: TableRow, effort: Effort | None = None) -> list[Finding]:
        """Return how the log differs from SQL; changes nothing."""
        store = self.engine.open_store(row)
        return compare_log(self.engine.catalog, self.log_files, row, store, effort)

    def repair(
        self,
        row: TableRow,
        *,
        version: int | None = None,
        replace: bool = False,
        adopt: bool = False,
        dry_run: bool = False,
    ) -> list[Repaired]:
        """Repair a table's log, or one version of it, and make what waits due at once.

        With `adopt` foreign commits are taken into SQL; where SQL has commits of their numbers,
        those move above them. With `replace` SQL wins.

        Raises:
            RebaseError: a commit of SQL cannot move; nothing was changed.
        """
        if replace and adopt:
            raise BadArgumentError("A foreign commit is replaced or adopted, not both.")
        store = self.engine.open_store(row)
        every = self.verify(row)
        if adopt and any(finding.difference in CONTESTED for finding in every):
            if version is not None:
                raise BadArgumentError("Contested commits are adopted together, not one by one.")
            return self._adopt_contested(row, store, every, dry_run=dry_run)
        findings = [f for f in every if version is None or f.version == version]
        if dry_run:
            return [
                Repaired(f, self._can_do(f, replace=replace, adopt=adopt), f.action)
                for f in findings
            ]
        self.engine.ownership.forget(row.table_id)
        done = [
            self._one(row, store, finding, replace=replace, adopt=adopt) for finding in findings
        ]
        self.tracker.reset(row.table_id, now=self.engine.clock())
        decided = replace or adopt
        settled = all(one.done or one.finding.difference is Difference.FOREIGN_FILE for one in done)
        if decided and row.state is TableState.CONFLICT and settled:
            self.engine.catalog.set_state(
                row.table_id, TableState.ACTIVE, expected=[TableState.CONFLICT]
            )
        return done

    def _adopt_contested(
        self, row: TableRow, store: ObjectStore, every: list[Finding], *, dry_run: bool
    ) -> list[Repaired]:
        """Let the foreign commits have their numbers and move SQL's own above them."""
        if dry_run:
            return self.adoption.plan(row, store, every)
        self.engine.ownership.forget(row.table_id)
        self.engine.ownership.refuse_others(row, store)
        done = self.adoption.adopt(row, store, every)
        self.tracker.reset(row.table_id, now=self.engine.clock())
        self.engine.catch_up(row.table_id, seconds=_DRAIN_S)
        # what is left stands beside the commits: checkpoints of the old numbers, the hint
        after = self.engine.catalog.table_by_id(row.table_id)
        rest = self.verify(after)
        return done + [self._one(after, store, f, replace=False, adopt=False) for f in rest]

    def _can_do(self, finding: Finding, *, replace: bool, adopt: bool) -> bool:
        if finding.difference is Difference.UNKNOWN_COMMIT:
            return adopt
        if finding.difference in CONTESTED:
            return replace
        return finding.difference not in {Difference.FOREIGN_FILE, Difference.WRONG_OWNER}

    def _one(
        self,
        row: TableRow,
        store: ObjectStore,
        finding: Finding,
        *,
        replace: bool,
        adopt: bool,
    ) -> Repaired:
        if not self._can_do(finding, replace=replace, adopt=adopt):
            return Repaired(finding, done=False, what=finding.action)
        is_others = not is_checkpoint(finding.key)
        match finding.difference:
            case Difference.MISSING_COMMIT:
                version = finding.version or 0
                write_commit(store, version, self.engine.catalog.payload(row.table_id, version))
                return Repaired(finding, done=True, what="the stored bytes were put again")
            case Difference.UNKNOWN_COMMIT:
                version = finding.version or 0
                now = self.engine.clock()
                self.adopter.adopt(row.table_id, version, store.get(finding.key), now=now)
                return Repaired(finding, done=True, what="adopted into SQL")
            case Difference.CHANGED_COMMIT | Difference.FOREIGN_COMMIT:
                kept = self._keep_aside(store, finding.key)
                version = finding.version or 0
                store.put(finding.key, self.engine.catalog.payload(row.table_id, version))
                crash_point("foreign-replaced")
                return Repaired(finding, done=True, what=f"replaced; the others are at {kept}")
            case Difference.MISSING_FILE | Difference.CHANGED_FILE if is_others:
                return self._let_go(row, store, finding)
            case _:
                done = self._checkpoint_again(row, store, finding)
                what = "written again" if done else "another worker writes checkpoints just now"
                return Repaired(finding, done=done, what=what)

    def _keep_aside(self, store: ObjectStore, key: str) -> str:
        """Copy foreign bytes to a place of their own and make sure that they are there."""
        found = store.get(key)
        kept = f"{SAVED}{key.removeprefix(LOG_FOLDER)}.{digest(found)[:12]}"
        store.put(kept, found)
        if store.get(kept) != found:
            raise MirrorError(f"The copy of {key} at {kept} is not the same.", key=key)
        crash_point("foreign-kept-aside")
        return kept

    def _let_go(self, row: TableRow, store: ObjectStore, finding: Finding) -> Repaired:
        """Nobody can write anew what another writer left beside the commits; nobody needs it."""
        what = "another writer's; no longer looked for"
        if finding.difference is Difference.CHANGED_FILE:
            what = f"another writer's; put aside at {self._keep_aside(store, finding.key)}"
            store.delete(finding.key)
            crash_point("inherited-put-aside")
        self.log_files.forget(row.table_id, finding.key)
        return Repaired(finding, done=True, what=what)

    def _checkpoint_again(self, row: TableRow, store: ObjectStore, finding: Finding) -> bool:
        """Write a checkpoint anew, or the hint that names it; False while another worker does."""
        if finding.difference is not Difference.WRONG_HINT:
            if finding.difference is Difference.CHANGED_FILE:
                self._keep_aside(store, finding.key)
            if self.checkpointer.write(row, finding.version or 0, replace=True) is None:
                return False
        self.checkpointer.hint_again(row)
        return True
