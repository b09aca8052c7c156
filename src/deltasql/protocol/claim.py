"""Pure: the commit by which deltasql takes over a log that others have written."""

from __future__ import annotations

import msgspec

from deltasql.protocol.actions import Action, CommitInfo, Metadata, Protocol
from deltasql.protocol.features import FENCE, with_features
from deltasql.protocol.properties import FENCE_PROPERTY, read_bool

OPERATION = "CUTOVER"
_ENABLED = "delta.enableInCommitTimestamps"
_SINCE_VERSION = "delta.inCommitTimestampEnablementVersion"
_SINCE_TIME = "delta.inCommitTimestampEnablementTimestamp"


def claim_actions(
    protocol: Protocol, metadata: Metadata, info: CommitInfo, version: int, *, fence: bool
) -> tuple[Action, ...]:
    """Return the claim's actions: commits carry their time from now on, and the fence is up.

    `info` has the timestamp; it must be later than the time of every commit before.
    """
    configuration = dict(metadata.configuration)
    if not read_bool(configuration, _ENABLED):
        configuration[_ENABLED] = "true"
        configuration[_SINCE_VERSION] = str(version)
        configuration[_SINCE_TIME] = str(info.timestamp)
    if not fence:
        configuration[FENCE_PROPERTY] = "false"
    features = {"inCommitTimestamp"}
    if read_bool(configuration, FENCE_PROPERTY):
        features.add(FENCE)
    after = with_features(protocol, features)
    actions: list[Action] = [msgspec.structs.replace(info, in_commit_timestamp=info.timestamp)]
    if after != protocol:
        actions.append(after)
    # also where nothing changes: whoever knows the table's rules from before reads them again
    actions.append(msgspec.structs.replace(metadata, configuration=configuration))
    return tuple(actions)
