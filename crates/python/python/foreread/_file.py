"""The file object: `io.RawIOBase` over a file of an engine."""

from __future__ import annotations

import io
import operator
import os
from collections.abc import Awaitable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NoReturn, SupportsIndex

from foreread._asyncio import start_read

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from foreread._engine import Engine
    from foreread._foreread import PinnedRange, RawFile

Advice = Literal["normal", "sequential", "random", "noreuse"]


class _Closed:
    """Takes the place of the file below when it is closed: every use is a ValueError."""

    def __getattr__(self, name: str) -> NoReturn:
        raise ValueError("I/O operation on closed file")


_CLOSED: Any = _Closed()

# How much `readline` reads ahead: little after a seek, and more as lines follow each other.
_AHEAD_MIN = 4 << 10
_AHEAD_MAX = 64 << 10


class File(io.RawIOBase):
    """A file that is open for reading.

    It has a position, as every file of `io` has. `pread` and the calls below it use none, and are
    meant for several threads. Every wait lets other threads run.
    """

    _raw: RawFile
    _engine: Engine
    name: str

    def __init__(
        self,
        engine: Engine,
        raw: RawFile,
        name: str,
        *,
        path: str = "",
        buffered: bool = False,
    ) -> None:
        self._raw = raw
        self._engine = engine
        # The absolute path: a pickle names this file, wherever the program has gone since.
        self._path = path
        self._buffered = buffered
        # Bytes in front of the position that `readline` and `peek` have read: while they are there,
        # the position is that in them behind `_ahead_start`.
        self._ahead: io.BytesIO | None = None
        self._ahead_start = 0
        self.name = name

    mode = "rb"

    # What io.RawIOBase asks for.

    def readable(self) -> bool:
        self._raw.len  # noqa: B018: a closed file raises
        return True

    def seekable(self) -> bool:
        self._raw.len  # noqa: B018: a closed file raises
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """Reads `size` bytes from the position on; all that is left if it is negative or None.

        Fewer bytes come only at the end of the file.
        """
        if self._ahead is not None:
            self._settle()
        return self._raw.read(size)

    def readall(self) -> bytes:
        """Reads all that is left."""
        return self.read(None)

    def readinto(self, buffer: Buffer, /) -> int:
        """Reads into a writable buffer, and returns how many bytes."""
        if self._ahead is not None:
            self._settle()
        return self._raw.readinto(buffer)

    def peek(self, size: int = 0, /) -> bytes:
        """Returns bytes from the position on without moving it, as `io.BufferedReader` does.

        At least one, except at the end of the file; how many there are does not depend on `size`.
        """
        for _ in range(2):
            if self._ahead is not None:
                rest = self._ahead.getbuffer()[self._ahead.tell() :]
                if rest:
                    return bytes(rest)
            self._read_ahead()
        return b""

    def readline(self, size: int | None = -1, /) -> bytes:
        """Reads up to the end of a line, or `size` bytes if it is not negative."""
        limit = -1 if size is None else operator.index(size)
        ahead = self._ahead
        line = b"" if ahead is None else ahead.readline(limit)
        if line[-1:] == b"\n" or len(line) == limit:
            return line
        parts = [line]
        while True:
            self._read_ahead()
            if self._ahead is None:
                return b"".join(parts)
            if limit >= 0:
                limit -= len(parts[-1])
            line = self._ahead.readline(limit)
            parts.append(line)
            if line[-1:] == b"\n" or len(line) == limit:
                return b"".join(parts)

    def __iter__(self) -> Iterator[bytes]:
        self._raw.len  # noqa: B018: a closed file raises
        return self._lines()

    def _lines(self) -> Iterator[bytes]:
        while True:
            ahead = self._ahead or io.BytesIO()
            for line in ahead:
                if line[-1:] != b"\n":
                    ahead.seek(-len(line), os.SEEK_CUR)
                    break
                yield line
                if self._ahead is not ahead:
                    break
            line = self.readline()
            if not line:
                return
            yield line

    def __next__(self) -> bytes:
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    def _read_ahead(self) -> None:
        """Reads what follows the bytes that were read ahead; at the end of the file, nothing."""
        size = _AHEAD_MIN
        if self._ahead is not None:
            # A reader of line after line reads on.
            size = min(4 * self._ahead.getbuffer().nbytes, _AHEAD_MAX)
            self._settle()
        start = self._raw.tell()
        data = self._raw.pread(max(size, _AHEAD_MIN), start)
        if data:
            self._ahead, self._ahead_start = io.BytesIO(data), start

    def _settle(self) -> None:
        """Moves the position of the file below to where `readline` has come."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            self._raw.seek(self._ahead_start + ahead.tell(), os.SEEK_SET)

    def write(self, data: Buffer, /) -> NoReturn:
        """Refuses, as a file of `io` that is open for reading does."""
        self._raw.len  # noqa: B018: a closed file raises
        raise io.UnsupportedOperation(f"{self.name}: not writable: foreread opens for reading")

    def seek(self, offset: SupportsIndex, whence: int = os.SEEK_SET, /) -> int:
        """Moves the position, and returns it."""
        if self._ahead is not None:
            self._settle()
        return self._raw.seek(operator.index(offset), whence)

    def tell(self) -> int:
        """Returns the position."""
        if self._ahead is not None:
            return self._ahead_start + self._ahead.tell()
        return self._raw.tell()

    def close(self) -> None:
        """Closes the file. Reads of other threads that are on their way go on."""
        if not self.closed:
            super().close()
            self._raw, self._ahead = _CLOSED, None

    # What it has beyond that: no position, any thread.

    @property
    def size(self) -> int:
        """The length in bytes, as it was known last."""
        return self._raw.len

    def pread(self, size: int, offset: int) -> bytes:
        """Reads `size` bytes at an offset; fewer only at the end of the file."""
        return self._raw.pread(size, offset)

    def preadinto(self, buffer: Buffer, offset: int) -> int:
        """Reads into a writable buffer at an offset, and returns how many bytes."""
        return self._raw.preadinto(buffer, offset)

    def pread_async(self, size: int, offset: int) -> Awaitable[bytes]:
        """Reads as `pread` does, for `await`: the loop of asyncio, or any like it, goes on."""
        return start_read(self._raw, size, offset)

    def read_ranges(self, ranges: Iterable[tuple[int, int]]) -> list[bytes]:
        """Reads many ranges `(start, end)` at once, and returns their bytes in the same order.

        What is cached is not read again. The rest becomes requests by what the engine has learnt
        of the device: near ranges are merged, large ones split, and all go out together.
        """
        return self._raw.read_ranges(list(ranges))

    def will_need(self, ranges: Iterable[tuple[int, int]]) -> int:
        """Says that these ranges will be read soon; returns how many pages were asked for."""
        return self._raw.will_need(list(ranges))

    def advise(self, advice: Advice) -> None:
        """Says how this file is going to be read; the policy finds out by itself otherwise."""
        self._raw.advise(advice)

    def pin(self, offset: int, size: int | None = None) -> PinnedRange:
        """Pins the pages of a range; to the end of the page of `offset` if there is no size.

        The result is a read-only buffer without a copy: `memoryview(pin)`, `numpy.frombuffer(pin)`.
        Where the pages do not lie side by side in memory, its `parts()` are. Pages stay pinned,
        and their bytes unchanged, until it and all views of it are gone.
        """
        return self._raw.pin(offset, size)

    def invalidate(self, start: int = 0, end: int | None = None) -> None:
        """Forgets a range that another program has written: the next read asks the device."""
        self._settle()
        self._raw.invalidate(start, self._raw.len if end is None else end)

    def refresh(self) -> int:
        """Asks the system how long the file is, and returns it."""
        return self._raw.refresh()

    @property
    def direct_io_unavailable(self) -> str | None:
        """Why reads go through the kernel's page cache; None if they go around it."""
        return self._raw.direct_io_unavailable

    # A handle that is pickled is opened again where it is unpickled.

    def __reduce__(self) -> tuple[Any, ...]:
        return (_reopen, (self._engine, self._path, self._buffered, self.tell()))

    def __repr__(self) -> str:
        closed = " (closed)" if self.closed else ""
        return f"<foreread.File {self.name!r}{closed}>"


