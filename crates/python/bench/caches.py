#!/usr/bin/env python3
"""Reads an object through foreread and through the cache types of fsspec, and prints what it took.

    caches.py URL [--options JSON] [--runs 3] [--cap 3] [--only NAME,NAME] [--patterns NAME,NAME]
              [--files s3://bucket/{:02d}] [--warm URL]

URL is any that fsspec opens and that has cache types: s3://bucket/key, http://host/file. Each run
is a fresh process, and the readers take turns. The clock starts before the object is opened; before
that the same reader has read a byte of another object (--warm), so that clients are connected.

`seq128k`, `seq4m`: the whole object in order. `turns`: its two halves in turns, 128 KiB each.
`random`: 64 KiB at random. `again`: 16 MiB once more. `hit`: 1 MiB that is cached by 4 KiB, the
fastest of 40 passes. `files`: 48 files of the name --files in turns, 1 MiB each, foreread with
512 MiB.

Figures are medians, with the least and the greatest; `bytes` are those requested over those read,
until the reader stops; `unread` are pages that foreread evicted before they were read.

`native` is foreread.open(URL); `foreread::` and `foreread` (the cache type) are around the other
file system, which makes the requests.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
import urllib.request

K, M = 1 << 10, 1 << 20
CACHES = {
    "native": {},
    "foreread::": {},
    "foreread": {"cache_type": "foreread"},
    "readahead": {"cache_type": "readahead"},
    "bytes": {"cache_type": "bytes"},
    "blockcache": {"cache_type": "blockcache"},
    "background": {"cache_type": "background"},
    "background-4M": {"cache_type": "background", "block_size": 4 * M},
    "adaptive": {"cache_type": "adaptive"},
}
OURS = ("native", "foreread::", "foreread")
PATTERNS = ("seq128k", "seq4m", "turns", "random", "again", "hit")
FILES = 48


def reads(pattern, size):
    """Yields the offset and length of each read of one object."""
    if pattern == "random":
        rng = random.Random(5)
        while True:
            yield rng.randrange((size - 64 * K) // (4 * K)) * 4 * K, 64 * K
    elif pattern == "turns":
        half = size // 2 // M * M
        for at in range(0, half, 128 * K):
            yield at, 128 * K
            yield half + at, 128 * K
    elif pattern == "hit":
        yield from ((at, 4 * K) for at in range(0, min(M, size), 4 * K))
    else:
        end = min(16 * M, size) if pattern == "again" else size
        step = 4 * M if pattern == "seq4m" else 128 * K
        yield from ((at, step) for at in range(0, end, step))


class Reader:
    """A way to open objects, and its counters."""

    def __init__(self, cache, url, options, memory):
        import fsspec

        import foreread.fsspec

        self.cache, self.options, self.requested = cache, options, []
        self.engine = foreread.default_engine(memory)
        self.open_native = foreread.open
        if cache == "native":
            return
        self.fs, path = fsspec.url_to_fs(url, **options)
        kind = type(self.fs._open(path, "rb", cache_type="none"))
        fetch, requested = kind._fetch_range, self.requested

        def counted(self, start, end):
            requested.append(end - start)
            return fetch(self, start, end)

        kind._fetch_range = counted
        if cache == "foreread::":
            self.fs = foreread.fsspec.ForereadFileSystem(fs=self.fs, native=False)

    def open(self, url):
        if self.cache == "native":
            return self.open_native(url, storage_options=self.options)
        return self.fs.open(url, "rb", **CACHES[self.cache])

    def taken(self):
        """Requests and their bytes so far: of `native` those that have come."""
        if self.cache == "native":
            counters = self.engine.counters()
            return counters["store_requests"], counters["store_bytes"]
        return len(self.requested), sum(self.requested)


def pass_us(file, offsets):
    """Seeks and reads, and returns how many microseconds each took."""
    start = time.perf_counter()
    for at, length in offsets:
        file.seek(at)
        file.read(length)
    return (time.perf_counter() - start) / len(offsets) * 1e6


def settled(stats):
    """The counters of a store, once nothing is on its way; after two seconds as they are."""
    control, link = stats.rsplit("/", 1)
    for _ in range(100):
        counters = json.load(urllib.request.urlopen(f"{control}/stats"))[link]
        if counters["at_once"] == 0:
            break
        time.sleep(0.02)
    return counters["gets"], counters["bytes"]


def peak_mib():
    with open("/proc/self/status") as status:
        return int(status.read().split("VmHWM:")[1].split()[0]) / 1024


def run(cache, pattern, args, options):
    """One run, as a dictionary of figures."""
    urls = [args.url]
    if pattern == "files":
        urls = [args.files.format(number) for number in range(FILES)]
    reader = Reader(cache, urls[0], options, "512MiB" if pattern == "files" else None)
    warm = reader.open(args.warm or args.url)
    warm.read(1)
    count = (lambda: settled(args.stats)) if args.stats else reader.taken
    before, idle_mib = count(), peak_mib()
    start = time.perf_counter()
    files = [reader.open(url) for url in urls]
    if pattern in ("again", "hit"):
        for at, length in reads("again", files[0].size):
            files[0].seek(at)
            files[0].read(length)
        before = count()
        start = time.perf_counter()
    if pattern == "files":
        ends = range(0, min(file.size for file in files), M)
        work = ((file, at, M) for at in ends for file in files)
    else:
        work = ((files[0], at, length) for at, length in reads(pattern, files[0].size))
    if pattern == "hit":
        passes = [pass_us(files[0], list(reads("hit", files[0].size))) for _ in range(40)]
    done = number = 0
    for file, at, length in work:
        file.seek(at)
        done += len(file.read(length))
        number += 1
        if time.perf_counter() - start > args.cap:
            break
    seconds = time.perf_counter() - start
    unread, mib = reader.engine.counters()["evicted_before_use"], peak_mib() - idle_mib
    requests, requested = (after - then for after, then in zip(count(), before, strict=True))
    return {
        "mbs": done / seconds / 1e6,
        "us": min(passes) if pattern == "hit" else seconds / number * 1e6,
        "bytes": requested / done,
        "requests": requests,
        "unread": unread,
        "mib": mib,
    }


def measured(command, names, runs):
    """Runs each of `names` in a fresh process, in turns: name -> figures of each run."""
    results = {name: [] for name in names}
    for _ in range(runs):
        for name, figures in results.items():
            done = subprocess.run([*command, name], capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"{name}: {' '.join(command)}: {done.stderr[-2000:]}")
            figures.append(json.loads(done.stdout.splitlines()[-1]))
    return results


def middle(figures):
    """The median of each figure, and the least and the greatest of the first."""
    of = {key: statistics.median(each[key] for each in figures) for key in figures[0]}
    first = next(iter(figures[0]))
    return of, min(each[first] for each in figures), max(each[first] for each in figures)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--options", default="{}")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cap", type=float, default=3.0, help="seconds")
    parser.add_argument("--only", default=",".join(CACHES))
    parser.add_argument("--patterns", default=",".join(PATTERNS))
    parser.add_argument("--files", help="a name with {}: the pattern files")
    parser.add_argument("--warm", help="another object; without it URL itself")
    parser.add_argument("--stats", help=argparse.SUPPRESS)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        pattern, cache = args.one.split(",")
        print(json.dumps(run(cache, pattern, args, json.loads(args.options))), flush=True)
        return
    heads = f"{'MB/s':>22}{'us a read':>12}{'bytes':>8}{'requests':>10}{'unread':>8}{'MiB':>8}"
    print(f"{'pattern':<10}{'reader':<16}{heads}")
    for pattern in args.patterns.split(","):
        names = [f"{pattern},{cache}" for cache in args.only.split(",")]
        command = [sys.executable, *sys.argv, "--one"]
        for name, figures in measured(command, names, args.runs).items():
            of, least, greatest = middle(figures)
            spread = f"{of['mbs']:.1f} ({least:.1f}-{greatest:.1f})"
            print(
                f"{pattern:<10}{name.split(',')[1]:<16}{spread:>22}{of['us']:>12.1f}"
                f"{of['bytes']:>8.2f}{of['requests']:>10.0f}{of['unread']:>8.0f}{of['mib']:>8.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
