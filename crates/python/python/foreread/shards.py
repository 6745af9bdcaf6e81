"""Samples from tar shards in a directory or a bucket, read through an engine.

    from foreread.shards import ShardDataset

    dataset = ShardDataset("s3://bucket/train/", shuffle=1000, seed=1)
    for sample in dataset:                 # {"__key__": "a/0001", "jpg": b"..", "cls": b"7"}
        ...

`foreread.torch.ShardDataset` is the equivalent for PyTorch's loaders.
"""

from __future__ import annotations

import os
import re
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from foreread._engine import Engine, default_engine
from foreread._file import File
from foreread._shard_reader import Consumer, Sample, ShardReader, TarShard
from foreread._storage_options import StorageOptions, is_url
from foreread._tar import TarError

__all__ = ["Sample", "ShardDataset", "ShardReader", "TarError", "TarShard", "expand"]

# Limit of shards kept open, so that the next pass finds their pages.
OPEN_MAX = 256

SUFFIX = ".tar"


class ShardDataset:
    """Samples of tar shards, as dicts of bytes keyed by the extensions of the members.

    Parameters
    ----------
    shards : str, os.PathLike or sequence of str
        A directory or a prefix that ends with `/` (all `.tar` files in it and below), a name with
        ranges (`s3://bucket/train-{000..099}.tar`), or a list of names.
    shuffle : int
        Size of the shuffle buffer, in samples. The order of the shards is shuffled as well.
        0: no shuffling.
    seed : int
        Seed of the order. Each epoch has a different order; see `set_epoch`.
    rank, world : int or None
        Number of this training process, and the number of processes. Each process gets a part of
        the samples: whole shards if there are at least as many as readers, else every world-th
        sample of each shard.
    transform : callable or None
        Called with each sample; its result replaces the sample.
    engine : Engine or None
        Engine to use; by default that of the process.
    storage_options : mapping or None
        Options for URLs; see `foreread.Engine.open`.
    """

    def __init__(
        self,
        shards: str | os.PathLike[str] | Sequence[str],
        *,
        shuffle: int = 0,
        seed: int = 0,
        rank: int | None = None,
        world: int | None = None,
        transform: Callable[[Sample], Any] | None = None,
        engine: Engine | None = None,
        storage_options: StorageOptions | None = None,
    ) -> None:
        super().__init__()
        if shuffle < 0:
            raise ValueError(f"shuffle {shuffle} is negative: give a number of samples")
        if (rank is None) != (world is None) or not 0 <= (rank or 0) < (world or 1):
            raise ValueError(f"rank {rank} of world {world}: give both, from 0 to below world")
        self.engine = engine
        self.storage_options = storage_options
        self.shuffle, self.seed, self.epoch = shuffle, seed, 0
        self.transform = transform
        self.shards = expand(shards, engine or default_engine(), storage_options)
        self._of_ranks = (rank, world)
        self._open = _OpenShards()
        self._reader: ShardReader | None = None
        self._state: dict[str, Any] | None = None

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration; by default epochs are counted from 0.

        For the epoch restored by `load_state_dict`, the next iteration continues where that one
        stopped.

        A `DataLoader` recreates its workers for each epoch from this object, which does not see
        their counts: call this before each epoch. Persistent workers count themselves.
        """
        if self._state is not None and self._state["epoch"] != epoch:
            self._state = None
        self.epoch = epoch

    def reader(self, number: int, count: int, *, epoch: int | None = None) -> ShardReader:
        """Return an iterator over one of `count` parts of an epoch.

        Threads that read separate parts share the engine, with its memory bound and pages.
        """
        if not 0 <= number < count:
            raise ValueError(f"part {number} of {count}: give one from 0 to below the count")
        splits_shards = len(self.shards) >= count
        return ShardReader(
            self._shard,
            len(self.shards),
            seed=self.seed,
            epoch=self.epoch if epoch is None else epoch,
            shuffle=self.shuffle,
            consumer=Consumer(number, count, splits_shards),
        )

    def __iter__(self) -> Iterator[Any]:
        state, self._state = self._state, None
        if state is None:
            reader = self.reader(*self._part())
        else:
            # Check again: this may now be a worker.
            self._check(state)
            reader = self.reader(*self._part(), epoch=state["epoch"])
            reader.load_state_dict(state)
        self._reader = reader
        return _Samples(self, reader)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the iteration after the last returned sample."""
        if self._reader is None:
            of_reader = self._state or {"epoch": self.epoch}
        else:
            of_reader = self._reader.state_dict()
        return {**of_reader, "dataset": self._fingerprint()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue in the next iteration from a state of `state_dict`."""
        self._check(state)
        self.epoch = state["epoch"]
        self._reader = None
        self._state = dict(state) if "position" in state else None

    def _check(self, state: dict[str, Any]) -> None:
        mine = self._fingerprint()
        for name, value in state["dataset"].items():
            if mine.get(name) != value:
                raise ValueError(
                    f"the state is of another data set: its {name} is {value!r}, and this one's "
                    f"{mine.get(name)!r}"
                )

    def _fingerprint(self) -> dict[str, Any]:
        number, count = self._part()
        names = zlib.crc32("\n".join(self.shards).encode("utf-8", "surrogateescape"))
        return {
            "shards": f"{len(self.shards)} ({names:08x})",
            "shuffle": self.shuffle,
            "seed": self.seed,
            "part": f"{number} of {count}",
        }

    def _rank(self) -> tuple[int, int]:
        """Return the number of this training process, and the number of processes."""
        rank, world = self._of_ranks
        return rank or 0, world or 1

    def _worker(self) -> tuple[int, int]:
        """Return the number of this loader worker, and the number of workers."""
        return 0, 1

    def _part(self) -> tuple[int, int]:
        (rank, world), (worker, workers) = self._rank(), self._worker()
        return rank * workers + worker, world * workers

    def _shard(self, number: int) -> TarShard:
        name = self.shards[number]
        return self._open.find(name, lambda: TarShard(name, self._open_file(name)))

    def _open_file(self, name: str) -> File:
        options = self.storage_options if is_url(name) else None
        return (self.engine or default_engine()).open(name, storage_options=options)

    def _ended(self, reader: ShardReader) -> None:
        """Handle the end of an iteration."""
        if self._reader is reader:
            self._reader = None
            self.epoch = reader.epoch + 1

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reader": None}


class _Samples:
    """An iteration over a data set, which provides its state."""

    def __init__(self, dataset: ShardDataset, reader: ShardReader) -> None:
        self._dataset = dataset
        self._reader = reader

    def __iter__(self) -> _Samples:
        return self

    def __next__(self) -> Any:
        try:
            sample = next(self._reader)
        except StopIteration:
            self._dataset._ended(self._reader)
            raise
        transform = self._dataset.transform
        return sample if transform is None else transform(sample)


class _OpenShards:
    """Open shards of this process, in order of use, most recent last."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._shards: OrderedDict[str, TarShard] = OrderedDict()

    def __reduce__(self) -> tuple[Any, ...]:
        return (_OpenShards, ())

    def find(self, name: str, open_shard: Callable[[], TarShard]) -> TarShard:
        if self._process != os.getpid():
            # The files are the parent's, and one of its threads may hold the lock.
            self.__init__()  # type: ignore[misc]
        with self._lock:
            shard = self._shards.get(name)
            if shard is not None:
                self._shards.move_to_end(name)
                return shard
        # Open without the lock, because it may take long. A second thread gets the same pages.
        shard = open_shard()
        with self._lock:
            shard = self._shards.setdefault(name, shard)
            self._shards.move_to_end(name)
            while len(self._shards) > OPEN_MAX:
                self._shards.popitem(last=False)
        return shard


def expand(
    shards: str | os.PathLike[str] | Sequence[str],
    engine: Engine,
    storage_options: StorageOptions | None = None,
) -> list[str]:
    """Return the shard names in a directory, prefix, range or list."""
    if not isinstance(shards, (str, os.PathLike)):
        names = list(shards)
    else:
        text = os.fspath(shards)
        if is_url(text) and text.endswith("/") and not text.startswith("file://"):
            listed = engine.list_url(text, recursive=True, storage_options=storage_options)
            names = [text + name for name, _ in listed if name.endswith(SUFFIX)]
        else:
            path = text.removeprefix("file://") if text.startswith("file:///") else text
            names = _of_directory(path) if os.path.isdir(path) else _of_ranges(text)
    if not names:
        raise FileNotFoundError(f"{shards}: no {SUFFIX} there")
    return names


def _of_directory(path: str) -> list[str]:
    found: list[str] = []
    for folder, _, files in os.walk(path):
        found += [os.path.join(folder, name) for name in files if name.endswith(SUFFIX)]
    return sorted(found)


def _of_ranges(text: str) -> list[str]:
    """Expand `{000..099}`, keeping the number of digits of the first number."""
    match = re.search(r"\{(\d+)\.\.(\d+)\}", text)
    if match is None:
        return [text]
    first, last = match[1], match[2]
    if int(first) > int(last):
        raise ValueError(f"{text}: the range {first}..{last} ends before it starts")
    heads = (f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1))
    names: list[str] = []
    for head in heads:
        names += _of_ranges(text[: match.start()] + head + text[match.end() :])
    return names
