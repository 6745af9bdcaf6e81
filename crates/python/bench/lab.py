#!/usr/bin/env python3
"""foreread beside fsspec's cache types and libraries beside s3fs, on a slow store made for it.

    lab.py SLOW_STORE [--quick] [--only near,far,libraries,training]     prints Markdown

`./dev bench python` runs it: 11 minutes with its build. `training` is made where it is named, and
needs PyTorch.

SLOW_STORE is the example of the command's crate. Link A is near (first byte after 20 ms, 80 MB/s a
connection), B far (80 ms, 30 MB/s). Objects lie in memory, below /dev/shm; `bytes` are those that
the store has sent, over those that were read.
"""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
from importlib import metadata

import libraries
import training as samples
from caches import CACHES, FILES, OURS, measured, middle

HERE = pathlib.Path(__file__).parent
PACKAGES = (
    *("foreread", "fsspec", "s3fs", "pandas", "pyarrow", "duckdb", "polars", "h5py"),
    *("safetensors", "torch", "s3torchconnector"),
)
RIVALS = tuple(name for name in CACHES if name not in OURS)
M = 1 << 20


class Store:
    """The slow store, with objects of noise."""

    def __init__(self, program, folder):
        bucket = pathlib.Path(folder) / "lab"
        (bucket / "mid").mkdir(parents=True)
        (bucket / "warm.bin").write_bytes(os.urandom(4096))
        with open(bucket / "part.bin", "wb") as file:
            file.writelines(os.urandom(M) for _ in range(256))
        for number in range(FILES):
            (bucket / f"mid/{number:02}.bin").write_bytes(os.urandom(16 * M))
        self.bucket = bucket
        command = [program, folder, "A=20,80", "B=80,30", "0=0,0"]
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.ports = {}
        while "control" not in self.ports:
            name, url = self.server.stdout.readline().split()
            self.ports[name] = url

    def options(self, link):
        client = {"endpoint_url": self.ports[link], "region_name": "us-east-1"}
        return json.dumps({"key": "lab", "secret": "labsecret", "client_kwargs": client})

    def close(self):
        self.server.terminate()
        self.server.wait()


def take(store, link, pattern, names, runs, cap):
    """Runs readers on one pattern: reader -> (medians, least, greatest)."""
    command = [sys.executable, HERE / "caches.py", "s3://lab/part.bin"]
    command += ["--options", store.options(link), "--warm", "s3://lab/warm.bin", "--cap", str(cap)]
    command += ["--stats", f"{store.ports['control']}/{link}", "--files", "s3://lab/mid/{:02}.bin"]
    results = measured([*map(str, command), "--one"], [f"{pattern},{name}" for name in names], runs)
    return {name.split(",")[1]: middle(figures) for name, figures in results.items()}


