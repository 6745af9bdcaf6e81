"""Tasks on the nodes of a Ray cluster.

The tasks are submitted in batches. Ray reruns a batch if its worker or node is lost.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

from foreread.sim._tables import optional
from foreread.sweep._errors import SweepError
from foreread.sweep._processes import task_error
from foreread.sweep._tasks import Row, SweepTask, TaskSetting, run_task

BATCH_S = 1.0
"""Target duration of a batch: much longer than the few ms that Ray needs per batch."""
MAX_BATCH = 512
MAX_RETRIES = 10
"""Number of lost workers or nodes that a batch survives."""
BATCHES_A_CPU = 2
"""Batches submitted per processor: one runs while the next waits."""


def run_on_ray(
    tasks: Sequence[SweepTask],
    setting: TaskSetting,
    address: str,
    on_row: Callable[[int, Row], None],
) -> None:
    """Run tasks on the cluster at `address`; rows arrive in any order."""
    ray = optional("ray", "ray")
    was_there = ray.is_initialized()
    if not was_there:
        try:
            ray.init(address=address, log_to_driver=False, logging_level="error")
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise SweepError(f"--ray {address}: {error}") from None
    try:
        _Cluster(ray, tasks, setting, on_row).run()
    finally:
        if not was_there:
            ray.shutdown()


def run_batch(
    tasks: Sequence[SweepTask], setting: TaskSetting
) -> tuple[float, list[tuple[int, Row, str | None]]]:
    """Run tasks in a Ray worker. Return the time taken, and their rows."""
    ours = version("foreread")
    if ours != setting.version:
        why = f"this node has foreread {ours}, the sweep was begun with {setting.version}"
        return 0.0, [(tasks[0].index, {}, why)]
    began = time.monotonic()
    answers: list[tuple[int, Row, str | None]] = []
    for task in tasks:
        try:
            answers.append((task.index, run_task(task, setting), None))
        except Exception as error:
            answers.append((task.index, {}, str(error) or type(error).__name__))
            break
    return time.monotonic() - began, answers


class _Cluster:
    def __init__(
        self,
        ray: Any,
        tasks: Sequence[SweepTask],
        setting: TaskSetting,
        on_row: Callable[[int, Row], None],
    ) -> None:
        self.ray = ray
        self.tasks = list(tasks)
        self.setting = setting
        self.on_row = on_row
        # Stored once for all batches.
        self.shared = ray.put(setting)
        self.remote = ray.remote(num_cpus=1, max_retries=MAX_RETRIES)(run_batch)
        self.next = 0
        self.in_flight: dict[Any, list[SweepTask]] = {}
        self.seconds = 0.0
        self.done = 0

    def run(self) -> None:
        try:
            while self.next < len(self.tasks) or self.in_flight:
                self._submit()
                ready, _ = self.ray.wait(list(self.in_flight), num_returns=1)
                for reference in ready:
                    self._receive(reference)
        finally:
            for reference in self.in_flight:
                with contextlib.suppress(Exception):
                    self.ray.cancel(reference)

    def _submit(self) -> None:
        cpus = max(int(self.ray.cluster_resources().get("CPU", 1)), 1)
        while self.next < len(self.tasks) and len(self.in_flight) < BATCHES_A_CPU * cpus:
            size = self._batch_size(cpus)
            batch = self.tasks[self.next : self.next + size]
            self.next += len(batch)
            self.in_flight[self.remote.remote(batch, self.shared)] = batch

    def _batch_size(self, cpus: int) -> int:
        """Return the size of a batch of about a second; near the end, share the rest evenly."""
        if self.done == 0:
            return 1
        size = int(BATCH_S / max(self.seconds / self.done, 1e-6))
        left = len(self.tasks) - self.next
        return max(1, min(size, MAX_BATCH, left // (BATCHES_A_CPU * cpus) + 1))

    def _receive(self, reference: Any) -> None:
        batch = self.in_flight.pop(reference)
        try:
            seconds, answers = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            first = str(error).strip().splitlines()[0]
            raise task_error(batch[0], self.setting, f"its workers were lost: {first}") from None
        self.seconds += seconds
        by_index = {task.index: task for task in batch}
        for index, row, why in answers:
            if why is not None:
                raise task_error(by_index[index], self.setting, why)
            self.done += 1
            self.on_row(index, row)
