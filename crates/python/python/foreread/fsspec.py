"""foreread under every file system of fsspec.

    import foreread.fsspec                                    # registers the cache type

    fs.open("bucket/key", cache_type="foreread") # a cache for one file of a file system
    fsspec.open("foreread::s3://bucket/key")     # a file system wrapped around another

Some file systems have an option for the default: s3fs `default_cache_type`, HTTP `cache_type`.

All files share the engine of the process: its memory bound covers them together. Pages stay cached
after a file is closed, for the next open.
"""

# fsspec has no types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
from __future__ import annotations

import errno
import io
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

try:
    from fsspec import filesystem
    from fsspec.caching import register_cache
    from fsspec.implementations.chained import ChainedFileSystem
    from fsspec.implementations.local import LocalFileSystem
    from fsspec.spec import AbstractBufferedFile, AbstractFileSystem
except ImportError as error:
    raise ImportError(
        "foreread.fsspec needs fsspec 2025.10 or later: pip install -U 'foreread[fsspec]'"
    ) from error

from foreread._engine import Engine, default_engine
from foreread._file import File
from foreread._fsspec_cache import ForereadCache, keep_open, open_fetched, version_of
from foreread._native import NotNativeError, native_options, open_native

__all__ = ["ForereadCache", "ForereadFile", "ForereadFileSystem"]


# Bytes that `readline` reads at a time.
_LINES_SIZE = 64 << 10


class ForereadFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file of another file system, read through the engine."""

    loc: int
    size: int
    blocksize: Any
    cache: ForereadCache

    def __init__(
        self,
        fs: ForereadFileSystem,
        path: str,
        open_file: Callable[[Engine], File],
        info: dict[str, Any],
        block_size: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        size = int(info["size"])
        options: dict[str, Any] = {"block_size": block_size or "default", "cache_type": "none"}
        super().__init__(fs, path, "rb", size=size, **options)
        self._details = info
        self.kwargs = kwargs
        self.cache = ForereadCache(self.blocksize, self._fetch_range, size, fs.engine)
        self.cache.open_file = open_file
        # Bytes that `readline` has read, from `_lines_start` on.
        self._lines = io.BytesIO()
        self._lines_start = 0

    def _fetch_range(self, start: int, end: int) -> bytes:
        data: bytes = self.cache._fetch(start, end)
        return data

    def read(self, length: int | None = -1) -> bytes:
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        at = self.loc
        rest = self.size - at
        if length is None or length < 0 or length > rest:
            length = rest
        if length <= 0:
            return b""
        data = self.cache.pread(int(length), at)
        self.loc = at + len(data)
        return data

    def readinto(self, b: Any) -> int:
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        at = self.loc
        count: int = self.cache.call(lambda file: file.preadinto(b, at))
        self.loc = at + count
        return count

    def readline(self, size: int | None = -1) -> bytes:
        """Read up to the end of a line, or at most `size` bytes if it is not negative."""
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        limit = -1 if size is None else size
        parts: list[bytes] = []
        while True:
            # A seek or another read has moved the position away from the buffer.
            is_here = self.loc == self._lines_start + self._lines.tell()
            line = self._lines.readline(limit) if is_here else b""
            parts.append(line)
            self.loc += len(line)
            if line[-1:] == b"\n" or len(line) == limit or self.loc >= self.size:
                return b"".join(parts)
            if limit >= 0:
                limit -= len(line)
            data = self.cache.pread(min(_LINES_SIZE, self.size - self.loc), self.loc)
            self._lines, self._lines_start = io.BytesIO(data), self.loc

    def read_ranges(self, ranges: Iterable[tuple[int, int]]) -> list[bytes]:
        """Read many ranges `(start, end)` at once, like `foreread.File.read_ranges`."""
        ranges = list(ranges)
        data: list[bytes] = self.cache.call(lambda file: file.read_ranges(ranges))
        return data


class ForereadFileSystem(ChainedFileSystem):  # type: ignore[misc]
    """Reads the files of another file system through the engine: `foreread::s3://bucket/key`.

    All operations other than reads are forwarded to the other file system.

    Parameters
    ----------
    fs, target_protocol, target_options
        The other file system, as for `CachingFileSystem`.
    memory : int, str or None
        Memory bound of the process's engine, if it does not exist yet, such as `"2GiB"`.
    native : bool or None
        Whether the engine reads files of s3fs with its own client; None: where possible.
    """

    protocol: ClassVar[str] = "foreread"
    fs: Any
    _strip_tokenize_options = ("fo",)

    def __init__(
        self,
        fs: AbstractFileSystem | None = None,
        target_protocol: str | None = None,
        target_options: dict[str, Any] | None = None,
        fo: str | None = None,
        memory: int | str | None = None,
        native: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if (fs is None) == (target_protocol is None):
            raise ValueError("give either fs or target_protocol: the file system to read from")
        self.fs = fs if fs is not None else filesystem(target_protocol, **(target_options or {}))
        self.engine = None
        if memory is not None:
            default_engine(memory)
        self.native = native
        self.native_options: dict[str, Any] | None = None
        if native is not False:
            try:
                self.native_options = native_options(self.fs)
            except NotNativeError as error:
                if native:
                    raise ValueError(f"native: the engine cannot read it itself: {error}") from None

        strip_own: Callable[[Any], Any] = getattr(type(self), "_strip_protocol")  # noqa: B009

        def strip(path: Any) -> Any:
            if isinstance(path, list):
                return [strip(each) for each in path]
            return self.fs._strip_protocol(strip_own(path))

        # A class method in fsspec; here it depends on the other file system.
        self._strip_protocol: Callable[[Any], Any] = strip  # pyright: ignore

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | str | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        cache_type: str | None = None,
        size: int | None = None,
        **kwargs: Any,
    ) -> Any:
        if mode != "rb":
            return self.fs._open(path, mode=mode, autocommit=autocommit, **kwargs)
        if isinstance(self.fs, LocalFileSystem):
            # The engine reads the file itself.
            info = self.fs.info(path)
            if info["type"] == "directory":
                raise IsADirectoryError(path)

            # The time of the last change of the inode: programs such as rsync and tar set the
            # other one back.
            times = f"{info['mtime']} {info.get('created')}"
            version = f"{times} {info['ino']} {info['size']}"

            def open_local(engine: Engine) -> File:
                key = (engine._token, path, version)
                return keep_open(key, lambda: _open_anew(engine, path), is_local=True)

            return ForereadFile(self, path, open_local, info, block_size, **kwargs)
        if self.native_options is not None and not kwargs:
            found = self.fs.info(path)
            if found["type"] == "directory":
                raise IsADirectoryError(path)
            return ForereadFile(self, path, self._native_opener(path, found), found, block_size)
        return self._open_wrapped(path, block_size, **kwargs)

    def _native_opener(self, path: str, info: dict[str, Any]) -> Callable[[Engine], File]:
        options = self.native_options or {}

        def open_file(engine: Engine) -> File:
            key = (engine._token, f"native:{path}", f"{info.get('ETag')} {self.fs._fs_token}")
            try:
                return keep_open(key, lambda: open_native(engine, path, info, options))
            except NotNativeError as error:
                if self.native:
                    raise OSError(errno.EIO, f"native: {error}", path) from error
                opened: File = self._open_wrapped(path, None).cache.open_file(engine)
                return opened

        return open_file

    def _open_wrapped(self, path: str, block_size: int | str | None, **kwargs: Any) -> Any:
        target = self.fs._open(path, mode="rb", cache_type="none", **kwargs)
        info: Any = getattr(target, "_details", None)
        if isinstance(target, AbstractBufferedFile):
            if target.size is None:
                return target
            if version_of(info) is None:
                info = self.fs.info(path)
            fetch = target._fetch_range
            target.cache, target.closed = None, True
        else:
            target.close()
            info = self.fs.info(path)
            if info.get("size") is None:
                return self.fs._open(path, mode="rb", **kwargs)

            def fetch(start: int, end: int) -> bytes:
                data: bytes = self.fs.cat_file(path, start=start, end=end)
                return data

        def open_file(engine: Engine) -> File:
            return open_fetched(engine, self.fs, path, fetch, info, int(info["size"]))

        return ForereadFile(self, path, open_file, info, block_size, **kwargs)

    def _opened(self, path: str, **kwargs: Any) -> Any:
        return self.open(path, "rb", **kwargs)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        """Return the bytes of a file. A whole file is not cached."""
        path = self._strip_protocol(path)
        if start is None and end is None:
            whole: bytes = self.fs.cat_file(path, **kwargs)
            return whole
        with self._opened(path, **kwargs) as file:
            part: bytes = file.read_ranges([_range_of(file.size, start, end)])[0]
            return part

    def cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        on_error: str = "return",
        **kwargs: Any,
    ) -> list[Any]:
        """Return the bytes of ranges of many files.

        Ranges of one file are read together, and up to 16 files at a time.
        """
        if max_gap is not None:
            raise NotImplementedError("max_gap: the engine learns which gaps are worth reading")
        starts = starts if isinstance(starts, list) else [starts] * len(paths)
        ends = ends if isinstance(ends, list) else [ends] * len(paths)
        if len(starts) != len(paths) or len(ends) != len(paths):
            raise ValueError("give as many starts and ends as paths")
        numbers: dict[str, list[int]] = {}
        for number, path in enumerate(self._strip_protocol(path) for path in paths):
            numbers.setdefault(path, []).append(number)

        def parts_of(path: str) -> list[Any]:
            try:
                with self._opened(path, **kwargs) as file:
                    ranges = [_range_of(file.size, starts[n], ends[n]) for n in numbers[path]]
                    parts: list[Any] = file.read_ranges(ranges)
                    return parts
            except Exception as error:
                if on_error != "return":
                    raise
                return [error] * len(numbers[path])

        out: list[Any] = [b""] * len(paths)
        for path, parts in zip(numbers, _map_at_once(parts_of, list(numbers)), strict=True):
            for number, part in zip(numbers[path], parts, strict=True):
                out[number] = part
        return out

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **kw: Any) -> Any:
        return self.fs.cat(self._strip_protocol(path), recursive=recursive, on_error=on_error, **kw)

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> Any:
        return self.fs.cp_file(self._strip_protocol(path1), self._strip_protocol(path2), **kwargs)

    def put_file(self, lpath: str, rpath: str, *args: Any, **kwargs: Any) -> Any:
        return self.fs.put_file(lpath, self._strip_protocol(rpath), *args, **kwargs)

    def invalidate_cache(self, path: str | None = None) -> None:
        self.fs.invalidate_cache(path if path is None else self._strip_protocol(path))
        super().invalidate_cache(path)


def _open_anew(engine: Engine, path: str) -> File:
    """Open a local file whose version is not open yet.

    The engine identifies files by inode, so after a change in place it may still have old pages, as
    long as an earlier handle is kept open.
    """
    file = engine.open(path)
    file.refresh()
    file.invalidate()
    return file


_FILES_AT_ONCE = 16


def _map_at_once(act: Callable[[str], list[Any]], paths: list[str]) -> list[list[Any]]:
    """Call a function for each path, several at a time. The first error ends it."""
    if len(paths) < 2:
        return [act(path) for path in paths]
    pool = ThreadPoolExecutor(min(_FILES_AT_ONCE, len(paths)), "foreread-cat")
    try:
        try:
            results = pool.map(act, paths)
        except RuntimeError:
            # The system cannot create a thread, or the interpreter is shutting down.
            return [act(path) for path in paths]
        return list(results)
    finally:
        # Also after Ctrl-C: do not wait for the calls that have begun.
        pool.shutdown(wait=False, cancel_futures=True)


def _range_of(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Return a range of a file with slice semantics: negative numbers count from the end."""
    begin, stop, _ = slice(start, end).indices(size)
    return begin, max(begin, stop)


def _delegate(name: str) -> None:
    """Forward a method to the other file system."""

    def method(self: ForereadFileSystem, path: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.fs, name)(self._strip_protocol(path), *args, **kwargs)

    method.__name__ = name
    method.__doc__ = getattr(AbstractFileSystem, name).__doc__
    setattr(ForereadFileSystem, name, method)


for _name in (
    "checksum",
    "created",
    "exists",
    "find",
    "get_file",
    "info",
    "isdir",
    "isfile",
    "ls",
    "makedirs",
    "mkdir",
    "modified",
    "pipe_file",
    "rm",
    "rm_file",
    "rmdir",
    "sign",
    "touch",
    "ukey",
):
    _delegate(_name)

register_cache(ForereadCache, clobber=True)
