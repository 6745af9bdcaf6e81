"""The notebooks run from top to bottom."""

import json
import pathlib

import pytest

NOTEBOOKS = pathlib.Path(__file__).parents[1] / "notebooks"

pytestmark = pytest.mark.skipif(not NOTEBOOKS.exists(), reason="the repository is not there")


@pytest.mark.parametrize("name", ["simulator.ipynb"])
def test_the_cells_of_a_notebook_run(monkeypatch, name):
    pytest.importorskip("pandas")
    pytest.importorskip("matplotlib").use("agg")
    import matplotlib.pyplot as pyplot

    notebook = json.loads((NOTEBOOKS / name).read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 5
    names = {"__name__": "__main__"}
    for number, cell in enumerate(cells):
        assert not cell["outputs"], "outputs are not kept: they would differ with each library"
        exec(compile("".join(cell["source"]), f"{name}, cell {number}", "exec"), names)
    assert len(pyplot.get_fignums()) >= 5
    pyplot.close("all")


@pytest.mark.parametrize("name", ["simulator.ipynb"])
def test_a_kernel_executes_a_notebook(name):
    why = "not installed: ./dev test python-all installs it"
    nbformat = pytest.importorskip("nbformat", reason=f"nbformat is {why}")
    nbclient = pytest.importorskip("nbclient", reason=f"nbclient is {why}")
    pytest.importorskip("ipykernel", reason=f"ipykernel is {why}")
    pytest.importorskip("matplotlib")
    pytest.importorskip("pandas")
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    kinds = [
        kind
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        for kind in output.get("data", {})
    ]
    assert kinds.count("image/png") >= 5
