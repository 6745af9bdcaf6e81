"""The simulator: scenarios and traces in virtual time, on the library's own read path.

    from foreread import sim

    result = sim.run("streaming-fast", policy="linux-6", memory="64MiB")
    print(result.seconds, result.devices[0].reads)
    waits = sim.replay("program.frt", device="nvme-990pro-2t", memory="1GiB")

A run is the same on every machine: its `hash` equals that of `foreread-lab sim`, and its
`to_dict()` the output of `foreread-lab sim --json`. Other Python threads run concurrently, and
Ctrl-C stops the run.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from typing import Any

from foreread import _foreread
from foreread._engine import parse_size
from foreread._foreread import Residency
from foreread.sim._inputs import Scenario, read_scenario, with_place
from foreread.sim._policy import (
    Ask,
    Decision,
    Limits,
    Policy,
    Stream,
    Window,
    policy_change,
)
from foreread.sim._results import (
    CacheResult,
    DeviceResult,
    GroupResult,
    Latency,
    MissCount,
    Picture,
    ProcessResult,
    ReplayResult,
    SimResult,
    StoreResult,
    StreamPicture,
    WaitLatency,
)
from foreread.sim._tables import to_arrow, to_pandas  # pyright: ignore

__all__ = [
    "Ask",
    "CacheResult",
    "Decision",
    "DeviceResult",
    "GroupResult",
    "Latency",
    "Limits",
    "MissCount",
    "Picture",
    "Policy",
    "ProcessResult",
    "ReplayResult",
    "Residency",
    "Scenario",
    "SimResult",
    "StoreResult",
    "Stream",
    "StreamPicture",
    "Trace",
    "WaitLatency",
    "Window",
    "cache_policies",
    "check",
    "devices",
    "miss_counts",
    "policies",
    "replay",
    "run",
    "scenario_text",
    "scenarios",
    "to_arrow",
    "to_pandas",
    "trace_formats",
]


def policies() -> list[str]:
    """Return the names of the read-ahead policies: the library's, and those of the literature."""
    return _names("policies")


def devices() -> list[str]:
    """Return the names of the device models."""
    return _names("devices")


def scenarios() -> list[str]:
    """Return the names of the built-in scenarios: those of `foreread-lab sim rivals`."""
    return _names("scenarios")


def cache_policies() -> list[str]:
    """Return the names of the eviction policies of `replay` and `miss_counts`."""
    return _names("cache_policies")


def trace_formats() -> list[str]:
    """Return the names of the trace formats."""
    return _names("trace_formats")


def _names(kind: str) -> list[str]:
    return _foreread.sim_names()[kind]


def scenario_text(name: str) -> str:
    """Return the TOML text of a built-in scenario."""
    text = _foreread.sim_scenario(name)
    if text is None:
        raise ValueError(f"no scenario {name!r}; choose one of {', '.join(scenarios())}")
    return text


def run(
    scenario: Scenario,
    *,
    policy: str | Policy | type[Policy] | None = None,
    memory: int | str | None = None,
    max_window: int | str | None = None,
    device: str | Mapping[str, str] | None = None,
    seed: int | None = None,
    until_s: float | None = None,
    events: bool = False,
) -> SimResult:
    """Run a scenario in virtual time.

    All arguments after `scenario`, except `events`, override its settings.

    Parameters
    ----------
    scenario : mapping, str or os.PathLike
        A dictionary, TOML text, the path of a TOML file, or the name of a built-in scenario
        (`scenarios()`).
    policy : str or Policy
        A read-ahead policy by name, or one written in Python.
    memory : int or str
        Memory bound.
    max_window : int or str
        Largest window: a size, or `"auto"`.
    device : str or mapping
        Name of a device model, or a dictionary with names for some of the devices. A device is
        enlarged to fit its files.
    seed : int
        Seed of the run.
    until_s : float
        Stop time, in seconds.
    events : bool
        Whether to keep each event as a line of the result.

    Raises
    ------
    ValueError
        If the scenario is invalid; the text names the line. Exceptions of a policy are passed on.
    """
    changes = _changes(policy, memory, max_window, device, seed, until_s)
    text, place = read_scenario(scenario)
    with with_place(text, place):
        raw = _foreread.sim_run(text, changes, events)
    return SimResult.of_raw(raw, has_lines=events)


def check(
    scenario: Scenario,
    *,
    policy: str | Policy | type[Policy] | None = None,
    memory: int | str | None = None,
    max_window: int | str | None = None,
    device: str | Mapping[str, str] | None = None,
    seed: int | None = None,
    until_s: float | None = None,
) -> None:
    """Raise the ValueError that `run` would raise before the run begins."""
    changes = _changes(policy, memory, max_window, device, seed, until_s)
    text, place = read_scenario(scenario)
    with with_place(text, place):
        _foreread.sim_check(text, changes)


