"""The examples of the pages run: each page is a program, which reads its objects from a store.

`python` blocks need what `./dev test python` installs. A `py` block is a program of its own, and
needs more: `./dev test python-all`, or PyTorch.
"""

import io
import re
import tarfile

import pytest

from conftest import pattern
from examples import ROOT, blocks_of, run
from test_safetensors import encoded, entry

pytestmark = pytest.mark.skipif(not (ROOT / "docs").exists(), reason="the repository is not there")

ROWS = 1000


@pytest.fixture
def store(store, data, tmp_path):
    """The store, with the objects that the pages name, beside the file that they read."""
    (tmp_path / "table.bin").write_bytes(data)
    for key in ("key", "table.bin", "table.parquet"):
        store.put(key, data)
    store.put("folder/a.tar", bytes(1 << 20))
    store.put("folder/sub/b.tar", b"")
    return store


def put_tables(store, folder):
    """The tables, as pandas and pyarrow write them."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"a": range(ROWS), "b": [f"row {row}" for row in range(ROWS)]})
    (folder / "table").mkdir()
    frame.to_parquet(folder / "table" / "1.parquet", row_group_size=100)
    store.put_folder("table", folder / "table")
    store.put("table.parquet", (folder / "table" / "1.parquet").read_bytes())
    store.put("table.csv", frame.to_csv(index=False).encode())


def put_arrays(store, folder):
    """The files of arrays, as xarray and h5py write them."""
    numpy = pytest.importorskip("numpy")
    xarray = pytest.importorskip("xarray")
    h5py = pytest.importorskip("h5py")
    values = numpy.arange(200 * 300).reshape(200, 300)
    arrays = xarray.Dataset({"values": (("y", "x"), values)})
    arrays.to_zarr(folder / "store.zarr", zarr_format=2)
    store.put_folder("store.zarr", folder / "store.zarr")
    with h5py.File(folder / "data.h5", "w") as file:
        file.create_dataset("values", data=values)
    store.put("data.h5", (folder / "data.h5").read_bytes())


def put_samples(store, _folder):
    """Tensors, and two shards of samples with a number each."""
    rows = encoded({"x": entry("F32", [100, 8], 0, 3200)}, pattern(3200))
    for name in ("model", "a", "b"):
        store.put(f"{name}.safetensors", rows)
    for shard in range(2):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for number in range(100 * shard, 100 * shard + 100):
                info = tarfile.TarInfo(f"{number:04}.cls")
                info.size = len(str(number))
                tar.addfile(info, io.BytesIO(str(number).encode()))
        store.put(f"train/{shard}.tar", packed.getvalue())


@pytest.mark.parametrize(
    ("page", "least", "libraries"),
    [
        ("README.md", 1, []),
        ("docs/guide/python.md", 12, ["fsspec", "matplotlib", "numpy", "pandas", "pyarrow"]),
        ("docs/lab/sweeps.md", 2, ["pandas", "pyarrow"]),
    ],
)
def test_the_examples_of_the_page_run(tmp_path, store, page, least, libraries):
    for library in libraries:
        pytest.importorskip(library)
    # The grid that the page shows is the one that its examples read.
    for name, grid in re.findall(r"```toml\n# (\S+)\n(.*?)```", (ROOT / page).read_text(), re.S):
        (tmp_path / name).write_text(grid)
    blocks = blocks_of(page)
    assert len(blocks) >= least
    run(blocks, tmp_path, store.environment)


# What a section needs: libraries, which ./dev test python-all installs, but for torch; objects; and
# what its results are.
ALONE = {
    "fsspec": (
        ["pandas", "pyarrow", "s3fs"],
        [put_tables],
        "assert header == open('table.bin', 'rb').read(512); assert frame['a'].sum() == 499500",
    ),
    "Libraries": (
        ["duckdb", "h5py", "pandas", "polars", "pyarrow", "s3fs", "xarray", "zarr"],
        [put_tables, put_arrays],
        """
import numpy
assert csv["a"].sum() == frame["a"].sum() == total == columns["a"].sum() == 499500
assert rows.num_rows == 10 and list(rows.schema.names) == ["b"]
expected = numpy.arange(200 * 300).reshape(200, 300)
assert (chunk == expected[10:20]).all() and (part == expected[10:20]).all()
assert (arrays["values"] == expected).all()
""",
    ),
    "PyTorch": (
        ["torch"],
        [put_samples],
        """
assert sorted(seen) == list(range(200)) and seen != sorted(seen)
assert weights["x"].shape == (100, 8) and sum(counts) == 200
""",
    ),
}


def test_each_block_that_stands_alone_is_known():
    text = (ROOT / "docs/guide/python.md").read_text()
    assert len(re.findall(r"^```py$", text, re.MULTILINE)) == len(ALONE)


@pytest.mark.parametrize("section", ALONE)
def test_the_example_of_the_section_runs(tmp_path, store, section):
    libraries, objects, check = ALONE[section]
    for library in libraries:
        pytest.importorskip(library, reason=f"{library} is not installed")
    for put in objects:
        put(store, tmp_path)
    [block] = blocks_of("docs/guide/python.md", "py", section)
    run([block, ("what it has read", check)], tmp_path, store.environment)
    assert store.gets() > 1
