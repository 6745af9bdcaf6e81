"""Sweeps: the same bytes whatever ran them, lost workers, resuming, wrong grids."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading

import pytest

from foreread import sim, sweep
from foreread.sweep import _inputs

SMALL = """\
name = "small"

[cache]
memory = "1M"

[device.disk]
model.flash = { capacity = "64M", mb_per_s = 200, overhead_us = 100 }

[file.data]
device = "disk"
size = "2M"

[[process]]
name = "search"
run.random = { file = "data", read = "4K", reads = 40 }
"""

THOUSAND = """\
scenario = "small.toml"
trace = "disk.csv"
policy = ["none", "fixed", "linux-6", "adaptive"]
memory = ["1M", "2M"]
seed = { from = 1, count = 124 }
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with a grid of 1,000 small runs."""
    (tmp_path / "small.toml").write_text(SMALL)
    rows = (f"{1538323200 + number // 50},{number * 8},8,0,1\n" for number in range(100))
    (tmp_path / "disk.csv").write_text("".join(rows))
    (tmp_path / "grid.toml").write_text(THOUSAND)
    return tmp_path


def run_script(folder: pathlib.Path, script: str, **more) -> subprocess.CompletedProcess:
    """Runs a program of Python, which is guarded as programs that start processes must be."""
    lines = "".join(f"    {line}\n" for line in script.splitlines())
    program = folder / "program.py"
    program.write_text(
        "import multiprocessing, os, signal, sys\nfrom foreread import sweep\n"
        f"if __name__ == '__main__':\n    grid = sweep.read_grid('grid.toml')\n{lines}"
    )
    return subprocess.run([sys.executable, program], cwd=folder, timeout=600, **more)


def command(folder: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess:
    line = [sys.executable, "-m", "foreread.sweep", *arguments]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The file that one process writes for the grid."""
    pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("whole")
    (folder / "small.toml").write_text(SMALL)
    rows = (f"{1538323200 + number // 50},{number * 8},8,0,1\n" for number in range(100))
    (folder / "disk.csv").write_text("".join(rows))
    (folder / "grid.toml").write_text(THOUSAND)
    grid = sweep.read_grid(folder / "grid.toml")
    rows = sweep.run(grid, folder / "out.parquet", processes=1)
    assert len(rows) == 1000
    return (folder / "out.parquet").read_bytes()


def test_rows_are_those_of_single_runs(folder):
    grid = sweep.parse_grid(
        {"scenario": "small.toml", "trace": "disk.csv", "policy": ["linux-6", "none"],
         "memory": ["2M"], "seed": [5, 4]},
        folder=str(folder),
    )  # fmt: skip
    rows = sweep.run(grid, processes=1)
    assert [(row["kind"], row["policy"], row["seed"]) for row in rows] == [
        ("scenario", "linux-6", 4), ("scenario", "linux-6", 5),
        ("scenario", "none", 4), ("scenario", "none", 5),
        ("trace", "linux-6", None), ("trace", "none", None),
    ]  # fmt: skip
    result = sim.run(folder / "small.toml", policy="linux-6", memory="2M", seed=5)
    row = rows[1]
    assert (row["hash"], row["elapsed_s"], row["events"]) == (
        result.hash, result.seconds, result.events,
    )  # fmt: skip
    assert row["latency_p99_ms"] == result.latency_ms.p99 == result.processes[0].latency_ms.p99
    assert row["latency_p999_ms"] == result.latency_ms.p999 > 0
    assert (row["bytes"], row["memory"], row["max_window"]) == (40 * 4096, 2 << 20, 128 << 10)
    replayed = sim.replay(folder / "disk.csv", policy="none", memory="2M")
    assert (rows[5]["waits"], rows[5]["wait_p99_ms"]) == (replayed.waits, replayed.wait_ms.p99)
    assert rows[5]["wait_p999_ms"] == replayed.wait_ms.p999
    assert (rows[5]["input"], rows[5]["device"]) == ("disk.csv", "cloud-gp3")
    assert rows[5]["latency_p99_ms"] is rows[5]["hash"] is None


