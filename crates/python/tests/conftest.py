"""What the tests share: files with known bytes, and fetchers that count what they are asked for."""

import hashlib
import os
import signal
import threading

import pytest

import foreread
from store_server import StoreServer

# A shell that starts pytest in the background has SIGINT ignored, which programs inherit: the tests
# of Ctrl-C would wait for what never ends.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pattern(size: int, seed: int = 0) -> bytes:
    """Returns bytes of which no two pages are the same."""
    block = b"".join(
        hashlib.blake2b(f"{seed}:{number}".encode()).digest() for number in range(1 << 10)
    )
    blocks = [number.to_bytes(8, "big") + block for number in range(size // len(block) + 1)]
    return b"".join(blocks)[:size]


class CountingFetcher:
    """A fetcher over bytes in memory, which counts its requests."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.ranges: list[tuple[int, int]] = []
        self.lock = threading.Lock()

    def __call__(self, start: int, end: int) -> bytes:
        with self.lock:
            self.ranges.append((start, end))
        return self.data[start:end]

    @property
    def bytes(self) -> int:
        return sum(end - start for start, end in self.ranges)


def in_child(act) -> bool:
    """Runs a function in a forked child, and returns whether it returned True."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if act() is True else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.fixture
def engine() -> foreread.Engine:
    return foreread.Engine("32MiB")


@pytest.fixture
def data() -> bytes:
    return pattern(3 * (1 << 20) + 777)


@pytest.fixture
def path(tmp_path, data):
    path = tmp_path / "data"
    path.write_bytes(data)
    return path


@pytest.fixture
def store():
    server = StoreServer()
    yield server
    server.close()
