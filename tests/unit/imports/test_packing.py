"""The rows of a task come out of their bytes as they went in, or not at all."""

import contextlib
import dataclasses
import random

import pyarrow as pa
import pytest

from deltasql.errors import TableImportError
from deltasql.imports.engines.child_process import pack, unpack
from deltasql.imports.load.window import VersionWindow
from deltasql.imports.plan.commit_files import CommitFile
from deltasql.imports.read.parse import WindowReader
from deltasql.imports.read.tasks import StatePart
from histories import History


def a_window(seed: int, versions: int = 20) -> VersionWindow:
    reader = WindowReader("memory://t")
    for version, payload in enumerate(History(seed, versions).commits):
        reader.take(CommitFile(version, len(payload), version), payload)
    return reader.window()


def require_same(one, other):
    assert type(one) is type(other)
    for field in dataclasses.fields(one):
        before, after = getattr(one, field.name), getattr(other, field.name)
        if isinstance(before, pa.Table):
            assert after.schema == before.schema
            assert after.equals(before)
        else:
            assert after == before


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_window_comes_out_as_it_went_in(seed):
    window = a_window(seed)
    assert window.changes
    require_same(window, unpack(pack(window)))


def test_unknown_fields_of_a_change_survive():
    window = a_window(1, 1)
    changes = tuple(
        (version, type(change)(**{**_values(change), "extra": {"new": {"x": [1, None, 2.5]}}}))
        for version, change in window.changes
    )
    window = dataclasses.replace(window, changes=changes)
    require_same(window, unpack(pack(window)))


def _values(change) -> dict:
    return {name: getattr(change, name) for name in change.__struct_fields__}


@pytest.mark.parametrize("rows", [0, 3])
def test_a_part_of_a_state_comes_out_as_it_went_in(rows):
    window = a_window(5)
    part = StatePart(7, 12, window.adds[:rows], window.removes[:rows], window.events[:rows])
    require_same(part, unpack(memoryview(pack(part))))


def test_bytes_that_are_cut_or_longer_are_refused():
    packed = pack(a_window(1, 5))
    for length in (0, 3, 7, 40, len(packed) // 2, len(packed) - 1):
        with pytest.raises(TableImportError, match="are not its rows"):
            unpack(packed[:length])
    with pytest.raises(TableImportError, match="are not its rows"):
        unpack(packed + b"x")


def test_changed_bytes_are_never_taken_for_a_fault_of_ours():
    packed = pack(a_window(1, 5))
    chance = random.Random(1)
    for _ in range(200):
        changed = bytearray(packed)
        changed[chance.randrange(200)] ^= 1 << chance.randrange(8)
        with contextlib.suppress(TableImportError):
            unpack(bytes(changed))
