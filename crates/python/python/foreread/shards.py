"""Samples of tar shards in a directory or a bucket, read through an engine.

    from foreread.shards import ShardDataset

    dataset = ShardDataset("s3://bucket/train/", shuffle=1000, seed=1)
    for sample in dataset:                 # {"__key__": "a/0001", "jpg": b"..", "cls": b"7"}
        ...

`foreread.torch.ShardDataset` is the same for PyTorch's loaders.
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

# Shards that stay open, so that the next pass finds their pages: so many.
OPEN_MAX = 256

SUFFIX = ".tar"


class ShardDataset:
    """Samples of tar shards, as dicts of bytes by the extension of their members.

    shards: a directory or a prefix that ends with `/` (all `.tar` in it and below), a name with
        ranges (`s3://bucket/train-{000..099}.tar`), or a list of names.
    shuffle: how many samples are in memory, of which the next one is drawn; the order of the shards
        is drawn as well. 0: the order of the shards.
    seed: which order it is. Epochs have different ones; `set_epoch` says which one comes next.
    rank, world: which of how many processes of a training this is. Each gets its part of the
        samples, whole shards if there are as many as readers, else every world-th sample of each.
    transform: is called with each sample; what it returns takes the sample's place.
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
        """Says which epoch the next iteration is; without it they are counted, from 0 on.

        Of the epoch that `load_state_dict` was given, the next iteration goes on where it was.

        A `DataLoader` with workers makes them anew for each epoch, of this object, in which nothing
        is counted: say the epoch before each. Workers that persist count for themselves.
        """
        if self._state is not None and self._state["epoch"] != epoch:
            self._state = None
        self.epoch = epoch

    def reader(self, number: int, count: int, *, epoch: int | None = None) -> ShardReader:
        """Returns an iterator over one of `count` parts of an epoch.

        Several threads that read parts of their own share the engine, its memory bound and pages.
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
            # Again: now it may be a worker that iterates.
            self._check(state)
            reader = self.reader(*self._part(), epoch=state["epoch"])
            reader.load_state_dict(state)
        self._reader = reader
        return _Samples(self, reader)

    def state_dict(self) -> dict[str, Any]:
        """Returns where the iteration is, after the sample that it returned last."""
        if self._reader is None:
            of_reader = self._state or {"epoch": self.epoch}
        else:
            of_reader = self._reader.state_dict()
        return {**of_reader, "dataset": self._fingerprint()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next iteration goes on where the one of `state_dict` was."""
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
        """Which of how many processes of a training this is."""
        rank, world = self._of_ranks
        return rank or 0, world or 1

    def _worker(self) -> tuple[int, int]:
        """Which of how many workers of a loader this is."""
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
        """An iteration has come to its end."""
        if self._reader is reader:
            self._reader = None
            self.epoch = reader.epoch + 1

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reader": None}


class _Samples:
    """An iteration of a data set: its state is that of the data set."""

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
    """The shards that this process has open, the one that was used last at the end."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._shards: OrderedDict[str, TarShard] = OrderedDict()

    def __reduce__(self) -> tuple[Any, ...]:
        return (_OpenShards, ())

    def find(self, name: str, open_shard: Callable[[], TarShard]) -> TarShard:
        if self._process != os.getpid():
            # The files are the parent's, and a thread of it may hold the lock.
            self.__init__()  # type: ignore[misc]
        with self._lock:
            shard = self._shards.get(name)
            if shard is not None:
                self._shards.move_to_end(name)
                return shard
        # Not with the lock held: it may take long. A second thread gets the same pages.
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
    """Returns the names of shards that a directory, a prefix, a range or a list stands for."""
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
    """Expands `{000..099}`, with as many digits as the first number has."""
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
