"""Pure: which tasks of an import run together, so that what they return fits into the driver.

Spark refuses a job whose results are larger than `spark.driver.maxResultSize`, and holds them in
the driver until the last one is there. A wave stays below a quarter of that: two of them are in
memory, one that is loaded and one that is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from deltasql.importer.tasks import Task

# A wave's size as JSON: its rows are a quarter to three quarters of that when they are packed.
_WAVE_BYTES = 256 * 1024 * 1024
_WAVE_SHARE = 4
_TASKS_PER_CORE = 2
# Pickles and arrays of the JVM end at 2 GiB.
_MAX_RESULT = 2_000_000_000
# What Spark adds to a result: its own numbers about the task, and some bytes for each block.
_TASK_OVERHEAD = 16 * 1024
_RESULT_OVERHEAD = 64


@dataclass(frozen=True, slots=True)
class ResultLimits:
    """The bytes that all tasks of a wave may return together, and that one alone may."""

    wave: int
    task: int

    @classmethod
    def of(cls, max_result_size: int) -> ResultLimits:
        """Return the limits under a `spark.driver.maxResultSize`; 0 is no limit."""
        overhead = max_result_size // _RESULT_OVERHEAD + _TASK_OVERHEAD
        task = min(max_result_size - overhead if max_result_size else _MAX_RESULT, _MAX_RESULT)
        return cls(min(_WAVE_BYTES, max(task, 0) // _WAVE_SHARE), max(task, 0))


@dataclass(frozen=True, slots=True)
class NumberedTask:
    """A task, its number in the import, and how many bytes it may return."""

    number: int
    task: Task
    max_bytes: int


def cut_waves(
    tasks: Iterable[Task], cores: Callable[[], int], limits: ResultLimits
) -> Iterator[list[NumberedTask]]:
    """Cut tasks into waves, in order; a wave that is over its limit has one task only.

    The first wave is the smallest, because the driver waits for it idly.
    """
    wave: list[NumberedTask] = []
    size, max_tasks = 0, cores()
    for number, task in enumerate(tasks):
        task_size = task.size + _TASK_OVERHEAD
        if wave and (len(wave) >= max_tasks or size + task_size > limits.wave):
            yield _with_limits(wave, limits)
            wave, size, max_tasks = [], 0, _TASKS_PER_CORE * cores()
        wave.append(NumberedTask(number, task, 0))
        size += task_size
    if wave:
        yield _with_limits(wave, limits)


def _with_limits(wave: list[NumberedTask], limits: ResultLimits) -> list[NumberedTask]:
    """Give each task its estimate and an equal part of what is left of the wave's limit."""
    if len(wave) == 1:
        return [NumberedTask(wave[0].number, wave[0].task, limits.task)]
    spare = (limits.wave - sum(each.task.size for each in wave)) // len(wave)
    return [NumberedTask(each.number, each.task, each.task.size + spare) for each in wave]
