"""Reads a table or an array by a library, through foreread and through plain s3fs.

    libraries.py 'LIBRARY;WAY'     one run, as a line of JSON; lab.py calls it

The options for s3fs are JSON in the variable S3_OPTIONS, the bucket is `lab`. WAY is `s3fs` (its
default cache, or none where the library brings its own) or `foreread`.
"""

import json
import os
import sys
import time

LIBRARIES = {
    "pandas, a CSV": "read_csv",
    "pandas, 3 of 12 columns of Parquet": "read_parquet",
    "pyarrow, a filter over 1 column": "filtered",
    "DuckDB, an aggregate of 2 columns": "aggregate",
    "polars, 3 of 12 columns by a file object": "polars_parquet",
    "h5py, 8 slices of chunks": "hdf5_slices",
    "safetensors, a model of 512 MiB": "model",
}
MODEL = "model.safetensors"


def file_system(way, options):
    import fsspec

    import foreread.fsspec

    fs = fsspec.filesystem("s3", **options)
    return fs if way == "s3fs" else foreread.fsspec.ForereadFileSystem(fs=fs)


def read_csv(fs):
    import pandas

    with fs.open("lab/table.csv") as file:
        return len(pandas.read_csv(file))


def read_parquet(fs):
    import pandas

    return len(pandas.read_parquet("lab/table.parquet", columns=["c1", "c5", "c9"], filesystem=fs))


def filtered(fs):
    from pyarrow import dataset

    found = dataset.dataset("lab/table.parquet", filesystem=fs, format="parquet")
    return found.to_table(filter=dataset.field("c2") < 0.001, columns=["c2"]).num_rows


def aggregate(fs):
    import duckdb

    with duckdb.connect() as connection:
        connection.register_filesystem(fs)
        protocol = "foreread" if type(fs).__name__ == "ForereadFileSystem" else "s3"
        query = f"select sum(c3), max(c7) from read_parquet('{protocol}://lab/table.parquet')"
        # Its threads add up in an order of their own.
        return round(connection.execute(query).fetchone()[0], 3)


def polars_parquet(fs):
    import polars

    with fs.open("lab/table.parquet") as file:
        return polars.read_parquet(file, columns=["c1", "c5", "c9"]).height


def hdf5_slices(fs):
    import h5py

    with fs.open("lab/array.h5") as raw, h5py.File(raw, "r") as file:
        values = file["values"]
        return float(sum(values[row : row + 16, :].sum() for row in range(0, 2048, 256)))


def model(fs):
    import foreread.safetensors

    if type(fs).__name__ == "ForereadFileSystem":
        options = json.loads(os.environ["S3_OPTIONS"])
        loaded = foreread.safetensors.load(f"s3://lab/{MODEL}", storage_options=options)
    else:
        import safetensors.numpy

        loaded = safetensors.numpy.load(fs.cat_file(f"lab/{MODEL}"))
    return sum(each.nbytes for each in loaded.values())


def make(folder):
    """Writes what is read, from a fixed seed."""
    import h5py
    import numpy
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet
    import safetensors.numpy

    rng = numpy.random.default_rng(5)
    table = pyarrow.table({f"c{number}": rng.random(1_000_000) for number in range(12)})
    pyarrow.parquet.write_table(table, f"{folder}/table.parquet", row_group_size=125_000)
    pyarrow.csv.write_csv(table.slice(0, 300_000), f"{folder}/table.csv")
    with h5py.File(f"{folder}/array.h5", "w") as file:
        values = rng.random((2048, 8192))
        file.create_dataset("values", data=values, chunks=(64, 256))
    tensors = {f"layer{number}": rng.random((4096, 4096), "f4") for number in range(8)}
    safetensors.numpy.save_file(tensors, f"{folder}/{MODEL}")


def main():
    library, way = sys.argv[-1].rsplit(";", 1)
    options = json.loads(os.environ["S3_OPTIONS"])
    fs = file_system(way, options)
    with fs.open("lab/warm.bin") as file:
        file.read(1)
    read = globals()[LIBRARIES[library]]
    start = time.perf_counter()
    result = read(fs)
    print(json.dumps({"s": time.perf_counter() - start, "result": result}), flush=True)
    # Threads of a library may still read; the interpreter would end them inside of C++.
    os._exit(0)


if __name__ == "__main__":
    main()
