"""What runs and replays return.

`to_dict()` has the keys and the values of the command line's `--json`. What only Python gets, such
as distributions, is left out there.
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
"""Times in ns, three digits exact, each with its count."""


def _beside(**more: Any) -> Any:
    """A field that is not in the JSON."""
    return field(metadata={"beside": True}, repr=False, **more)


def _as_json(value: Any) -> Any:
    """Returns a result as plain values."""
    if dataclasses.is_dataclass(value):
        pairs = {
            item.name: _as_json(getattr(value, item.name))
            for item in dataclasses.fields(value)
            if not item.metadata.get("beside")
        }
        # As the command line: only a store has this key.
        return {key: part for key, part in pairs.items() if (key, part) != ("store", None)}
    if is_list(value):
        return [_as_json(item) for item in value]
    return dict(value) if is_table(value) else value


class Result:
    """What can be done with every result."""

    def to_dict(self) -> dict[str, Any]:
        """Returns the object that `--json` prints."""
        pairs: dict[str, Any] = _as_json(self)
        return pairs

    def rows(self) -> list[dict[str, Any]]:
        """Returns the rows of a table: flat, with the keys of nested values behind theirs."""
        return [_flat(self.to_dict())]

    def to_pandas(self) -> pandas.DataFrame:
        """Returns the rows as a DataFrame of pandas."""
        return _tables.to_pandas(self)

    # pyarrow has no types.
    def to_arrow(self) -> pyarrow.Table:  # pyright: ignore
        """Returns the rows as a Table of pyarrow."""
        return _tables.to_arrow(self)  # pyright: ignore


def _flat(pairs: Mapping[str, Any]) -> dict[str, Any]:
    """Joins the keys of nested dictionaries; lists are left out."""
    row: dict[str, Any] = {}
    for key, value in pairs.items():
        if is_table(value):
            row |= {f"{key}_{inner}": part for inner, part in _flat(value).items()}
        elif not isinstance(value, list):
            row[key] = value
    return row


@dataclass(frozen=True)
class Latency:
    """How long operations took, in ms; quantiles are to three digits."""

    mean: float
    p50: float
    p99: float
    p999: float
    max: float


@dataclass(frozen=True)
class ProcessResult:
    """What one process did."""

    name: str
    ops: int
    bytes: int
    seconds: float
    mb_per_s: float
    latency_ms: Latency
    waits: int
    """Operations that took time: all but hits."""
    wait_ms: Latency
    """How long they took."""
    other: dict[str, float]
    """What only its own kind of workload measures."""
    waited_s: float = _beside()
    """How long it waited for reads through the cache."""
    histogram: Histogram = _beside()
    """How long its operations took."""


@dataclass(frozen=True)
class StoreResult:
    """What an object store was asked over the network."""

    requests: int
    hedged: int
    throttled: int
    cost: float


@dataclass(frozen=True)
class DeviceResult:
    """What one device did."""

    name: str
    reads: int
    read_bytes: int
    writes: int
    write_bytes: int
    busy_seconds: float
    store: StoreResult | None = None


@dataclass(frozen=True)
class CacheResult:
    """What the cache did, in pages."""

    pages_wanted: int
    pages_missed: int
    pages_joined: int
    pages_ahead: int
    evicted: int
    evicted_before_use: int


@dataclass(frozen=True)
class SimResult(Result):
    """A run of a scenario."""

    name: str
    seed: int
    policy: str
    max_window: int | None
    """The largest window, in bytes; None: learnt."""
    seconds: float
    events: int
    hash: str
    """Of all events: runs with the same hash did the same."""
    unfinished: int
    """Processes that had not ended: without `until_s`, they wait for what never comes."""
    waits: int
    """Operations of all processes that took time: all but hits."""
    wait_ms: Latency
    """How long they took."""
    processes: list[ProcessResult]
    devices: list[DeviceResult]
    cache: CacheResult
    memory: int = _beside()
    """The bound of the cache, in bytes."""
    latency_ms: Latency = _beside()
    """Of the operations of all processes."""
    lines: list[str] | None = _beside()
    """Each event, if the run was asked to keep them: as `foreread sim --trace` writes them."""

    @classmethod
    def of_raw(cls, raw: dict[str, Any], *, has_lines: bool) -> SimResult:
        """Makes a result of what the extension module returns."""
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
        """What all processes read or wrote."""
        return sum(process.bytes for process in self.processes)

    @property
    def mb_per_s(self) -> float:
        """How fast all processes together were, in MB/s."""
        return sum(process.mb_per_s for process in self.processes)

    @property
    def waited_s(self) -> float:
        """The sum of all waits for reads through the cache."""
        return sum(process.waited_s for process in self.processes)

    @property
    def requests(self) -> int:
        """What all devices were sent."""
        return sum(device.reads + device.writes for device in self.devices)

    def rows(self) -> list[dict[str, Any]]:
        """Returns a row for each process."""
        run = {"scenario": self.name, "seed": self.seed, "policy": self.policy}
        run |= {"memory": self.memory, "max_window": self.max_window}
        return [
            {**run, **_flat(_as_json(process)), "waited_s": process.waited_s}
            for process in self.processes
        ]


@dataclass(frozen=True)
class WaitLatency:
    """How long the reads that waited took, in ms; quantiles are to three digits."""

    p50: float
    p99: float
    p999: float
    max: float


@dataclass(frozen=True)
class GroupResult:
    """The figures of one file or one thread."""

    name: str
    reads: int
    bytes: int
    waits: int
    waited_s: float


@dataclass(frozen=True)
class StreamPicture:
    """What one stream had over time."""

    thread: int
    file: str
    pages: int
    """The pages that its decisions requested."""
    points: list[tuple[int, int, int]]
    """For each column with a decision: its number, the largest window, the most ahead, in bytes."""


@dataclass(frozen=True)
class Picture:
    """A replay over time, in bounded memory."""

    column_s: float
    """The width of a column."""
    row_bytes: int
    """The height of a row."""
    cells: list[tuple[int, int, str]]
    """Column, row, and `hit`, `prefetched`, `wasted` or `waited`."""
    counts: dict[str, int]
    """Reads of each kind; of `wasted` pages."""
    streams: list[StreamPicture]
    """Those that requested most, the largest first."""

    @classmethod
    def of_raw(cls, raw: dict[str, Any]) -> Picture:
        """Makes a picture of what the extension module returns."""
        streams = [StreamPicture(**stream) for stream in raw["streams"]]
        fields: dict[str, Any] = raw | {"streams": streams}
        return cls(**fields)


@dataclass(frozen=True)
class ReplayResult(Result):
    """A replay of a trace: docs/replay.md says how to read the figures."""

    trace: str
    level: str
    device: str
    """The name of the model."""
    policy: str
    eviction: str
    max_window: int | None
    """In bytes; None: learnt."""
    memory: int
    loop: str
    scale: float
    warm: bool
    """Whether the trace was played once before it counted."""
    seed: int
    """Seed of the random latencies of a device."""
    reads: int
    bytes: int
    waits: int
    waited_s: float
    least_waited_s: float | None
    """The least that its reads could have waited, with `bounds`."""
    wait_ms: WaitLatency
    requests: int
    fewest_requests: int | None
    """With `bounds`, where the device's largest request is smaller than the memory."""
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
    """How long the reads that waited took."""
    picture: Picture | None = _beside()
    """On request."""

    @classmethod
    def of_raw(cls, raw: dict[str, Any]) -> ReplayResult:
        """Makes a result of what the extension module returns."""
        report = dict(raw["report"])
        report["wait_ms"] = WaitLatency(**report["wait_ms"])
        report["groups"] = [GroupResult(**group) for group in report["groups"]]
        picture = None if raw["picture"] is None else Picture.of_raw(raw["picture"])
        return cls(**report, histogram=raw["histogram"], picture=picture)

    @property
    def mb_per_s(self) -> float:
        """How fast the reads were, in MB/s of virtual time."""
        return self.bytes / max(self.elapsed_s, 1e-9) / 1e6


@dataclass(frozen=True)
class MissCount(Result):
    """The misses of one eviction policy with one capacity."""

    trace: str
    policy: str
    capacity: int
    unit: str
    """`page` of 4 KiB, or `object`."""
    uses: int
    misses: int
    miss_ratio: float
    fewest_misses: int | None
    """Those of Belady's MIN, with `bounds`."""
