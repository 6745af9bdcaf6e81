"""Safetensors files, read through an engine: a path, a URL, or an open file.

    from foreread.safetensors import SafetensorsFile, load

    tensors = load("s3://bucket/model.safetensors")           # a dict of NumPy arrays
    with SafetensorsFile("s3://bucket/model.safetensors") as file:
        file.names(), file.info("layer.0.weight")    # only the header was read
        weight = file.numpy("layer.0.weight")                 # and now one tensor

A tensor's bytes are copied once, from the engine's pages into the array. Tensors are read in file
order, so that the engine reads ahead of them.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from foreread._engine import Engine, default_engine
from foreread._file import File
from foreread._narrowing import is_table
from foreread._storage_options import StorageOptions

if TYPE_CHECKING:
    from typing_extensions import Buffer, Self

__all__ = ["SafetensorsError", "SafetensorsFile", "TensorInfo", "load"]

# Limit of the format's own readers.
HEADER_MAX = 100_000_000

# Bits per element, by the dtype's name in the header.
DTYPE_BITS = {
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "U16": 16,
    "I16": 16,
    "F16": 16,
    "BF16": 16,
    "U32": 32,
    "I32": 32,
    "F32": 32,
    "U64": 64,
    "I64": 64,
    "F64": 64,
    "C64": 64,
}

# NumPy dtypes, by the same names. The format is little-endian.
NUMPY_DTYPES = {
    "BOOL": "?",
    "U8": "u1",
    "I8": "i1",
    "U16": "<u2",
    "I16": "<i2",
    "F16": "<f2",
    "U32": "<u4",
    "I32": "<i4",
    "F32": "<f4",
    "U64": "<u8",
    "I64": "<i8",
    "F64": "<f8",
    "C64": "<c8",
}


class SafetensorsError(ValueError):
    """A file that is not a valid safetensors file."""


class TensorInfo(NamedTuple):
    """Header entry of a tensor. Its bytes are those of the file from `start` to `end`."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int

    @property
    def nbytes(self) -> int:
        return self.end - self.start


class SafetensorsFile:
    """A safetensors file with a parsed header. Threads may read its tensors concurrently."""

    def __init__(
        self,
        source: str | os.PathLike[str] | File,
        *,
        engine: Engine | None = None,
        storage_options: StorageOptions | None = None,
    ) -> None:
        if isinstance(source, File):
            self.file = source
        else:
            engine = engine or default_engine()
            self.file = engine.open(source, storage_options=storage_options)
        self.metadata, self._infos = _header_of(self.file)

    def names(self) -> list[str]:
        """Return the names of the tensors, in the order of their bytes."""
        return list(self._infos)

    def info(self, name: str) -> TensorInfo:
        """Return the header entry of a tensor."""
        info = self._infos.get(name)
        if info is None:
            raise KeyError(f"{self.file.name}: no tensor {name!r}")
        return info

    def read_into(self, name: str, buffer: Buffer) -> None:
        """Read the bytes of a tensor into a buffer of exactly that size."""
        info = self.info(name)
        self._read_range(info.start, info.end, buffer)

    def read_rows_into(self, name: str, start: int, stop: int, buffer: Buffer) -> None:
        """Read `tensor[start:stop]` along the first dimension, into a buffer of exactly that size.
        """
        first, last = self.row_range(name, start, stop)
        self._read_range(first, last, buffer)

    def row_range(self, name: str, start: int, stop: int) -> tuple[int, int]:
        """Return the byte range of `tensor[start:stop]`, along the first dimension."""
        info = self.info(name)
        rows = info.shape[0] if info.shape else 0
        if not 0 <= start <= stop <= rows:
            raise IndexError(f"{name}: rows {start} to {stop} of {rows}")
        row, rest = divmod(info.nbytes, rows) if rows else (0, 0)
        if rest:
            raise SafetensorsError(f"{name}: a row of {info.dtype} does not end on a byte")
        return info.start + start * row, info.start + stop * row

    def numpy(self, name: str) -> Any:
        """Return a tensor as a NumPy array, which is a copy."""
        import numpy

        info = self.info(name)
        array = numpy.empty(info.shape, numpy_dtype(self.file.name, name, info.dtype))
        if info.nbytes:
            flat: Any = array.reshape(-1).view("u1")
            self.read_into(name, flat)
        return array

    def will_need(self, names: Iterable[str]) -> None:
        """Announce tensors that will be read soon, so that their bytes are read ahead."""
        ranges = [(info.start, info.end) for info in map(self.info, names) if info.nbytes]
        self.file.will_need(ranges)

    def close(self) -> None:
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._infos)

    def _read_range(self, start: int, end: int, buffer: Buffer) -> None:
        view = memoryview(buffer)
        if view.nbytes != end - start:
            raise ValueError(f"a buffer of {view.nbytes} bytes for {end - start}")
        if end == start:
            return
        count = self.file.preadinto(view, start)
        if count != end - start:
            # The length was checked when the header was parsed.
            raise SafetensorsError(f"{self.file.name}: it was cut to {start + count} bytes")


