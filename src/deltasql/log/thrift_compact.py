"""Thrift's compact protocol, as far as footers and page headers of Parquet need it.

Arrow's own view of a footer cannot be asked about a damaged one: some questions end the process.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Struct: TypeAlias = dict[int, Any]

_DEEPEST = 32
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_MORE, _LOW = 0x80, 0x7F
_LONG_LIST = 15
_LONG_BITS = 63


class Compact:
    """Reads values one after the other; raises IndexError where the bytes end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def struct(self, depth: int = 0) -> Struct:
        """Return a struct's fields by their numbers; None stands for texts and doubles.

        Raises:
            ValueError: these bytes are no struct.
        """
        if depth > _DEEPEST:
            raise ValueError("a struct is nested too deeply")
        found: Struct = {}
        data, number = self._data, 0
        while True:
            head = data[self.at]
            self.at += 1
            if head == 0:
                return found
            step = head >> 4
            number = number + step if step else self._number()
            found[number] = self._value(head & 15, depth)

    def _varint(self) -> int:
        data, at = self._data, self.at
        byte = data[at]
        at += 1
        value, shift = byte & _LOW, 7
        while byte & _MORE:
            if shift > _LONG_BITS:
                raise ValueError("a number is too long")
            byte = data[at]
            at += 1
            value |= (byte & _LOW) << shift
            shift += 7
        self.at = at
        return value

    def _number(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _value(self, kind: int, depth: int) -> Any:
        if _BYTE < kind < _DOUBLE:
            return self._number()
        if kind == _BINARY:
            return self._skip(self._varint())
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in {_LIST, _SET}:
            return self._items(depth)
        if kind in {_TRUE, _FALSE}:
            return kind == _TRUE
        if kind in {_BYTE, _DOUBLE}:
            return self._skip(1 if kind == _BYTE else 8)
        raise ValueError("a field is of an unknown type")  # maps too: Parquet has none

    def _items(self, depth: int) -> list[Any]:
        head = self._data[self.at]
        self.at += 1
        count, kind = head >> 4, head & 15
        if count == _LONG_LIST:
            count = self._varint()
        if count > len(self._data) - self.at:  # each takes a byte at least
            raise IndexError
        if kind in {_TRUE, _FALSE}:
            self._skip(count)
            return [None] * count
        return [self._value(kind, depth + 1) for _ in range(count)]

    def _skip(self, length: int) -> None:
        self.at += length
        if self.at > len(self._data):
            raise IndexError
