"""Engines: settings, counters, pickles, forks, the end of the process."""

import os
import pickle
import subprocess
import sys

import pytest

import foreread
from conftest import in_child


def test_sizes_are_numbers_or_text():
    sizes = {"2GiB": 2 << 30, "512M": 512 << 20, "64 KiB": 65536, "2GB": 2 * 10**9, "100": 100}
    for text, size in sizes.items():
        assert foreread.parse_size(text) == size
    assert foreread.parse_size("1.5GiB") == 3 << 29 and foreread.parse_size(7) == 7
    for text in ["", "GiB", "2 Gigs", "-1", "1e9", "2GiBB"]:
        with pytest.raises(ValueError, match="is not a size"):
            foreread.parse_size(text)


def test_settings_that_make_no_sense_are_value_errors():
    for settings in [
        {"memory": "1KiB"},
        {"memory": -1},
        {"policy": "best"},
        {"io_backend": "magic"},
        {"timeout": -1.0},
        {"timeout": float("nan")},
        {"max_window": "wide"},
    ]:
        with pytest.raises(ValueError):
            foreread.Engine(**settings)


@pytest.mark.parametrize("policy", foreread.POLICIES)
def test_every_policy_reads_the_same_bytes(policy, path, data):
    engine = foreread.Engine("8MiB", policy=policy, io_backend="threads")
    assert engine.open(path).read() == data
    assert "threads" in engine.io_backend


def test_memory_can_be_taken_before_the_first_read():
    """Of a process of its own: memory that this one has freed would be counted as well."""
    code = """
import foreread, pickle
def kilobytes():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
before = kilobytes()
late = foreread.Engine("64MiB")
between = kilobytes()
early = foreread.Engine("64MiB", prefault=True)
assert between - before < 16 << 10 and kilobytes() - between > 48 << 10, before
assert pickle.loads(pickle.dumps(early)) is early
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_counters_tell_hits_from_misses(engine, path):
    file = engine.open(path)
    file.pread(4096, 0)
    before = engine.counters()
    file.pread(4096, 0)
    after = engine.counters()
    assert before["misses"] >= 1 and after["hits"] == before["hits"] + 1
    assert after["device_reads"] == before["device_reads"]


def test_settings_can_be_changed_while_it_runs(engine):
    name, value = next(iter(engine.settings().items()))
    engine.set(name, value)
    with pytest.raises(ValueError):
        engine.set("no such setting", 1)


def test_a_pickled_file_is_opened_again_where_it_was(engine, path, data):
    file = engine.open(path)
    file.seek(1234)
    copy = pickle.loads(pickle.dumps(file))
    assert copy.read(100) == data[1234:1334] and file.tell() == 1234
    assert copy._engine is engine
    code = f"""
import pickle
a, b = pickle.loads({pickle.dumps([file, engine.open(path)])!r})
assert a.read(100) == {data[1234:1334]!r} and b.read(10) == {data[:10]!r}
assert a._engine is b._engine and a._engine.memory == {engine.memory}
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_pickle_of_a_relative_path_is_of_the_file_that_is_open(
    engine, path, data, tmp_path, monkeypatch
):
    monkeypatch.chdir(path.parent)
    file = engine.open(path.name)
    other = tmp_path / "other"
    other.mkdir()
    (other / path.name).write_bytes(b"another file of that name")
    monkeypatch.chdir(other)
    assert file.name == path.name
    assert pickle.loads(pickle.dumps(file)).read() == data


def test_a_fetched_file_says_that_it_cannot_be_pickled(engine):
    file = engine.open_fetcher(lambda start, end: bytes(end - start), 100, "zeros")
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(file)


def raises_forked(call):
    try:
        call()
    except foreread.EngineForkedError as error:
        return error.errno is not None
    return False


def test_a_forked_child_gets_errors_and_can_make_an_engine_of_its_own(engine, path, data):
    file = engine.open(path)
    file.read(10)
    default = foreread.default_engine()
    pin = file.pin(0)

    def child():
        calls = [
            file.read,
            file.tell,
            lambda: file.pread(10, 0),
            lambda: file.pread(10, 1 << 20),
            lambda: file.read_ranges([(0, 10)]),
            lambda: file.pin(0),
            lambda: engine.open(path),
            lambda: engine.counters(),
        ]
        return (
            all([raises_forked(call) for call in calls])
            and bytes(pin) == data[:4096]
            and foreread.open(path).read() == data
            and foreread.default_engine() is not default
            and foreread.Engine("4MiB").open(path).pread(10, 5) == data[5:15]
        )

    assert in_child(child)
    assert file.read(10) == data[10:20] and foreread.default_engine() is default


