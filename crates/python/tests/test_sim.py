"""The simulator from Python: the figures of the command line, policies of Python, errors."""

import _thread
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading

import pytest

from foreread import sim

ROOT = pathlib.Path(__file__).parents[3]

SCENARIO = """\
name = "a reader and a search"
until_s = 2.0

[cache]
memory = "4M"
policy = "linux-6"

[device.disk]
model.flash = { capacity = "1G", mb_per_s = 200, overhead_us = 100 }

[file.data]
device = "disk"
size = "32M"

[file.index]
device = "disk"
at = "512M"
size = "64M"

[[process]]
name = "reader"
run.sequential = { file = "data", read = "16K", cpu_us = 20 }

[[process]]
name = "search"
count = 2
run.random = { file = "index", read = "4K", reads = 500 }
"""

AS_DICT = {
    "name": "a reader and a search",
    "until_s": 2.0,
    "cache": {"memory": "4M", "policy": "linux-6"},
    "device": {
        "disk": {"model": {"flash": {"capacity": "1G", "mb_per_s": 200, "overhead_us": 100}}}
    },
    "file": {
        "data": {"device": "disk", "size": "32M"},
        "index": {"device": "disk", "at": 512 << 20, "size": "64M"},
    },
    "process": [
        {"name": "reader", "run": {"sequential": {"file": "data", "read": "16K", "cpu_us": 20}}},
        {
            "name": "search",
            "count": 2,
            "run": {"random": {"file": "index", "read": "4K", "reads": 500}},
        },
    ],
}


@pytest.fixture
def trace(tmp_path):
    """A trace of a block device in the format tencent: time, offset, size, kind, volume."""
    path = tmp_path / "disk.csv"
    lines = []
    for number in range(2000):
        at = number * 8 if number % 3 else number * 7919 % 65536 * 8
        lines.append(f"{1538323200 + number // 50},{at},8,0,{number % 2}")
    path.write_text("\n".join(lines) + "\n")
    return path


def binary() -> str | None:
    """The command line of the same source, if it was built."""
    named = os.environ.get("FOREREAD_BINARY")
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = [target / kind / "foreread-lab" for kind in ("debug", "release")]
    built = sorted((path for path in built if path.exists()), key=lambda path: path.stat().st_mtime)
    return named or (str(built[-1]) if built else None)


def printed(*arguments: str) -> list[dict]:
    """What the command line prints with --json."""
    command = binary()
    if command is None:
        pytest.skip("the command line is not built: cargo build -p foreread-cli")
    ran = subprocess.run([command, *arguments, "--json"], capture_output=True, text=True)
    assert ran.stdout, ran.stderr
    return json.loads(ran.stdout)["data"]


def test_a_dictionary_text_and_a_file_are_the_same_run(tmp_path):
    path = tmp_path / "day=3" / "mine.toml"
    path.parent.mkdir()
    path.write_text(SCENARIO)
    results = [sim.run(scenario) for scenario in (SCENARIO, AS_DICT, path, str(path))]
    assert len({result.hash for result in results}) == 1
    assert results[0].to_dict() == results[1].to_dict()
    assert [process.name for process in results[0].processes] == ["reader", "search-0", "search-1"]
    assert results[0].processes[0].bytes == 32 << 20


@pytest.mark.parametrize("policy", [None, "adaptive", "leap"])
def test_a_run_is_that_of_the_command_line(tmp_path, policy):
    path = tmp_path / "mine.toml"
    path.write_text(SCENARIO)
    more = ["--policy", policy] if policy else []
    [row] = printed("sim", str(path), "--seeds", "7+1", *more)
    # Equal floats: not a digit was lost on either way.
    assert sim.run(path, policy=policy, seed=7).to_dict() == row


def test_a_store_has_its_requests_as_on_the_command_line():
    path = ROOT / "scenarios" / "store-throttling.toml"
    if not path.exists():
        pytest.skip("the repository is not there")
    [row] = printed("sim", str(path))
    assert "store" in row["devices"][0]
    assert sim.run(path).to_dict() == row


@pytest.mark.parametrize("per", [None, "file", "thread"])
def test_a_replay_is_that_of_the_command_line(trace, per):
    more = ["--per", per] if per else []
    rows = printed(
        "replay", str(trace), "--device", "sata-500g", "--memory", "2M", "8M",
        "--policy", "none", "linux-6", "adaptive", "competitive", "--scale", "0.5",
        "--eviction", "two-lists", "sieve", *more,
    )
    assert len(rows) == 16
    kept = sim.Trace(trace)
    for row in rows:
        ours = sim.replay(
            kept, policy=row["policy"], memory=row["memory"], device="sata-500g", scale=0.5,
            per=per, eviction=row["eviction"], bounds=True,
        )
        assert ours.to_dict() == row
    without = sim.replay(kept, memory="2M", device="sata-500g", scale=0.5)
    assert (without.least_waited_s, without.fewest_requests, without.fewest_bytes) == (None,) * 3
    assert (kept.level, kept.reads) == ("block", 2000)


