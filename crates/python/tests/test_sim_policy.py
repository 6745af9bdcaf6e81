"""Policies of Python: beside those of the library, decision by decision; what they may do wrong."""

import pytest

from foreread import sim
from foreread.sim.examples import Fixed, Linux6

# Streams alone and in turns, a search, scans; none comes near the end of its file, where `linux-6`
# counts its marker back from the end.
READERS = """\
name = "readers of all kinds"
seed = 11

[cache]
memory = "{memory}"
max_window = "{max_window}"

[device.disk]
model.flash = {{ capacity = "8G", mb_per_s = 200, overhead_us = 100, max_command = "512K" }}

[file.data]
device = "disk"
size = "2G"

[file.short]
device = "disk"
at = "4G"
size = "10M"

[[process]]
name = "in-order"
run.sequential = {{ file = "data", read = "12K", amount = "24M" }}

[[process]]
name = "in-turns"
run.interleaved = {{ file = "data", streams = 3, reads = 500 }}

[[process]]
name = "search"
run.random = {{ file = "data", read = "16K", reads = 400 }}

[[process]]
name = "scans"
run.scans = {{ file = "data", read = "8K", length = {{ from = "8K", to = "300K" }}, scans = 60 }}
{more}"""

# Windows of policies from outside are cut where they are larger than the limit and than their read;
# those of `linux-6` stay as large as a read was that the device took as one request.
BEYOND = """
[[process]]
name = "large"
run.sequential = { file = "data", read = "384K", from = "100M", amount = "24M", cpu_us = 50 }

[[process]]
name = "to-the-end"
run.sequential = { file = "short", read = "20K" }
"""


def decisions(result: sim.SimResult) -> list[str]:
    """The lines of decisions: time, stream, pattern, question, window."""
    assert result.lines is not None
    return [line for line in result.lines if "(req=" in line]


@pytest.mark.parametrize("memory", ["1M", "64M"])
@pytest.mark.parametrize("max_window", ["16K", "128K", "1M", "auto"])
@pytest.mark.parametrize(("policy", "more"), [(Fixed, BEYOND), (Linux6, "")])
def test_each_decision_is_that_of_the_library(policy, more, memory, max_window):
    text = READERS.format(memory=memory, max_window=max_window, more=more)
    ours = sim.run(text, policy=policy, events=True)
    theirs = sim.run(text, policy=policy.name, events=True)
    assert len(decisions(theirs)) > 500
    for one, other in zip(decisions(ours), decisions(theirs), strict=True):
        assert one == other
    assert ours.to_dict() == theirs.to_dict()


def test_the_scenario_asks_every_question_of_linux_6():
    text = READERS.format(memory="64M", max_window="128K", more="")
    lines = decisions(sim.run(text, policy="linux-6", events=True))
    for pattern in ("initial0", "initial(", "subsequent", "random", "interleaved", "context"):
        assert any(pattern in line for line in lines), pattern


class Remembering(sim.Policy):
    """Notes in each stream how often it was asked, and looks at the cache around each page."""

    def __init__(self):
        self.seen = []
        self.caches = []

    def decide(self, stream, ask, limits, cache):
        self.caches.append(cache)
        stream.memory[3] += 1
        self.seen.append((stream.memory[3], ask, limits, cache.history(ask.page, 8)))
        assert ask.is_marker or cache.next_hole(ask.page, 4) == ask.page
        return sim.Decision("subsequent", sim.Window(ask.page, 4, 1))


def test_a_policy_remembers_streams_and_sees_the_cache():
    policy = Remembering()
    text = 'file = "data", read = "4K", amount = "256K"'
    scenario = (
        'name = "one"\n[device.disk]\nmodel = "cloud-gp3"\n[file.data]\ndevice = "disk"\n'
        f'size = "1M"\n[[process]]\nname = "reader"\nrun.sequential = {{ {text} }}\n'
    )
    result = sim.run(scenario, policy=policy)
    assert result.policy == "Remembering"
    assert [count for count, *_ in policy.seen] == list(range(1, len(policy.seen) + 1))
    first, second = policy.seen[0], policy.seen[1]
    assert first[1] == sim.Ask(0, 1, False, None, True)
    assert (first[2].max, first[3]) == (32, 0)
    # The marker of the window 0+4 is on its last page.
    assert (second[1].page, second[1].is_marker, second[3]) == (3, True, 3)
    with pytest.raises(RuntimeError, match="only while decide"):
        policy.caches[0].history(1, 1)


