"""Sweeps: all combinations of scenarios, policies, memory, windows, devices and seeds.

    from foreread import sweep

    grid = sweep.read_grid("grid.toml")
    rows = sweep.run(grid, "out.parquet", processes=8)

`python -m foreread.sweep grid.toml -o out.parquet` does the same. Rows and file are identical bytes
on any number of workers and in any execution order. docs/lab/sweeps.md lists the keys of a grid.
"""

from foreread.sweep._errors import GridError, SweepError
from foreread.sweep._estimate import Estimate, estimate
from foreread.sweep._grid import Grid, ReplaySettings, parse_grid, read_grid
from foreread.sweep._run import run
from foreread.sweep._summary import summary
from foreread.sweep._tasks import SweepTask

__all__ = [
    "Estimate",
    "Grid",
    "GridError",
    "ReplaySettings",
    "SweepError",
    "SweepTask",
    "estimate",
    "parse_grid",
    "read_grid",
    "run",
    "summary",
]
