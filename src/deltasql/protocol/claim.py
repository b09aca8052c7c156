"""Pure: the commit by which deltasql takes over a log that others have written, and what of it is
given back when the table is detached.
"""

from __future__ import annotations

import msgspec

from deltasql.errors import UnsupportedFeatureError
from deltasql.protocol.actions import Action, CommitInfo, Metadata, Protocol
from deltasql.protocol.features import (
    FENCE,
    listed_features,
    reader_features,
    require_writable,
    with_features,
    without_features,
)
from deltasql.protocol.properties import read_bool
from deltasql.protocol.property_names import FENCE_PROPERTY
from deltasql.protocol.required_features import required_features

OPERATION = "CUTOVER"
_ENABLED = "delta.enableInCommitTimestamps"
_SINCE_VERSION = "delta.inCommitTimestampEnablementVersion"
_SINCE_TIME = "delta.inCommitTimestampEnablementTimestamp"


def require_claimable(protocol: Protocol, metadata: Metadata, table: str) -> None:
    """Refuse a table whose rules, spelled out as features, our commits might break.

    Raises:
        UnsupportedFeatureError: names the features.
    """
    asked = required_features(metadata, listed_features(protocol))
    require_writable(with_features(protocol, asked), table)
    if "columnMapping" in asked and "columnMapping" not in reader_features(protocol):
        reader, writer = protocol.min_reader_version, protocol.min_writer_version
        raise UnsupportedFeatureError(
            f"The metadata of {table} maps columns, its protocol ({reader}, {writer}) does not: "
            "readers disagree about its columns.",
            hint="Nothing was claimed. Set delta.columnMapping.mode once more with Delta Spark, "
            "which raises the protocol, or unset it.",
            features=("columnMapping",),
        )


def claim_actions(
    protocol: Protocol, metadata: Metadata, info: CommitInfo, version: int, *, fence: bool
) -> tuple[Action, ...]:
    """Return the claim's actions: commits carry their time from now on, and the fence is up.

    A legacy protocol becomes lists of features: those that it stands for, and those that the
    metadata uses. `info` has the timestamp; it must be later than the time of every commit before.
    """
    configuration = dict(metadata.configuration)
    if not read_bool(configuration, _ENABLED):
        configuration[_ENABLED] = "true"
        configuration[_SINCE_VERSION] = str(version)
        configuration[_SINCE_TIME] = str(info.timestamp)
    if not fence:
        configuration[FENCE_PROPERTY] = "false"
    claimed = msgspec.structs.replace(metadata, configuration=configuration)
    asked = set(required_features(claimed, listed_features(protocol)))
    if read_bool(configuration, FENCE_PROPERTY):
        asked.add(FENCE)
    after = with_features(protocol, asked)
    actions: list[Action] = [msgspec.structs.replace(info, in_commit_timestamp=info.timestamp)]
    if after != protocol:
        actions.append(after)
    # also where nothing changes: whoever knows the table's rules from before reads them again
    actions.append(claimed)
    return tuple(actions)


def has_own_timestamps(metadata: Metadata, cut_over_at: int | None) -> bool:
    """Tell whether deltasql has switched in-commit timestamps on: at a table's creation, for which
    `cut_over_at` is None, or by the claim of that version.
    """
    if not read_bool(metadata.configuration, _ENABLED):
        return False
    since = metadata.configuration.get(_SINCE_VERSION)
    return cut_over_at is None or since == str(cut_over_at)


def release_actions(
    protocol: Protocol, metadata: Metadata, *, keep_timestamps: bool
) -> tuple[Action, ...]:
    """Return the actions that give a table back: without the fence and our timestamps."""
    gone, after = {FENCE}, metadata
    if not keep_timestamps:
        gone.add("inCommitTimestamp")
        ours = {_ENABLED, _SINCE_VERSION, _SINCE_TIME}
        kept = {k: v for k, v in metadata.configuration.items() if k not in ours}
        after = msgspec.structs.replace(metadata, configuration=kept)
    lowered = without_features(protocol, gone)
    return tuple(
        action for action, before in ((lowered, protocol), (after, metadata)) if action != before
    )