def test_the_default_engine_has_one_bound(path, data):
    code = f"""
import foreread
assert foreread.open({str(path)!r}).read(5) == {data[:5]!r}
assert foreread.default_engine() is foreread.default_engine("16MiB")
assert foreread.default_engine().memory == 16 << 20
try:
    foreread.default_engine("32MiB")
except ValueError as error:
    assert "16777216" in str(error)
else:
    raise SystemExit("no error")
"""
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "FOREREAD_MEMORY": "16M"}
    )
    wrong = subprocess.run(
        [sys.executable, "-c", "import foreread; foreread.default_engine()"],
        env={**os.environ, "FOREREAD_MEMORY": "much"}, capture_output=True, text=True,
    )  # fmt: skip
    assert "ValueError: FOREREAD_MEMORY: 'much' is not a size" in wrong.stderr


def test_a_process_has_one_default_engine_however_it_comes_by_it(path, data):
    """A file that was unpickled had an engine beside the one of foreread.open: twice the memory."""
    default = foreread.default_engine()
    code = f"""
import pickle, foreread
file = pickle.loads({pickle.dumps(foreread.open(path))!r})
assert file.read(10) == {data[:10]!r}
assert file._engine is foreread.default_engine() is foreread.open({str(path)!r})._engine
assert file._engine.memory == {default.memory}
"""
    settings = {name: text for name, text in os.environ.items() if name != "FOREREAD_MEMORY"}
    for more in [{}, {"FOREREAD_MEMORY": "8M"}]:
        subprocess.run([sys.executable, "-c", code], check=True, env={**settings, **more})


def test_a_forked_child_keeps_the_bound_of_its_parent(path):
    """It had 256 MiB, whatever the program had set."""
    code = f"""
import os, foreread
def child(asked):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if foreread.open({str(path)!r})._engine.memory == asked else 1)
    assert os.waitpid(pid, 0)[1] == 0
foreread.default_engine("16MiB")
child(16 << 20)
os.environ["FOREREAD_MEMORY"] = "8M"
child(8 << 20)
"""
    settings = {name: text for name, text in os.environ.items() if name != "FOREREAD_MEMORY"}
    subprocess.run([sys.executable, "-c", code], check=True, env=settings)


def test_the_interpreter_ends_while_reads_and_threads_are_on_their_way(path):
    code = f"""
import threading, foreread
hung = threading.Event()
def fetch(start, end):
    started.set()
    hung.wait()
started = threading.Event()
engine = foreread.Engine("8MiB")
file = engine.open_fetcher(fetch, 1 << 20, "hung")
reader = threading.Thread(target=file.read, daemon=True)
reader.start()
started.wait()
other = foreread.open({str(path)!r})
other.will_need([(0, 1 << 20)])
pin = memoryview(other.pin(0))
print("end")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=120, capture_output=True, text=True
    )
    assert done.stdout == "end\n" and done.stderr == ""


def test_the_interpreter_ends_while_fetchers_have_answers_to_give():
    """Threads of the engine that attached while it ended aborted the process."""
    code = """
import time, foreread
file = foreread.Engine("8MiB").open_fetcher(
    lambda start, end: (time.sleep(0.001), bytes(end - start))[1], 1 << 30, "zeros"
)
file.read(1 << 20)
file.will_need([(at, at + 4096) for at in range(1 << 21, 1 << 24, 1 << 18)])
"""
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_interpreter_ends_while_daemon_threads_read(path):
    code = f"""
import threading, foreread
file = foreread.Engine("2MiB").open({str(path)!r})
def read():
    while True:
        started.release()
        file.pread(300_000, 1 << 20)
        file.invalidate()
started = threading.Semaphore(0)
for _ in range(4):
    threading.Thread(target=read, daemon=True).start()
for _ in range(40):
    started.acquire()
"""
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
