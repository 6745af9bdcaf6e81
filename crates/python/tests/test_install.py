"""The wheel, installed into a new virtual environment that has nothing else."""

import os
import subprocess
import sys

import pytest

from examples import ROOT, blocks_of, run

WHEEL = os.environ.get("FOREREAD_WHEEL")

pytestmark = [
    pytest.mark.skipif(not WHEEL, reason="FOREREAD_WHEEL names no wheel: ./dev test python does"),
    pytest.mark.skipif(not (ROOT / "README.md").exists(), reason="the repository is not there"),
]

CLEAN = """
import importlib.util
found = [name for name in ("fsspec", "numpy", "pandas") if importlib.util.find_spec(name)]
assert not found, found
"""

READ = """
data = open("table.bin", "rb").read()
assert header == data[:512] and footer == data[-512:]
"""

REST = """
import importlib, importlib.metadata
assert importlib.metadata.version("foreread")
[found] = importlib.metadata.entry_points(group="fsspec.specs")
for module in ("safetensors", "shards", "sim", "sweep", "plot"):
    importlib.import_module(f"foreread.{module}")
try:
    found.load()
except ImportError as error:
    assert "foreread[fsspec]" in str(error), error
else:
    raise SystemExit("fsspec is not there, and foreread.fsspec was imported")
"""


def test_the_example_of_the_readme_runs_where_nothing_else_is_installed(tmp_path, store, data):
    """For a path and for a URL; the modules that need no library can be imported."""
    (tmp_path / "table.bin").write_bytes(data)
    store.put("table.bin", data)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "clean"], check=True)
    python = tmp_path / "clean" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
    subprocess.run([*pip, WHEEL], check=True)
    example = blocks_of("README.md")
    blocks = [("clean", CLEAN), *example, ("what it has read", READ), ("the rest", REST)]
    run(blocks, tmp_path, store.environment, python)
    assert store.gets() > 1