def test_processes_write_the_file_that_one_process_writes(folder, whole):
    said = run_script(folder, "sweep.run(grid, 'out.parquet', processes=3)")
    assert said.returncode == 0
    assert (folder / "out.parquet").read_bytes() == whole
    assert not (folder / "out.parquet.journal").exists()


def test_a_killed_worker_repeats_only_its_tasks(folder, whole):
    # In the middle, the first worker is killed; its tasks go to another one.
    text = """
calls = []
def progress(done, tasks):
    calls.append(done)
    if done == 400:
        worker = multiprocessing.active_children()[0]
        os.kill(worker.pid, signal.SIGKILL)
sweep.run(grid, 'out.parquet', processes=2, progress=progress)
assert calls == list(range(1, 1001)), 'each task came once'
"""
    assert run_script(folder, text).returncode == 0
    assert (folder / "out.parquet").read_bytes() == whole


KILLED = """
def progress(done, tasks):
    if done == {after}:
        os.kill(os.getpid(), signal.SIGKILL)
sweep.run(grid, 'out.parquet', processes={processes}, resume={resume}, progress=progress)
"""


@pytest.mark.parametrize("processes", [1, 2])
def test_a_sweep_whose_parent_was_killed_goes_on(folder, whole, processes):
    killed = KILLED.format(after=300, processes=processes, resume=False)
    assert run_script(folder, killed).returncode == -signal.SIGKILL
    journal = folder / "out.parquet.journal"
    assert len(journal.read_bytes().splitlines()) == 301
    # Killed once more, and then with a torn last line.
    killed = KILLED.format(after=600, processes=processes, resume=True)
    assert run_script(folder, killed).returncode == -signal.SIGKILL
    content = journal.read_bytes()
    assert len(content.splitlines()) == 601
    journal.write_bytes(content[:-7])
    text = f"""
calls = []
progress = lambda done, tasks: calls.append((done, tasks))
sweep.run(grid, 'out.parquet', processes={processes}, resume=True, progress=progress)
assert calls[0] == (600, 1000), calls[0]
"""
    assert run_script(folder, text).returncode == 0
    assert (folder / "out.parquet").read_bytes() == whole
    assert not journal.exists()


@pytest.mark.parametrize("damage", [b"{}\n", b'{"task":9', b"\0" * 40, b'{"task":1,"row":[1]}\n'])
def test_what_is_behind_a_damaged_line_is_run_again(folder, damage):
    pytest.importorskip("pyarrow")
    grid = sweep.parse_grid({"scenario": "small.toml", "seed": [1, 2, 3]}, folder=str(folder))

    class Ended(Exception):
        pass

    def end(done, tasks):
        if done == 2:
            raise Ended

    output = folder / "few.parquet"
    wanted = sweep.run(grid, processes=1)
    with pytest.raises(Ended):
        sweep.run(grid, output, processes=1, progress=end)
    journal = pathlib.Path(f"{output}.journal")
    head, first, second = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(head + first + damage + second)
    seen = []
    rows = sweep.run(
        grid, output, processes=1, resume=True, progress=lambda done, _: seen.append(done)
    )
    assert (seen, rows) == ([2, 3], wanted)


def test_a_finished_sweep_is_not_run_again(folder):
    pytest.importorskip("pyarrow")
    grid = sweep.parse_grid({"scenario": "small.toml", "seed": [1, 2]}, folder=str(folder))
    output = folder / "few.parquet"
    rows = sweep.run(grid, output, processes=1)
    seen = []
    again = sweep.run(grid, output, resume=True, progress=lambda *done: seen.append(done))
    assert (again, seen) == (rows, [])
    # Without resume it is, and an earlier output is replaced.
    sweep.run(grid, output, processes=1, progress=lambda *done: seen.append(done))
    assert len(seen) == 2


