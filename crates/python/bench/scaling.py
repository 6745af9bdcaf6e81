#!/usr/bin/env python3
"""How a sweep scales from one worker to two, by processes and on Ray, and what a task costs there.

    scaling.py [--pairs 3] [--seeds 20] [--small 600]     about 3 minutes; prints Markdown

Needs the extra `ray` of the package. The cluster is started here, with one processor and then with
two. `--seeds` is the number of long tasks (about 0.3 s each), `--small` that of the shortest there
are.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import ray

from foreread import sweep

SCENARIO = """\
name = "scaling"
device.disk.model.flash = { capacity = "256M", mb_per_s = 200, overhead_us = 100 }
file.data = { device = "disk", size = "64M" }

[cache]
memory = "4M"

[[process]]
name = "reader"
run.random = { file = "data", read = "4K", reads = READS }
"""


class Cluster:
    """A Ray cluster of this machine alone."""

    def __init__(self, cpus):
        self.ray = pathlib.Path(sys.executable).with_name("ray")
        line = [self.ray, "start", "--head", f"--num-cpus={cpus}", "--port=6399"]
        line += ["--include-dashboard=false", "--disable-usage-stats"]
        line += ["--node-ip-address=127.0.0.1", "--object-store-memory=100000000"]
        subprocess.run(line, check=True, capture_output=True)
        self.address = "127.0.0.1:6399"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        ray.shutdown()
        subprocess.run([self.ray, "stop", "--force"], check=False, capture_output=True)


def grid_of(folder, reads, seeds):
    folder.mkdir()
    (folder / "scenario.toml").write_text(SCENARIO.replace("READS", str(reads)))
    (folder / "grid.toml").write_text(
        f'scenario = "scenario.toml"\nseed = {{ from = 1, count = {seeds} }}\n'
    )
    return sweep.read_grid(folder / "grid.toml")


def seconds(grid, folder, **how):
    start = time.perf_counter()
    sweep.run(grid, folder / "out.parquet", **how)
    taken = time.perf_counter() - start
    (folder / "out.parquet").unlink()
    return taken


def empty_task_ms(count=500):
    """What Ray needs for a task that does nothing, one after the other and all together."""
    nothing = ray.remote(num_cpus=1)(lambda: None)
    ray.get([nothing.remote() for _ in range(20)])
    start = time.perf_counter()
    for _ in range(count):
        ray.get(nothing.remote())
    one_by_one = time.perf_counter() - start
    start = time.perf_counter()
    ray.get([nothing.remote() for _ in range(count)])
    together = time.perf_counter() - start
    return one_by_one / count * 1e3, together / count * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--reads", type=int, default=100_000, help="of a long task")
    parser.add_argument("--small", type=int, default=600)
    args = parser.parse_args()
    taken = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        grids = {
            "long": (grid_of(folder / "long", args.reads, args.seeds), args.seeds),
            "small": (grid_of(folder / "small", 1, args.small), args.small),
        }
        for kind, (grid, _) in grids.items():
            for _ in range(args.pairs):
                for processes in (1, 2):
                    found = seconds(grid, folder, processes=processes)
                    taken.setdefault((kind, "processes", processes), []).append(found)
        for cpus in (1, 2):
            with Cluster(cpus) as cluster:
                ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
                if cpus == 1:
                    alone, many = empty_task_ms()
                    print(f"Ray, an empty task: {alone:.2f} ms alone, {many:.2f} ms of many")
                for kind, (grid, _) in grids.items():
                    seconds(grid, folder, ray=cluster.address)
                    for _ in range(args.pairs):
                        found = seconds(grid, folder, ray=cluster.address)
                        taken.setdefault((kind, "ray", cpus), []).append(found)
    print("\n| tasks | by | 1 worker, s | 2 workers, s | times faster | ms a task, 2 workers |")
    print("|---|---|--:|--:|--:|--:|")
    for kind, (_, tasks) in grids.items():
        for how in ("processes", "ray"):
            one, two = (statistics.median(taken[kind, how, workers]) for workers in (1, 2))
            pairs = zip(taken[kind, how, 1], taken[kind, how, 2], strict=True)
            ratios = sorted(first / second for first, second in pairs)
            spread = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})"
            each = two / tasks * 1e3
            print(f"| {tasks} {kind} | {how} | {one:.2f} | {two:.2f} | {spread} | {each:.2f} |")


if __name__ == "__main__":
    main()
