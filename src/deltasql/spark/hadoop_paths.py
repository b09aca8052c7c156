"""Pure: paths as Hadoop spells them, which is with letters beyond ASCII as they are.

A log may spell them `%C3%A9`, and deltasql does. Delta Spark compares paths by their text when it
writes deletion vectors, and gives up where its own spelling differs.
"""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote

_ENCODED = re.compile(r"(?:%[89A-F][0-9A-F])+")
_LETTERS = re.compile(r"[^\x00-\x7f]+")
_LAST_CONTROL = "\x9f"


def with_letters(path: str) -> str:
    """Return the path with its letters as they are; as it is, if `without_letters` were lossy."""
    found = _ENCODED.sub(_decoded, path)
    return found if without_letters(found) == path else path


def without_letters(path: str) -> str:
    """Return the path with its letters percent-encoded."""
    return _LETTERS.sub(lambda found: quote(found[0]), path)


def _decoded(found: re.Match[str]) -> str:
    try:
        text = bytes.fromhex(found[0].replace("%", "")).decode()
    except UnicodeDecodeError:
        return found[0]
    # Java keeps what is neither a space nor a control character
    return "".join(quote(c) if c <= _LAST_CONTROL or _is_space(c) else c for c in text)


def _is_space(character: str) -> bool:
    return unicodedata.category(character).startswith("Z")
