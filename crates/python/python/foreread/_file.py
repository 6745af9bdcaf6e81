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
    """Replaces the raw file when it is closed: every use is a ValueError."""

    def __getattr__(self, name: str) -> NoReturn:
        raise ValueError("I/O operation on closed file")


_CLOSED: Any = _Closed()

# Read-ahead of `readline`: little after a seek, growing with consecutive lines.
_AHEAD_MIN = 4 << 10
_AHEAD_MAX = 64 << 10


class File(io.RawIOBase):
    """A file open for reading.

    It has a position, like every file of `io`. `pread` and the methods after it do not use the
    position, and are meant for concurrent threads. A waiting thread releases the GIL.
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
        # The absolute path: a pickle must name this file after a change of the working directory.
        self._path = path
        self._buffered = buffered
        # Bytes that `readline` and `peek` have read ahead. While set, the position is
        # `_ahead_start` plus the offset in them.
        self._ahead: io.BytesIO | None = None
        self._ahead_start = 0
        self.name = name

    mode = "rb"

    # Methods of io.RawIOBase.

    def readable(self) -> bool:
        self._raw.len  # noqa: B018: a closed file raises
        return True

    def seekable(self) -> bool:
        self._raw.len  # noqa: B018: a closed file raises
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """Read `size` bytes at the position; up to the end if `size` is negative or None.

        Returns fewer bytes only at the end of the file.
        """
        if self._ahead is not None:
            self._settle()
        return self._raw.read(size)

    def readall(self) -> bytes:
        """Read up to the end of the file."""
        return self.read(None)

    def readinto(self, buffer: Buffer, /) -> int:
        """Read into a writable buffer, and return the number of bytes."""
        if self._ahead is not None:
            self._settle()
        return self._raw.readinto(buffer)

    def peek(self, size: int = 0, /) -> bytes:
        """Return bytes at the position without moving it, like `io.BufferedReader.peek`.

        Returns at least one byte, except at the end of the file; the number does not depend on
        `size`.
        """
        for _ in range(2):
            if self._ahead is not None:
                rest = self._ahead.getbuffer()[self._ahead.tell() :]
                if rest:
                    return bytes(rest)
            self._read_ahead()
        return b""

    def readline(self, size: int | None = -1, /) -> bytes:
        """Read up to the end of a line, or at most `size` bytes if it is not negative."""
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
        """Read the bytes after the read-ahead buffer; nothing at the end of the file."""
        size = _AHEAD_MIN
        if self._ahead is not None:
            # Grow for a reader of consecutive lines.
            size = min(4 * self._ahead.getbuffer().nbytes, _AHEAD_MAX)
            self._settle()
        start = self._raw.tell()
        data = self._raw.pread(max(size, _AHEAD_MIN), start)
        if data:
            self._ahead, self._ahead_start = io.BytesIO(data), start

    def _settle(self) -> None:
        """Move the raw file's position to that of `readline`."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            self._raw.seek(self._ahead_start + ahead.tell(), os.SEEK_SET)

    def write(self, data: Buffer, /) -> NoReturn:
        """Refuse, like any `io` file that is open for reading."""
        self._raw.len  # noqa: B018: a closed file raises
        raise io.UnsupportedOperation(f"{self.name}: not writable: foreread opens for reading")

    def seek(self, offset: SupportsIndex, whence: int = os.SEEK_SET, /) -> int:
        """Move the position, and return it."""
        if self._ahead is not None:
            self._settle()
        return self._raw.seek(operator.index(offset), whence)

    def tell(self) -> int:
        """Return the position."""
        if self._ahead is not None:
            return self._ahead_start + self._ahead.tell()
        return self._raw.tell()

    def close(self) -> None:
        """Close the file. Pending reads of other threads continue."""
        if not self.closed:
            super().close()
            self._raw, self._ahead = _CLOSED, None

    # Further methods: no position, any thread.

    @property
    def size(self) -> int:
        """Last known length, in bytes."""
        return self._raw.len

    def pread(self, size: int, offset: int) -> bytes:
        """Read `size` bytes at an offset; fewer only at the end of the file."""
        return self._raw.pread(size, offset)

    def preadinto(self, buffer: Buffer, offset: int) -> int:
        """Read into a writable buffer at an offset, and return the number of bytes."""
        return self._raw.preadinto(buffer, offset)

    def pread_async(self, size: int, offset: int) -> Awaitable[bytes]:
        """Read like `pread`, as an awaitable for asyncio or a similar event loop."""
        return start_read(self._raw, size, offset)

    def read_ranges(self, ranges: Iterable[tuple[int, int]]) -> list[bytes]:
        """Read many ranges `(start, end)` at once, and return their bytes in the same order.

        Cached bytes are not read again. For the rest, the engine uses the learnt costs of the
        device to merge neighbouring ranges and split large ones, and sends all requests together.
        """
        return self._raw.read_ranges(list(ranges))

    def will_need(self, ranges: Iterable[tuple[int, int]]) -> int:
        """Announce ranges that will be read soon; return the number of pages requested."""
        return self._raw.will_need(list(ranges))

    def advise(self, advice: Advice) -> None:
        """Set the expected access pattern; without advice, the policy detects it."""
        self._raw.advise(advice)

    def pin(self, offset: int, size: int | None = None) -> PinnedRange:
        """Pin the pages of a range; without `size`, to the end of the page at `offset`.

        The result is a read-only buffer, without a copy: `memoryview(pin)`,
        `numpy.frombuffer(pin)`. If the pages are not contiguous in memory, use the buffers in
        `parts()`. Pages stay pinned, and their bytes unchanged, until the result and all views of
        it are gone.
        """
        return self._raw.pin(offset, size)

    def invalidate(self, start: int = 0, end: int | None = None) -> None:
        """Drop a range that another program has written: the next read goes to the device."""
        self._settle()
        self._raw.invalidate(start, self._raw.len if end is None else end)

    def refresh(self) -> int:
        """Query the length of the file from the system, and return it."""
        return self._raw.refresh()

    @property
    def direct_io_unavailable(self) -> str | None:
        """The reason that reads use the kernel's page cache; None if they bypass it."""
        return self._raw.direct_io_unavailable

    # Unpickling reopens the file.

    def __reduce__(self) -> tuple[Any, ...]:
        return (_reopen, (self._engine, self._path, self._buffered, self.tell()))

    def __repr__(self) -> str:
        closed = " (closed)" if self.closed else ""
        return f"<foreread.File {self.name!r}{closed}>"


class ObjectFile(File):
    """An object in a store, at the version that was current when it was opened.

    If the object is replaced later, reads of uncached bytes raise `ObjectChangedError`.
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
        """The `ETag` of this version, in quotes, as reported by the store."""
        return self._version[0]

    @property
    def version_id(self) -> str | None:
        """The store's version ID, if the store is versioned."""
        return self._version[1]

    @property
    def last_modified(self) -> float | None:
        """Modification time of this version in seconds since 1970, if the store reports it."""
        return float(self._version[2]) if self._version[2] else None

    def __reduce__(self) -> tuple[Any, ...]:
        # The options may contain credentials, which the unpickling process needs as well.
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
