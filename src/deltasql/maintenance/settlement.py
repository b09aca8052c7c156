"""Settle a contest: SQL's commits keep their numbers, foreign ones are kept or committed anew.

The order is the same each time, and every step can be repeated after a crash: keep the foreign
bytes aside, commit them in SQL (`recommit` only), take away what lies above, put SQL's commits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from deltasql.catalog.leases import Lease
from deltasql.catalog.recommit import RecommitPlan, Recommitter
from deltasql.catalog.rows import TableRow, TableState
from deltasql.crash import crash_point
from deltasql.errors import (
    DeltaSqlError,
    LeaseLostError,
    ObjectNotFoundError,
    RecommitError,
    TableStateError,
)
from deltasql.mirror.checkpoints import Checkpointer
from deltasql.mirror.contest import Contest, find_absent_file, read_contest, refuse_newer
from deltasql.mirror.engine import Mirrored, MirrorEngine
from deltasql.mirror.saved import keep_aside, read_whole, require_unchanged, saved_key
from deltasql.parity.log import Finding
from deltasql.protocol.files import LOG_FOLDER, LogFile, LogFileKind
from deltasql.storage.port import ObjectStore

PURPOSE = "repair"
_DRAIN_S = 60.0
_CHECKPOINTS = frozenset({LogFileKind.CHECKPOINT, LogFileKind.MULTIPART, LogFileKind.V2})


@dataclass(frozen=True, slots=True)
class Repaired:
    """A difference, and what was done about it; `done` is false where somebody must decide."""

    finding: Finding
    done: bool
    what: str


@dataclass(frozen=True, slots=True)
class Settlement:
    """Plans and makes the end of a contest."""

    engine: MirrorEngine
    checkpointer: Checkpointer
    recommitter: Recommitter

    def plan_replace(self, row: TableRow, store: ObjectStore, contest: Contest) -> list[Repaired]:
        """Return what `replace` would do."""
        words = self._words_of_replace(row, contest)
        return [
            Repaired(f, done=True, what=f"{words[f.key]}; its bytes are kept in {_saved(store, f)}")
            for f in contest.findings
        ]

    def plan_recommit(self, row: TableRow, store: ObjectStore, contest: Contest) -> list[Repaired]:
        """Return what `recommit` would do, or what stands in its way."""
        replaced = {one.finding.key: one for one in self.plan_replace(row, store, contest)}
        try:
            plan = self._plan(row, store, contest)
        except DeltaSqlError as error:  # a gap, or a commit that cannot be read
            words = f"cannot be committed again: {error.message.removesuffix('.')}"
            return [replace(one, done=False, what=words) for one in replaced.values()]
        rows = []
        for commit in plan.commits:
            one = replaced.pop(contest.commits[commit.found.version].key)
            words = f"cannot be committed again: {commit.obstacle}"
            if commit.obstacle is None:
                became = "is" if commit.was_made else "becomes"
                words = f"{became} version {commit.version} of SQL; {one.what}"
            rows.append(replace(one, done=plan.is_possible, what=words))
        return rows + [replace(one, done=plan.is_possible) for one in replaced.values()]

    def plan_both(self, row: TableRow, store: ObjectStore, contest: Contest) -> list[Repaired]:
        """Return what either way would do; nothing is done while nobody has decided."""
        words = self._words_of_replace(row, contest)
        recommit = {one.finding.key: one.what for one in self.plan_recommit(row, store, contest)}
        return [
            Repaired(f, done=False, what=f"replace: {words[f.key]}; recommit: {recommit[f.key]}")
            for f in contest.findings
        ]

    def replace(self, row: TableRow, store: ObjectStore, contest: Contest) -> list[Repaired]:
        """Put SQL's commits in place of the foreign ones, which are kept aside."""
        with self._alone(row) as lease:
            row = self.engine.connection.metastore.table_by_id(row.table_id)
            payloads = {f.key: read_whole(store, f.key) for f in contest.commits.values()}
            done = self._replace(row, store, contest, lease, payloads)
            self._open_again(row)
        return done

    def recommit(self, row: TableRow, store: ObjectStore, contest: Contest) -> list[Repaired]:
        """Commit the foreign commits as new versions of SQL, then replace them in the log.

        Raises:
            RecommitError, LogGapError, MalformedActionError: one cannot be committed again;
                nothing was changed.
        """
        self._plan(row, store, contest).require()
        with self._alone(row) as lease:
            # planned again: from here on no vacuum marks a file and no commit takes a version
            row = self.engine.connection.metastore.table_by_id(row.table_id)
            plan = self._plan(row, store, contest)
            plan.require()
            found = [commit.found for commit in plan.commits]
            payloads = {contest.commits[one.version].key: one.payload for one in found}
            for key, payload in payloads.items():
                keep_aside(store, key, payload)
            plan = self.recommitter.commit(row.table_id, found)
            row = self.engine.connection.metastore.table_by_id(row.table_id)
            done = self._replace(row, store, contest, lease, payloads)
            self._open_again(row)
        versions = {contest.commits[c.found.version].key: c.version for c in plan.commits}
        return [
            replace(one, what=f"is version {versions[one.finding.key]} of SQL; {one.what}")
            if one.finding.key in versions
            else one
            for one in done
        ]

    def _plan(self, row: TableRow, store: ObjectStore, contest: Contest) -> RecommitPlan:
        """Judge the commits in SQL first: a file that no vacuum has marked by now stays."""
        plan = self.recommitter.plan(row, read_contest(row, store, contest))
        commits = [
            replace(one, obstacle=find_absent_file(store, one.found.actions))
            if one.obstacle is None and not one.was_made
            else one
            for one in plan.commits
        ]
        return replace(plan, commits=tuple(commits))

    def _replace(
        self,
        row: TableRow,
        store: ObjectStore,
        contest: Contest,
        lease: Lease,
        payloads: dict[str, bytes],
    ) -> list[Repaired]:
        """Make the log SQL's own again, from its end down and then up.

        Only bytes that were read before are replaced; a file that has others by now stays.
        """
        bytes_of = payloads | {f.key: read_whole(store, f.key) for f in contest.side_files}
        kept = {key: keep_aside(store, key, data) for key, data in bytes_of.items()}
        refuse_newer(row, store, contest)
        self._take_files_away(row, store, contest, bytes_of)
        taken = contest.taken_away(row)
        for version in taken:
            self.checkpointer.connection.leases.renew(lease)
            _delete(store, contest.commits[version].key, bytes_of)
            crash_point("foreign-taken-away")
        refuse_newer(row, store, contest)
        for version, finding in contest.commits.items():
            if version not in taken:
                self.checkpointer.connection.leases.renew(lease)
                require_unchanged(store, finding.key, bytes_of[finding.key])
                store.put(
                    finding.key, self.engine.connection.metastore.payload(row.table_id, version)
                )
                crash_point("foreign-replaced")
        for version in reversed(taken):
            if version <= row.mirrored_through:  # what is above follows by the mirror
                self.engine.put_again(row, version)
        words = self._words_of_replace(row, contest)
        return [
            Repaired(f, done=True, what=f"{words[f.key]}; its bytes are at {kept[f.key]}")
            for f in contest.findings
        ]

    def _take_files_away(
        self, row: TableRow, store: ObjectStore, contest: Contest, bytes_of: dict[str, bytes]
    ) -> None:
        """Take away what readers would use of the foreign history: checkpoints, checksums."""
        if any(_kind(finding) in _CHECKPOINTS for finding in contest.side_files):
            self.checkpointer.hint_again(row)
        for finding in contest.side_files:
            _delete(store, finding.key, bytes_of)
            crash_point("foreign-file-taken-away")

    def _words_of_replace(self, row: TableRow, contest: Contest) -> dict[str, str]:
        words = {finding.key: "taken away" for finding in contest.side_files}
        for version, finding in contest.commits.items():
            is_ours = version <= row.current_version
            words[finding.key] = "SQL's commit is put" if is_ours else "taken away"
        return words

    def _open_again(self, row: TableRow) -> None:
        """Mirror what waits, then let commits in: the log holds nothing foreign any more."""
        engine = self.engine
        engine.tracker.reset(row.table_id, now=engine.connection.now_ms())
        if engine.catch_up(row.table_id, seconds=_DRAIN_S).outcome is Mirrored.CONFLICT:
            return
        active, conflict = TableState.ACTIVE, TableState.CONFLICT
        engine.connection.metastore.set_state(row.table_id, active, expected=[conflict])

    @contextmanager
    def _alone(self, row: TableRow) -> Iterator[Lease]:
        """Let nobody else repair the log and nobody commit meanwhile.

        The table stays in conflict when this fails half way; a refusal leaves it as it was.
        """
        leases = self.checkpointer.connection.leases
        lease = leases.acquire(row.table_id, PURPOSE)
        if lease is None:
            raise LeaseLostError(
                f"Another process is repairing the log of {row.full_name}.",
                hint="Wait until it has ended, or a minute if it was killed; then repair again.",
                table=row.full_name,
            )
        active, conflict = TableState.ACTIVE, TableState.CONFLICT
        try:
            if row.state is active:
                self.engine.connection.metastore.set_state(
                    row.table_id, conflict, expected=[active, conflict]
                )
            yield lease
        except RecommitError:
            if row.state is active:
                with suppress(TableStateError):
                    self.engine.connection.metastore.set_state(
                        row.table_id, active, expected=[conflict]
                    )
            raise
        finally:
            leases.release(lease)


def _delete(store: ObjectStore, key: str, bytes_of: dict[str, bytes]) -> None:
    with suppress(ObjectNotFoundError):
        require_unchanged(store, key, bytes_of[key])
        store.delete(key)


def _saved(store: ObjectStore, finding: Finding) -> str:
    try:
        return saved_key(finding.key, store.get(finding.key))
    except ObjectNotFoundError:
        return saved_key(finding.key, b"")


def _kind(finding: Finding) -> LogFileKind | None:
    file = LogFile.parse(finding.key.removeprefix(LOG_FOLDER))
    return None if file is None else file.kind
