"""Cost estimate of a sweep, from running a sample of its tasks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from foreread.sweep._grid import Grid
from foreread.sweep._inputs import read_inputs
from foreread.sweep._processes import task_error
from foreread.sweep._run import setting_of
from foreread.sweep._tasks import SweepTask, run_task, tasks_of

CALIBRATION_S = 30.0
"""Time after which no further task is started."""


@dataclass(frozen=True)
class Estimate:
    """Duration of a sweep on one core like that of this machine."""

    tasks: int
    sampled: int
    """Number of tasks run for the estimate."""
    core_seconds: float

    @property
    def core_hours(self) -> float:
        """Duration in core hours."""
        return self.core_seconds / 3600


def estimate(grid: Grid, seconds: float = CALIBRATION_S) -> Estimate:
    """Run tasks of each input until `seconds` have passed, and extrapolate their times.

    Tasks of an input are sampled from both ends and from the middle: its first policy, its last one
    with the largest memory, and one between them. An input without a sample is assumed to cost the
    mean of the others.
    """
    inputs = read_inputs(grid)
    tasks = tasks_of(grid, inputs)
    setting = setting_of(grid, inputs)
    by_input: dict[int, list[SweepTask]] = {}
    for task in tasks:
        by_input.setdefault(task.input, []).append(task)
    times: dict[int, list[float]] = {}
    began = time.monotonic()
    for turn in range(3):
        for of, its in by_input.items():
            sample = _sample(its, turn)
            if sample is None or (times and time.monotonic() - began > seconds):
                continue
            before = time.monotonic()
            try:
                run_task(sample, setting)
            except Exception as error:
                raise task_error(sample, setting, error) from error
            times.setdefault(of, []).append(time.monotonic() - before)
    means = {of: sum(some) / len(some) for of, some in times.items()}
    other = sum(means.values()) / len(means)
    total = sum(means.get(of, other) * len(its) for of, its in by_input.items())
    return Estimate(len(tasks), sum(map(len, times.values())), total)


def _sample(tasks: Sequence[SweepTask], turn: int) -> SweepTask | None:
    """Return the task of an input to run in a turn; None if there are no more."""
    places = list(dict.fromkeys([0, len(tasks) - 1, len(tasks) // 2]))
    return tasks[places[turn]] if turn < len(places) else None
