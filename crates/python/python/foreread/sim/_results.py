"""Results of runs and replays.

`to_dict()` has the same keys and values as the command line's `--json`. It omits data that is
available only in Python, such as distributions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from foreread._narrowing import is_list, is_table
from foreread.sim import _tables

if TYPE_CHECKING:
    import pandas
    import pyarrow

Histogram: TypeAlias = "list[tuple[int, int]]"
"""Times in ns, exact to three digits, each with its count."""


def _beside(**more: Any) -> Any:
    """Declare a field that is not in the JSON."""
    return field(metadata={"beside": True}, repr=False, **more)


def _as_json(value: Any) -> Any:
    """Convert a result to plain values."""
    if dataclasses.is_dataclass(value):
        pairs = {
            item.name: _as_json(getattr(value, item.name))
            for item in dataclasses.fields(value)
            if not item.metadata.get("beside")
        }
        # Like the command line: only a store has this key.
        return {key: part for key, part in pairs.items() if (key, part) != ("store", None)}
    if is_list(value):
        return [_as_json(item) for item in value]
    return dict(value) if is_table(value) else value


class Result:
    """Operations common to all results."""

    def to_dict(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        pairs: dict[str, Any] = _as_json(self)
        return pairs

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of a table. Keys of nested values are appended to those of their parents.
        """
        return [_flat(self.to_dict())]

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a pandas DataFrame."""
        return _tables.to_pandas(self)

    # pyarrow has no types.
    def to_arrow(self) -> pyarrow.Table:  # pyright: ignore
        """Return the rows as a pyarrow Table."""
        return _tables.to_arrow(self)  # pyright: ignore


def _flat(pairs: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten nested dictionaries by joining their keys; omit lists."""
    row: dict[str, Any] = {}
    for key, value in pairs.items():
        if is_table(value):
            row |= {f"{key}_{inner}": part for inner, part in _flat(value).items()}
        elif not isinstance(value, list):
            row[key] = value
    return row


@dataclass(frozen=True)
class Latency:
    """Latency of operations, in ms; quantiles have three digits."""

    mean: float
    p50: float
    p99: float
    p999: float
    max: float


@dataclass(frozen=True)
class ProcessResult:
    """Figures of one process."""

    name: str
    ops: int
    bytes: int
    seconds: float
    mb_per_s: float
    latency_ms: Latency
    waits: int
    """Number of operations that took time: all except hits."""
    wait_ms: Latency
    """Distribution of their times."""
    other: dict[str, float]
    """Figures specific to the workload."""
    waited_s: float = _beside()
    """Time spent waiting for reads through the cache."""
    histogram: Histogram = _beside()
    """Latency of its operations."""


@dataclass(frozen=True)
class StoreResult:
    """Requests to an object store."""

    requests: int
    hedged: int
    throttled: int
    cost: float


@dataclass(frozen=True)
class DeviceResult:
    """Figures of one device."""

    name: str
    reads: int
    read_bytes: int
    writes: int
    write_bytes: int
    busy_seconds: float
    store: StoreResult | None = None


@dataclass(frozen=True)
class CacheResult:
    """Figures of the cache, in pages."""

    pages_wanted: int
    pages_missed: int
    pages_joined: int
    pages_ahead: int
    evicted: int
    evicted_before_use: int


