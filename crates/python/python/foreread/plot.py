"""Charts of the simulator's results, with matplotlib: those of `--html` pages, in a notebook.

    from foreread import plot, sim

    results = [sim.replay(trace, policy=name) for name in ("none", "linux-6", "adaptive")]
    plot.policies(results)
    plot.latencies(results)

Each function draws into `ax`, or into a new figure, and returns the Axes.
"""

# matplotlib's functions are only partly typed.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from foreread.sim._results import MissCount, Picture, ReplayResult, SimResult
from foreread.sim._tables import optional

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "latencies",
    "memory",
    "miss_ratios",
    "offsets",
    "policies",
    "throughput",
    "waits",
    "windows",
]

AnyResult: TypeAlias = "SimResult | ReplayResult"

# In drawing order, in colours that colour-blind readers can distinguish (Okabe, Ito).
_KINDS = {
    "hit": ("read again, cached", "#999999"),
    "prefetched": ("was read ahead in time", "#009e73"),
    "wasted": ("pages read ahead and evicted unused", "#e69f00"),
    "waited": ("waited", "#d55e00"),
}
_MIB = 1 << 20


def offsets(result: ReplayResult | Picture, ax: Axes | None = None) -> Axes:
    """Plot reads by time and offset, coloured by outcome, from a replay with `picture=True`.

    Files are stacked by offset. A cell counts as waited if a tenth of its reads waited.
    """
    picture, label = _picture(result)
    ax = _axes(ax)
    width, height = picture.column_s, picture.row_bytes / _MIB
    patches = optional("matplotlib.patches", "plot")
    collections = optional("matplotlib.collections", "plot")
    handles: list[Any] = []
    for kind, (name, colour) in _KINDS.items():
        cells = [(column, row) for column, row, of in picture.cells if of == kind]
        boxes = [
            patches.Rectangle((column * width, row * height), width, height)
            for column, row in cells
        ]
        ax.add_collection(collections.PatchCollection(boxes, facecolor=colour, edgecolor="none"))
        text = f"{name}: {picture.counts[kind]}"
        handles.append(patches.Patch(facecolor=colour, label=text))
    ax.autoscale_view()
    ax.set(xlabel="time, s", ylabel="offset, MiB", title=f"Where and when{label}")
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    ax.legend(handles=handles, fontsize="small")
    return ax


def windows(result: ReplayResult | Picture, streams: int = 5, ax: Axes | None = None) -> Axes:
    """Plot the windows of the largest streams over time, from a replay with `picture=True`."""
    return _streams(result, 1, streams, ax, "window, KiB", "Windows of the largest streams")


def memory(result: ReplayResult | Picture, streams: int = 5, ax: Axes | None = None) -> Axes:
    """Plot the bytes requested ahead for the largest streams: their memory, with `picture=True`."""
    title = "Memory of the largest streams"
    return _streams(result, 2, streams, ax, "ahead of the reader, KiB", title)


def latencies(results: AnyResult | Iterable[AnyResult], ax: Axes | None = None) -> Axes:
    """Plot the latency distribution: of reads that waited for replays, of all operations for runs.

    Shows the share of operations that took longer, with both axes logarithmic, because users notice
    the tail.
    """
    ax = _axes(ax)
    for result in _several(results):
        times, parts = _longer(_histogram(result))
        if times:
            ax.plot(times, parts, drawstyle="steps-post", label=_label(result))
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="time of an operation, ms",
        ylabel="part that took longer",
        title="Latency",
    )
    return _with_legend(ax)


def miss_ratios(counts: Iterable[MissCount], ax: Axes | None = None) -> Axes:
    """Plot the miss ratios of eviction policies over capacity."""
    ax = _axes(ax)
    lines: dict[str, list[tuple[float, float]]] = {}
    unit = "page"
    for count in counts:
        unit = count.unit
        lines.setdefault(count.policy, []).append((count.capacity, count.miss_ratio * 100))
    _draw(ax, lines)
    ax.set(xscale="log", xlabel=f"capacity, {unit}s", ylabel="uses that miss, %")
    ax.set(title="Miss ratio over capacity")
    ax.set_ylim(bottom=0)
    return _with_legend(ax)


def waits(results: Iterable[AnyResult], ax: Axes | None = None) -> Axes:
    """Plot the time that readers waited with each policy, over the memory bound."""
    ax = _axes(ax)
    lines: dict[str, list[tuple[float, float]]] = {}
    for result in results:
        lines.setdefault(_label(result), []).append((result.memory / _MIB, result.waited_s))
    _draw(ax, lines)
    ax.set(xscale="log", xlabel="memory, MiB", ylabel="waited, s", title="Waits over memory")
    ax.set_ylim(bottom=0)
    return _with_legend(ax)