def test_miss_counts_are_those_of_the_command_line(trace):
    rows = printed("replay", str(trace), "--cache", "lru", "sieve", "--memory", "64K", "1M")
    counts = sim.miss_counts(trace, ["lru", "sieve"], memory=["64K", "1M"], bounds=True)
    assert [count.to_dict() for count in counts] == rows
    objects = ("--objects", "10", "100")
    rows = printed("replay", str(trace), "--cache", "fifo", "--no-bounds", *objects)
    counts = sim.miss_counts(trace, ["fifo"], objects=[10, 100])
    assert [count.to_dict() for count in counts] == rows
    one = sim.miss_counts(trace, "lru", memory="64K")
    assert one == sim.miss_counts(trace, ["lru"], memory=["64K"]) and len(one) == 1


def test_arguments_replace_what_the_scenario_says():
    base = sim.run(SCENARIO)
    changed = sim.run(SCENARIO, memory="64MiB", policy="none", seed=3, max_window="auto")
    assert (changed.policy, changed.memory, changed.seed) == ("none", 64 << 20, 3)
    assert changed.hash != base.hash
    device = sim.run(SCENARIO, device="sata-500g")
    assert device.hash == sim.run(SCENARIO, device={"disk": "sata-500g"}).hash != base.hash
    assert sim.run(SCENARIO, until_s=0.01).seconds == 0.01
    text = SCENARIO.replace('"4M"', '"64M"').replace("linux-6", "none")
    seed = text.replace("until_s", "seed = 3\nuntil_s")
    window = seed.replace("[device.disk]", 'max_window = "auto"\n\n[device.disk]')
    assert sim.run(window).to_dict() == changed.to_dict()


def test_where_no_window_is_given_adaptive_learns_it():
    runs = [sim.run(SCENARIO, policy=policy) for policy in ("linux-6", "adaptive", "competitive")]
    assert [run.max_window for run in runs[:2]] == [128 << 10, None]
    assert runs[2].max_window not in (None, 128 << 10)
    assert sim.run(SCENARIO, policy="adaptive", max_window="auto").to_dict() == runs[1].to_dict()


def test_a_device_is_made_large_enough_for_the_files():
    # The model has 64 MiB; the files of the scenario end at 576 MiB.
    assert sim.run(SCENARIO, device="msystems-64m-usb1", until_s=0.5).events > 0


def test_names_are_listed_and_found():
    assert {"none", "fixed", "linux-6", "adaptive", "amp", "leap"} <= set(sim.policies())
    assert {"cloud-gp3", "nvme-990pro-2t", "object-store"} <= set(sim.devices())
    assert "streaming-fast" in sim.scenarios()
    assert {"lru", "s3-fifo"} <= set(sim.cache_policies())
    assert "name =" in sim.scenario_text("backwards")
    assert sim.run("backwards").name == "a file read backwards"
    with pytest.raises(ValueError, match="no scenario 'wrong'; choose one of .*streaming-fast"):
        sim.scenario_text("wrong")


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('"linux-6"', '"linux-7"', r"line 6: no policy \"linux-7\"; choose one of none, "),
        ('file = "data"', 'file = "date"', r"line 22: no file \"date\"; choose one of data, index"),
        ('size = "64M"', 'size = "64Q"', r"line 18: "),
        ('memory = "4M"', 'memory = "4K"', r"line 5: memory: must be at least"),
        ("until_s", "until", r"line 2: unknown field `until`"),
        ("count = 2", "count = 0", r"line 27: count: must be 1 to 100000"),
    ],
)
def test_a_wrong_scenario_is_refused_with_its_line(tmp_path, old, new, error):
    text = SCENARIO.replace(old, new)
    assert text != SCENARIO
    with pytest.raises(ValueError, match=f"^{error}"):
        sim.run(text)
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"mine.toml: {error}"):
        sim.check(path)


def test_a_wrong_dictionary_is_refused_with_what_is_wrong():
    wrong = AS_DICT | {"cache": {"memory": "4M", "policy": "linux-7"}}
    with pytest.raises(ValueError, match=r'scenario: line \d+ of its TOML \(policy = "linux-7"\)'):
        sim.run(wrong)
    with pytest.raises(ValueError, match="cache.memory: <object"):
        sim.run(AS_DICT | {"cache": {"memory": object()}})


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="no policy \"linux-7\"; choose one of none"):
        sim.run(SCENARIO, policy="linux-7")
    with pytest.raises(ValueError, match="no device model \"floppy\"; choose one of"):
        sim.run(SCENARIO, device="floppy")
    with pytest.raises(ValueError, match="no device of the scenario \"disc\"; choose one of disk"):
        sim.run(SCENARIO, device={"disc": "sata-500g"})
    with pytest.raises(ValueError, match="memory: 'much' is not a size"):
        sim.run(SCENARIO, memory="much")
    with pytest.raises(ValueError, match="memory: must be at least"):
        sim.run(SCENARIO, memory=4096)
    with pytest.raises(ValueError, match="max_window: 5000: must be a multiple of 4K: 4K or 8K"):
        sim.run(SCENARIO, max_window=5000)
    with pytest.raises(ValueError, match="seed: -1"):
        sim.run(SCENARIO, seed=-1)
    with pytest.raises(FileNotFoundError, match="no such file, and no scenario of this name"):
        sim.run("streaming-fats")
    with pytest.raises(TypeError, match="is not a policy"):
        sim.run(SCENARIO, policy=object())


