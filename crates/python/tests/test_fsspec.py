"""fsspec: the cache type and the file system around others, over real file systems."""

import errno
import gzip
import http.server
import io
import os
import pickle
import re
import subprocess
import sys
import threading

import pytest

import foreread
from conftest import CountingFetcher, pattern

fsspec = pytest.importorskip("fsspec")

import fsspec.caching  # noqa: E402
from fsspec.implementations.local import LocalFileSystem, make_path_posix  # noqa: E402
from fsspec.implementations.memory import MemoryFileSystem  # noqa: E402
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem  # noqa: E402
from fsspec.tests import abstract  # noqa: E402

from foreread.fsspec import ForereadCache, ForereadFileSystem  # noqa: E402


class CountingFile(AbstractBufferedFile):
    def _fetch_range(self, start, end):
        return self.fs.fetch(self.path, start, end)


class CountingFileSystem(AbstractFileSystem):
    """Files in memory, with versions; it counts the requests for their bytes."""

    protocol = "counting"
    cachable = False

    def __init__(self, files, **kwargs):
        super().__init__(**kwargs)
        self.files = {path: (CountingFetcher(data), 1) for path, data in files.items()}

    def info(self, path, **kwargs):
        path = self._strip_protocol(path)
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, "no such object", path)
        fetcher, version = self.files[path]
        size = len(fetcher.data)
        return {"name": path, "type": "file", "size": size, "ETag": f"{id(self)}-{version}"}

    def replace(self, path, data):
        self.files[path] = (CountingFetcher(data), self.files[path][1] + 1)

    def fetch(self, path, start, end):
        return self.files[path][0](start, end)

    def requests(self, path):
        return self.files[path][0].ranges

    def _open(self, path, mode="rb", **kwargs):
        file = CountingFile(self, path, mode, **kwargs)
        file.details = self.info(path)
        return file


@pytest.fixture
def counting(data):
    return CountingFileSystem({"a": data, "b": data[::-1]})


def test_the_cache_type_is_registered():
    assert fsspec.caching.caches["foreread"] is ForereadCache


def test_the_file_system_is_found_without_an_import():
    code = """
import fsspec
fs, path = fsspec.url_to_fs("foreread::memory://a/b")
assert type(fs).__name__ == "ForereadFileSystem" and path == "/a/b", (fs, path)
assert "foreread" in fsspec.available_protocols()
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("missing", ["fsspec", "fsspec.implementations.chained"])
def test_without_fsspec_or_with_an_old_one_the_error_says_what_to_install(missing):
    """The extra asked for releases that have no chained file systems."""
    code = f"""
import sys
sys.modules[{missing!r}] = None
try:
    import foreread.fsspec
except ImportError as error:
    assert "2025.10" in str(error) and "pip install -U 'foreread[fsspec]'" in str(error), error
else:
    raise SystemExit("no error")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_cached_file_reads_its_bytes(counting, data):
    with counting.open("a", cache_type="foreread") as file:
        assert file.read(10) == data[:10]
        file.seek(1 << 20)
        assert file.read(5000) == data[1 << 20 : (1 << 20) + 5000]
        file.seek(-7, 2)
        assert file.read() == data[-7:] and file.read(1) == b""
        file.seek(0)
        assert file.read() == data


def test_a_file_that_is_opened_again_makes_no_request(counting, data):
    for _ in range(3):
        with counting.open("a", cache_type="foreread") as file:
            assert file.read() == data
    fetched = counting.files["a"][0]
    assert fetched.bytes == len(data)
    counting.replace("a", data[::-1])
    with counting.open("a", cache_type="foreread") as file:
        assert file.read() == data[::-1]
    assert counting.files["a"][0].bytes == len(data)


def test_through_the_chain_a_file_has_the_same_pages(counting, data):
    with counting.open("a", cache_type="foreread") as file:
        assert file.read() == data
    chained = ForereadFileSystem(fs=counting)
    with chained.open("a") as file:
        assert file.read() == data and file.size == len(data)
    assert counting.files["a"][0].bytes == len(data)


