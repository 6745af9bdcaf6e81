"""Data sets and tensors for PyTorch, read through an engine.

    from foreread.torch import SafetensorsDataset, ShardDataset, load_safetensors

    weights = load_safetensors("s3://bucket/model.safetensors", device="cuda")
    loader = DataLoader(ShardDataset("s3://bucket/train/", shuffle=1000), batch_size=None)
    loader = DataLoader(SafetensorsDataset("s3://bucket/rows.safetensors"), batch_size=64)

Needs PyTorch: `pip install foreread[torch]`. `foreread.shards` and `foreread.safetensors` work
without it.
"""

from __future__ import annotations

import bisect
import ctypes
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from foreread import safetensors, shards
from foreread._engine import Engine
from foreread._file import File
from foreread._storage_options import StorageOptions
from foreread.safetensors import SafetensorsFile, TensorInfo

try:
    import torch
    import torch.distributed
    from torch.utils.data import Dataset, IterableDataset, get_worker_info
except ImportError as error:
    raise ImportError(
        "foreread.torch needs PyTorch, which is not installed: pip install foreread[torch]"
    ) from error

__all__ = ["SafetensorsDataset", "ShardDataset", "load_safetensors"]

# PyTorch's names of the format's dtypes, where it has them.
_DTYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "U16": "uint16",
    "I16": "int16",
    "F16": "float16",
    "BF16": "bfloat16",
    "U32": "uint32",
    "I32": "int32",
    "F32": "float32",
    "U64": "uint64",
    "I64": "int64",
    "F64": "float64",
    "C64": "complex64",
}


def load_safetensors(
    source: str | os.PathLike[str] | File,
    names: Iterable[str] | None = None,
    *,
    device: Any = "cpu",
    engine: Engine | None = None,
    storage_options: StorageOptions | None = None,
) -> dict[str, torch.Tensor]:
    """Return tensors by name: all tensors, or those in `names`.

    Each is copied once into separate memory. For a device other than the CPU, it is moved there
    before the next one is read.
    """
    file = SafetensorsFile(source, engine=engine, storage_options=storage_options)
    try:
        loaded = {}
        for name in safetensors.ordered(file, names):
            info = file.info(name)
            tensor = _empty(file, name, info, info.shape)
            file.read_into(name, _bytes_of(tensor, info.nbytes))
            loaded[name] = tensor.to(device)
        return loaded
    finally:
        if not isinstance(source, File):
            file.close()


class SafetensorsDataset(Dataset):  # type: ignore[misc]
    """Rows of tensors in safetensors files, with random access: `dataset[7]` is a dict of tensors.

    A loader requests the rows of a batch together: their bytes are merged into few requests.

    Parameters
    ----------
    sources : str, os.PathLike or sequence of them
        Files whose rows are concatenated.
    names : sequence of str or None
        Tensors that form the columns; None: all tensors of the first file. In each file they must
        all have the same number of rows, which is the first dimension.
    transform : callable or None
        Called with each row; its result replaces the row.
    engine : Engine or None
        Engine to use; by default that of the process.
    storage_options : mapping or None
        Options for URLs; see `foreread.Engine.open`.
    """

    def __init__(
        self,
        sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        names: Sequence[str] | None = None,
        *,
        transform: Callable[[dict[str, torch.Tensor]], Any] | None = None,
        engine: Engine | None = None,
        storage_options: StorageOptions | None = None,
    ) -> None:
        super().__init__()
        if isinstance(sources, (str, os.PathLike)):
            sources = [sources]
        self.sources = list(sources)
        self.transform = transform
        self._how = (engine, storage_options)
        self._process = os.getpid()
        self._files: list[SafetensorsFile] = []
        self._open()
        self.names = list(names) if names is not None else self._files[0].names()
        # Index of the first row of each file, and finally the total number of rows.
        self._starts = [0]
        for file in self._files:
            self._starts.append(self._starts[-1] + self._rows_of(file))

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, row: int) -> Any:
        return self.__getitems__([row])[0]

    def __getitems__(self, rows: Sequence[int]) -> list[Any]:
        """Return several rows, whose bytes are read together."""
        self._open()
        places: dict[int, list[tuple[int, int]]] = {}
        for number, row in enumerate(rows):
            row = row + len(self) if row < 0 else row
            if not 0 <= row < len(self):
                raise IndexError(f"row {row} of {len(self)}")
            of = bisect.bisect_right(self._starts, row) - 1
            places.setdefault(of, []).append((number, row - self._starts[of]))
        found: list[dict[str, torch.Tensor]] = [{} for _ in rows]
        for of, wanted in places.items():
            self._read(self._files[of], wanted, found)
        return found if self.transform is None else [self.transform(row) for row in found]

    def _read(
        self,
        file: SafetensorsFile,
        wanted: list[tuple[int, int]],
        found: list[dict[str, torch.Tensor]],
    ) -> None:
        """Read rows of one file: (index of the row in the batch, row of the file)."""
        cells = [(number, row, name) for number, row in wanted for name in self.names]
        ranges = [file.row_range(name, row, row + 1) for _, row, name in cells]
        missing = [item for item in ranges if item[0] < item[1]]
        if len(missing) > 1:
            # Announce all ranges before waiting for the first.
            file.file.will_need(missing)
        for (number, row, name), (start, end) in zip(cells, ranges, strict=True):
            info = file.info(name)
            tensor = _empty(file, name, info, info.shape[1:])
            file.read_rows_into(name, row, row + 1, _bytes_of(tensor, end - start))
            found[number][name] = tensor

    def _rows_of(self, file: SafetensorsFile) -> int:
        counts = {name: (file.info(name).shape or (0,))[0] for name in self.names}
        if len(set(counts.values())) != 1 or not all(file.info(name).shape for name in self.names):
            raise ValueError(
                f"{file.file.name}: the tensors have different numbers of rows, or none: {counts}"
            )
        return next(iter(counts.values()))

    def _open(self) -> None:
        """Open the files, again after a fork."""
        if self._files and self._process == os.getpid():
            return
        engine, options = self._how
        self._process = os.getpid()
        self._files = [
            SafetensorsFile(source, engine=engine, storage_options=options)
            for source in self.sources
        ]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_files": []}


class ShardDataset(shards.ShardDataset, IterableDataset):  # type: ignore[misc]
    """`foreread.shards.ShardDataset` for PyTorch's loaders.

    Each worker of a `DataLoader` and each rank of `torch.distributed` reads its part.
    `torchdata.stateful_dataloader` calls `state_dict` and `load_state_dict` in its workers.
    """

    def _rank(self) -> tuple[int, int]:
        if self._of_ranks[1] is None and torch.distributed.is_available():
            if torch.distributed.is_initialized():
                return torch.distributed.get_rank(), torch.distributed.get_world_size()
        return super()._rank()

    def _worker(self) -> tuple[int, int]:
        info = get_worker_info()
        return (0, 1) if info is None else (info.id, info.num_workers)


def _empty(
    file: SafetensorsFile, name: str, info: TensorInfo, shape: tuple[int, ...]
) -> torch.Tensor:
    dtype = getattr(torch, _DTYPES.get(info.dtype, ""), None)
    if dtype is None:
        raise TypeError(f"{file.file.name}: {name}: this PyTorch has no {info.dtype}")
    return torch.empty(shape, dtype=dtype)


def _bytes_of(tensor: torch.Tensor, size: int) -> Any:
    """Return the memory of a tensor as a buffer, valid while the tensor lives."""
    return (ctypes.c_char * size).from_address(tensor.data_ptr()) if size else bytearray()