def test_wrong_traces_are_refused(tmp_path, trace):
    with pytest.raises(FileNotFoundError):
        sim.Trace(tmp_path / "none.csv")
    with pytest.raises(ValueError, match="not a regular file"):
        sim.Trace(tmp_path)
    (tmp_path / "text").write_text("what is this?\n")
    with pytest.raises(ValueError, match="is not in a known format"):
        sim.replay(tmp_path / "text")
    broken = tmp_path / "broken.csv"
    broken.write_text(trace.read_text() + "1538323300,8,eight,0,1\n")
    with pytest.raises(ValueError, match="broken.csv: line 2001: "):
        sim.replay(broken)
    with pytest.raises(ValueError, match="no trace format \"csw\""):
        sim.replay(trace, format="csw")
    wrong_ones = ({"loop": "round"}, {"per": "page"}, {"scale": -1}, {"device": "floppy"})
    for wrong in (*wrong_ones, {"eviction": "mru"}):
        with pytest.raises(ValueError, match="choose one of|wants|must be"):
            sim.replay(trace, **wrong)


def test_a_replay_has_a_picture_on_request(trace):
    result = sim.replay(trace, memory="2MiB", device="sata-500g", picture=True)
    picture = result.picture
    assert picture is not None
    assert picture.counts["waited"] == result.waits > 0
    assert sum(picture.counts[kind] for kind in ("hit", "prefetched", "waited")) == result.reads
    assert {kind for _, _, kind in picture.cells} <= {"hit", "prefetched", "wasted", "waited"}
    assert picture.streams[0].points
    assert sum(count for _, count in result.histogram) == result.waits
    assert sim.replay(trace, memory="2MiB", device="sata-500g").picture is None


def test_results_are_tables(trace):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    result = sim.run(SCENARIO)
    frame = result.to_pandas()
    assert list(frame["name"]) == ["reader", "search-0", "search-1"]
    assert frame["latency_ms_p99"][0] == result.processes[0].latency_ms.p99
    replays = [sim.replay(trace, policy=policy) for policy in ("none", "adaptive")]
    table = sim.to_arrow(replays)
    assert table.column("policy").to_pylist() == ["none", "adaptive"]
    assert table.column("wait_ms_p50").to_pylist()[0] == replays[0].wait_ms.p50
    pandas.testing.assert_frame_equal(
        sim.to_pandas(replays), table.to_pandas(), check_dtype=False
    )


def test_a_missing_library_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = sim.run(SCENARIO, until_s=0.01)
    with pytest.raises(ImportError, match=r"pip install 'foreread\[pandas\]'"):
        result.to_pandas()
    with pytest.raises(ImportError, match=r"pip install 'foreread\[arrow\]'"):
        result.to_arrow()


# Days of virtual time.
ENDLESS = """\
name = "a search without an end"
until_s = 1e8
[device.disk]
model = "nvme-990pro-2t"
[file.data]
device = "disk"
size = "1G"
[[process]]
name = "search"
run.random = { file = "data", read = "4K", cpu_us = 1 }
"""

def test_other_threads_run_beside_a_run():
    # The other thread ends the run. It gets the interpreter only when this one gives it up.
    has_begun = threading.Lock()

    def interrupt() -> None:
        with has_begun:
            _thread.interrupt_main()

    has_begun.acquire()
    thread = threading.Thread(target=interrupt)
    thread.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(3600)
    try:
        with pytest.raises(KeyboardInterrupt):
            has_begun.release()
            sim.run(ENDLESS, until_s=1e5)
    finally:
        sys.setswitchinterval(interval)
    thread.join()


LONG = """
from foreread import sim
import sys
print("begun", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize(
    "call",
    [
        "sim.run(sys.argv[2])",
        "sim.run(sys.argv[2], policy=P)",
        "[sim.replay(sys.argv[1], device='sata-500g') for _ in range(10**6)]",
    ],
)
def test_ctrl_c_ends_a_run(trace, call):
    head = "from foreread.sim.examples import Fixed as P\n"
    program = subprocess.Popen(
        [sys.executable, "-c", head + LONG.format(call=call), str(trace), ENDLESS],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "begun\n"
    program.send_signal(signal.SIGINT)
    # A signal that comes before the `try` ends the program as well.
    try:
        said, _ = program.communicate(timeout=60)
    finally:
        program.kill()
    assert said == "interrupted\n" or program.returncode != 0


def test_a_forked_child_runs_the_same():
    wanted = sim.run(SCENARIO).hash
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(sending, sim.run(SCENARIO).hash.encode())
        os._exit(0)
    os.close(sending)
    with os.fdopen(receiving) as pipe:
        assert pipe.read() == wanted
    assert os.waitpid(child, 0)[1] == 0
