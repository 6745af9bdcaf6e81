"""A callable as a file: what it is asked for, and what becomes of its errors."""

import errno
import mmap
import signal
import subprocess
import sys
import threading

import pytest

import foreread
from conftest import CountingFetcher, pattern


def test_the_bytes_are_those_of_the_callable(engine, data):
    fetch = CountingFetcher(data)
    file = engine.open_fetcher(fetch, len(data), "memory:data")
    assert file.read() == data and file.name == "memory:data"
    requests = len(fetch.ranges)
    assert fetch.bytes == len(data) and requests < 60
    file.seek(0)
    assert file.read() == data and len(fetch.ranges) == requests
    assert file.read_ranges([(5, 9), (1, 3)]) == [data[5:9], data[1:3]]


def test_small_reads_in_order_become_large_requests():
    # Windows of this policy have a fixed largest size, whatever the machine's speed.
    engine = foreread.Engine("32MiB", policy="linux-6")
    data = pattern(8 << 20)
    fetch = CountingFetcher(data)
    file = engine.open_fetcher(fetch, len(data), "memory:scan")
    for at in range(0, len(data), 4096):
        assert file.read(4096) == data[at : at + 4096]
    assert fetch.bytes == len(data)
    assert len(fetch.ranges) < len(data) / 4096 / 8


def test_two_positions_in_turns_fetch_each_byte_once(engine):
    data = pattern(8 << 20)
    fetch = CountingFetcher(data)
    file = engine.open_fetcher(fetch, len(data), "memory:turns")
    half = len(data) // 2
    for at in range(0, half, 32 << 10):
        for offset in (at, half + at):
            file.seek(offset)
            assert file.read(32 << 10) == data[offset : offset + (32 << 10)]
    assert fetch.bytes == len(data)


def test_one_version_has_one_set_of_pages(engine, data):
    first, second, third = (CountingFetcher(data) for _ in range(3))
    one = engine.open_fetcher(first, len(data), "memory:a", "v1")
    assert one.read(100_000) == data[:100_000]
    two = engine.open_fetcher(second, len(data), "memory:a", "v1")
    assert two.read(100_000) == data[:100_000] and not second.ranges
    new = engine.open_fetcher(third, len(data), "memory:a", "v2")
    assert new.read(10) == data[:10] and third.ranges


@pytest.mark.parametrize(
    ("raised", "expected", "number"),
    [
        (FileNotFoundError(errno.ENOENT, "gone", "x"), FileNotFoundError, errno.ENOENT),
        (FileNotFoundError("gone"), FileNotFoundError, errno.ENOENT),
        (PermissionError("no credentials"), PermissionError, errno.EACCES),
        (TimeoutError(), TimeoutError, errno.ETIMEDOUT),
        (OSError(errno.ESTALE, "changed"), OSError, errno.ESTALE),
        (KeyError("what"), OSError, errno.EIO),
        (SystemExit(3), OSError, errno.EIO),
    ],
)
def test_what_a_fetcher_raises_is_an_os_error_with_its_cause(engine, raised, expected, number):
    def fetch(start, end):
        raise raised

    file = engine.open_fetcher(fetch, 1 << 20, "memory:failing")
    for read in [file.read, lambda: file.pread(10, 5), lambda: file.read_ranges([(0, 10)])]:
        with pytest.raises(expected) as caught:
            read()
        assert caught.value.errno == number and caught.value.filename == "memory:failing"
        assert caught.value.__cause__ is raised


