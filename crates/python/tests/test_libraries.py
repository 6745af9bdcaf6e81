"""Libraries that take file objects or fsspec URLs read through foreread what they read without.

What is not installed is skipped; `./dev test python-all` installs all of them.
"""

import pytest

import foreread

fsspec = pytest.importorskip("fsspec")

from foreread.fsspec import ForereadFileSystem  # noqa: E402

ROWS = 50_000


@pytest.fixture
def table(tmp_path):
    """A Parquet file with several row groups, and its contents."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table(
        {
            "number": list(range(ROWS)),
            "text": [f"row {number * 7919 % 1000}" for number in range(ROWS)],
            "half": [number / 2 for number in range(ROWS)],
        }
    )
    path = tmp_path / "table.parquet"
    parquet.write_table(table, path, row_group_size=ROWS // 10)
    return path, table


def test_pandas_reads_csv_and_parquet(tmp_path, table):
    pandas = pytest.importorskip("pandas")
    path, expected = table
    frame = pandas.read_parquet(f"foreread::file://{path}", columns=["number", "half"])
    assert frame["half"].sum() == expected["half"].to_pandas().sum()
    frame.to_csv(tmp_path / "table.csv", index=False)
    again = pandas.read_csv(f"foreread::file://{tmp_path}/table.csv")
    pandas.testing.assert_frame_equal(again, frame)
    with foreread.open(tmp_path / "table.csv") as file:
        pandas.testing.assert_frame_equal(pandas.read_csv(file), frame)


def test_pyarrow_reads_a_file_and_a_data_set(table):
    pytest.importorskip("pyarrow")
    import pyarrow.dataset as dataset
    import pyarrow.parquet as parquet

    path, expected = table
    with foreread.open(path) as file:
        assert parquet.read_table(file).equals(expected)
    fs = ForereadFileSystem(target_protocol="file")
    found = dataset.dataset(str(path.parent), filesystem=fs, format="parquet")
    filtered = found.to_table(filter=dataset.field("number") < 100, columns=["text"])
    assert filtered.equals(expected.slice(0, 100).select(["text"]))


def test_duckdb_reads_by_its_hook(table):
    duckdb = pytest.importorskip("duckdb")
    path, _ = table
    before = foreread.default_engine().counters()["misses"]
    with duckdb.connect() as connection:
        connection.register_filesystem(ForereadFileSystem(target_protocol="file"))
        query = f"select count(*), sum(number) from read_parquet('foreread://{path}')"
        assert connection.execute(query).fetchone() == (ROWS, ROWS * (ROWS - 1) // 2)
    # DuckDB opens by the name that the file system gives back: it must be this one's.
    assert foreread.default_engine().counters()["misses"] > before


def test_polars_reads_a_file_object(table):
    polars = pytest.importorskip("polars")
    path, _ = table
    with foreread.open(path) as file:
        frame = polars.read_parquet(file, columns=["number"])
    assert frame["number"].sum() == ROWS * (ROWS - 1) // 2
    with fsspec.open(f"foreread::file://{path}") as file:
        assert polars.read_parquet(file).height == ROWS


def test_zarr_and_xarray_read_a_store(tmp_path):
    zarr = pytest.importorskip("zarr")
    xarray = pytest.importorskip("xarray")
    numpy = pytest.importorskip("numpy")
    values = numpy.arange(200 * 300).reshape(200, 300)
    data = xarray.Dataset({"values": (("y", "x"), values)})
    data.chunk({"y": 50, "x": 50}) if hasattr(data, "chunksizes_of") else None
    data.to_zarr(tmp_path / "store.zarr", zarr_format=2)
    url = f"foreread::file://{tmp_path}/store.zarr"
    assert (zarr.open_array(f"{url}/values", mode="r")[10:20, 5] == values[10:20, 5]).all()
    with xarray.open_dataset(url, engine="zarr") as again:
        assert again.equals(data)


def test_h5py_and_xarray_read_an_hdf5_file(tmp_path):
    h5py = pytest.importorskip("h5py")
    numpy = pytest.importorskip("numpy")
    values = numpy.arange(500 * 400, dtype="f4").reshape(500, 400)
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file.create_dataset("values", data=values, chunks=(50, 50))
    with foreread.open(tmp_path / "data.h5") as raw, h5py.File(raw, "r") as file:
        assert (file["values"][100:120, 7] == values[100:120, 7]).all()
    url = f"foreread::file://{tmp_path}/data.h5"
    with fsspec.open(url) as raw, h5py.File(raw, "r") as file:
        assert (file["values"][:] == values).all()
