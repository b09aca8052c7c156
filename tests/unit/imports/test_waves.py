"""Tasks run together as long as what they return has room, in their order and each of them once."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasql.imports.engines.spark import ResultLimits, cut_waves
from deltasql.imports.plan.commit_files import CommitFiles
from deltasql.imports.read.tasks import CommitTask, StateTask
from deltasql.log.checkpoint_reader import CheckpointPart

KIB, MIB, GIB = 1024, 1024**2, 1024**3
OVERHEAD = 16 * KIB


def task(version: int, size: int) -> CommitTask:
    return CommitTask(CommitFiles(array("q", [version]), array("q", [size]), array("q", [0])))


def cut(sizes, cores, limits) -> list[list]:
    tasks = [task(version, size) for version, size in enumerate(sizes)]
    return list(cut_waves(iter(tasks), lambda: cores, limits))


@given(
    st.lists(st.integers(0, 3 * MIB), max_size=60),
    st.integers(1, 5),
    st.integers(0, 8 * MIB),
)
def test_every_task_runs_once_in_order_and_no_wave_may_return_more_than_its_limit(
    sizes, cores, wave_bytes
):
    limits = ResultLimits(wave_bytes, 10 * MIB)
    waves = cut(sizes, cores, limits)
    assert [each.number for wave in waves for each in wave] == list(range(len(sizes)))
    for number, wave in enumerate(waves):
        assert 1 <= len(wave) <= (2 * cores if number else cores)
        if len(wave) == 1:
            assert wave[0].max_bytes == limits.task
        else:
            assert sum(each.max_bytes for each in wave) <= wave_bytes
            assert all(each.max_bytes >= each.task.size + OVERHEAD for each in wave)


def test_waves_are_as_large_as_cores_and_bytes_allow():
    limits = ResultLimits.of(GIB)
    assert [len(wave) for wave in cut([1000] * 11, 2, limits)] == [2, 4, 4, 1]
    assert [len(wave) for wave in cut([48 * MIB] * 11, 8, limits)] == [5, 5, 1]
    assert [len(wave) for wave in cut([300 * MIB, 1000, 1000], 8, limits)] == [1, 2]
    assert cut([], 2, limits) == []


def test_the_number_of_cores_is_asked_for_each_wave():
    cores = iter([1, 1, 3, 3, 3])
    tasks = [task(version, 1) for version in range(9)]
    waves = cut_waves(tasks, lambda: next(cores), ResultLimits.of(GIB))
    assert [len(wave) for wave in waves] == [1, 2, 6]


def test_parts_of_a_checkpoint_count_by_their_rows():
    parts = [CheckpointPart("k", 1, (n, n + 1), rows=100_000) for n in range(6)]
    tasks = [StateTask(part, number, 1) for number, part in enumerate(parts)]
    waves = cut_waves(tasks, lambda: 8, ResultLimits.of(GIB))
    assert [len(wave) for wave in waves] == [5, 1]


@pytest.mark.parametrize(
    ("setting", "wave", "task_bytes"),
    [
        (GIB, (250 * MIB, 256 * MIB), (GIB * 63 // 64 - OVERHEAD, GIB)),
        (64 * MIB, (15 * MIB, 16 * MIB), (62 * MIB, 64 * MIB)),
        (8 * GIB, (256 * MIB, 256 * MIB), (2_000_000_000, 2_000_000_000)),
        (0, (256 * MIB, 256 * MIB), (2_000_000_000, 2_000_000_000)),  # no limit
        (1, (0, 0), (0, 0)),
    ],
)
def test_a_wave_returns_a_quarter_of_what_spark_allows(setting, wave, task_bytes):
    limits = ResultLimits.of(setting)
    assert wave[0] <= limits.wave <= wave[1]
    assert task_bytes[0] <= limits.task <= task_bytes[1]
