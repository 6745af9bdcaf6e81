"""Runs the unfinished tasks of a sweep, then collects the rows in order."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from importlib.metadata import version

from foreread.sweep._cluster import run_on_ray
from foreread.sweep._errors import SweepError
from foreread.sweep._grid import Grid
from foreread.sweep._inputs import SweepInput, read_inputs
from foreread.sweep._journal import Journal
from foreread.sweep._output import check_output, finished_rows, write_parquet
from foreread.sweep._processes import run_here, run_in_processes
from foreread.sweep._tasks import Row, SweepTask, TaskSetting, digest_text, tasks_of


def run(
    grid: Grid,
    output: str | os.PathLike[str] | None = None,
    *,
    processes: int | None = None,
    ray: str | None = None,
    resume: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> list[Row]:
    """Run all combinations of a grid and return one row per task, in task order.

    Parameters
    ----------
    grid : Grid
        Combinations to run.
    output : str, os.PathLike or None
        Parquet file for the rows. Finished tasks are kept in `OUTPUT.journal` until it is written.
    processes : int or None
        Number of worker processes; by default one per processor available to this process.
    ray : str or None
        Address of a Ray cluster to run on instead.
    resume : bool
        Continue from the journal.
    progress : callable or None
        Called with the number of finished tasks and of all tasks.
    """
    if ray is not None and processes is not None:
        raise SweepError("processes and ray are two ways to run tasks: give one")
    if processes is not None and processes < 1:
        raise SweepError(f"processes: {processes} is not a number of processes; give 1 or more")
    path = None if output is None else os.fsdecode(output)
    if path is not None:
        check_output(path)
    inputs = read_inputs(grid)
    tasks = tasks_of(grid, inputs)
    setting = setting_of(grid, inputs)
    digest = hashlib.sha256(digest_text(grid, inputs).encode()).hexdigest()[:32]
    if path is None:
        rows: dict[int, Row] = {}
        _run_tasks(tasks, setting, rows, rows.__setitem__, processes, ray, progress)
        return [rows[task.index] for task in tasks]
    if resume and not os.path.exists(f"{path}.journal"):
        finished = finished_rows(path, setting.version, digest)
        if finished is not None:
            return finished
    journal = Journal(f"{path}.journal", setting.version, digest, len(tasks), resume=resume)
    try:
        _run_tasks(tasks, setting, journal.rows, journal.append, processes, ray, progress)
        ordered = [journal.rows[task.index] for task in tasks]
        write_parquet(path, ordered, setting.version, digest)
        journal.remove()
    except BaseException:
        # For example a wrong cluster address: no results to keep.
        if not journal.rows:
            journal.remove()
        raise
    finally:
        journal.close()
    return ordered


def setting_of(grid: Grid, inputs: list[SweepInput]) -> TaskSetting:
    """Return the settings shared by all tasks of a grid."""
    return TaskSetting(inputs, grid.replay, grid.until_s, version("foreread"))


def _run_tasks(
    tasks: list[SweepTask],
    setting: TaskSetting,
    rows: dict[int, Row],
    keep: Callable[[int, Row], None],
    processes: int | None,
    ray: str | None,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Run the tasks that have no row."""
    left = [task for task in tasks if task.index not in rows]

    def on_row(index: int, row: Row) -> None:
        keep(index, row)
        if progress is not None:
            progress(len(rows), len(tasks))

    if not left:
        return
    if ray is not None:
        run_on_ray(left, setting, ray, on_row)
        return
    count = processes if processes is not None else len(os.sched_getaffinity(0))
    if count == 1:
        run_here(left, setting, on_row)
    else:
        run_in_processes(left, setting, count, on_row)
