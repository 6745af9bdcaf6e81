"""Tasks in processes of this machine.

Each worker is a fresh interpreter (`spawn`) with several tasks queued. If a worker dies, its tasks
go to a new one; a task that loses three workers ends the sweep.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from multiprocessing import connection
from typing import Any

from foreread.sweep._errors import SweepError
from foreread.sweep._tasks import Row, SweepTask, TaskSetting, run_task

MAX_PENDING = 64
"""Limit of tasks per worker. Their messages fit a pipe, so neither end blocks."""
PENDING_S = 0.5
"""Target duration of a worker's queue: enough that it never waits for this process."""
MAX_LOSSES = 3
"""Number of lost workers after which a task is considered the cause."""


def run_here(
    tasks: Sequence[SweepTask], setting: TaskSetting, on_row: Callable[[int, Row], None]
) -> None:
    """Run tasks one after the other in this process."""
    for task in tasks:
        try:
            row = run_task(task, setting)
        except Exception as error:
            raise task_error(task, setting, error) from error
        on_row(task.index, row)


def run_in_processes(
    tasks: Sequence[SweepTask],
    setting: TaskSetting,
    processes: int,
    on_row: Callable[[int, Row], None],
) -> None:
    """Run tasks in worker processes; rows arrive in any order."""
    pool = _WorkerPool(tasks, setting, on_row)
    try:
        pool.run(min(processes, len(tasks)))
    finally:
        pool.end()


def task_error(task: SweepTask, setting: TaskSetting, why: object) -> SweepError:
    """Return the error for a task that cannot be run."""
    return SweepError(f"{task.key(setting.inputs)}: {why}")


class _Worker:
    """A process, and its unanswered tasks in order."""

    def __init__(self, setting: TaskSetting) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.pending: deque[SweepTask] = deque()
        self.process = context.Process(target=_serve, args=(theirs, setting), daemon=True)
        self.process.start()
        theirs.close()

    def send(self, task: SweepTask) -> None:
        self.pending.append(task)
        try:
            self.pipe.send(task)
        except OSError:
            # The worker has died; reading from its pipe reports that.
            pass


class _WorkerPool:
    def __init__(
        self,
        tasks: Sequence[SweepTask],
        setting: TaskSetting,
        on_row: Callable[[int, Row], None],
    ) -> None:
        self.waiting = deque(tasks)
        self.setting = setting
        self.on_row = on_row
        self.workers: list[_Worker] = []
        self.losses: Counter[int] = Counter()
        self.done = 0
        self.began = time.monotonic()

    def run(self, processes: int) -> None:
        self.workers = [_Worker(self.setting) for _ in range(processes)]
        for worker in self.workers:
            self._top_up(worker)
        while self.waiting or any(worker.pending for worker in self.workers):
            by_pipe = {worker.pipe: worker for worker in self.workers}
            for pipe in connection.wait(list(by_pipe)):
                self._receive(by_pipe[pipe])  # type: ignore[index]

    def end(self) -> None:
        for worker in self.workers:
            worker.pipe.close()
            worker.process.terminate()
        for worker in self.workers:
            worker.process.join()

    def _receive(self, worker: _Worker) -> None:
        try:
            index, row, error = worker.pipe.recv()
        except (EOFError, OSError):
            self._lost(worker)
            return
        task = worker.pending.popleft()
        assert task.index == index, "a worker answers in the order of its tasks"
        if error is not None:
            raise task_error(task, self.setting, error)
        self.done += 1
        self.on_row(index, row)
        self._top_up(worker)

    def _top_up(self, worker: _Worker) -> None:
        """Send tasks for about half a second; initially two, when no duration is known."""
        most = 2
        if self.done > 2 * len(self.workers):
            seconds = (time.monotonic() - self.began) * len(self.workers) / self.done
            most = max(2, min(MAX_PENDING, int(PENDING_S / max(seconds, 1e-6))))
        # Near the end, share the rest evenly.
        most = max(1, min(most, len(self.waiting) // len(self.workers) + 1))
        while self.waiting and len(worker.pending) < most:
            worker.send(self.waiting.popleft())

    def _lost(self, worker: _Worker) -> None:
        """Move the tasks of a dead worker to a new one."""
        worker.pipe.close()
        worker.process.join()
        self.workers.remove(worker)
        if worker.pending:
            first = worker.pending[0]
            self.losses[first.index] += 1
            if self.losses[first.index] >= MAX_LOSSES:
                raise task_error(first, self.setting, _end_of(worker.process.exitcode))
        self.waiting.extendleft(reversed(worker.pending))
        if self.waiting:
            replacement = _Worker(self.setting)
            self.workers.append(replacement)
            self._top_up(replacement)


def _end_of(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        try:
            how = f"by {signal.Signals(-exitcode).name}"
        except ValueError:
            how = f"by signal {-exitcode}"
    else:
        how = f"with exit code {exitcode}"
    return f"its worker ended {how} {MAX_LOSSES} times; is there memory enough for it?"


def _serve(pipe: Any, setting: TaskSetting) -> None:
    """Run the worker: receive tasks and send rows until the other end is closed."""
    # Ctrl-C signals all processes of a terminal: the parent ends the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            task: SweepTask = pipe.recv()
        except (EOFError, OSError):
            return
        answer: tuple[int, Row, str | None]
        try:
            answer = (task.index, run_task(task, setting), None)
        except Exception as error:
            answer = (task.index, {}, str(error) or type(error).__name__)
        try:
            pipe.send(answer)
        except OSError:
            return
