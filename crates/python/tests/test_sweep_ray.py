"""A sweep on a Ray cluster of two nodes, one of which is killed in the middle."""

import os
import pathlib
import signal
import socket
import subprocess
import sys

import pytest
from test_sweep import SMALL

from foreread import sweep

ray = pytest.importorskip("ray", reason="ray is not installed: ./dev test python-all installs it")
pytest.importorskip("pyarrow")

GRID = """\
scenario = "small.toml"
policy = ["none", "fixed", "linux-6", "adaptive"]
memory = ["1M", "2M"]
seed = { from = 1, count = 125 }
"""


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


class Node:
    """A node of the cluster: `ray start`, in a session of its own so that it can be killed."""

    def __init__(self, *arguments: str) -> None:
        ray_command = pathlib.Path(sys.executable).with_name("ray")
        line = [ray_command, "start", "--block", "--num-cpus=1", "--disable-usage-stats",
                "--object-store-memory=100000000", *arguments]  # fmt: skip
        self.process = subprocess.Popen(
            line,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        said = []
        assert self.process.stdout is not None
        # It says so once the node has joined.
        for line_said in self.process.stdout:
            said.append(line_said)
            if "Ray runtime started" in line_said:
                return
        raise AssertionError("".join(said))

    def kill(self) -> None:
        """Ends every process of the node at once, as a machine that loses its power does."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        for pid in children_of(self.process.pid):
            os.kill(pid, signal.SIGKILL)
        self.process.wait()


def children_of(session: int) -> list[int]:
    """The processes of a session that have a process group of their own."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(entry.name))
    return found


@pytest.fixture
def cluster():
    port = free_port()
    address = f"127.0.0.1:{port}"
    nodes = []
    try:
        head = ["--head", "--include-dashboard=false", f"--port={port}"]
        nodes.append(Node(*head, "--node-ip-address=127.0.0.1"))
        nodes.append(Node(f"--address={address}", "--node-ip-address=127.0.0.1"))
        yield address, nodes
    finally:
        for node in reversed(nodes):
            node.kill()


def test_a_node_that_is_lost_repeats_only_its_tasks(tmp_path, cluster):
    address, nodes = cluster
    (tmp_path / "small.toml").write_text(SMALL)
    (tmp_path / "grid.toml").write_text(GRID)
    grid = sweep.read_grid(tmp_path / "grid.toml")
    sweep.run(grid, tmp_path / "one.parquet", processes=1)
    seen = []

    def progress(done: int, tasks: int) -> None:
        if not seen:
            assert ray.cluster_resources()["CPU"] == 2
        seen.append(done)
        if done == 300:
            nodes[1].kill()

    sweep.run(grid, tmp_path / "ray.parquet", ray=address, progress=progress)
    assert seen == list(range(1, 1001)), "each task came once"
    assert (tmp_path / "ray.parquet").read_bytes() == (tmp_path / "one.parquet").read_bytes()
