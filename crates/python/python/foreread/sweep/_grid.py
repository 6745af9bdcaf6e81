"""Grids: the combinations to run, as a TOML file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from foreread import sim
from foreread._engine import parse_size
from foreread._narrowing import is_list, is_table
from foreread.sweep._errors import GridError

_KEYS = (
    "scenario",
    "trace",
    "policy",
    "memory",
    "max_window",
    "device",
    "seed",
    "until_s",
    "replay",
)
_REPLAY_KEYS = ("loop", "scale", "warm", "format")

MAX_TASKS = 10_000_000
"""More would exceed the memory of the process that collects the rows."""


@dataclass(frozen=True)
class ReplaySettings:
    """Settings of replays, as for `foreread.sim.replay`."""

    loop: str | None = None
    scale: float = 1.0
    warm: bool = False
    format: str | None = None


@dataclass(frozen=True)
class Grid:
    """A validated grid. An empty list keeps the scenario's value, or the default."""

    scenarios: tuple[str, ...]
    traces: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    memory: tuple[int, ...] = ()
    windows: tuple[int | str, ...] = ()
    """Sizes in bytes, or "auto"."""
    devices: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    until_s: float | None = None
    replay: ReplaySettings = field(default_factory=ReplaySettings)
    folder: str = "."
    """Base folder of relative paths."""
    place: str = "grid"
    """Prefix of error messages."""


def read_grid(path: str | os.PathLike[str]) -> Grid:
    """Read a grid from a TOML file; paths in it are relative to its folder."""
    name = os.fsdecode(path)
    with open(name, encoding="utf-8") as file:
        try:
            text = file.read()
        except UnicodeDecodeError:
            raise GridError(f"{name}: is no TOML: it is not UTF-8") from None
    return parse_grid(text, folder=os.path.dirname(name) or ".", place=name)


def parse_grid(
    grid: str | Mapping[str, Any], *, folder: str = ".", place: str = "grid"
) -> Grid:
    """Parse a grid from TOML text, or from a dictionary with the same keys."""
    values = _parsed(grid, place) if isinstance(grid, str) else dict(grid)
    reader = _GridReader(values, place)
    reader.only(_KEYS, values, "")
    scenarios = reader.names("scenario")
    traces = reader.names("trace")
    if not scenarios and not traces:
        reader.wrong("scenario", "a grid has a scenario or a trace: a path, or a list of them")
    made = Grid(
        scenarios=scenarios,
        traces=traces,
        policies=reader.known("policy", sim.policies()),
        memory=reader.each("memory", _memory),
        windows=reader.each("max_window", _window),
        devices=reader.known("device", sim.devices()),
        seeds=reader.seeds(),
        until_s=reader.until_s(),
        replay=reader.replay(),
        folder=folder,
        place=place,
    )
    count = made_tasks(made)
    if count > MAX_TASKS:
        reader.wrong("seed", f"the grid has {count} tasks: at most {MAX_TASKS} are run at once")
    return made


def made_tasks(grid: Grid) -> int:
    """Return the number of combinations."""
    each = 1
    for values in (grid.policies, grid.memory, grid.windows, grid.devices):
        each *= max(len(values), 1)
    return each * (len(grid.scenarios) * max(len(grid.seeds), 1) + len(grid.traces))


def _parsed(text: str, place: str) -> dict[str, Any]:
    try:
        import tomllib
    except ImportError:
        raise GridError(f"{place}: a grid as TOML needs Python 3.11 or later") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise GridError(f"{place}: {error}") from None