def test_what_an_exception_keeps_may_fail_as_well():
    """Old exceptions were dropped under the lock that another one needed: the interpreter hung."""
    code = """
import os, threading, foreread

class Kept:
    def __del__(self):
        try:
            other.pread(1, 0)
        except OSError:
            dropped.set()

def gone_with_more():
    error = OSError("gone")
    error.kept = Kept()
    return error

def fail(start, end):
    # Without a name for it here, whose frame the exception has: it ends at once.
    raise gone_with_more()

def gone(start, end):
    raise OSError("gone, too")

dropped = threading.Event()
engine = foreread.Engine("8MiB")
other = engine.open_fetcher(gone, 1 << 20, "other")
files = [engine.open_fetcher(fail, 1 << 20, f"file {number}") for number in range(40)]
for file in files:
    file.will_need([(0, 4096)])
dropped.wait()
# Those that are kept still would read while the interpreter ends.
os._exit(7)
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 7


def test_answers_of_the_wrong_length_or_type_are_errors(engine):
    answers = [
        (lambda start, end: b"", "shorter"),
        (lambda start, end: bytes(end - start + 1), "returned more than"),
        (lambda start, end: None, "Input/output|returned NoneType"),
    ]
    for fetch, text in answers:
        file = engine.open_fetcher(fetch, 1 << 20, f"memory:{text}")
        with pytest.raises(OSError, match=text):
            file.read(100)
    ok = engine.open_fetcher(lambda start, end: bytearray(end - start), 100, "memory:bytearray")
    assert ok.read() == bytes(100)
    ok = engine.open_fetcher(lambda start, end: memoryview(bytes(end - start)), 99, "memory:view")
    assert ok.read() == bytes(99)


def test_a_failed_request_is_asked_for_again_by_the_next_read(engine, data):
    is_down = True

    def fetch(start, end):
        if is_down:
            raise ConnectionResetError(errno.ECONNRESET, "reset")
        return data[start:end]

    file = engine.open_fetcher(fetch, len(data), "memory:flaky")
    with pytest.raises(ConnectionResetError):
        file.read(10)
    is_down = False
    assert file.read(10) == data[:10]


@pytest.mark.parametrize("answer", ["raises", "too long", "no bytes"])
def test_a_wrong_answer_is_not_followed_by_a_call_for_each_page(engine, answer):
    """A read of 1 MiB from a fetcher that raised called it 257 times."""
    calls = []

    def fetch(start, end):
        calls.append((start, end))
        if answer == "raises":
            raise PermissionError(errno.EPERM, "no")
        return None if answer == "no bytes" else bytes(end - start + 1)

    file = engine.open_fetcher(fetch, 8 << 20, "memory:wrong")
    file.advise("random")
    with pytest.raises(OSError) as raised:
        file.pread(64 << 10, 0)
    if answer == "raises":
        assert isinstance(raised.value, PermissionError)
    assert calls == [(0, 64 << 10)]


def test_bad_arguments(engine):
    with pytest.raises(TypeError):
        engine.open_fetcher(None, 10, "x")
    with pytest.raises(ValueError):
        engine.open_fetcher(bytes, -1, "x")
    with pytest.raises(OverflowError):
        engine.open_fetcher(bytes, 2**64, "x")
    with pytest.raises(OSError):
        engine.open_fetcher(bytes, 2**63, "x")


def test_a_fetcher_may_read_other_files_of_the_engine(engine, path, data):
    below = engine.open(path)
    file = engine.open_fetcher(lambda a, b: below.pread(b - a, a), len(data), "over:data")
    assert file.read() == data


@pytest.mark.parametrize("act", ["read", "pread", "ranges", "pin", "readinto"])
def test_ctrl_c_ends_a_wait(engine, act):
    hung, started = threading.Event(), threading.Event()

    def fetch(start, end):
        started.set()
        hung.wait()
        return bytes(end - start)

    file = engine.open_fetcher(fetch, 1 << 20, "memory:hung")
    calls = {
        "read": lambda: file.read(100),
        "pread": lambda: file.pread(100, 5000),
        "ranges": lambda: file.read_ranges([(0, 10)]),
        "pin": lambda: file.pin(0),
        "readinto": lambda: file.readinto(bytearray(10)),
    }
    main = threading.main_thread().ident

    def interrupt():
        started.wait()
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    # A shell ignores the signal in what it runs in the background.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            calls[act]()
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
        hung.set()
    assert file.pread(10, 0) == bytes(10)


def test_ctrl_c_ends_a_wait_for_the_position_that_another_thread_has(engine):
    """It ended with the read of the other thread only."""
    hung, started = threading.Event(), threading.Event()

    def fetch(start, end):
        started.set()
        hung.wait()
        return bytes(end - start)

    file = engine.open_fetcher(fetch, 1 << 20, "memory:held")
    reader = threading.Thread(target=file.read, args=[100])
    main = threading.main_thread().ident
    interrupt = threading.Thread(target=lambda: signal.pthread_kill(main, signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    reader.start()
    started.wait()
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupt.start()
            file.read(100)
    finally:
        hung.set()
        reader.join()
        interrupt.join()
        signal.signal(signal.SIGINT, before)
    assert file.tell() == 100


def test_a_read_that_has_no_answer_times_out():
    hung = threading.Event()

    def fetch(start, end):
        hung.wait()
        return bytes(end - start)

    file = foreread.Engine("8MiB", timeout=0.2).open_fetcher(fetch, 1 << 20, "memory:slow")
    with pytest.raises(TimeoutError) as raised:
        file.read(10)
    assert raised.value.errno == errno.ETIMEDOUT
    hung.set()


def test_what_has_timed_out_before_its_turn_is_not_asked_for():
    """Behind calls that hang, requests of reads that had given up were kept, and made later."""
    engine = foreread.Engine("8MiB", timeout=0.1)
    data = pattern(4 << 20)
    fetch, hung = CountingFetcher(data), threading.Event()

    def slow(start, end):
        hung.wait()
        return fetch(start, end)

    file = engine.open_fetcher(slow, len(data), "memory:behind")
    file.advise("random")
    errors = []

    def read(at):
        try:
            file.pread(10, at)
        except TimeoutError as error:
            errors.append(error)

    threads = [threading.Thread(target=read, args=[number << 16]) for number in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 60
    hung.set()
    while True:
        try:
            assert file.pread(10, 61 << 16) == data[61 << 16 : (61 << 16) + 10]
        except TimeoutError:
            continue
        break
    # Those that hung, 16 at most; each page is asked for twice at most.
    assert len(fetch.ranges) < 40


def test_of_more_than_may_be_pinned_nothing_is_asked_for(engine):
    """Up to 256 MiB of a store were read before the error."""
    data = pattern(engine.memory // 2)
    fetch = CountingFetcher(data)
    file = engine.open_fetcher(fetch, len(data), "memory:pinned")
    with pytest.raises(foreread.PinLimitError):
        file.pin(0, len(data))
    assert not fetch.ranges
    assert bytes(file.pin(5, 10)) == data[5:15]


def test_a_timeout_is_of_the_whole_call():
    """Only time in which nothing came was counted: a read in many parts had no end."""
    engine = foreread.Engine("2MiB", timeout=0.05)
    file = engine.open_fetcher(lambda start, end: bytes(end - start), 1 << 40, "memory:long")
    with mmap.mmap(-1, 1 << 30) as buffer, pytest.raises(TimeoutError) as raised:
        file.preadinto(buffer, 0)
    assert raised.value.errno == errno.ETIMEDOUT and raised.value.filename == "memory:long"


def test_other_threads_run_while_one_waits(engine):
    hung, started = threading.Event(), threading.Event()

    def fetch(start, end):
        started.set()
        hung.wait()
        return bytes(end - start)

    file = engine.open_fetcher(fetch, 1 << 20, "memory:waits")
    reader = threading.Thread(target=file.read)
    reader.start()
    started.wait()
    # The reader waits for its fetcher, and this thread has run on.
    hung.set()
    reader.join()
    assert file.tell() == 1 << 20


def test_a_reader_with_a_lock_that_the_fetcher_needs_calls_it_itself(engine):
    """Both waited for ever: h5py has such a lock, and Python's collector ends its objects in any
    thread, also in that of a fetcher.
    """
    lock, data = threading.RLock(), pattern(100_000)

    def fetch(start: int, end: int) -> bytes:
        with lock:
            return data[start:end]

    file = engine.open_fetcher(fetch, len(data), "memory:locked")
    with lock:
        assert file.pread(10, 50_000) == data[50_000:50_010]
        assert file.read_ranges([(0, 10), (99_000, 99_010)]) == [data[:10], data[99_000:99_010]]
        assert file.read() == data


def test_an_interrupt_of_a_reader_that_calls_its_fetcher_is_raised(engine):
    lock = threading.RLock()

    def fetch(start: int, end: int) -> bytes:
        with lock:
            raise KeyboardInterrupt if threading.current_thread() is reader else OSError(5, "no")

    reader = threading.current_thread()
    file = engine.open_fetcher(fetch, 4096, "memory:interrupted")
    with lock, pytest.raises(KeyboardInterrupt):
        file.read()
