"""Arrow columns of any spelling (large, dictionary, view, extension) in the one that SQL takes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

_TEXT, _LONG = pa.string(), pa.int64()


def plain_storage(values: pa.Array) -> pa.Array:
    """Return the values without dictionary or extension type."""
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def is_textlike(kind: pa.DataType) -> bool:
    """Tell whether a type holds texts, or bytes that an old writer did not mark as texts."""
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
    )


def as_text(values: pa.Array) -> pa.Array:
    """Return texts as `string`, known to be UTF-8.

    Raises:
        TypeError: the column holds something else.
        ValueError: a text is not UTF-8.
    """
    values = plain_storage(values)
    if pa.types.is_null(values.type):
        return values.cast(_TEXT)
    if not is_textlike(values.type):
        raise TypeError(f"a text has the type {values.type}")
    texts = values.cast(_TEXT)
    texts.validate(full=True)
    return texts


def as_long(values: pa.Array) -> pa.Array:
    """Return whole numbers of any width as `int64`.

    Raises:
        TypeError: the column holds something else.
        ValueError: a number needs more bits.
    """
    values = plain_storage(values)
    if not pa.types.is_integer(values.type) and not pa.types.is_null(values.type):
        raise TypeError(f"a number has the type {values.type}")
    return values.cast(_LONG)


def as_bool(values: pa.Array) -> pa.Array:
    """Return truth values as `bool`.

    Raises:
        TypeError: the column holds something else.
    """
    values = plain_storage(values)
    if not pa.types.is_boolean(values.type) and not pa.types.is_null(values.type):
        raise TypeError(f"a truth value has the type {values.type}")
    return values.cast(pa.bool_())


def plain_value(value: Any, kind: pa.DataType) -> Any:
    """Return a nested Python value as JSON would have it: maps as objects, no empty fields.

    Raises:
        ValueError: bytes that an old writer did not mark as text are not UTF-8.
    """
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {
            plain_value(key, kind.key_type): plain_value(one, kind.item_type) for key, one in value
        }
    if pa.types.is_struct(kind):
        inner = {field.name: plain_value(value[field.name], field.type) for field in kind}
        return {name: one for name, one in inner.items() if one is not None}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [plain_value(one, kind.value_type) for one in value]
    return value.decode() if isinstance(value, bytes) else value
