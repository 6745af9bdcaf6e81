"""Charts: what they show is what the results say."""

import sys

import pytest

from foreread import plot, sim

SCENARIO = """\
name = "a reader"
[cache]
memory = "4M"
[device.disk]
model = "sata-500g"
[file.data]
device = "disk"
size = "16M"
[[process]]
name = "reader"
run.sequential = { file = "data", read = "16K", cpu_us = 200 }
[[process]]
name = "search"
run.random = { file = "data", read = "4K", reads = 200 }
"""


@pytest.fixture(autouse=True)
def pyplot():
    """Without a window, and without figures of other tests."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    import matplotlib.pyplot as pyplot

    yield pyplot
    pyplot.close("all")


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("plot") / "disk.csv"
    lines = []
    for number in range(3000):
        at = number * 8 if number % 3 else number * 7919 % 65536 * 8
        lines.append(f"{1538323200 + number // 50},{at},8,0,{number % 2}")
    path.write_text("\n".join(lines) + "\n")
    return sim.Trace(path)


@pytest.fixture(scope="module")
def replays(trace):
    return [
        sim.replay(trace, policy=policy, memory=memory, device="sata-500g", picture=True)
        for policy in ("none", "linux-6")
        for memory in ("2M", "8M")
    ]


def drawn(ax):
    """Draws the figure: what cannot be drawn raises here."""
    ax.figure.canvas.draw()
    return ax


def test_offsets_have_a_box_for_each_cell(replays):
    ax = drawn(plot.offsets(replays[0]))
    boxes = sum(len(collection.get_paths()) for collection in ax.collections)
    assert boxes == len(replays[0].picture.cells)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert f"waited: {replays[0].waits}" in texts
    assert "none, 2 MiB" in ax.get_title()
    assert drawn(plot.offsets(replays[0].picture)).get_title() == "Where and when"


@pytest.mark.parametrize(("chart", "column"), [(plot.windows, 1), (plot.memory, 2)])
def test_streams_have_a_line_each(replays, chart, column):
    ax = drawn(chart(replays[2], streams=1))
    [line] = ax.lines
    points = replays[2].picture.streams[0].points
    assert list(line.get_ydata()) == [point[column] / 1024 for point in points]


def test_latencies_fall_from_all_to_none(replays):
    ax = drawn(plot.latencies([*replays, sim.run(SCENARIO)]))
    assert len(ax.lines) == 5
    for line in ax.lines:
        parts = list(line.get_ydata())
        assert parts == sorted(parts, reverse=True)
        assert 0 < parts[-1] < parts[0] <= 1
    result = replays[0]
    times = list(ax.lines[0].get_xdata())
    assert times[-1] == pytest.approx(result.wait_ms.max, rel=1e-3)


def test_miss_ratios_are_lines_over_capacity(trace):
    counts = sim.miss_counts(trace, ["lru", "sieve"], memory=["64K", "256K", "1M"])
    ax = drawn(plot.miss_ratios(counts))
    assert [line.get_label() for line in ax.lines] == ["lru", "sieve"]
    assert list(ax.lines[0].get_xdata()) == [16, 64, 256]
    assert list(ax.lines[1].get_ydata()) == [count.miss_ratio * 100 for count in counts[1::2]]


def test_waits_are_lines_over_memory(replays):
    ax = drawn(plot.waits(replays))
    assert [line.get_label() for line in ax.lines] == ["none", "linux-6 128 KiB"]
    assert list(ax.lines[0].get_ydata()) == [replays[0].waited_s, replays[1].waited_s]


def test_throughput_has_windows_and_what_is_learnt():
    windows = ["64K", "256K", "1M"]
    results = [sim.run(SCENARIO, policy="linux-6", max_window=window) for window in windows]
    learnt = sim.run(SCENARIO, max_window="auto")
    ax = drawn(plot.throughput([*results, learnt]))
    [dashed, line] = ax.lines
    assert list(line.get_xdata()) == [64, 256, 1024]
    assert list(line.get_ydata()) == [result.mb_per_s for result in results]
    assert list(dashed.get_ydata()) == [learnt.mb_per_s] * 2


def test_policies_are_bars_side_by_side(replays, pyplot):
    ax = drawn(plot.policies(replays))
    assert [bar.get_width() for bar in ax.patches] == [result.waited_s for result in replays]
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels[0] == "none, 2 MiB"
    given = pyplot.subplots()[1]
    assert plot.policies([sim.run(SCENARIO)], "mb_per_s", ax=given) is given


def test_what_is_missing_is_named(replays, trace, monkeypatch):
    with pytest.raises(ValueError, match="replay with picture=True"):
        plot.offsets(sim.replay(trace))
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'foreread\[plot\]'"):
        plot.waits(replays)