class _GridReader:
    """Extracts values from a grid; errors name the key."""

    def __init__(self, values: dict[str, Any], place: str) -> None:
        self.values = values
        self.place = place

    def wrong(self, key: str, why: object) -> NoReturn:
        raise GridError(f"{self.place}: {key}: {why}")

    def only(self, known: tuple[str, ...], values: Mapping[str, Any], table: str) -> None:
        for key in values:
            if key not in known:
                self.wrong(f"{table}{key}", f"no such key; the keys are {', '.join(known)}")

    def list_of(self, key: str) -> list[Any]:
        value = self.values.get(key, [])
        values = value if is_list(value) else [value]
        if key in self.values and not values:
            self.wrong(key, "an empty list leaves nothing to run; leave the key out")
        return values

    def each(self, key: str, of: Callable[[Any], Any]) -> tuple[Any, ...]:
        """Return the values of a list, each parsed by `of`; duplicates are errors."""
        values: list[Any] = []
        for value in self.list_of(key):
            try:
                read = of(value)
            except (TypeError, ValueError) as error:
                self.wrong(key, error)
            if read in values:
                self.wrong(key, f"{value!r} is there twice: each row would be, too")
            values.append(read)
        return tuple(values)

    def names(self, key: str) -> tuple[str, ...]:
        return self.each(key, _text)

    def known(self, key: str, names: list[str]) -> tuple[str, ...]:
        def named(value: Any) -> str:
            name = _text(value)
            if name not in names:
                raise ValueError(f"no {key} {name!r}; choose one of {', '.join(names)}")
            return name

        return self.each(key, named)

    def seeds(self) -> tuple[int, ...]:
        value = self.values.get("seed")
        if not is_table(value):
            return self.each("seed", _seed)
        self.only(("from", "count"), value, "seed.")
        try:
            first, count = _seed(value.get("from", 1)), _whole(value.get("count"), "count")
            _seed(first + count)
        except ValueError as error:
            self.wrong("seed", error)
        if not 1 <= count <= MAX_TASKS:
            self.wrong("seed", f"count: {count} is not between 1 and {MAX_TASKS}")
        return tuple(range(first, first + count))

    def until_s(self) -> float | None:
        value = self.values.get("until_s")
        if value is None:
            return None
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= 946_080_000:
            self.wrong("until_s", f"{value!r} is not a time: give seconds, up to thirty years")
        return float(value)

    def replay(self) -> ReplaySettings:
        values = self.values.get("replay", {})
        if not is_table(values):
            self.wrong("replay", "must be a table")
        self.only(_REPLAY_KEYS, values, "replay.")
        settings = ReplaySettings(**values)
        checks = {
            "loop": settings.loop in (None, "open", "closed"),
            "scale": isinstance(settings.scale, (int, float)) and 0 <= settings.scale <= 1e6,
            "warm": isinstance(settings.warm, bool),
            "format": settings.format is None or settings.format in sim.trace_formats(),
        }
        wants = {
            "loop": "open or closed",
            "scale": "a factor of 0 to 1000000",
            "warm": "true or false",
            "format": f"one of {', '.join(sim.trace_formats())}",
        }
        for key, is_right in checks.items():
            if not is_right:
                self.wrong(f"replay.{key}", f"{values[key]!r}: must be {wants[key]}")
        return settings


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is not a string")
    return value


def _whole(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name}: {value!r} is not a whole number")
    return value


def _seed(value: Any) -> int:
    seed = _whole(value, "a seed")
    if not 0 <= seed < 1 << 64:
        raise ValueError(f"a seed: {seed} is not between 0 and 2**64")
    return seed


def _size(value: Any) -> int:
    if isinstance(value, str) and re.fullmatch(r"\d+s", value):
        return int(value[:-1]) * 512
    if not isinstance(value, (int, str)) or isinstance(value, bool):
        raise ValueError(f"{value!r} is not a size: give bytes, or a text such as 64M")
    size = parse_size(value)
    if not 0 <= size < 1 << 63:
        raise ValueError(f"{value!r} is not a size")
    return size


def _window(value: Any) -> int | str:
    return "auto" if value == "auto" else _size(value)


def _memory(value: Any) -> int:
    size = _size(value)
    if not 1 << 20 <= size <= 64 << 30:
        raise ValueError(f"{value!r}: must be 1M to 64G")
    return size
