"""What makes no sense is an exception that users of io and fsspec expect, and breaks nothing."""

import ctypes
import errno
import io
import mmap
import os
import pickle
import signal
import subprocess
import sys
import threading

import pytest

import foreread

HUGE = 2**62


def test_a_file_for_reading_refuses_writes_as_io_does(engine, path):
    file = engine.open(path)
    for call in [
        lambda: file.write(b"x"),
        lambda: file.writelines([b"x"]),
        lambda: file.truncate(0),
        lambda: file.fileno(),
    ]:
        with pytest.raises(io.UnsupportedOperation):
            call()
    assert path.stat().st_size == file.size
    file.close()
    for call in [lambda: file.write(b"x"), lambda: pickle.dumps(file)]:
        with pytest.raises(ValueError, match="closed"):
            call()


def test_numbers_that_are_too_large_are_no_reads(engine, path, data):
    file = engine.open(path)
    assert file.pread(HUGE, 10) == data[10:] and file.pread(HUGE, HUGE) == b""
    assert file.seek(HUGE) == HUGE and file.read() == b"" and file.read(HUGE) == b""
    assert file.readinto(bytearray(10)) == 0
    assert file.read_ranges([(0, HUGE), (HUGE, HUGE + 1)]) == [data, b""]
    assert file.will_need([(HUGE, HUGE + 1)]) == 0
    assert len(file.pin(HUGE)) == 0
    file.invalidate(0, HUGE)
    assert file.pread(10, 0) == data[:10]
    for call in [
        lambda: file.pread(2**64, 0),
        lambda: file.pread(0, 2**64),
        lambda: file.read(2**64),
        lambda: file.seek(2**64),
        lambda: file.read_ranges([(0, 2**64)]),
        lambda: file.pin(0, -(2**64)),
    ]:
        with pytest.raises(OverflowError):
            call()


def test_more_than_there_is_memory_for_is_a_memory_error(engine):
    file = engine.open_fetcher(lambda start, end: bytes(end - start), 2**50, "memory:huge")
    for call in [lambda: file.read(), lambda: file.pread(2**50, 0)]:
        with pytest.raises(MemoryError):
            call()
    with pytest.raises(OSError) as raised:
        file.read_ranges([(0, 2**50)])
    assert raised.value.errno == errno.ENOMEM
    with pytest.raises(OSError):
        file.pin(0, 2**50)
    assert file.pread(10, 2**50 - 5) == bytes(5)


def test_buffers_of_the_system_and_of_foreign_types(engine, path, data):
    file = engine.open(path)
    read_only = mmap.mmap(-1, 4096, prot=mmap.PROT_READ)
    for buffer in [read_only, "text", None, object(), [0] * 10, bytes(10), file.pin(0)]:
        with pytest.raises(TypeError):
            file.preadinto(buffer, 0)
    ours = (ctypes.c_uint32 * 10)()
    assert file.preadinto(ours, 4) == 40 and bytes(ours) == data[4:44]
    table = memoryview(bytearray(100)).cast("B", (10, 10))
    assert file.preadinto(table, 0) == 100 and table.tobytes() == data[:100]
    released = memoryview(bytearray(10))
    released.release()
    with pytest.raises((ValueError, TypeError)):
        file.preadinto(released, 0)


NO_MEMORY = [0, -1, 1, "1KiB", "64KiB", 2**63, 2**64, 2**70, "", "much", 1.5]


@pytest.mark.parametrize("memory", NO_MEMORY)
def test_a_memory_that_cannot_be_had_is_said(memory):
    with pytest.raises((ValueError, OverflowError, MemoryError, OSError, TypeError)) as raised:
        foreread.Engine(memory)
    assert str(raised.value)


def test_the_smallest_engine_reads_all(path, data):
    for mib in (1, 2, 4):
        try:
            engine = foreread.Engine(mib << 20)
        except (ValueError, OSError) as error:
            assert "memory" in str(error)
            continue
        file = engine.open(path)
        assert file.read() == data
        assert file.read_ranges([(0, 1 << 20), (2 << 20, 3 << 20)])[1] == data[2 << 20 : 3 << 20]


def test_a_handler_of_a_signal_may_not_read_where_it_interrupted_a_read(engine):
    hung, started, seen = threading.Event(), threading.Event(), []

    def fetch(start, end):
        started.set()
        hung.wait()
        return bytes(end - start)

    file = engine.open_fetcher(fetch, 1 << 20, "memory:interrupted")

    def handler(*_):
        try:
            file.tell()
        except RuntimeError as error:
            seen.append(error)
        hung.set()

    def interrupt():
        started.wait()
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        assert file.read(100) == bytes(100)
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)
    assert len(seen) == 1 and "reentrant" in str(seen[0])
    assert file.tell() == 100


def test_a_file_that_is_closed_beneath_a_read_lets_it_end(engine):
    hung, started = threading.Event(), threading.Event()

    def fetch(start, end):
        started.set()
        hung.wait()
        return bytes(end - start)

    file = engine.open_fetcher(fetch, 1 << 20, "memory:closed")
    results = []
    thread = threading.Thread(target=lambda: results.append(file.pread(10, 0)))
    thread.start()
    started.wait()
    file.close()
    hung.set()
    thread.join()
    assert results == [bytes(10)]


def test_a_file_that_becomes_shorter_ends_where_it_ends(engine, path, data):
    file = engine.open(path, buffered=True)
    assert file.pread(10, 0) == data[:10]
    os.truncate(path, 5000)
    # A read may see the old bytes that are cached, the new end, or an error; never other bytes.
    try:
        tail = file.pread(len(data), 4990)
    except OSError as error:
        assert error.errno and error.filename == str(path)
    else:
        assert data[4990:].startswith(tail)
    assert file.refresh() == 5000
    file.invalidate(0, len(data))
    assert file.pread(100, 4990) == data[4990:5000] and file.pread(1, 6000) == b""


@pytest.mark.parametrize("url", ["s3://", "s3://bucket", "s3:///key", "https://", "x://bucket/key"])
def test_urls_of_nothing_are_errors_that_name_them(engine, url):
    with pytest.raises((OSError, ValueError, NotImplementedError)) as raised:
        engine.open(url)
    assert url.partition(":")[0] in str(raised.value)


CHILD = """
import foreread
try:
    foreread.open("s3://bucket/key")
except OSError as error:
    print(type(error).__name__, error)
"""


def test_without_credentials_it_says_what_is_missing(store, data, tmp_path):
    store.put("key", data)
    store.key = "lab"
    gone = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment = {
        **gone,
        "HOME": str(tmp_path),
        "AWS_ENDPOINT_URL": store.endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    done = subprocess.run(
        [sys.executable, "-c", CHILD], env=environment, capture_output=True, text=True, timeout=50
    )
    assert done.returncode == 0, done.stderr
    assert "credential" in done.stdout.lower(), done.stdout
