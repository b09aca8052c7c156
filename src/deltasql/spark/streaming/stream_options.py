"""What a stream or a change feed is told: where it begins, how much at a time, what it bears."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo

import msgspec

from deltasql.api.detail import to_ms
from deltasql.errors import BadArgumentError
from deltasql.options import camel, read_options

FEED, START, START_TIME = "readChangeFeed", "startingVersion", "startingTimestamp"
END, END_TIME = "endingVersion", "endingTimestamp"
LATEST = "latest"
_DEFAULT_FILES = 1000
_SIZE = re.compile(r"([0-9]+)\s*([kmgtp]?)b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


class _Given(msgspec.Struct, kw_only=True, frozen=True):
    read_change_feed: bool = False
    read_change_data: bool = False
    starting_version: str | None = None
    starting_timestamp: str | None = None
    ending_version: str | None = None
    ending_timestamp: str | None = None
    max_files_per_trigger: int | None = None
    max_bytes_per_trigger: str | None = None
    ignore_deletes: bool = False
    ignore_changes: bool = False
    skip_change_commits: bool = False
    fail_on_data_loss: bool = True


FOLLOW_NAMES = tuple(map(camel, _Given.__struct_fields__))
_STREAM_ONLY = FOLLOW_NAMES[FOLLOW_NAMES.index("maxFilesPerTrigger") :]


@dataclass(frozen=True, slots=True)
class VersionOrTimestamp:
    """A version, or a time in milliseconds that stands for one."""

    version: int | None = None
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """How a table is followed; without `start` from all that it holds now."""

    is_feed: bool = False
    start: VersionOrTimestamp | None = None
    is_latest: bool = False
    end: VersionOrTimestamp | None = None
    max_files: int | None = _DEFAULT_FILES
    max_bytes: int | None = None
    ignore_deletes: bool = False
    ignore_changes: bool = False
    skip_change_commits: bool = False
    fail_on_data_loss: bool = True

    def for_stream(self) -> FollowOptions:
        """Return what a stream is told.

        Raises:
            BadArgumentError: an option is not for streams.
        """
        if self.end is not None:
            raise BadArgumentError(
                f"{END} and {END_TIME} are for a change feed that is read once.",
                hint="A stream ends where it is stopped; use the trigger availableNow.",
            )
        return self

    def for_batch(self, given: Mapping[str, str]) -> FollowOptions:
        """Return what a read of the change feed is told.

        Raises:
            BadArgumentError: an option is for streams only, or it is not told where to begin.
        """
        told = {key.lower() for key in given}
        wrong = [name for name in _STREAM_ONLY if name.lower() in told]
        if wrong:
            raise BadArgumentError(f"The option {', '.join(wrong)} is for streams.")
        if not self.is_feed:
            raise BadArgumentError(
                f"{START} and its like are for streams and for the change feed.",
                hint=f"Set {FEED} to true, or use versionAsOf.",
            )
        if self.is_latest:
            raise BadArgumentError(f"{START} is {LATEST!r}, which is for streams.")
        if self.start is None:
            raise BadArgumentError(
                f"The change feed is not told where to begin: give {START} or {START_TIME}."
            )
        return self


def split_options(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options that name the table and the rest, which say how it is followed."""
    folded = {name.lower() for name in FOLLOW_NAMES}
    table = {key: value for key, value in options.items() if key.lower() not in folded}
    return table, {key: value for key, value in options.items() if key not in table}


def parse_follow_options(options: Mapping[str, str], zone: tzinfo = UTC) -> FollowOptions:
    """Read the second part of `split_options`; times that name no zone are those of `zone`.

    Raises:
        BadArgumentError: a value does not fit.
    """
    given = read_options(_Given, options, "A stream")
    is_latest = (given.starting_version or "").lower() == LATEST
    start = None if is_latest else given.starting_version
    max_bytes, max_files = _size(given.max_bytes_per_trigger), given.max_files_per_trigger
    if max_files is not None and max_files < 1:
        raise BadArgumentError(f"maxFilesPerTrigger is {max_files}; it must be a positive number.")
    if is_latest and given.starting_timestamp is not None:
        raise _both(START, START_TIME)
    return FollowOptions(
        given.read_change_feed or given.read_change_data,
        _moment(start, _ms(given.starting_timestamp, zone), START, START_TIME),
        is_latest,
        _moment(given.ending_version, _ms(given.ending_timestamp, zone), END, END_TIME),
        _DEFAULT_FILES if max_files is None and max_bytes is None else max_files,
        max_bytes,
        given.ignore_deletes,
        given.ignore_changes,
        given.skip_change_commits,
        given.fail_on_data_loss,
    )


def to_version(name: str, text: str) -> int:
    """Return the version that an option names.

    Raises:
        BadArgumentError: it is no number.
    """
    if not text.isascii() or not text.isdigit():
        raise BadArgumentError(f"{name} is {text!r}, which is no version.")
    return int(text)


def _ms(text: str | None, zone: tzinfo) -> int | None:
    return None if text is None else to_ms(text, zone)


def _moment(
    version: str | None, time: int | None, name: str, time_name: str
) -> VersionOrTimestamp | None:
    if version is not None and time is not None:
        raise _both(name, time_name)
    if version is not None:
        return VersionOrTimestamp(version=to_version(name, version))
    return None if time is None else VersionOrTimestamp(timestamp=time)


def _both(name: str, time_name: str) -> BadArgumentError:
    return BadArgumentError(f"Give either {name} or {time_name}, not both.")


def _size(text: str | None) -> int | None:
    if text is None:
        return None
    found = _SIZE.fullmatch(text.strip())
    size = int(found[1]) * 1024 ** _POWERS[found[2].lower()] if found else 0
    if size < 1:
        raise BadArgumentError(f"maxBytesPerTrigger is {text!r}; it must be a size such as 10g.")
    return size
