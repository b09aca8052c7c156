"""How much one batch of a stream takes: whole files, until the limits are reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class Admission:
    """What is left of a batch's limits; None is no limit.

    As with Delta, a file is taken as long as anything is left, so the last one may go over.
    """

    files: int | None = None
    bytes: int | None = None

    @property
    def is_full(self) -> bool:
        """Tell whether nothing more is taken."""
        return (self.files is not None and self.files <= 0) or (
            self.bytes is not None and self.bytes <= 0
        )

    def take(self, sizes: Sequence[int]) -> int:
        """Take files one after the other and return how many were taken."""
        for count, size in enumerate(sizes):
            if not self.take_all([size]):
                return count
        return len(sizes)

    def take_all(self, sizes: Sequence[int]) -> bool:
        """Take all files or none."""
        if not sizes:
            return True
        if self.is_full:
            return False
        if self.files is not None:
            self.files -= len(sizes)
        if self.bytes is not None:
            self.bytes -= sum(sizes)
        return True
