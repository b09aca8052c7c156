"""The measure of the fuzzed imports sees what it is there to see."""

import os

import pytest

from limits import Apart, CallDiedError, Taken, measured


class Drunkard:
    """Does what it is told: dies, wastes memory, raises."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, what: str) -> Taken:
        with measured() as taken:
            if what == "die":
                os.abort()
            if what == "waste":
                assert len(bytes(2**20) * 300) == 300 * 2**20
            if what == "raise":
                raise ValueError(what)
        return taken


def test_it_sees_deaths_errors_and_waste(tmp_path):
    with Apart(Drunkard, tmp_path) as drunkard:
        small = drunkard("nothing")
        assert drunkard("waste").peak_bytes > small.peak_bytes + 250 * 2**20
        assert drunkard("nothing").peak_bytes < small.peak_bytes + 100 * 2**20
        with pytest.raises(ValueError, match="raise"):
            drunkard("raise")
        with pytest.raises(CallDiedError, match="ended with -6"):
            drunkard("die")
        assert drunkard("nothing").peak_bytes > 0
        assert drunkard.made == 2
