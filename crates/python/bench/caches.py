#!/usr/bin/env python3
"""Compares foreread with the cache types of fsspec, on one object of a store.

    caches.py URL [--options JSON] [--amount 64M] [--runs 3] [--cap 3] [--only NAME,NAME]
              [--files s3://bucket/{:02d}]

URL is any that fsspec opens and that has cache types: s3://bucket/key, http://host/file. Each run
is a fresh process, and the caches take turns. A file is opened and one byte read before the clock
starts. Patterns: sequential reads of 128 KiB and of 4 MiB, two positions in turns, random reads of
64 KiB; `again` reads what was read, `hit` reads 4 KiB that are cached; `files` reads 48 files of
the name --files in turns, 1 MiB each, foreread with 512 MiB. Figures are medians, with the least
and the greatest; `bytes` are those requested over those read, of `native` those that have come;
`unread` are pages that foreread evicted before they were read.

`native` is foreread.open(URL), `foreread::` and `foreread` are around the other file system.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import time

K, M = 1 << 10, 1 << 20
CACHES = {
    "native": {},
    "foreread": {"cache_type": "foreread"},
    "foreread::": {},
    "readahead": {"cache_type": "readahead"},
    "bytes": {"cache_type": "bytes"},
    "blockcache": {"cache_type": "blockcache"},
    "background": {"cache_type": "background"},
    "background-4M": {"cache_type": "background", "block_size": 4 * M},
    "adaptive": {"cache_type": "adaptive"},
}
PATTERNS = ("seq128k", "seq4m", "turns", "random", "again", "hit")
FILES = 48


def offsets(pattern, amount, size):
    """Yields the offset and length of each read."""
    if pattern == "random":
        rng = random.Random(5)
        for _ in range(amount // (64 * K)):
            yield rng.randrange((size - 64 * K) // (4 * K)) * 4 * K, 64 * K
    elif pattern == "turns":
        half = size // 2 // M * M
        for at in range(0, amount // 2, 128 * K):
            yield at, 128 * K
            yield half + at, 128 * K
    else:
        step = {"seq4m": 4 * M, "hit": 4 * K}.get(pattern, 128 * K)
        yield from ((at, step) for at in range(0, min(amount, size), step))


def opened(cache, urls, options):
    """Opens objects through a cache, and returns them and a function that takes the counters of
    requests and their bytes."""
    import fsspec
    import foreread.fsspec  # noqa: F401: registers the cache type

    engine = foreread.default_engine("512MiB") if len(urls) > 1 else foreread.default_engine()
    if cache == "native":
        files = [foreread.open(url, storage_options=options) for url in urls]
        before = [0, 0]

        def take():
            counters = engine.counters()
            now = [counters["store_requests"], counters["store_bytes"]]
            taken = [after - then for after, then in zip(now, before, strict=True)]
            before[:] = now
            return taken

        return files, take
    fs, path = fsspec.url_to_fs(urls[0], **options)
    requests = []
    kind = type(fs._open(path, "rb", cache_type="none"))
    fetch = kind._fetch_range

    def counted(self, start, end):
        requests.append(end - start)
        return fetch(self, start, end)

    def take():
        taken = [len(requests), sum(requests)]
        requests.clear()
        return taken

    kind._fetch_range = counted
    if cache == "foreread::":
        fs = foreread.fsspec.ForereadFileSystem(fs=fs, native=False)
    return [fs.open(url, "rb", **CACHES[cache]) for url in urls], take


def in_turns(files, amount):
    """Yields reads of 1 MiB of each file in turns."""
    for at in range(0, amount // len(files), M):
        yield from ((file, at, M) for file in files)


def run(cache, pattern, urls, options, amount, cap):
    import foreread

    files, take = opened(cache, urls, options)
    file = files[0]
    for each in files:
        each.read(1)
    if pattern in ("again", "hit"):
        amount = min(amount, 16 * M) if pattern == "again" else M
        for at, length in offsets("seq128k", amount, file.size):
            file.seek(at)
            file.read(length)
    take()
    if pattern == "files":
        reads_to_do = in_turns(files, min(amount, sum(each.size for each in files)))
    else:
        reads_to_do = ((file, at, length) for at, length in offsets(pattern, amount, file.size))
    done = reads = 0
    start = time.perf_counter()
    for file, at, length in reads_to_do:
        file.seek(at)
        done += len(file.read(length))
        reads += 1
        if time.perf_counter() - start > cap:
            break
    seconds = time.perf_counter() - start
    requests, requested = take()
    return {
        "mbs": done / seconds / 1e6,
        "us": seconds / reads * 1e6,
        "bytes": requested / done,
        "requests": requests,
        "unread": foreread.default_engine().counters()["evicted_before_use"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--options", default="{}")
    parser.add_argument("--amount", type=int, default=64 * M)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cap", type=float, default=3.0)
    parser.add_argument("--only", default=",".join(CACHES))
    parser.add_argument("--patterns", default=",".join(PATTERNS))
    parser.add_argument("--files", help="a name with {}: the pattern files")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    options = json.loads(args.options)
    if args.one:
        cache, pattern = args.one.split(",")
        of_files = [args.files.format(number) for number in range(FILES)] if args.files else []
        urls = of_files if pattern == "files" else [args.url]
        print(json.dumps(run(cache, pattern, urls, options, args.amount, args.cap)))
        return
    heads = f"{'MB/s':>22}{'us a read':>12}{'bytes':>8}{'requests':>10}{'unread':>8}"
    print(f"{'pattern':<10}{'cache':<16}{heads}")
    for pattern in args.patterns.split(","):
        results = {cache: [] for cache in args.only.split(",")}
        for _ in range(args.runs):
            for cache, runs in results.items():
                command = [sys.executable, *sys.argv, "--one", f"{cache},{pattern}"]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    sys.exit(f"{cache} {pattern}: {done.stderr.strip().splitlines()[-1]}")
                runs.append(json.loads(done.stdout.splitlines()[-1]))
        for cache, runs in results.items():
            of = {key: statistics.median(each[key] for each in runs) for key in runs[0]}
            low, high = (edge(each["mbs"] for each in runs) for edge in (min, max))
            spread = f"{of['mbs']:.1f} ({low:.1f}-{high:.1f})"
            print(
                f"{pattern:<10}{cache:<16}{spread:>22}{of['us']:>12.1f}{of['bytes']:>8.2f}"
                f"{of['requests']:>10.0f}{of['unread']:>8.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
