#!/usr/bin/env python3
"""Opens, reads and closes until a leak would show: the memory of the process stays as it is.

    leaks.py PATH_OR_URL [--count 1000000] [--options JSON] [--slack 8]

Each round opens the file, reads 4 KiB at random by one of six calls, and closes it. The resident
memory is printed ten times; the first tenth is warm-up. Ends with 1 if the memory grew by more than
`--slack` MiB after that.
"""

import argparse
import asyncio
import gc
import json
import random
import sys

import foreread


def resident_kib() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4


def read(file, rng, act):
    at = rng.randrange(max(file.size - 4096, 1))
    if act == 0:
        file.pread(4096, at)
    elif act == 1:
        file.seek(at)
        file.read(4096)
    elif act == 2:
        file.preadinto(bytearray(4096), at)
    elif act == 3:
        file.read_ranges([(at, at + 100), (0, 100)])
    elif act == 4:
        memoryview(file.pin(at)).release()
    else:
        return file.pread_async(4096, at)
    return None


async def rounds(engine, args, options, count, rng):
    settings = {"storage_options": options} if options else {}
    for number in range(count):
        with engine.open(args.path, **settings) as file:
            waiting = read(file, rng, number % 6)
            if waiting is not None:
                await waiting


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--options", default="{}")
    parser.add_argument("--slack", type=float, default=8)
    args = parser.parse_args()
    engine, rng = foreread.Engine("16MiB"), random.Random(1)
    options = json.loads(args.options)
    after_warm_up = 0
    for tenth in range(10):
        asyncio.run(rounds(engine, args, options, args.count // 10, rng))
        gc.collect()
        resident = resident_kib()
        if tenth == 0:
            after_warm_up = resident
        print(f"{(tenth + 1) * (args.count // 10):>9} opens and reads: {resident} KiB", flush=True)
    grown = (resident_kib() - after_warm_up) / 1024
    print(f"grown by {grown:.1f} MiB after the first tenth")
    sys.exit(grown > args.slack)


if __name__ == "__main__":
    main()
