"""Reads an object through fsspec's s3fs, as examples/object_load.rs does through other readers.

objects_fsspec.py WORK CACHE KEY [OPTION=VALUE]..   the same workloads, the same handshake and JSON

The endpoint and the keys are those of the environment.
"""
import json
import os
import random
import resource
import sys
import threading
import time

import s3fs

K, M = 1 << 10, 1 << 20
CAP = float(os.environ.get("CAP", "2"))


class Outcome:
    def __init__(self):
        self.bytes, self.ms, self.late = 0, [], None

    def read(self, file, at, count):
        start = time.monotonic()
        if file.tell() != at:
            file.seek(at)
        got = file.read(count)
        assert len(got) == count, f"{len(got)} bytes of {count} at {at}"
        self.ms.append((time.monotonic() - start) * 1e3)
        self.bytes += count


def ready(word="ready"):
    print(word, flush=True)
    sys.stdin.readline()


def sequential(file, positions, step, total):
    outcome, start, at = Outcome(), time.monotonic(), 0
    part = total // positions
    while at < part and time.monotonic() - start < CAP:
        for position in range(positions):
            outcome.read(file, position * part + at, step)
        at += step
    return outcome


def at_random(file, reads):
    outcome, rng, start = Outcome(), random.Random(5), time.monotonic()
    for place in rng.sample(range(7680), reads):
        outcome.read(file, place * 128 * K + 32 * K, 64 * K)
        if time.monotonic() - start > 5 * CAP:
            break
    return outcome


def paced(files, seconds=4):
    outcomes, start = [Outcome() for _ in files], time.monotonic()

    def one(file, outcome):
        outcome.late = 0
        while True:
            due, now = start + outcome.bytes / 1e6, time.monotonic()
            if due > start + seconds or now > start + 2 * seconds:
                return
            time.sleep(max(0, due - now))
            outcome.read(file, outcome.bytes, 128 * K)
            outcome.late = max(outcome.late, (time.monotonic() - due) * 1e3)

    threads = [threading.Thread(target=one, args=pair) for pair in zip(files, outcomes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = Outcome()
    for outcome in outcomes:
        total.bytes += outcome.bytes
        total.ms += outcome.ms
        total.late = max(total.late or 0, outcome.late)
    return total


WORKS = {
    "seq128k": lambda files: sequential(files[0], 1, 128 * K, 256 * M),
    "whole128k": lambda files: sequential(files[0], 1, 128 * K, 1024 * M),
    "seq4m": lambda files: sequential(files[0], 1, 4 * M, 256 * M),
    "inter2": lambda files: sequential(files[0], 2, 128 * K, 256 * M),
    "inter8": lambda files: sequential(files[0], 8, 128 * K, 256 * M),
    "rand64k": lambda files: at_random(files[0], 150),
    "paced32": paced,
}


def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main():
    work, cache, key, *options = sys.argv[1:]
    fs = s3fs.S3FileSystem(
        endpoint_url=os.environ["AWS_ENDPOINT_URL"], skip_instance_cache=True,
        key=os.environ["AWS_ACCESS_KEY_ID"], secret=os.environ["AWS_SECRET_ACCESS_KEY"],
        client_kwargs={"region_name": os.environ["AWS_REGION"]})
    more = {name: int(value) for name, value in (option.split("=") for option in options)}
    keys = [key.replace("{}", f"{n:02}") for n in range(32 if work == "paced32" else 1)]
    files = [fs.open(key, "rb", cache_type=cache, **more) for key in keys]
    run = WORKS.get(work)
    if work == "reread":
        ready()
        first = sequential(files[0], 1, 128 * K, 64 * M)
        run = lambda files: sequential(files[0], 1, 128 * K, first.bytes)
    ready()
    open("/proc/self/clear_refs", "w").write("5")
    before, start = cpu(), time.monotonic()
    outcome = run(files)
    seconds, used = time.monotonic() - start, cpu() - before
    ms = sorted(outcome.ms)
    status = open("/proc/self/status").read()
    print(json.dumps({
        "work": work, "bytes": outcome.bytes, "seconds": seconds,
        "mb_per_s": outcome.bytes / seconds / 1e6, "reads": len(ms), "cpu_s": used,
        "rss_kib": int(status.split("VmHWM:")[1].split()[0]), "first_ms": outcome.ms[0],
        "p50_ms": ms[len(ms) // 2], "p99_ms": ms[len(ms) * 99 // 100],
        "p999_ms": ms[len(ms) * 999 // 1000], "max_ms": ms[-1], "late_ms": outcome.late}))
    ready("done")
    os._exit(0)  # what is in flight is not waited for


main()