def test_another_grid_another_version_and_a_second_sweep_are_refused(folder, monkeypatch):
    pytest.importorskip("pyarrow")
    output = folder / "few.parquet"
    grid = sweep.parse_grid({"scenario": "small.toml", "seed": [1, 2]}, folder=str(folder))

    def fail(done, tasks):
        with pytest.raises(sweep.SweepError, match="another sweep writes it"):
            sweep.run(grid, output, resume=True)
        raise InterruptedError

    with pytest.raises(InterruptedError):
        sweep.run(grid, output, processes=1, progress=fail)
    with pytest.raises(sweep.SweepError, match="--resume goes on with it, or remove it"):
        sweep.run(grid, output)
    other = sweep.parse_grid({"scenario": "small.toml", "seed": [1, 3]}, folder=str(folder))
    with pytest.raises(sweep.SweepError, match="is of another grid"):
        sweep.run(other, output, resume=True)
    # A changed scenario of the same name is another grid.
    (folder / "small.toml").write_text(SMALL.replace("40", "41"))
    with pytest.raises(sweep.SweepError, match="is of another grid"):
        sweep.run(grid, output, resume=True)
    (folder / "small.toml").write_text(SMALL)
    monkeypatch.setattr("foreread.sweep._run.version", lambda name: "9.9.9")
    with pytest.raises(sweep.SweepError, match="is of another version of foreread"):
        sweep.run(grid, output, resume=True)


def test_files_that_are_no_sweeps_stay(folder):
    pytest.importorskip("pyarrow")
    grid = sweep.parse_grid({"scenario": "small.toml"}, folder=str(folder))
    output = folder / "mine.parquet"
    output.write_text("my own\n")
    with pytest.raises(sweep.SweepError, match="is not the output of a sweep"):
        sweep.run(grid, output)
    output.unlink()
    journal = folder / "mine.parquet.journal"
    journal.write_text("my own\n")
    with pytest.raises(sweep.SweepError, match="is not the journal of a sweep"):
        sweep.run(grid, output, resume=True)
    assert journal.read_text() == "my own\n"
    with pytest.raises(sweep.SweepError, match="there is no folder"):
        sweep.run(grid, folder / "none" / "out.parquet")


@pytest.mark.parametrize(
    ("grid", "error"),
    [
        ("scenario = 1", "scenario: 1 is not a string"),
        ("policy = 'none'", "scenario: a grid has a scenario or a trace"),
        ("scenario = 'small.toml'\npolcy = 'none'", "polcy: no such key; the keys are scenario, "),
        ("scenario = 'small.toml'\npolicy = 'linux-7'", "policy: no policy 'linux-7'; choose one"),
        ("scenario = 'small.toml'\npolicy = []", "policy: an empty list"),
        ("scenario = 'small.toml'\npolicy = ['none', 'none']", "policy: 'none' is there twice"),
        ("scenario = 'small.toml'\nmemory = ['1M', '1024K']", "memory: '1024K' is there twice"),
        ("scenario = 'small.toml'\nmemory = 'much'", "memory: 'much' is not a size"),
        ("scenario = 'small.toml'\nmemory = '4K'", "memory: '4K': must be 1M to 64G"),
        ("scenario = 'small.toml'\nmax_window = true", "max_window: True is not a size"),
        ("scenario = 'small.toml'\ndevice = 'floppy'", "device: no device 'floppy'; choose one"),
        ("scenario = 'small.toml'\nseed = -1", "seed: a seed: -1 is not between"),
        ("scenario = 'small.toml'\nseed = { count = 0 }", "seed: count: 0 is not between"),
        ("scenario = 'small.toml'\nseed = { to = 3 }", "seed.to: no such key; the keys are from"),
        ("scenario = 'small.toml'\nseed = { count = 9999999999 }", "seed: count"),
        ("scenario = 'small.toml'\nuntil_s = 'long'", "until_s: 'long' is not a time"),
        (
            "trace = 'disk.csv'\nreplay.loop = 'round'",
            "replay.loop: 'round': must be open or closed",
        ),
        ("trace = 'disk.csv'\nreplay.speed = 2", "replay.speed: no such key"),
        ("scenario = 'smal.toml'", "scenario: no file 'smal.toml', and no built-in one"),
        ("scenario = 'wrong.toml'", "scenario wrong.toml: line 4: memory: must be at least"),
        ("trace = 'none.csv'", "trace: none.csv: .*No such file"),
        ("scenario = ", "Invalid value .*line 1"),
    ],
)
def test_a_wrong_grid_is_refused_with_its_key(folder, grid, error):
    (folder / "wrong.toml").write_text(SMALL.replace('"1M"', '"1K"'))
    (folder / "bad.toml").write_text(grid + "\n")
    with pytest.raises(sweep.GridError, match=f"bad.toml: {error}"):
        sweep.run(sweep.read_grid(folder / "bad.toml"))


