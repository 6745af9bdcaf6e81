"""A file of an engine is a file of `io`, and has what that has not."""

import array
import gc
import io
import os
import random
import sys
import threading

import pytest

import foreread


def test_reads_seeks_and_tells_as_a_file_of_io(engine, path, data):
    ours, theirs = engine.open(path), path.open("rb", buffering=0)
    assert isinstance(ours, io.RawIOBase)
    assert (ours.readable(), ours.seekable(), ours.writable()) == (True, True, False)
    assert ours.name == str(path) and ours.mode == "rb" and not ours.isatty()
    rng = random.Random(7)
    for _ in range(400):
        act = rng.randrange(6)
        if act == 0:
            to = rng.randrange(len(data) + 5000)
            assert ours.seek(to) == theirs.seek(to)
        elif act == 1:
            by = rng.randrange(0, 9000)
            assert ours.seek(by, os.SEEK_CUR) == theirs.seek(by, os.SEEK_CUR)
        elif act == 2:
            back = -rng.randrange(9000)
            assert ours.seek(back, os.SEEK_END) == theirs.seek(back, os.SEEK_END)
        elif act == 3:
            size = rng.choice([0, 1, 100, 4096, 70_000, 300_000])
            assert ours.read(size) == theirs.read(size)
        elif act == 4:
            mine, other = bytearray(5000), bytearray(5000)
            assert ours.readinto(mine) == theirs.readinto(other)
            assert mine == other
        else:
            assert ours.readline() == theirs.readline()
        assert ours.tell() == theirs.tell()
    ours.seek(1000)
    assert ours.readall() == data[1000:] and ours.read() == b"" and ours.read(None) == b""


def test_is_wrapped_by_the_buffered_reader(engine, path, data):
    with io.BufferedReader(engine.open(path), 1 << 16) as file:
        assert file.read(10) == data[:10]
        assert file.peek(5)[:5] == data[10:15]
        file.seek(123_456)
        assert file.read(300_000) == data[123_456:423_456]


def test_a_closed_file_raises_value_errors(engine, path):
    with engine.open(path) as file:
        pass
    file.close()
    for call in [
        file.read,
        file.readall,
        file.tell,
        file.readable,
        file.seekable,
        lambda: file.seek(0),
        lambda: file.pread(1, 0),
        lambda: file.readinto(bytearray(1)),
        lambda: file.pin(0),
        lambda: file.size,
        lambda: file.read_ranges([(0, 1)]),
    ]:
        with pytest.raises(ValueError, match="closed"):
            call()
    assert file.closed and "closed" in repr(file)


def test_bad_arguments_are_the_exceptions_of_io(engine, path):
    file = engine.open(path)
    for call in [
        lambda: file.pread(-1, 0),
        lambda: file.pread(1, -1),
        lambda: file.seek(-1),
        lambda: file.seek(0, 9),
        lambda: file.seek(2**62, 0) and file.seek(2**62 + 2**61, 1),
        lambda: file.read_ranges([(5, 4)]),
        lambda: file.will_need([(-1, 4)]),
        lambda: file.advise("often"),
        lambda: file.pin(-4096),
    ]:
        with pytest.raises(ValueError):
            call()
        file.seek(0)
    for call in [
        lambda: file.pread("1", 0),
        lambda: file.readinto(b"read-only"),
        lambda: file.readinto(7),
        lambda: file.read_ranges([1]),
        lambda: file.seek(1.5),
    ]:
        with pytest.raises(TypeError):
            call()
    with pytest.raises(OverflowError):
        file.pread(2**63, 0)
    with pytest.raises(BufferError):
        file.readinto(memoryview(bytearray(100))[::2])
    assert file.pread(10, 2**62) == b"" and file.pread(0, 0) == b""
    assert file.readinto(bytearray()) == 0


def test_reads_into_buffers_of_any_type(engine, path, data):
    file = engine.open(path)
    numbers = array.array("d", bytes(8000))
    assert file.readinto(numbers) == 8000 and numbers.tobytes() == data[:8000]
    view = memoryview(bytearray(100))[10:20]
    assert file.preadinto(view, 5) == 10 and view.tobytes() == data[5:15]
    end = bytearray(100)
    assert file.preadinto(end, len(data) - 3) == 3 and end[:3] == data[-3:]


