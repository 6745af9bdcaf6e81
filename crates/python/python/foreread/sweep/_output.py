"""The Parquet file of a sweep: identical bytes for identical rows.

Settings are fixed, the file has no time stamps or machine names, and rows are in task order. Only
another release of pyarrow may write different bytes.
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
    """Write the rows, and move the file into place atomically."""
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
    """Return the rows of a file written by the same sweep; None for any other file."""
    metadata = _metadata(path)
    if metadata is None or (metadata.get(_VERSION), metadata.get(_GRID)) != (
        version.encode(),
        grid.encode(),
    ):
        return None
    rows: list[Row] = optional("pyarrow.parquet", "sweep").read_table(path).to_pylist()
    return rows


def check_output(path: str) -> None:
    """Refuse to overwrite a file that is not a sweep's, before hours are spent."""
    optional("pyarrow.parquet", "sweep")
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise SweepError(f"{path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise SweepError(f"{path}: the folder {folder} cannot be written")
    if os.path.lexists(path) and os.path.getsize(path) > 0 and _metadata(path) is None:
        raise SweepError(f"{path}: exists, and is not the output of a sweep; give another name")


def _metadata(path: str) -> dict[bytes, bytes] | None:
    """Return the metadata of a sweep's file; None for another file, or none."""
    parquet = optional("pyarrow.parquet", "sweep")
    if not os.path.isfile(path) or os.path.islink(path):
        return None
    try:
        metadata: dict[bytes, Any] = parquet.read_schema(path).metadata or {}
    except (OSError, ValueError):
        return None
    return metadata if _GRID in metadata else None
