"""Tasks: one combination of a grid each, and its row of results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, TypeAlias

from foreread import sim
from foreread.sweep._grid import Grid, ReplaySettings
from foreread.sweep._inputs import SweepInput, local_trace

Row: TypeAlias = "dict[str, Any]"

COLUMNS = {
    "kind": "string",
    "input": "string",
    "policy": "string",
    "memory": "int64",
    "max_window": "int64",
    "device": "string",
    "seed": "uint64",
    "elapsed_s": "double",
    "reads": "int64",
    "bytes": "int64",
    "mb_per_s": "double",
    "waits": "int64",
    "waited_s": "double",
    "latency_mean_ms": "double",
    "latency_p50_ms": "double",
    "latency_p99_ms": "double",
    "latency_p999_ms": "double",
    "latency_max_ms": "double",
    "wait_p50_ms": "double",
    "wait_p99_ms": "double",
    "wait_p999_ms": "double",
    "wait_max_ms": "double",
    "requests": "int64",
    "device_bytes": "int64",
    "device_s": "double",
    "amplification": "double",
    "pages_ahead": "int64",
    "evicted_unread": "int64",
    "late": "int64",
    "failed": "int64",
    "unfinished": "int64",
    "events": "int64",
    "hash": "string",
}
"""Columns of a row and their types in Parquet. A trace has no seed, a scenario no `wait_*`."""


@dataclass(frozen=True)
class SweepTask:
    """One combination. None: the scenario's value, or the default of a replay."""

    index: int
    """Index of its row."""
    input: int
    """Index of its scenario or trace."""
    policy: str | None
    memory: int | None
    max_window: int | str | None
    device: str | None
    seed: int | None

    def key(self, inputs: list[SweepInput]) -> str:
        """Return its name in messages."""
        of = inputs[self.input]
        parts = {"policy": self.policy, "memory": self.memory, "max_window": self.max_window}
        parts |= {"device": self.device, "seed": self.seed}
        given = [f"{name}={value}" for name, value in parts.items() if value is not None]
        return " ".join([f"{of.kind}={of.name}", *given])


@dataclass(frozen=True)
class TaskSetting:
    """Settings shared by all tasks of a sweep, as sent to its workers."""

    inputs: list[SweepInput]
    replay: ReplaySettings
    until_s: float | None
    version: str
    """Version of the package: workers must have the same."""


def tasks_of(grid: Grid, inputs: list[SweepInput]) -> list[SweepTask]:
    """Return the tasks of a grid in row order: by input, policy, window and so on.

    The order is that of the values, not that of their lists in the grid.
    """
    order = sorted(range(len(inputs)), key=lambda at: (inputs[at].kind, inputs[at].name))
    windows = sorted(grid.windows, key=lambda window: (window == "auto", window))
    tasks: list[SweepTask] = []
    for at in order:
        seeds = sorted(grid.seeds) if inputs[at].kind == "scenario" else []
        parts: tuple[Sequence[Any], ...]
        parts = (sorted(grid.policies), windows, sorted(grid.memory), sorted(grid.devices), seeds)
        for policy, max_window, memory, device, seed in product(*map(_or_none, parts)):
            tasks.append(SweepTask(len(tasks), at, policy, memory, max_window, device, seed))
    return tasks


def _or_none(values: Sequence[Any]) -> Sequence[Any]:
    """Return the values, or a single None if there are none."""
    return values or (None,)


def run_task(task: SweepTask, setting: TaskSetting) -> Row:
    """Run one task and return its row."""
    of = setting.inputs[task.input]
    changes = {
        "policy": task.policy,
        "memory": task.memory,
        "max_window": task.max_window,
        "device": task.device,
    }
    given: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
    if of.kind == "scenario":
        assert of.text is not None
        result = sim.run(of.text, seed=task.seed, until_s=setting.until_s, **given)
        row = _row_of_run(result)
    else:
        how = setting.replay
        trace = _trace(of, how.format)
        replayed = sim.replay(trace, loop=how.loop, scale=how.scale, warm=how.warm, **given)
        row = _row_of_replay(replayed)
    row |= {"kind": of.kind, "input": of.name, "device": task.device or row.get("device")}
    return {name: row.get(name) for name in COLUMNS}


@lru_cache(maxsize=16)
def _trace(of: SweepInput, format: str | None) -> sim.Trace:
    """Return the trace, whose first pass is shared by all tasks of this process."""
    return sim.Trace(local_trace(of), format)


def _row_of_run(result: sim.SimResult) -> Row:
    device_bytes = sum(device.read_bytes + device.write_bytes for device in result.devices)
    latency = result.latency_ms
    return {
        "policy": result.policy,
        "memory": result.memory,
        "max_window": result.max_window,
        "seed": result.seed,
        "elapsed_s": result.seconds,
        "reads": sum(process.ops for process in result.processes),
        "bytes": result.bytes,
        "mb_per_s": result.bytes / max(result.seconds, 1e-9) / 1e6,
        "waited_s": result.waited_s,
        "latency_mean_ms": latency.mean,
        "latency_p50_ms": latency.p50,
        "latency_p99_ms": latency.p99,
        "latency_p999_ms": latency.p999,
        "latency_max_ms": latency.max,
        "requests": result.requests,
        "device_bytes": device_bytes,
        "device_s": sum(device.busy_seconds for device in result.devices),
        "amplification": device_bytes / max(result.bytes, 1),
        "pages_ahead": result.cache.pages_ahead,
        "evicted_unread": result.cache.evicted_before_use,
        "unfinished": result.unfinished,
        "events": result.events,
        "hash": result.hash,
    }


def _row_of_replay(result: sim.ReplayResult) -> Row:
    # The seed of a replay does not come from the grid: it is always the same.
    names = [name for name in COLUMNS if name != "seed" and hasattr(result, name)]
    row: Row = {name: getattr(result, name) for name in names}
    wait = result.wait_ms
    return row | {
        "wait_p50_ms": wait.p50,
        "wait_p99_ms": wait.p99,
        "wait_p999_ms": wait.p999,
        "wait_max_ms": wait.max,
    }


def digest_text(grid: Grid, inputs: list[SweepInput]) -> str:
    """Return the text whose hash identifies a sweep."""
    how = grid.replay
    return json.dumps(
        {
            "inputs": sorted((of.kind, of.name, of.sha256) for of in inputs),
            "policies": sorted(grid.policies),
            "memory": sorted(grid.memory),
            "windows": sorted(map(str, grid.windows)),
            "devices": sorted(grid.devices),
            "seeds": sorted(grid.seeds),
            "until_s": grid.until_s,
            "replay": [how.loop, float(how.scale), how.warm, how.format],
            "columns": list(COLUMNS),
        },
        sort_keys=True,
    )
