"""The examples of docs/python.md run, in the order of the page."""

import pathlib
import re

import pytest

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "python.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the repository is not there")
def test_the_examples_of_the_page_run(tmp_path, monkeypatch, data):
    pytest.importorskip("fsspec")
    pytest.importorskip("numpy")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.bin").write_bytes(data)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 5
    names = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"docs/python.md, example {number}", "exec"), names)
