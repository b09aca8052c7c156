"""Make a log equal to SQL again: put what is missing, rebuild checkpoints, write the hint anew.

Bytes that are not ours are never overwritten on our own word: an operator says `replace`, and the
others' bytes are kept aside first.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltasql.catalog.adopt import Adopter
from deltasql.catalog.log_files import LogFiles
from deltasql.catalog.mirror_status import MirrorStatusTracker
from deltasql.catalog.rows import TableRow, TableState
from deltasql.crash import crash_point
from deltasql.errors import MirrorError
from deltasql.log.writer import write_commit
from deltasql.mirror.checkpoints import Checkpointer
from deltasql.mirror.engine import MirrorEngine
from deltasql.parity.log import Difference, Finding, compare_log
from deltasql.protocol.codec import digest
from deltasql.protocol.files import LOG_FOLDER
from deltasql.storage.port import ObjectStore

SAVED = f"{LOG_FOLDER}_deltasql_saved/"


@dataclass(frozen=True, slots=True)
class Repaired:
    """A difference, and what was done about it; `done` is false where somebody must decide."""

    finding: Finding
    done: bool
    what: str


@dataclass(slots=True)
class MirrorRepair:
    """Repairs the logs of one catalog."""

    engine: MirrorEngine
    checkpointer: Checkpointer
    tracker: MirrorStatusTracker
    log_files: LogFiles
    adopter: Adopter

    def verify(self, row: TableRow) -> list[Finding]:
        """Return how the log differs from SQL; changes nothing."""
        return compare_log(self.engine.catalog, self.log_files, row, self.engine.open_store(row))

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

        Foreign commits above SQL's newest version are taken into SQL with `adopt`.
        """
        store = self.engine.open_store(row)
        every = self.verify(row)
        findings = [f for f in every if version is None or f.version == version]
        contested = {Difference.CHANGED_COMMIT, Difference.FOREIGN_COMMIT}
        if any(finding.difference in contested for finding in every):
            adopt = False  # what stands on another commit than ours is none of SQL's next versions
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

    def _can_do(self, finding: Finding, *, replace: bool, adopt: bool) -> bool:
        if finding.difference is Difference.UNKNOWN_COMMIT:
            return adopt
        if finding.difference in {Difference.CHANGED_COMMIT, Difference.FOREIGN_COMMIT}:
            return replace
        return finding.difference is not Difference.FOREIGN_FILE

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
            case _:
                self._checkpoint_again(row, store, finding)
                return Repaired(finding, done=True, what="written again")

    def _keep_aside(self, store: ObjectStore, key: str) -> str:
        """Copy foreign bytes to a place of their own and make sure that they are there."""
        found = store.get(key)
        kept = f"{SAVED}{key.removeprefix(LOG_FOLDER)}.{digest(found)[:12]}"
        store.put(kept, found)
        if store.get(kept) != found:
            raise MirrorError(f"The copy of {key} at {kept} is not the same.", key=key)
        crash_point("foreign-kept-aside")
        return kept

    def _checkpoint_again(self, row: TableRow, store: ObjectStore, finding: Finding) -> None:
        """Write a checkpoint anew, or the hint that names it."""
        if finding.difference is Difference.WRONG_HINT:
            self.checkpointer.hint_again(row)
            return
        if finding.difference is Difference.CHANGED_FILE:
            self._keep_aside(store, finding.key)
        self.checkpointer.write(row, finding.version or 0, replace=True)
