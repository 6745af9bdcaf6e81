"""Tests that take minutes: `python -m pytest -m slow` in crates/python."""

import json
import pathlib
import random
import subprocess
import sys
import threading

import pytest

import foreread
from conftest import pattern

LEAKS = pathlib.Path(__file__).parents[1] / "bench" / "leaks.py"

pytestmark = pytest.mark.slow


def test_a_million_opens_and_reads_leave_no_memory_behind(path):
    subprocess.run([sys.executable, LEAKS, path], check=True)


def test_many_opens_and_reads_of_a_url_leave_no_memory_behind(store, data):
    url = store.put("data", data)
    options = json.dumps(store.options)
    command = [sys.executable, LEAKS, url, "--count", "20000", "--options", options]
    subprocess.run(command, check=True)


@pytest.mark.parametrize("kind", ["file", "url"])
def test_sixteen_threads_read_byte_for_byte(kind, tmp_path, store):
    """A file four times as large as the memory, 16 threads, 100,000 random reads each."""
    data = pattern(32 << 20)
    engine = foreread.Engine("8MiB")
    if kind == "file":
        (tmp_path / "data").write_bytes(data)
        file, count = engine.open(tmp_path / "data"), 100_000
    else:
        file, count = engine.open(store.put("d", data), storage_options=store.options), 2_000
    wrong = []

    def read(seed):
        rng = random.Random(seed)
        for number in range(count):
            size = rng.choice([1, 100, 4096, 9000])
            # Half of the reads are near each other, so that some are cached.
            span = len(data) if number % 2 else 1 << 20
            at = rng.randrange(span - size)
            if file.pread(size, at) != data[at : at + size]:
                wrong.append((seed, at, size))

    threads = [threading.Thread(target=read, args=[seed]) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
