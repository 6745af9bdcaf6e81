"""The examples of the pages run, in the order of each page."""

import pathlib
import re

import pytest

DOCS = pathlib.Path(__file__).parents[3] / "docs"


@pytest.mark.skipif(not DOCS.exists(), reason="the repository is not there")
@pytest.mark.parametrize(("page", "least"), [("python.md", 10), ("sweeps.md", 2)])
def test_the_examples_of_the_page_run(tmp_path, monkeypatch, data, page, least):
    for library in ("fsspec", "numpy", "pandas", "pyarrow"):
        pytest.importorskip(library)
    pytest.importorskip("matplotlib").use("agg")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.bin").write_bytes(data)
    text = (DOCS / page).read_text()
    # The grid that the page shows is the one that its examples read.
    for name, grid in re.findall(r"```toml\n# (\S+)\n(.*?)```", text, re.DOTALL):
        (tmp_path / name).write_text(grid)
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= least
    names = {"__name__": "__main__"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"docs/{page}, example {number}", "exec"), names)
