"""Z85, the text form in which a log holds the bytes of a deletion vector or of its file's name."""

from __future__ import annotations

import base64

_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85 = bytes.maketrans(_Z85, _B85)


def decode_z85(text: str) -> bytes:
    """Return the bytes of a text.

    Raises:
        ValueError: it is not Z85, or five of its characters say more than four bytes can.
    """
    raw = text.encode(errors="replace")
    if len(raw) % 5 or raw.translate(None, _Z85):
        raise ValueError(text)
    return base64.b85decode(raw.translate(_TO_B85))