def test_a_task_that_fails_ends_the_sweep_and_is_named(folder):
    # Half of a record: the first pass of the worker finds it.
    (folder / "disk.csv").write_text("1538323200,8,8,0,1\n1538323201,8\n")
    (folder / "grid.toml").write_text("trace = 'disk.csv'\nmemory = ['1M', '2M']\n")
    for processes in ("1", "2"):
        said = command(folder, "grid.toml", "--processes", processes)
        assert said.returncode == 1
        assert "foreread.sweep: trace=disk.csv memory=" in said.stderr
        assert "line 2: " in said.stderr


def test_a_sweep_that_has_finished_no_task_leaves_no_journal(folder):
    """The next one was refused, because there was something to go on with."""
    pytest.importorskip("pyarrow")
    good = (folder / "disk.csv").read_text()
    (folder / "disk.csv").write_text("1538323200,8,8,0,1\n1538323201,8\n")
    grid = sweep.parse_grid({"trace": "disk.csv"}, folder=str(folder))
    output = folder / "few.parquet"
    with pytest.raises(sweep.SweepError, match="trace=disk.csv"):
        sweep.run(grid, output, processes=1)
    assert not (folder / "few.parquet.journal").exists()
    (folder / "disk.csv").write_text(good)
    assert len(sweep.run(grid, output, processes=1)) == 1


def test_a_task_that_ends_its_workers_ends_the_sweep(folder):
    # What finds the pages of 64 GiB takes 7 GiB, which the process may not have.
    (folder / "grid.toml").write_text("scenario = 'small.toml'\nmemory = ['1M', '64G']\n")
    text = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
try:
    sweep.run(grid, processes=2)
except sweep.SweepError as error:
    assert str(error).startswith('scenario=small.toml memory=68719476736: its worker ended'), error
    assert '3 times; is there memory enough' in str(error), error
    sys.exit(7)
"""
    assert run_script(folder, text).returncode == 7


def test_the_command_prints_a_summary(folder):
    (folder / "grid.toml").write_text(THOUSAND.replace("124", "3"))
    said = command(folder, "grid.toml", "--processes", "1")
    assert (said.returncode, said.stderr) == (0, "")
    lines = said.stdout.splitlines()
    assert lines[0].split() == [
        "input", "device", "memory", "window", "policy", "runs", "MB/s", "least", "most",
        "waited", "s", "requests", "x", "bytes",
    ]  # fmt: skip
    assert len(lines) == 1 + 16
    said = command(folder, "grid.toml", "--processes", "2", "--json")
    printed = json.loads(said.stdout)
    assert (printed["version"], printed["command"], len(printed["data"])) == (1, "sweep", 16)
    group = printed["data"][-1]
    assert (group["input"], group["runs"]) == ("small.toml", 3)
    assert group["mb_per_s"]["min"] <= group["mb_per_s"]["mean"] <= group["mb_per_s"]["max"]


def test_a_dry_run_counts_and_estimates(folder):
    said = command(folder, "grid.toml", "--dry-run", "-o", "out.parquet")
    assert said.stdout.startswith("1000 tasks, about "), said
    assert "core-hours (from 6 of them" in said.stdout
    assert not list(folder.glob("out.parquet*"))
    said = command(folder, "grid.toml", "--dry-run", "--json")
    [data] = json.loads(said.stdout)["data"]
    assert data["tasks"] == 1000
    assert 0 < data["core_hours"] < 1


def test_wrong_use_has_the_exit_code_2(folder):
    assert command(folder, "none.toml").returncode == 2
    assert command(folder, "grid.toml", "--processes", "0").returncode == 2
    assert command(folder, "grid.toml", "--processes", "2", "--ray", "auto").returncode == 2
    said = command(folder, "grid.toml", "--resume")
    assert said.returncode == 2 and "give it with -o" in said.stderr
    (folder / "grid.toml").write_text("scenario = 'none'")
    said = command(folder, "grid.toml")
    assert said.returncode == 2
    assert said.stderr.startswith("foreread.sweep: grid.toml: scenario: no file 'none'")


def test_ctrl_c_ends_a_sweep_and_its_workers(folder):
    pytest.importorskip("pyarrow")
    text = """