def test_bytes_fetched_are_those_that_are_read(counting, data):
    """Random reads fetch their pages, and nothing else, once the pattern is known."""
    with ForereadFileSystem(fs=counting).open("a") as file:
        wanted = set()
        for number in range(200):
            at = number * 7919 * 4096 % (len(data) - 4096) // 4096 * 4096
            file.seek(at)
            assert file.read(4096) == data[at : at + 4096]
            wanted.add(at)
    assert counting.files["a"][0].bytes <= 1.5 * 4096 * len(wanted)


def test_files_share_one_memory_bound():
    """48 files of 128 KiB through 4 MiB of memory, read in turns: each byte is fetched once."""
    engine = foreread.Engine("4MiB")
    data = pattern(1 << 17)
    options = {"cache_type": "foreread", "cache_options": {"engine": engine}}
    fs = CountingFileSystem({f"f{number}": data for number in range(48)})
    files = [fs.open(f"f{number}", **options) for number in range(48)]
    for at in range(0, len(data), 16 << 10):
        for file in files:
            assert file.read(16 << 10) == data[at : at + (16 << 10)]
    assert sum(fetcher.bytes for fetcher, _ in fs.files.values()) == 48 * len(data)


def test_a_bare_fetcher_has_a_cache(data):
    fetch = CountingFetcher(data)
    cache = ForereadCache(1 << 20, fetch, len(data))
    assert cache._fetch(5, 10) == data[5:10] and cache._fetch(None, None) == data
    assert cache._fetch(len(data), len(data) + 5) == b"" and cache._fetch(9, 3) == b""
    assert fetch.bytes == len(data)


def test_what_the_file_system_raises_comes_with_its_cause(counting):
    file = counting.open("a", cache_type="foreread")
    raised = PermissionError(errno.EACCES, "no credentials")

    def fetch(path, start, end):
        raise raised

    counting.fetch = fetch
    with pytest.raises(PermissionError) as caught:
        file.read(10)
    assert caught.value.__cause__ is raised and caught.value.filename == "counting://a"
    chained = ForereadFileSystem(fs=counting)
    with pytest.raises(FileNotFoundError):
        chained.open("missing")


def test_files_and_file_systems_can_be_pickled(tmp_path, data):
    (tmp_path / "x").write_bytes(data)
    fs = ForereadFileSystem(target_protocol="file")
    with fs.open(str(tmp_path / "x")) as file:
        file.seek(1000)
        copy = pickle.loads(pickle.dumps(file))
        assert copy.read(10) == data[1000:1010]
    assert pickle.loads(pickle.dumps(fs)) == fs
    of = fsspec.open(f"foreread::file://{tmp_path}/x")
    with pickle.loads(pickle.dumps(of)) as file:
        assert file.read() == data


def test_a_forked_child_opens_its_files_anew(counting, data):
    with ForereadFileSystem(fs=counting).open("a") as file, counting.open(
        "b", cache_type="foreread"
    ) as other:
        assert file.read(10) == data[:10] and other.read(5) == data[::-1][:5]
        child = os.fork()
        if child == 0:
            status = 1
            try:
                is_right = file.read(10) == data[10:20] and other.read(5) == data[::-1][5:10]
                status = 0 if is_right else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert file.read(10) == data[10:20]


