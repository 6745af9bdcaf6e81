"""One consumer's samples of tar shards, in an order determined by a few numbers.

```text
  shards of this consumer -> members in order -> samples -> shuffle buffer -> the program
                             header, bytes, header, bytes ..: sequential reads
```

The order follows from seed, epoch and consumer, so the state is small: the read position, and the
offsets of the samples in the buffer.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from foreread._tar import BLOCK, TarError, TarMember, members

if TYPE_CHECKING:
    from foreread._file import File

Sample = dict[str, Any]


class SampleRange(NamedTuple):
    """Range of a sample: from the header of its first member to the end of its last one."""

    shard: int
    start: int
    end: int


class Consumer(NamedTuple):
    """Part of the samples to read: one of several parts, by whole shards or within each shard."""

    number: int
    parts: int
    splits_shards: bool


class TarShard:
    """An open archive. Its headers are kept once all have been read."""

    def __init__(self, name: str, file: File) -> None:
        self.name = name
        self.file = file
        self._members: list[tuple[int, TarMember]] | None = None

    def index(self) -> list[TarMember]:
        """Return all members, from their headers."""
        if self._members is None:
            list(self._members_from(0))
        return [member for _, member in self._members or []]

    def samples(
        self, shard: int, start: int, is_wanted: Callable[[], bool]
    ) -> Iterator[tuple[SampleRange, Sample | None]]:
        """Yield the samples from a header on.

        An unwanted sample is None, and its bytes are not read. Neighbours whose names are equal up
        to the first dot form one sample.
        """
        sample: Sample | None = None
        key, first, last = None, start, start
        for header, member in self._members_from(start):
            name, suffix = _key_and_suffix(member.name)
            if name != key:
                if key is not None:
                    yield SampleRange(shard, first, last), sample
                key, first = name, header
                sample = {"__key__": name, "__url__": self.name} if is_wanted() else None
            last = member.offset + member.size
            if sample is not None:
                if suffix in sample:
                    raise TarError(f"{self.name}: {member.name}: a sample has {suffix!r} twice")
                sample[suffix] = self.file.pread(member.size, member.offset)
        if key is not None:
            yield SampleRange(shard, first, last), sample

    def read(self, where: SampleRange) -> Sample:
        """Read one sample."""
        for found, sample in self.samples(where.shard, where.start, lambda: True):
            if found == where and sample is not None:
                return sample
            break
        raise TarError(f"{self.name}: the sample at {where.start} is another one now")

    def _members_from(self, start: int) -> Iterator[tuple[int, TarMember]]:
        """Yield members with the offsets of their headers, including extended headers."""
        if self._members is not None:
            at = bisect.bisect_left(self._members, start, key=lambda item: item[0])
            yield from self._members[at:]
            return
        found: list[tuple[int, TarMember]] = []
        header = start
        for member in members(self.file, start):
            found.append((header, member))
            yield header, member
            header = member.offset + (member.size + BLOCK - 1) // BLOCK * BLOCK
        if start == 0:
            self._members = found


def _key_and_suffix(name: str) -> tuple[str, str]:
    """Split `a/b/0001.seg.png` into `a/b/0001` and `seg.png`, like WebDataset."""
    folder, slash, file = name.rpartition("/")
    stem, dot, suffix = file.partition(".")
    if not stem and dot:
        stem, dot, suffix = file, "", ""
    return folder + slash + stem, suffix


class Draws:
    """Random numbers with random access: SplitMix64, by seed and index."""

    def __init__(self, seed: int, number: int = 0) -> None:
        self.seed = seed & _MASK
        self.number = number

    def below(self, limit: int) -> int:
        """Return the next number, from 0 to below the limit."""
        self.number += 1
        # The bias of a limit of a million is 1 in 10^13.
        return mixed(self.seed + self.number * _GOLDEN) * limit >> 64

    def shuffle(self, items: list[Any]) -> None:
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]


_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


def mixed(value: int) -> int:
    """Return the finalizer of SplitMix64: each result bit depends on each bit of the value."""
    value &= _MASK
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _MASK
    return value ^ (value >> 31)


class ShardReader:
    """A resumable iterator over one consumer's samples of one epoch."""

    def __init__(
        self,
        open_shard: Callable[[int], TarShard],
        shards: int,
        *,
        seed: int,
        epoch: int,
        shuffle: int,
        consumer: Consumer,
    ) -> None:
        self.epoch = epoch
        self._open_shard = open_shard
        self._size = shuffle
        self._consumer = consumer
        order = list(range(shards))
        of_epoch = mixed(seed * _GOLDEN + epoch)
        if shuffle:
            Draws(of_epoch).shuffle(order)
        if consumer.splits_shards:
            order = order[consumer.number :: consumer.parts]
        self._order = order
        self._draws = Draws(mixed(of_epoch + 1 + consumer.number))
        # Read position: index of the shard, offset of the header, number of samples before it.
        self._position, self._at, self._number = 0, 0, 0
        self._buffer: list[tuple[SampleRange, Sample]] = []
        self._samples = self._shuffled()

    def __iter__(self) -> ShardReader:
        return self

    def __next__(self) -> Sample:
        return next(self._samples)

    def state_dict(self) -> dict[str, Any]:
        """Return the state from which `load_state_dict` resumes after the last returned sample."""
        return {
            "epoch": self.epoch,
            "position": self._position,
            "at": self._at,
            "number": self._number,
            "draws": self._draws.number,
            "buffer": [list(where) for where, _ in self._buffer],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from the state of a reader with the same settings, and refill its buffer."""
        self._position, self._at, self._number = state["position"], state["at"], state["number"]
        self._draws.number = state["draws"]
        places = [SampleRange(*where) for where in state["buffer"]]
        of_shards: dict[int, list[tuple[int, int]]] = {}
        for place in places:
            of_shards.setdefault(place.shard, []).append((place.start, place.end))
        for shard, ranges in of_shards.items():
            # Announce all ranges before waiting for the first.
            self._open_shard(shard).file.will_need(ranges)
        self._buffer = [(place, self._open_shard(place.shard).read(place)) for place in places]
        self._samples = self._shuffled()

    def _shuffled(self) -> Iterator[Sample]:
        buffer = self._buffer
        for item in self._in_order():
            if len(buffer) < self._size:
                buffer.append(item)
                continue
            if self._size == 0:
                yield item[1]
                continue
            chosen = self._draws.below(len(buffer))
            out, buffer[chosen] = buffer[chosen], item
            yield out[1]
        while buffer:
            chosen = self._draws.below(len(buffer))
            buffer[chosen], buffer[-1] = buffer[-1], buffer[chosen]
            yield buffer.pop()[1]

    def _in_order(self) -> Iterator[tuple[SampleRange, Sample]]:
        """Yield this consumer's samples in shard order."""
        while self._position < len(self._order):
            number = self._order[self._position]
            shard = self._open_shard(number)
            for where, sample in shard.samples(number, self._at, self._is_wanted):
                self._at = where.end + -where.end % BLOCK
                if sample is not None:
                    yield where, sample
            self._position, self._at, self._number = self._position + 1, 0, 0

    def _is_wanted(self) -> bool:
        """Return whether the next sample of a shard belongs to this consumer."""
        number = self._number
        self._number += 1
        if self._consumer.splits_shards:
            return True
        return number % self._consumer.parts == self._consumer.number