def throughput(results: Iterable[AnyResult], ax: Axes | None = None) -> Axes:
    """Plot the throughput over the largest window, with a dashed line for learnt windows."""
    ax = _axes(ax)
    lines: dict[str, list[tuple[float, float]]] = {}
    for result in results:
        window = result.max_window
        if window is not None:
            lines.setdefault(result.policy, []).append((window / 1024, result.mb_per_s))
        else:
            ax.axhline(result.mb_per_s, linestyle="--", color="black", linewidth=1)
            text = f" {result.policy}, learnt"
            place = ("axes fraction", "data")
            ax.annotate(text, (1, result.mb_per_s), xycoords=place, ha="right", va="bottom")
    _draw(ax, lines)
    ax.set(xlabel="largest window, KiB", ylabel="MB/s", title="Throughput over window")
    ax.set_xscale("log", base=2)
    ax.set_ylim(bottom=0)
    return _with_legend(ax)


def policies(
    results: Iterable[AnyResult], value: str = "waited_s", ax: Axes | None = None
) -> Axes:
    """Plot policies side by side: `waited_s`, `mb_per_s`, `requests` or `waits`, one bar each."""
    ax = _axes(ax)
    several = _several(results)
    labels = [_label(result) for result in several]
    if len({result.memory for result in several}) > 1:
        labels = [f"{_label(result)}, {_size(result.memory)}" for result in several]
    values = [float(getattr(result, value)) for result in several]
    places = range(len(values))
    bars = ax.barh(places, values)
    ax.bar_label(bars, fmt="%.4g", padding=3)
    ax.set_yticks(places, labels)
    ax.invert_yaxis()
    ax.margins(x=0.15)
    names = {"waited_s": "waited, s", "mb_per_s": "MB/s", "requests": "requests of the devices"}
    ax.set(xlabel=names.get(value, value), title="Policies side by side")
    return ax


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    pyplot = optional("matplotlib.pyplot", "plot")
    made: Axes = pyplot.subplots(layout="constrained")[1]
    return made


def _with_legend(ax: Axes) -> Axes:
    if ax.get_legend_handles_labels()[0]:
        ax.legend(fontsize="small")
    return ax


def _draw(ax: Axes, lines: dict[str, list[tuple[float, float]]]) -> None:
    for label, points in lines.items():
        xs, ys = zip(*sorted(points), strict=True)
        ax.plot(xs, ys, marker="o", markersize=4, label=label)


def _several(results: AnyResult | Iterable[AnyResult]) -> Sequence[AnyResult]:
    return [results] if isinstance(results, (SimResult, ReplayResult)) else list(results)


def _label(result: AnyResult) -> str:
    """Return the policy, and its largest window if it was set."""
    if result.max_window is not None and result.policy != "none":
        return f"{result.policy} {_size(result.max_window)}"
    return result.policy


def _size(size: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (_MIB, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def _picture(result: ReplayResult | Picture) -> tuple[Picture, str]:
    if isinstance(result, Picture):
        return result, ""
    if result.picture is None:
        raise ValueError("the result has no picture: replay with picture=True")
    return result.picture, f": {_label(result)}, {_size(result.memory)}"


def _streams(
    result: ReplayResult | Picture,
    column: int,
    most: int,
    ax: Axes | None,
    ylabel: str,
    title: str,
) -> Axes:
    picture, label = _picture(result)
    ax = _axes(ax)
    for stream in picture.streams[:most]:
        times = [point[0] * picture.column_s for point in stream.points]
        name = f"{stream.file[-36:]} thread {stream.thread}, {_size(stream.pages * 4096)}"
        sizes = [point[column] / 1024 for point in stream.points]
        ax.plot(times, sizes, drawstyle="steps-post", label=name)
    ax.set(xlabel="time, s", ylabel=ylabel, title=f"{title}{label}")
    ax.set_ylim(bottom=0)
    return _with_legend(ax)


def _histogram(result: AnyResult) -> list[tuple[int, int]]:
    if isinstance(result, ReplayResult):
        return result.histogram
    sums: dict[int, int] = {}
    for process in result.processes:
        for time, count in process.histogram:
            sums[time] = sums.get(time, 0) + count
    return sorted(sums.items())


def _longer(histogram: list[tuple[int, int]]) -> tuple[list[float], list[float]]:
    """Return times in ms, and the share of operations that took longer; a time of 0 is a hit."""
    total = sum(count for _, count in histogram)
    left = total
    times: list[float] = []
    parts: list[Any] = []
    for time, count in histogram:
        left -= count
        if time > 0:
            times.append(time / 1e6)
            # Nothing is above the last one, and a logarithmic axis cannot show 0.
            parts.append(max(left, 0.5) / total)
    return times, parts