class ObjectFile(File):
    """An object of a store, in the version that was there when it was opened.

    If the object is replaced meanwhile, reads of what is not in the cache raise
    `ObjectChangedError`.
    """

    def __init__(
        self,
        engine: Engine,
        raw: RawFile,
        name: str,
        version: tuple[str | None, str | None, int],
        storage_options: dict[str, Any],
    ) -> None:
        super().__init__(engine, raw, name)
        self._version = version
        self._storage_options = storage_options

    @property
    def etag(self) -> str | None:
        """The `ETag` of the version that is read, in quotes, as the store states it."""
        return self._version[0]

    @property
    def version_id(self) -> str | None:
        """What the store calls the version that is read, if it keeps several."""
        return self._version[1]

    @property
    def last_modified(self) -> float | None:
        """When that version was written, in seconds since 1970, if the store says so."""
        return float(self._version[2]) if self._version[2] else None

    def __reduce__(self) -> tuple[Any, ...]:
        # With the options, which may have credentials in them: there they are needed as well.
        options = self._storage_options
        return (_reopen_url, (self._engine, self.name, options, self.tell()))


def _reopen_url(engine: Engine, url: str, options: dict[str, Any], position: int) -> File:
    file = engine.open(url, storage_options=options)
    file.seek(position)
    return file


def _reopen(engine: Engine, name: str, buffered: bool, position: int) -> File:
    file = engine.open(name, buffered=buffered)
    file.seek(position)
    return file
