"""The summary of a sweep: one line per combination, over its seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from foreread.sweep._tasks import Row

_KEYS = ("input", "device", "memory", "max_window", "policy")
_FIGURES = ("mb_per_s", "waited_s", "requests", "amplification")


def summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return one object per combination: its number of runs, and statistics of each figure.

    The statistics are the mean, the minimum and the maximum.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in _KEYS), []).append(row)
    # List policies next to each other, for comparison.
    ordered = sorted(groups, key=lambda key: [(part is None, part) for part in key])
    return [
        dict(zip(_KEYS, key, strict=True))
        | {"runs": len(groups[key])}
        | {figure: _spread([row[figure] for row in groups[key]]) for figure in _FIGURES}
        for key in ordered
    ]


def _spread(values: list[float]) -> dict[str, float]:
    return {
        "mean": math.fsum(values) / len(values),
        "min": float(min(values)),
        "max": float(max(values)),
    }


def table(groups: Sequence[dict[str, Any]]) -> str:
    """Format the summary as a text table."""
    heading = ["input", "device", "memory", "window", "policy", "runs", "MB/s", "least", "most",
               "waited s", "requests", "x bytes"]  # fmt: skip
    lines = [heading] + [_cells(group) for group in groups]
    # Omit columns with the same value in every line, such as an unset device.
    shown = [at for at in range(len(heading)) if at != 1 or any(row[1] for row in lines[1:])]
    widths = [max(len(line[at]) for line in lines) for at in range(len(heading))]
    text: list[str] = []
    for line in lines:
        cells = [
            line[at].ljust(widths[at]) if at in _LEFT else line[at].rjust(widths[at])
            for at in shown
        ]
        text.append("  ".join(cells).rstrip())
    return "\n".join(text)


_LEFT = (0, 1, 4)


def _cells(group: dict[str, Any]) -> list[str]:
    rate = group["mb_per_s"]
    return [
        group["input"],
        group["device"] or "",
        size_text(group["memory"]),
        "auto" if group["max_window"] is None else size_text(group["max_window"]),
        group["policy"],
        str(group["runs"]),
        f"{rate['mean']:.2f}",
        f"{rate['min']:.2f}",
        f"{rate['max']:.2f}",
        f"{group['waited_s']['mean']:.3f}",
        f"{group['requests']['mean']:.0f}",
        f"{group['amplification']['mean']:.3f}",
    ]


def size_text(size: int) -> str:
    """Format a size like the command line: 64M."""
    for power, unit in ((40, "T"), (30, "G"), (20, "M"), (10, "K")):
        if size and size % (1 << power) == 0:
            return f"{size >> power}{unit}"
    return str(size)