def table(rows, heads):
    print("\n| " + " | ".join(heads) + " |\n|---" + "|--:" * (len(heads) - 1) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def speed(figures):
    of, least, greatest = figures
    return f"{of['mbs']:.3g} ({least:.3g}-{greatest:.3g})"


def best(results):
    """The fastest of fsspec's cache types."""
    name = max((name for name in results if name in RIVALS), key=lambda at: results[at][0]["mbs"])
    return name, results[name][0]["mbs"]


def in_order(store, link, runs, cap, patterns, names):
    """Streams, with the goals that they are held to."""
    all_of, lines = {}, []
    for pattern in patterns:
        results = all_of[pattern] = take(store, link, pattern, names, runs, cap)
        name, fastest = best(results)
        for our in OURS:
            of = results[our][0]
            if pattern != "turns":
                ratio = f"{of['mbs'] / fastest:.2f}"
                lines.append([f"`{pattern}`", f"`{our}`", ratio, f"`{name}`"])
    heads = [f"link {link}: MB/s (bytes)", *(f"`{pattern}`" for pattern in patterns)]
    rows = [
        [f"`{name}`"]
        + [f"{speed(all_of[at][name])} ({all_of[at][name][0]['bytes']:.2f})" for at in patterns]
        for name in names
    ]
    table(rows, heads)
    table(lines, ["pattern", "reader", "x the best (goal 2)", "best of fsspec's"])
    if "turns" in all_of:
        own = all_of["seq128k"]
        rows = [
            [f"`{name}`", f"{all_of['turns'][name][0]['mbs'] / own[name][0]['mbs']:.2f}"]
            for name in names
        ]
        table(rows, ["two positions in turns", "of its own `seq128k` (goal 0.9)"])


def near(store, runs, cap):
    in_order(store, "A", runs, cap, ("seq128k", "seq4m", "turns"), list(CACHES))
    results = take(store, "A", "random", [*OURS, "adaptive", "background-4M"], 1, 2)
    rows = [
        [f"`{name}`", f"{of['us'] / 1e3:.1f}", f"{of['bytes']:.2f}"]
        for name, (of, _, _) in results.items()
    ]
    table(rows, ["64 KiB at random", "ms a read", "bytes (goal 1.0)"])
    results = take(store, "A", "again", [*OURS, "blockcache", "adaptive"], 1, cap)
    rows = [
        [f"`{name}`", f"{of['mbs']:.0f}", f"{of['requests']:.0f}"]
        for name, (of, _, _) in results.items()
    ]
    table(rows, ["16 MiB once more", "MB/s", "requests (goal 0)"])
    results = take(store, "A", "hit", [*OURS, "blockcache", "readahead"], runs, cap)
    table(
        [[f"`{name}`", f"{of['us']:.2f}"] for name, (of, _, _) in results.items()],
        ["seek and read of 4 KiB that are cached, fastest of 40 passes", "us (goal 2)"],
    )
    results = take(store, "A", "files", [*OURS, "background-4M", "adaptive"], 1, 3 * cap)
    rows = [
        [f"`{name}`", f"{of['mbs']:.0f}", f"{of['bytes']:.2f}", f"{of['mib']:.0f}"]
        + [f"{of['unread']:.0f}" if name in OURS else "-"]
        for name, (of, _, _) in results.items()
    ]
    heads = [f"{FILES} files in turns, 512 MiB", "MB/s", "bytes", "memory more, MiB"]
    table(rows, [*heads, "pages evicted unread (goal 0)"])


def far(store, runs, cap):
    names = [*OURS, "blockcache", "background-4M", "adaptive"]
    in_order(store, "B", 1 if runs < 3 else 2, cap, ("seq128k", "seq4m"), names)


def of_libraries(store, runs, _cap):
    libraries.make(store.bucket)
    os.environ["S3_OPTIONS"] = store.options("A")
    command = [sys.executable, str(HERE / "libraries.py")]
    rows = []
    for library in libraries.LIBRARIES:
        names = [f"{library};s3fs", f"{library};foreread"]
        results = measured(command, names, min(runs, 2))
        (plain, *_), (ours, *_) = (middle(results[name]) for name in names)
        if plain["result"] != ours["result"]:
            sys.exit(f"{library}: {plain['result']} by s3fs, {ours['result']} by foreread")
        ratio = f"{plain['s'] / ours['s']:.2f}"
        rows.append([library, f"{plain['s']:.2f}", f"{ours['s']:.2f}", ratio])
    table(rows, ["link A", "s3fs, s", "`foreread::`, s", "times faster"])


def training(store, runs, _cap):
    samples.make(store.bucket)
    os.environ["S3_OPTIONS"] = store.options("A")
    command = [sys.executable, str(HERE / "training.py")]
    names = [f"{reader};{workers}" for workers in (0, 2) for reader in samples.READERS]
    rows = []
    for name, figures in measured(command, names, runs).items():
        of, least, greatest = middle(figures)
        if of["samples"] != samples.SHARDS * samples.SAMPLES:
            sys.exit(f"{name}: {of['samples']} samples")
        spread = f"{of['samples_per_s']:.0f} ({least:.0f}-{greatest:.0f})"
        rows.append([*name.split(";"), spread, f"{of['first_s']:.2f}"])
    heads = [f"link A, tar shards, samples of {samples.SAMPLE >> 10} KiB", "workers"]
    table(rows, [*heads, "samples/s", "first batch, s"])


def describe():
    versions = ", ".join(f"{name} {version}" for name in PACKAGES if (version := version_of(name)))
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"Python {platform.python_version()}; {versions}; {os.cpu_count()} cores, load {load}")


def version_of(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("slow_store")
    parser.add_argument("--quick", action="store_true", help="one short run of each")
    parser.add_argument("--only", default="near,far,libraries")
    args = parser.parse_args()
    runs, cap = (1, 1.0) if args.quick else (2, 2.0)
    describe()
    with tempfile.TemporaryDirectory(prefix="foreread-python-", dir="/dev/shm") as folder:
        store = Store(args.slow_store, folder)
        try:
            for part in args.only.split(","):
                parts = {"near": near, "far": far, "libraries": of_libraries, "training": training}
                parts[part](store, runs, cap)
        finally:
            store.close()


if __name__ == "__main__":
    main()