class Trace:
    """An I/O trace, scanned once for its files; replays reuse the result."""

    def __init__(self, path: str | os.PathLike[str], format: str | None = None) -> None:
        self.path = os.fsdecode(path)
        if not stat.S_ISREG(os.stat(self.path).st_mode):
            raise ValueError(f"{self.path}: is not a regular file; a replay reads it several times")
        self._raw = _foreread.RawTrace(self.path, format)
        about = self._raw.about()
        self.format: str = about["format"]
        self.level: str = about["level"]
        self.reads: int = about["reads"]
        self.read_bytes: int = about["read_bytes"]
        self.writes: int = about["writes"]
        self.seconds: float = about["seconds"]
        self.files: int = about["files"]
        self.threads: int = about["threads"]

    def __repr__(self) -> str:
        return f"<foreread.sim.Trace {self.path}: {self.reads} reads, {self.level} level>"


def replay(
    trace: str | os.PathLike[str] | Trace,
    *,
    policy: str | Policy | type[Policy] = "adaptive",
    memory: int | str = "256MiB",
    max_window: int | str | None = None,
    device: str = "cloud-gp3",
    loop: str | None = None,
    scale: float = 1.0,
    warm: bool = False,
    per: str | None = None,
    eviction: str = "two-lists",
    bounds: bool = False,
    picture: bool = False,
    format: str | None = None,
) -> ReplayResult:
    """Replay the reads of a trace in virtual time, and measure their waits.

    The arguments and defaults are those of `foreread-lab replay`.

    Parameters
    ----------
    trace : str, os.PathLike or Trace
        The trace.
    policy : str or Policy
        A read-ahead policy by name, or one written in Python.
    memory : int or str
        Memory bound.
    max_window : int, str or None
        Largest window. None: learnt for `adaptive`, the bytes that the device transfers during a
        seek for `competitive`, and 128 KiB for the others.
    device : str
        Name of a device model.
    loop : str or None
        `"open"` or `"closed"`. None: open for block traces, closed for others.
    scale : float
        Factor on the times of the trace.
    warm : bool
        Whether to play the trace once before measuring.
    per : str or None
        `"file"` or `"thread"`: also measure each of them.
    eviction : str
        An eviction policy, one of `cache_policies()`.
    bounds : bool
        Whether to compute the lower bounds for any policy, in two more passes over the trace.
    picture : bool
        Whether to record the data for the charts over time of `foreread.plot`.
    format : str or None
        Format of the trace, one of `trace_formats()`. None: detected.
    """
    raw = _trace(trace, format)._raw
    changes = _changes(policy, memory, max_window, device, None, None)
    options = {
        "pace": loop,
        "scale": scale,
        "is_warmed": warm,
        "per": per,
        "has_picture": picture,
        "eviction": eviction,
        "has_bounds": bounds,
    }
    return ReplayResult.of_raw(raw.replay(changes, options))


def miss_counts(
    trace: str | os.PathLike[str] | Trace,
    policies: str | Sequence[str] = ("lru",),
    *,
    memory: int | str | Sequence[int | str] = ("64MiB", "256MiB", "1GiB"),
    objects: Sequence[int] = (),
    bounds: bool = False,
    format: str | None = None,
) -> list[MissCount]:
    """Count the misses of eviction policies in one pass, without a device or read-ahead.

    Each size of `memory` holds one page per 4 KiB. `objects` are capacities in objects, where each
    request is one use of one object. With `bounds` each row includes the fewest possible misses, by
    Belady's MIN.
    """
    sizes = [memory] if isinstance(memory, (int, str)) else memory
    capacities = list(objects) or [parse_size(size) // 4096 for size in sizes]
    names = [policies] if isinstance(policies, str) else list(policies)
    raw = _trace(trace, format)._raw
    counts = raw.miss_counts(names, capacities, bool(objects), bounds)
    return [MissCount(**count) for count in counts]


def _trace(trace: str | os.PathLike[str] | Trace, format: str | None) -> Trace:
    return trace if isinstance(trace, Trace) else Trace(trace, format)


def _changes(
    policy: str | Policy | type[Policy] | None,
    memory: int | str | None,
    max_window: int | str | None,
    device: str | Mapping[str, str] | None,
    seed: int | None,
    until_s: float | None,
) -> dict[str, Any]:
    """Return the changes to a scenario, without those that are None."""
    changes: dict[str, Any] = {
        "policy": policy_change(policy),
        "memory": _size("memory", memory),
        "max_window": "auto" if max_window == "auto" else _size("max_window", max_window),
        "device": dict(device) if isinstance(device, Mapping) else device,
        "seed": seed,
        "until_s": until_s,
    }
    if seed is not None and not 0 <= seed < 1 << 64:
        raise ValueError(f"seed: {seed} is not between 0 and 2**64")
    return {name: value for name, value in changes.items() if value is not None}


def _size(name: str, size: int | str | None) -> int | None:
    if size is None:
        return None
    try:
        number = parse_size(size)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if not 0 <= number < 1 << 63:
        raise ValueError(f"{name}: {number} bytes is not a valid size")
    return number