def test_ranges_of_one_file_are_read_together(counting, data):
    fs = ForereadFileSystem(fs=counting)
    ranges = fs.cat_ranges(["a", "b", "a", "x"], [0, 10, -5, 0], [5, 20, None, 1])
    assert ranges[:3] == [data[:5], data[::-1][10:20], data[-5:]]
    assert isinstance(ranges[3], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(["x"], 0, 1, on_error="raise")
    assert fs.cat_file("a", 7, 9) == data[7:9]


def test_ranges_of_many_files_are_read_at_once(data):
    fs = CountingFileSystem({f"file {number}": data for number in range(8)})
    all_are_here = threading.Barrier(8)
    fetch = fs.fetch

    def fetch_together(path, start, end):
        all_are_here.wait(60)
        return fetch(path, start, end)

    fs.fetch = fetch_together
    paths = list(fs.files)
    assert ForereadFileSystem(fs=fs).cat_ranges(paths, 5, 10) == [data[5:10]] * 8
    with pytest.raises(FileNotFoundError):
        ForereadFileSystem(fs=fs).cat_ranges([*paths, "x"], 5, 10, on_error="raise")


def test_a_local_file_is_read_by_the_engine_itself(tmp_path, data):
    (tmp_path / "x").write_bytes(data)
    with fsspec.open(f"foreread::file://{tmp_path}/x") as file:
        assert file.read(100) == data[:100]
        assert type(file.cache.file) is foreread.File
        buffer = bytearray(10)
        assert file.readinto(buffer) == 10 and buffer == data[100:110]
    with pytest.raises(IsADirectoryError):
        fsspec.open(f"foreread::file://{tmp_path}").open()
    with fsspec.open(f"foreread::file://{tmp_path}/new", "wb") as file:
        file.write(b"written")
    with fsspec.open(f"foreread::file://{tmp_path}/new", "rt") as file:
        assert file.read() == "written"


@pytest.mark.parametrize("content", [b"other", b"short", b"a longer one", b"x"])
def test_a_local_file_that_was_changed_in_its_place_is_read_anew(tmp_path, content):
    """The pages of the version before stay open, and they are of the same inode."""
    path = tmp_path / "x"
    path.write_bytes(b"first" * 2000)
    url = f"foreread::file://{path}"
    with fsspec.open(url) as file:
        assert file.read() == b"first" * 2000
    with open(path, "r+b") as file:
        file.write(content * 2000)
        file.truncate()
    os.utime(path, (1_700_000_000, 1_700_000_000))
    with fsspec.open(url) as file:
        assert file.read() == content * 2000


def test_a_local_file_whose_time_was_set_back_is_read_anew(tmp_path):
    """rsync --inplace --times keeps size, inode and time of modification."""
    path, url = tmp_path / "x", f"foreread::file://{tmp_path}/x"

    def write(content):
        with open(path, "r+b" if path.exists() else "wb") as file:
            file.write(content)
        os.utime(path, (1_700_000_000, 1_700_000_000))

    write(b"first" * 2000)
    changed = os.stat(path).st_ctime_ns
    with fsspec.open(url) as file:
        assert file.read() == b"first" * 2000
    # Until the clock of the file system has advanced.
    while os.stat(path).st_ctime_ns == changed:
        write(b"other" * 2000)
    with fsspec.open(url) as file:
        assert file.read() == b"other" * 2000


def test_local_files_that_stay_open_leave_descriptors_to_the_program(tmp_path):
    """A data set of a thousand files took all that a process has by default."""
    fs = ForereadFileSystem(target_protocol="file")
    for number in range(300):
        (tmp_path / str(number)).write_bytes(b"%d" % number)
    before = len(os.listdir("/proc/self/fd"))
    for number in range(300):
        with fs.open(f"{tmp_path}/{number}") as file:
            assert file.read() == b"%d" % number
    assert len(os.listdir("/proc/self/fd")) - before < 150


def test_a_file_that_was_written_anew_is_read_anew():
    fs = ForereadFileSystem(target_protocol="memory")
    for content in [b"first", b"other", b"a longer one"]:
        fs.pipe_file("/anew/x", content)
        with fs.open("/anew/x") as file:
            assert file.read() == content
    fs.rm("/anew", recursive=True)


def test_a_file_that_was_changed_in_its_place_is_read_anew():
    """The memory file system states when a file was created, and that stays."""
    fs = ForereadFileSystem(target_protocol="memory")
    fs.pipe_file("/changed/x", b"first")
    assert fs.cat_file("/changed/x", start=0, end=5) == b"first"
    with fs.fs.open("/changed/x", "r+b") as file:
        file.write(b"other")
    assert fs.cat_file("/changed/x", start=0, end=5) == b"other"
    fs.rm("/changed", recursive=True)


class RangeHandler(http.server.BaseHTTPRequestHandler):
    """Serves one object by ranges, and counts what it sends."""

    protocol_version = "HTTP/1.1"

    def answer(self, with_body):
        data = self.server.data
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        start, end = (int(wanted[1]), int(wanted[2]) + 1) if wanted else (0, len(data))
        body = data[start:end]
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", '"v1"')
        if wanted:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
        self.end_headers()
        if with_body:
            self.server.sent.append(len(body))
            self.wfile.write(body)

    def do_GET(self):
        self.answer(True)

    def do_HEAD(self):
        self.answer(False)

    def log_message(self, *args):
        pass


def test_an_http_server_is_read_by_ranges(data):
    pytest.importorskip("aiohttp")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), RangeHandler)
    server.data, server.sent = data, []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/x"
    try:
        for _ in range(2):
            with fsspec.open(f"foreread::{url}") as file:
                file.seek(100_000)
                assert file.read(1000) == data[100_000:101_000]
                file.seek(0)
                assert file.read() == data
            assert sum(server.sent) == len(data)
        with fsspec.open(url, cache_type="foreread") as file:
            assert file.read() == data
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class OverMemory(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self):
        target = MemoryFileSystem()
        target.store.clear()
        target.pseudo_dirs[:] = [""]
        yield ForereadFileSystem(fs=target)
        target.store.clear()
        target.pseudo_dirs[:] = [""]

    @pytest.fixture
    def fs_join(self):
        return lambda *args: "/".join(args)

    @pytest.fixture
    def fs_path(self):
        return ""

    @pytest.fixture
    def supports_empty_directories(self):
        return True