@dataclass(frozen=True)
class SimResult(Result):
    """Figures of a run of a scenario."""

    name: str
    seed: int
    policy: str
    max_window: int | None
    """Largest window, in bytes; None: learnt."""
    seconds: float
    events: int
    hash: str
    """Hash of all events: runs with the same hash had the same events."""
    unfinished: int
    """Number of unfinished processes: without `until_s`, they wait forever."""
    waits: int
    """Number of operations of all processes that took time: all except hits."""
    wait_ms: Latency
    """Distribution of their times."""
    processes: list[ProcessResult]
    devices: list[DeviceResult]
    cache: CacheResult
    memory: int = _beside()
    """Memory bound of the cache, in bytes."""
    latency_ms: Latency = _beside()
    """Latency of the operations of all processes."""
    lines: list[str] | None = _beside()
    """One line per event, if the run kept them, in the format of `foreread-lab sim --trace`."""

    @classmethod
    def of_raw(cls, raw: dict[str, Any], *, has_lines: bool) -> SimResult:
        """Create a result from the extension module's output."""
        report = dict(raw["report"])
        kept = zip(report["processes"], raw["waited_s"], raw["histograms"], strict=True)
        report["processes"] = [
            ProcessResult(
                **process
                | {key: Latency(**process[key]) for key in ("latency_ms", "wait_ms")},
                waited_s=waited_s,
                histogram=histogram,
            )
            for process, waited_s, histogram in kept
        ]
        report["devices"] = [
            DeviceResult(
                **device | {"store": StoreResult(**device["store"]) if "store" in device else None}
            )
            for device in report["devices"]
        ]
        report["cache"] = CacheResult(**report["cache"])
        report["wait_ms"] = Latency(**report["wait_ms"])
        return cls(
            **report,
            memory=raw["memory"],
            latency_ms=Latency(**raw["latency_ms"]),
            lines=raw["lines"] if has_lines else None,
        )

    @property
    def bytes(self) -> int:
        """Bytes read or written by all processes."""
        return sum(process.bytes for process in self.processes)

    @property
    def mb_per_s(self) -> float:
        """Combined throughput of all processes, in MB/s."""
        return sum(process.mb_per_s for process in self.processes)

    @property
    def waited_s(self) -> float:
        """Total wait for reads through the cache."""
        return sum(process.waited_s for process in self.processes)

    @property
    def requests(self) -> int:
        """Requests sent to all devices."""
        return sum(device.reads + device.writes for device in self.devices)

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per process."""
        run = {"scenario": self.name, "seed": self.seed, "policy": self.policy}
        run |= {"memory": self.memory, "max_window": self.max_window}
        return [
            {**run, **_flat(_as_json(process)), "waited_s": process.waited_s}
            for process in self.processes
        ]


@dataclass(frozen=True)
class WaitLatency:
    """Latency of the reads that waited, in ms; quantiles have three digits."""

    p50: float
    p99: float
    p999: float
    max: float


@dataclass(frozen=True)
class GroupResult:
    """Figures of one file or thread."""

    name: str
    reads: int
    bytes: int
    waits: int
    waited_s: float


@dataclass(frozen=True)
class StreamPicture:
    """Requests of one stream over time."""

    thread: int
    file: str
    pages: int
    """Pages requested by its decisions."""
    points: list[tuple[int, int, int]]
    """For each column with a decision: its index, the largest window and the most bytes ahead."""


@dataclass(frozen=True)
class Picture:
    """A picture of a replay over time, of bounded size."""

    column_s: float
    """Width of a column."""
    row_bytes: int
    """Height of a row."""
    cells: list[tuple[int, int, str]]
    """Column, row, and `hit`, `prefetched`, `wasted` or `waited`."""
    counts: dict[str, int]
    """Number of reads by kind; for `wasted`, of pages."""
    streams: list[StreamPicture]
    """Streams that requested most, largest first."""

    @classmethod
    def of_raw(cls, raw: dict[str, Any]) -> Picture:
        """Create a picture from the extension module's output."""
        streams = [StreamPicture(**stream) for stream in raw["streams"]]
        fields: dict[str, Any] = raw | {"streams": streams}
        return cls(**fields)


@dataclass(frozen=True)
class ReplayResult(Result):
    """Figures of a replay of a trace; docs/lab/replay.md explains them."""

    trace: str
    level: str
    device: str
    """Name of the device model."""
    policy: str
    eviction: str
    max_window: int | None
    """Largest window, in bytes; None: learnt."""
    memory: int
    loop: str
    scale: float
    warm: bool
    """Whether the trace was played once before measuring."""
    seed: int
    """Seed of a device's random latencies."""
    reads: int
    bytes: int
    waits: int
    waited_s: float
    least_waited_s: float | None
    """Lower bound of the total wait, with `bounds`."""
    wait_ms: WaitLatency
    requests: int
    fewest_requests: int | None
    """With `bounds`, if the device's largest request is smaller than the memory."""
    device_bytes: int
    fewest_bytes: int | None
    device_s: float
    amplification: float
    evicted_unread: int
    elapsed_s: float
    late: int
    failed: int
    writes: int
    groups: list[GroupResult]
    histogram: Histogram = _beside()
    """Latency of the reads that waited."""
    picture: Picture | None = _beside()
    """Picture, on request."""

    @classmethod
    def of_raw(cls, raw: dict[str, Any]) -> ReplayResult:
        """Create a result from the extension module's output."""
        report = dict(raw["report"])
        report["wait_ms"] = WaitLatency(**report["wait_ms"])
        report["groups"] = [GroupResult(**group) for group in report["groups"]]
        picture = None if raw["picture"] is None else Picture.of_raw(raw["picture"])
        return cls(**report, histogram=raw["histogram"], picture=picture)

    @property
    def mb_per_s(self) -> float:
        """Throughput of the reads, in MB/s of virtual time."""
        return self.bytes / max(self.elapsed_s, 1e-9) / 1e6


@dataclass(frozen=True)
class MissCount(Result):
    """Misses of one eviction policy at one capacity."""

    trace: str
    policy: str
    capacity: int
    unit: str
    """`page` of 4 KiB, or `object`."""
    uses: int
    misses: int
    miss_ratio: float
    fewest_misses: int | None
    """Misses of Belady's MIN, with `bounds`."""