from foreread.sweep._command import main
import foreread.sweep._command as shown
def progress(done, tasks):
    if done == 100:
        print(*[worker.pid for worker in multiprocessing.active_children()], flush=True)
        signal.raise_signal(signal.SIGINT)
shown._progress = lambda: progress
sys.exit(main(['grid.toml', '-o', 'out.parquet', '--processes', '2']))
"""
    said = run_script(folder, text, capture_output=True, text=True)
    assert said.returncode == 130
    assert said.stderr == "foreread.sweep: interrupted; --resume goes on\n"
    for worker in said.stdout.split():
        assert not os.path.exists(f"/proc/{worker}")
    assert len((folder / "out.parquet.journal").read_bytes().splitlines()) == 101


def test_inputs_come_from_urls(folder):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/sweep/small.toml", SMALL.encode())
    memory.pipe_file("/sweep/disk.csv", (folder / "disk.csv").read_bytes())
    urls = {"scenario": "memory://sweep/small.toml", "trace": "memory://sweep/disk.csv"}
    more = {"seed": [1, 2], "policy": ["none", "adaptive"]}
    far = sweep.run(sweep.parse_grid(urls | more), processes=1)
    files = {"scenario": "small.toml", "trace": "disk.csv"}
    near = sweep.run(sweep.parse_grid(files | more, folder=str(folder)), processes=1)
    assert [row | {"input": None} for row in far] == [row | {"input": None} for row in near]


def test_a_trace_behind_a_url_is_fetched_once_for_a_machine(folder, tmp_path, monkeypatch):
    """All workers begin at once, and each of them fetched it."""
    fsspec = pytest.importorskip("fsspec")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    trace = (folder / "disk.csv").read_bytes()
    fsspec.filesystem("memory").pipe_file("/once/disk.csv", trace)
    [of] = _inputs.read_inputs(sweep.parse_grid({"trace": "memory://once/disk.csv"}))
    workers, inside = 8, threading.Semaphore(0)
    is_whole, opened, opens, paths = _inputs._is_whole, _inputs._opened, [], []

    def looked(path, of):
        found = is_whole(path, of)
        inside.release()
        return found

    def counted(where):
        opens.append(where)
        if len(opens) == 1:
            # All others have seen that it is not there. This one has looked twice.
            for _ in range(workers + 1):
                inside.acquire()
        return opened(where)

    monkeypatch.setattr(_inputs, "_is_whole", looked)
    monkeypatch.setattr(_inputs, "_opened", counted)

    def fetch():
        paths.append(_inputs.local_trace(of))

    threads = [threading.Thread(target=fetch) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(paths) == workers and len(set(paths)) == 1 and len(opens) == 1
    assert pathlib.Path(paths[0]).read_bytes() == trace


def test_an_output_needs_pyarrow(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    grid = sweep.parse_grid({"scenario": "small.toml"}, folder=str(folder))
    with pytest.raises(ImportError, match=r"pip install 'foreread\[sweep\]'"):
        sweep.run(grid, folder / "out.parquet")
    assert sweep.run(grid, processes=1)[0]["input"] == "small.toml"