class OverLocal(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self):
        return ForereadFileSystem(fs=LocalFileSystem(auto_mkdir=True))

    @pytest.fixture
    def fs_path(self, tmpdir):
        return make_path_posix(str(tmpdir))

    @pytest.fixture
    def fs_sanitize_path(self):
        return make_path_posix


class TestGetOverMemory(abstract.AbstractGetTests, OverMemory):
    pass


class TestGetOverLocal(abstract.AbstractGetTests, OverLocal):
    pass


class TestCopyOverMemory(abstract.AbstractCopyTests, OverMemory):
    pass


class TestCopyOverLocal(abstract.AbstractCopyTests, OverLocal):
    pass


class TestPutOverMemory(abstract.AbstractPutTests, OverMemory):
    pass


class TestPutOverLocal(abstract.AbstractPutTests, OverLocal):
    pass


class TestPipeOverMemory(abstract.AbstractPipeTests, OverMemory):
    pass


class TestPipeOverLocal(abstract.AbstractPipeTests, OverLocal):
    pass


class TestOpenOverMemory(abstract.AbstractOpenTests, OverMemory):
    pass


class TestOpenOverLocal(abstract.AbstractOpenTests, OverLocal):
    pass


def test_lines_are_those_of_io_and_compressed_ones_are_read():
    """Each line read a block of 5 MiB and sought back."""
    fs = fsspec.filesystem("memory")
    lines = [b"x" * (number % 300) + b"\n" for number in range(2000)] + [b"y" * 200_000, b"\nend"]
    text = b"".join(lines)
    fs.pipe_file("/lines/plain", text)
    fs.pipe_file("/lines/text.gz", gzip.compress(text))
    with fsspec.open("foreread::memory://lines/plain") as ours:
        theirs = io.BytesIO(text)
        for at in (0, 1000, 300_000, len(text) - 2, len(text)):
            assert ours.seek(at) == theirs.seek(at)
            for size in (None, 0, 3, -1, 100_000, -1):
                assert ours.readline(size) == theirs.readline(size)
                assert ours.read(5) == theirs.read(5) and ours.tell() == theirs.tell()
        ours.seek(0)
        assert list(ours) == list(io.BytesIO(text))
    with fsspec.open("foreread::memory://lines/text.gz", compression="gzip") as file:
        assert list(file) == list(io.BytesIO(text))
