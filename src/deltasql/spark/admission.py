"""How much one batch of a stream takes: whole files, until the limits are reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class Admission:
    """What is left of a batch's limits; None is no limit."""

    files: int | None = None
    bytes: int | None = None
    is_begun: bool = False

    @property
    def is_full(self) -> bool:
        """Tell whether nothing more is taken."""
        left = [one for one in (self.files, self.bytes) if one is not None]
        return any(one <= 0 for one in left)

    def take(self, sizes: Sequence[int]) -> int:
        """Take files one after the other and return how many were taken.

        As with Delta, a file is taken as long as anything is left: the last one may go over.
        """
        for count, size in enumerate(sizes):
            if self.is_full:
                return count
            self._count([size])
        return len(sizes)

    def take_all(self, sizes: Sequence[int]) -> bool:
        """Take files that belong together if all fit, or if they are the first of the batch."""
        fits = (self.files is None or len(sizes) <= self.files) and (
            self.bytes is None or sum(sizes) <= self.bytes
        )
        if self.is_begun and not fits:
            return False
        self._count(sizes)
        return True

    def _count(self, sizes: Sequence[int]) -> None:
        self.is_begun = True
        if self.files is not None:
            self.files -= len(sizes)
        if self.bytes is not None:
            self.bytes -= sum(sizes)
