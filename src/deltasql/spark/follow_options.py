"""What a stream or a change feed is told: where it begins, how much at a time, what it bears."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo

from deltasql.client.times import to_ms
from deltasql.errors import BadArgumentError

FEED, FEED_TOO = "readChangeFeed", "readChangeData"
START, START_TIME = "startingVersion", "startingTimestamp"
END, END_TIME = "endingVersion", "endingTimestamp"
_FILES, _BYTES = "maxFilesPerTrigger", "maxBytesPerTrigger"
_DELETES, _CHANGES, _SKIP = "ignoreDeletes", "ignoreChanges", "skipChangeCommits"
_LOSS = "failOnDataLoss"
FOLLOW_NAMES = (
    *(FEED, FEED_TOO, START, START_TIME, END, END_TIME),
    *(_FILES, _BYTES, _DELETES, _CHANGES, _SKIP, _LOSS),
)
_STREAM_ONLY = (_FILES, _BYTES, _DELETES, _CHANGES, _SKIP, _LOSS)
LATEST = "latest"
_DEFAULT_FILES = 1000
_SIZE = re.compile(r"([0-9]+)\s*([kmgtp]?)b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


@dataclass(frozen=True, slots=True)
class Moment:
    """A version, or a time in milliseconds that stands for one."""

    version: int | None = None
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """How a table is followed; without `start` from all that it holds now."""

    is_feed: bool = False
    start: Moment | None = None
    is_latest: bool = False
    end: Moment | None = None
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
    named = {name.lower(): name for name in FOLLOW_NAMES}
    given = {named[key.lower()]: value for key, value in options.items()}
    is_latest = given.get(START, "").lower() == LATEST
    start = None if is_latest else given.get(START)
    max_bytes = _size(given[_BYTES]) if _BYTES in given else None
    files = _count(given[_FILES]) if _FILES in given else None
    if _FILES not in given and max_bytes is None:
        files = _DEFAULT_FILES
    if is_latest and START_TIME in given:
        raise _both(START, START_TIME)
    return FollowOptions(
        _switch(given, FEED) or _switch(given, FEED_TOO),
        _moment(start, _ms(given.get(START_TIME), zone), START, START_TIME),
        is_latest,
        _moment(given.get(END), _ms(given.get(END_TIME), zone), END, END_TIME),
        files,
        max_bytes,
        _switch(given, _DELETES),
        _switch(given, _CHANGES),
        _switch(given, _SKIP),
        _switch(given, _LOSS, default=True),
    )


def _ms(text: str | None, zone: tzinfo) -> int | None:
    return None if text is None else to_ms(text, zone)


def _moment(version: str | None, time: int | None, name: str, time_name: str) -> Moment | None:
    if version is not None and time is not None:
        raise _both(name, time_name)
    if version is not None:
        if not version.isascii() or not version.isdigit():
            raise BadArgumentError(f"{name} is {version!r}, which is no version.")
        return Moment(version=int(version))
    return None if time is None else Moment(timestamp=time)


def _both(name: str, time_name: str) -> BadArgumentError:
    return BadArgumentError(f"Give either {name} or {time_name}, not both.")


def _switch(given: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    text = given.get(name, str(default)).lower()
    if text not in {"true", "false"}:
        raise BadArgumentError(f"The option {name} is true or false, not {given[name]!r}.")
    return text == "true"


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise BadArgumentError(f"{_FILES} is {text!r}; it must be a positive number.")
    return int(text)


def _size(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    size = int(found[1]) * 1024 ** _POWERS[found[2].lower()] if found else 0
    if size < 1:
        raise BadArgumentError(f"{_BYTES} is {text!r}; it must be a size such as 10g.")
    return size