def numpy_dtype(file: str, name: str, dtype: str) -> Any:
    """Return NumPy's dtype for a dtype of the format."""
    import numpy

    known = NUMPY_DTYPES.get(dtype)
    if known is not None:
        return numpy.dtype(known)
    raise TypeError(
        f"{file}: {name}: NumPy has no {dtype}: read it with foreread.torch, or its bytes with "
        "read_into"
    )


def load(
    source: str | os.PathLike[str] | File,
    names: Iterable[str] | None = None,
    *,
    engine: Engine | None = None,
    storage_options: StorageOptions | None = None,
) -> dict[str, Any]:
    """Return tensors as NumPy arrays by name: all tensors, or those in `names`."""
    file = SafetensorsFile(source, engine=engine, storage_options=storage_options)
    try:
        return {name: file.numpy(name) for name in ordered(file, names)}
    finally:
        if not isinstance(source, File):
            file.close()


def ordered(file: SafetensorsFile, names: Iterable[str] | None) -> list[str]:
    """Return the names in the order of their bytes."""
    if names is None:
        return file.names()
    return sorted(names, key=lambda name: file.info(name)[2:])


def _header_of(file: File) -> tuple[dict[str, str], dict[str, TensorInfo]]:
    """Parse the header: the metadata, and the entry of each tensor."""

    def wrong(why: str) -> NoReturn:
        raise SafetensorsError(f"{file.name}: no valid file of safetensors: {why}")

    if file.size < 8:
        wrong(f"it has {file.size} bytes")
    length = int.from_bytes(file.pread(8, 0), "little")
    if length > HEADER_MAX or 8 + length > file.size:
        wrong(f"its header would have {length} bytes, and the file has {file.size}")
    try:
        header = json.loads(file.pread(length, 8).decode())
    except ValueError as error:
        wrong(f"its header is no JSON: {error}")
    if not is_table(header):
        wrong("its header is not a JSON object")
    entries = dict(header)
    metadata = entries.pop("__metadata__", {})
    if not is_table(metadata):
        wrong("its metadata is not a JSON object")
    infos: list[tuple[str, TensorInfo]] = []
    for name, stated in entries.items():
        try:
            infos.append((name, _info_of(stated, 8 + length)))
        except (KeyError, TypeError, ValueError) as error:
            wrong(f"{name}: {error}")
    infos.sort(key=lambda item: (item[1].start, item[1].end))
    at = 8 + length
    for name, info in infos:
        if info.start != at:
            wrong(f"{name}: its bytes begin at {info.start}, and those before it end at {at}")
        at = info.end
    if at != file.size:
        wrong(f"its tensors end at {at}, and the file at {file.size}")
    return dict(metadata), dict(infos)


def _info_of(stated: Any, data: int) -> TensorInfo:
    """Parse one entry of the header; a ValueError describes the error."""
    dtype, shape = stated["dtype"], tuple(stated["shape"])
    start, end = stated["data_offsets"]
    bits = DTYPE_BITS.get(dtype)
    if bits is None:
        raise ValueError(f"{dtype!r} is not a known dtype")
    if not all(isinstance(number, int) and number >= 0 for number in (start, end, *shape)):
        raise ValueError("a size or an offset is not a number from 0")
    size, rest = divmod(bits * math.prod(shape), 8)
    if rest or end - start != size:
        raise ValueError(f"{end - start} bytes for {list(shape)} of {dtype}")
    return TensorInfo(dtype, shape, data + start, data + end)