def test_errors_are_os_errors_with_errno_and_name(engine, tmp_path):
    missing = tmp_path / "missing"
    with pytest.raises(FileNotFoundError) as raised:
        engine.open(missing)
    assert (raised.value.errno, raised.value.filename) == (2, str(missing))
    with pytest.raises(IsADirectoryError) as raised:
        engine.open(tmp_path)
    assert raised.value.filename == str(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no pages"):
        engine.open(tmp_path / "pipe")
    with pytest.raises(TypeError):
        engine.open(3.5)
    with pytest.raises(ValueError, match="null|nul"):
        open(f"{tmp_path}/a\0b")


def test_names_that_are_not_unicode_can_be_opened(engine, tmp_path):
    name = os.fsencode(tmp_path) + b"/\xff\xfe"
    with open(name, "wb") as file:
        file.write(b"abc")
    assert engine.open(name).read() == b"abc"
    assert engine.open(os.fsdecode(name)).read() == b"abc"
    with pytest.raises(FileNotFoundError) as raised:
        engine.open(name + b"x")
    assert raised.value.filename == os.fsdecode(name + b"x")


def test_a_file_that_grows_is_read_to_its_new_end(engine, path, data):
    file = engine.open(path)
    assert file.read() == data
    with path.open("ab") as more:
        more.write(b"more")
    assert file.read() == b"more"
    assert file.seek(0, os.SEEK_END) == len(data) + 4 == file.size


def test_many_ranges_come_in_the_order_asked(engine, path, data):
    file = engine.open(path)
    ranges = [(5000, 5010), (0, 10), (len(data) - 5, len(data) + 100), (7, 7), (0, 1 << 20)]
    assert file.read_ranges(ranges) == [data[start:end] for start, end in ranges]
    assert file.tell() == 0


def test_hints_are_taken(engine, path, data):
    file = engine.open(path)
    assert file.will_need([(0, 1 << 16)]) > 0
    file.advise("random")
    file.advise("noreuse")
    assert file.pread(100, 1000) == data[1000:1100]
    file.advise("normal")
    file.invalidate()
    assert file.pread(100, 1000) == data[1000:1100]
    assert engine.counters()["pages_hinted"] > 0


def test_pinned_pages_are_read_only_and_outlive_all(engine, path, data):
    file = engine.open(path)
    pin = file.pin(4096 + 10)
    assert pin.contiguous and len(pin) == 4096 - 10
    view = memoryview(pin)
    assert view.readonly and view == data[4106:8192]
    with pytest.raises(TypeError):
        view[0] = 1
    long = file.pin(100, 100_000)
    assert len(long) == 100_000 and long.tobytes() == data[100:100_100]
    parts = [memoryview(part) for part in long.parts()]
    assert b"".join(parts) == data[100:100_100]
    assert len(file.pin(len(data))) == 0 and bytes(file.pin(len(data))) == b""
    file.close()
    del pin, long, file, engine
    gc.collect()
    assert view == data[4106:8192] and b"".join(parts) == data[100:100_100]


def test_numpy_reads_pinned_pages_without_a_copy(engine, path, data):
    numpy = pytest.importorskip("numpy")
    pin = engine.open(path).pin(0, 4096)
    numbers = numpy.frombuffer(pin, dtype="<u4")
    assert not numbers.flags.writeable and numbers.base is not None
    assert numbers.tobytes() == data[:4096]
    into = numpy.zeros(1000, dtype="<u4")
    assert engine.open(path).readinto(into) == 4000 and into.tobytes() == data[:4000]


def test_more_than_a_quarter_of_the_memory_is_not_pinned(tmp_path):
    path = tmp_path / "large"
    path.write_bytes(bytes(2 << 20))
    file = foreread.Engine("4MiB").open(path)
    with pytest.raises(foreread.PinLimitError) as raised:
        file.pin(0, 2 << 20)
    assert raised.value.filename == str(path)
    held = file.pin(0, 1 << 19)
    assert len(held) == 1 << 19


def test_threads_read_one_file_byte_for_byte(engine, path, data):
    file = engine.open(path)
    failures = []

    def reader(seed):
        rng = random.Random(seed)
        for _ in range(400):
            at, size = rng.randrange(len(data)), rng.randrange(1, 20_000)
            if file.pread(size, at) != data[at : at + size]:
                failures.append((at, size))

    threads = [threading.Thread(target=reader, args=[seed]) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_threads_that_share_a_position_get_each_byte_once(engine, path, data):
    file = engine.open(path)
    pieces = []

    def reader():
        while piece := file.read(10_000):
            pieces.append(piece)

    threads = [threading.Thread(target=reader) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = sorted(data[at : at + 10_000] for at in range(0, len(data), 10_000))
    assert sorted(pieces) == expected


def test_opens_and_reads_leave_no_memory_behind(engine, path):
    def rounds(count):
        for _ in range(count):
            with engine.open(path) as file:
                file.read(100)
                memoryview(file.pin(0))
                with pytest.raises(FileNotFoundError):
                    engine.open(f"{path}.missing")

    rounds(200)
    gc.collect()
    blocks = sys.getallocatedblocks()
    rounds(500)
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 250


def text_of(rng: random.Random) -> bytes:
    """Lines of all lengths, the last without an end."""
    lines = [b"x" * rng.choice([0, 1, 30, 5000, 70_000, 200_000]) + b"\n" for _ in range(40)]
    return b"".join(lines) + b"\r\0end"


def test_lines_are_those_of_io_with_seeks_and_reads_among_them(engine, tmp_path):
    """A line was read by as many calls as it has bytes."""
    rng = random.Random(36)
    text = text_of(rng)
    path = tmp_path / "text"
    path.write_bytes(text)
    ours, theirs = engine.open(path), path.open("rb")
    for _ in range(3000):
        act = rng.randrange(8)
        if act == 0:
            to = rng.randrange(len(text) + 100)
            assert ours.seek(to) == theirs.seek(to)
        elif act == 1:
            by = rng.randrange(-10, 10)
            if theirs.tell() + by >= 0:
                assert ours.seek(by, os.SEEK_CUR) == theirs.seek(by, os.SEEK_CUR)
        elif act == 2:
            size = rng.choice([0, 1, 100, 5000])
            assert ours.read(size) == theirs.read(size)
        elif act == 3:
            mine, other = bytearray(50), bytearray(50)
            assert ours.readinto(mine) == theirs.readinto(other) and mine == other
        elif act == 4:
            peeked = ours.peek(1)
            assert bool(peeked) == bool(theirs.peek(1))
            assert text[theirs.tell() :].startswith(peeked)
        elif act == 5:
            size = rng.choice([None, -1, 0, 1, 3, 40, 100_000])
            assert ours.readline(size) == theirs.readline(size)
        elif act == 6:
            assert next(ours, None) == next(theirs, None)
        else:
            hint = rng.choice([1, 10_000])
            assert ours.readlines(hint) == theirs.readlines(hint)
        assert ours.tell() == theirs.tell()
    assert ours.seek(0) == 0 and list(ours) == list(io.BytesIO(text))
    assert ours.tell() == len(text) and ours.readline() == b"" and ours.peek() == b""
    ours.seek(0)
    theirs.seek(0)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine == other and ours.tell() == theirs.tell()
        if rng.randrange(3) == 0:
            assert ours.read(7) == theirs.read(7)
    ours.seek(0)
    assert len(list(zip(ours, ours, strict=False))) == len(list(io.BytesIO(text))) // 2


def test_a_line_that_has_grown_is_read_on(engine, tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"first\nsec")
    file = engine.open(path)
    assert [file.readline(), file.readline(), file.readline()] == [b"first\n", b"sec", b""]
    with path.open("ab") as more:
        more.write(b"ond\n")
    file.invalidate()
    assert file.readline() == b"ond\n"


def test_the_mode_is_rb_and_others_are_refused(engine, path):
    assert engine.open(path, "rb").read(1) == foreread.open(path, mode="br").read(1)
    for mode in ["r", "rt", "w", "wb", "ab", "r+b", "x", "", "b", "rbb"]:
        with pytest.raises(ValueError, match="give 'rb'"):
            engine.open(path, mode)