def test_a_policy_may_run_a_simulation_of_its_own():
    class Nested(sim.Policy):
        def decide(self, stream, ask, limits, cache):
            inner = sim.run("backwards", policy=Fixed, until_s=0.01)
            assert inner.policy == "fixed"
            return sim.Decision("random", sim.Window(ask.page, ask.count))

    assert sim.run("backwards", policy=Nested, until_s=0.02).policy == "Nested"


def test_a_replay_takes_a_policy_of_python(tmp_path):
    trace = tmp_path / "disk.csv"
    rows = (f"{1538323200 + number // 50},{number * 8},8,0,1\n" for number in range(1000))
    trace.write_text("".join(rows))
    ours = sim.replay(trace, policy=Fixed, device="sata-500g", memory="2M")
    theirs = sim.replay(trace, policy="fixed", device="sata-500g", memory="2M")
    assert ours == theirs
    assert ours.policy == "fixed"


class OwnError(Exception):
    """Raised by a policy."""


@pytest.mark.parametrize("after", [0, 5])
def test_an_exception_ends_the_run_and_comes_out_as_it_is(tmp_path, after):
    error = OwnError("of the policy")
    calls = []

    class Failing(Fixed):
        def decide(self, stream, ask, limits, cache):
            calls.append(ask)
            if len(calls) > after:
                raise error
            return super().decide(stream, ask, limits, cache)

    # Without the exception it would read for days of virtual time.
    endless = sim.scenario_text("random-4k").replace(", reads = 40000", "")
    with pytest.raises(OwnError) as caught:
        sim.run("until_s = 1e8\n" + endless, policy=Failing)
    assert caught.value is error
    assert len(calls) == after + 1

    calls.clear()
    trace = tmp_path / "disk.csv"
    rows = (f"{1538323200 + number},{number * 8192},8,0,1\n" for number in range(5000))
    trace.write_text("".join(rows))
    with pytest.raises(OwnError) as caught:
        sim.replay(trace, policy=Failing)
    assert caught.value is error
    assert len(calls) == after + 1
    # The next run is as ever.
    assert sim.run("backwards", policy=Fixed).unfinished == 0


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        ("all of it", TypeError, "must return a Decision or None"),
        (sim.Decision("initial", sim.Window(0, 0)), ValueError, "at least one page"),
        (sim.Decision("initial", sim.Window(-1, 4)), ValueError, "not negative"),
        (sim.Decision("initial", sim.Window(1 << 60, 4)), ValueError, "within 2\\^51 pages"),
        (sim.Decision("later", sim.Window(0, 4)), ValueError, "no pattern \"later\"; choose"),
        (sim.Decision("strided", sim.Window(0, 4)), ValueError, "requires every and read"),
        (sim.Decision("strided", sim.Window(0, 4), 2, 3), ValueError, "1 <= read <= every"),
        (sim.Decision("initial", sim.Window(0, 4.5)), TypeError, "integer"),
    ],
)
def test_a_wrong_answer_is_an_error(answer, error, text):
    class Wrong(sim.Policy):
        def decide(self, stream, ask, limits, cache):
            return answer

    with pytest.raises(error, match=text):
        sim.run("backwards", policy=Wrong)


def test_wrong_memory_is_an_error():
    class Forgetful(sim.Policy):
        def decide(self, stream, ask, limits, cache):
            stream.memory.append(1)

    with pytest.raises(ValueError, match="must be eight numbers"):
        sim.run("backwards", policy=Forgetful)


def test_a_window_is_cut_to_what_the_run_allows():
    class Greedy(sim.Policy):
        def decide(self, stream, ask, limits, cache):
            return sim.Decision("initial", sim.Window(ask.page, 1 << 40))

    result = sim.run("backwards", policy=Greedy, max_window="128K", events=True)
    sizes = [line.split("ra=")[1].split("-")[0].split("+")[1] for line in decisions(result)]
    assert max(int(size) for size in sizes) == 32
