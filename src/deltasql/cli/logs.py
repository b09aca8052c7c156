"""The program's own log on stderr: lines for people, or JSON objects for machines."""

from __future__ import annotations

import json
import logging
from typing import TextIO

_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_KNOWN = {*vars(logging.makeLogRecord({})), "message", "asctime"}


class JsonLines(logging.Formatter):
    """One JSON object per record, with the fields of its event; `error_code` where it has one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line."""
        fields = {key: value for key, value in vars(record).items() if key not in _KNOWN}
        base = {
            "time": record.created,
            "level": record.levelname,
            "logger": record.name,
            "text": record.getMessage(),
        }
        return json.dumps({**base, **fields}, default=str, ensure_ascii=False)


def start_logging(stream: TextIO, verbosity: int, *, as_json: bool) -> None:
    """Let the package log to a stream: warnings at 0, what it does at 1, everything above."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if as_json else logging.Formatter(_TEXT))
    logging.basicConfig(handlers=[handler])
    levels = {0: logging.WARNING, 1: logging.INFO}
    logging.getLogger("deltasql").setLevel(levels.get(verbosity, logging.DEBUG))
