"""The command `python -m foreread.sweep`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence

from foreread.sweep._errors import GridError, SweepError
from foreread.sweep._estimate import estimate
from foreread.sweep._grid import Grid, read_grid
from foreread.sweep._run import run
from foreread.sweep._summary import summary, table

_ABOUT = """\
Run every combination of a grid in the simulator: scenarios and traces, policies, memory sizes,
largest windows, devices, seeds. The grid is a TOML file (docs/lab/sweeps.md has its keys):

  scenario = ["streaming-fast", "mine.toml"]
  policy = ["none", "linux-6", "adaptive"]
  memory = ["64M", "256M"]
  seed = { from = 1, count = 10 }

The rows are the same bytes whatever runs the tasks, in whatever order. A worker or node that is
lost repeats its tasks alone. Finished tasks are kept in OUTPUT.journal until all are there.
"""

_EXAMPLES = """\
Examples:
  python -m foreread.sweep grid.toml --dry-run
  python -m foreread.sweep grid.toml -o out.parquet --processes 8
  python -m foreread.sweep grid.toml -o out.parquet --resume
  python -m foreread.sweep grid.toml -o out.parquet --ray 10.0.0.1:6379

Exit codes: 0 done; 1 a task or the output failed; 2 wrong use or a wrong grid; 130 interrupted.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = _parser()
    args = parser.parse_args(arguments)
    if args.processes is not None and args.processes < 1:
        parser.error(f"--processes: {args.processes} is not a number of processes; give 1 or more")
    if args.resume and args.output is None:
        parser.error("--resume: finished tasks are kept beside an output; give it with -o")
    try:
        grid = read_grid(args.grid)
        if args.dry_run:
            _print_estimate(grid, is_json=args.json)
            return 0
        progress = _progress()
        began = time.monotonic()
        rows = run(
            grid,
            args.output,
            processes=args.processes,
            ray=args.ray,
            resume=args.resume,
            progress=progress,
        )
        if progress is not None:
            print(f"\r{len(rows)} tasks, {time.monotonic() - began:.0f} s\x1b[K", file=sys.stderr)
    except (GridError, FileNotFoundError) as error:
        return _failed(error, 2)
    except (SweepError, ImportError, OSError) as error:
        return _failed(error, 1)
    except KeyboardInterrupt:
        hint = "; --resume goes on" if args.output else ""
        return _failed(f"interrupted{hint}", 130)
    groups = summary(rows)
    try:
        if args.json:
            _print_json(groups)
        else:
            print(table(groups))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe; keep the interpreter from flushing the rest at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m foreread.sweep",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("grid", help="the grid, a TOML file")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write a row for each task into FILE, as Parquet"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--processes",
        type=int,
        metavar="N",
        help="run tasks in N processes of this machine [default: one for each processor]",
    )
    where.add_argument(
        "--ray", metavar="ADDRESS", help="run tasks on the Ray cluster at ADDRESS, or auto"
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on with a sweep that was interrupted"
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="only say how many tasks there are and what they would cost: a few are run for that, "
        "for about 30 s at most",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print JSON, one object of data a combination: input, device, memory, max_window "
        "(bytes; null: learnt), policy, runs, and mean, min and max of mb_per_s, waited_s, "
        "requests, amplification; with --dry-run tasks, sampled, core_hours",
    )
    return parser


def _print_estimate(grid: Grid, *, is_json: bool) -> None:
    found = estimate(grid)
    if is_json:
        counts = {"tasks": found.tasks, "sampled": found.sampled}
        _print_json([{**counts, "core_hours": found.core_hours}])
        return
    print(
        f"{found.tasks} tasks, about {found.core_hours:.3g} core-hours "
        f"(from {found.sampled} of them, run on this machine)"
    )


def _print_json(data: Sequence[dict[str, object]]) -> None:
    lines = ",\n".join("  " + json.dumps(item) for item in data)
    print(f'{{"version":1,"command":"sweep","data":[\n{lines}\n]}}')


def _progress() -> Callable[[int, int], None] | None:
    """Return a progress display, updated several times a second; None unless on a terminal."""
    if not sys.stderr.isatty():
        return None
    began = time.monotonic()
    shown = 0.0
    first = None

    def show(done: int, all_tasks: int) -> None:
        nonlocal shown, first
        now = time.monotonic()
        # Tasks of an earlier run do not count for the estimate of the remaining time.
        first = done - 1 if first is None else first
        if now - shown < 0.2:
            return
        shown = now
        left = (now - began) / max(done - first, 1) * (all_tasks - done)
        text = f"\r{done} of {all_tasks} tasks, {left:.0f} s left\x1b[K"
        print(text, end="", file=sys.stderr, flush=True)

    return show


def _failed(error: object, code: int) -> int:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    print(f"foreread.sweep: {error}", file=sys.stderr)
    return code
