"""The Parquet file of a sweep: the same bytes for the same rows.

Settings are fixed, there is no time and no name of a machine in it, and rows are in the order of
their tasks. Only another release of pyarrow may write other bytes for them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from typing import Any

from foreread.sim._tables import optional
from foreread.sweep._errors import SweepError
from foreread.sweep._tasks import COLUMNS, Row

_GRID = b"foreread.grid"
_VERSION = b"foreread.version"


def write_parquet(path: str, rows: Sequence[Row], version: str, grid: str) -> None:
    """Writes the rows, and puts the file in its place as a whole."""
    pyarrow = optional("pyarrow", "sweep")
    parquet = optional("pyarrow.parquet", "sweep")
    metadata = {_VERSION: version.encode(), _GRID: grid.encode()}
    fields = [(name, getattr(pyarrow, _TYPES[kind])()) for name, kind in COLUMNS.items()]
    table = pyarrow.Table.from_pylist(list(rows), schema=pyarrow.schema(fields, metadata=metadata))
    folder = os.path.dirname(os.path.abspath(path))
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".foreread-", delete=False) as file:
        try:
            parquet.write_table(
                table,
                file,
                version="2.6",
                data_page_version="1.0",
                compression="zstd",
                compression_level=3,
                use_dictionary=True,
                write_statistics=True,
                row_group_size=1 << 17,
            )
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, 0o666 & ~_umask())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


_TYPES = {"string": "string", "int64": "int64", "uint64": "uint64", "double": "float64"}


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def finished_rows(path: str, version: str, grid: str) -> list[Row] | None:
    """Returns the rows of a file that the same sweep has written; None of any other."""
    metadata = _metadata(path)
    if metadata is None or (metadata.get(_VERSION), metadata.get(_GRID)) != (
        version.encode(),
        grid.encode(),
    ):
        return None
    rows: list[Row] = optional("pyarrow.parquet", "sweep").read_table(path).to_pylist()
    return rows


def check_output(path: str) -> None:
    """Refuses an output that is there and is no sweep's, before hours were spent."""
    optional("pyarrow.parquet", "sweep")
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise SweepError(f"{path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise SweepError(f"{path}: the folder {folder} cannot be written")
    if os.path.lexists(path) and os.path.getsize(path) > 0 and _metadata(path) is None:
        raise SweepError(f"{path}: is there, and is no output of a sweep; give another name")


def _metadata(path: str) -> dict[bytes, bytes] | None:
    """Returns what a sweep notes in its file; None of another file, or of none."""
    parquet = optional("pyarrow.parquet", "sweep")
    if not os.path.isfile(path) or os.path.islink(path):
        return None
    try:
        metadata: dict[bytes, Any] = parquet.read_schema(path).metadata or {}
    except (OSError, ValueError):
        return None
    return metadata if _GRID in metadata else None
