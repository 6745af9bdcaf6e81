"""foreread under every file system of fsspec.

    import foreread.fsspec                                    # registers the cache type

    fsspec.open("s3://bucket/key", cache_type="foreread")     # the cache of one file system's files
    fsspec.open("foreread::s3://bucket/key")                  # a file system around another

All files share one engine, the one of the process: its memory bound covers them together, pages
stay after a file is closed, and a file that is opened again finds them.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from fsspec import filesystem
from fsspec.caching import BaseCache, register_cache
from fsspec.implementations.chained import ChainedFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from foreread._engine import Engine, default_engine
from foreread._file import File
from foreread._foreread import EngineForkedError

__all__ = ["ForereadCache", "ForereadFile", "ForereadFileSystem"]

# Files that no reader has open stay open, so that the next one finds their pages: so many.
OPEN_MAX = 1024

# What file systems call the version of a file's contents. The engine never mixes two.
VERSION_KEYS = (
    "ETag",
    "etag",
    "VersionId",
    "version_id",
    "generation",
    "md5Hash",
    "Content-MD5",
    "content_md5",
    "Digest",
    "checksum",
    "LastModified",
    "Last-Modified",
    "last_modified",
    "mtime",
    "modified",
    "updated",
    "created",
)

_open_files: OrderedDict[tuple[str, str, str], File] = OrderedDict()
_open_lock = threading.Lock()


def _after_fork_in_child() -> None:
    global _open_lock
    _open_lock = threading.Lock()
    _open_files.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _version_of(info: dict[str, Any] | None) -> str | None:
    """Returns the version that a file system states, or None."""
    stated = [(key, str((info or {})[key])) for key in VERSION_KEYS if (info or {}).get(key)]
    return f"{stated} {(info or {}).get('size')}" if stated else None


def _keep_open(key: tuple[str, str, str] | None, open_file: Callable[[], File]) -> File:
    """Returns the file of this key, which is opened if it is not open."""
    if key is None:
        return open_file()
    with _open_lock:
        file = _open_files.get(key)
        if file is not None:
            _open_files.move_to_end(key)
            return file
    # Not with the lock held: it may take long. A second thread gets the same pages.
    file = open_file()
    with _open_lock:
        file = _open_files.setdefault(key, file)
        _open_files.move_to_end(key)
        while len(_open_files) > OPEN_MAX:
            _open_files.popitem(last=False)
    return file


class ForereadCache(BaseCache):  # type: ignore[misc]
    """The cache type `foreread`: the pages of all files are in one engine.

    The read-ahead is the engine's, so `blocksize` has no effect. Options are those of
    `cache_options`.

    engine: the engine to use, instead of that of the process.
    """

    name: ClassVar[str] = "foreread"

    def __init__(
        self,
        blocksize: int,
        fetcher: Callable[[int, int], bytes],
        size: int,
        engine: Engine | None = None,
    ) -> None:
        super().__init__(blocksize, fetcher, size)
        self.engine = engine
        self.file: File | None = None
        self.open_file: Callable[[Engine], File] = self._open_fetcher

    def _fetch(self, start: int | None, stop: int | None) -> bytes:
        start = 0 if start is None else start
        stop = self.size if stop is None else min(stop, self.size)
        if start >= stop:
            return b""
        data: bytes = self.call(lambda file: file.pread(stop - start, start))
        return data

    def call(self, act: Callable[[File], Any]) -> Any:
        """Calls a function with the engine's file, which is opened if it is not open here."""
        try:
            return act(self.file or self._open())
        except EngineForkedError:
            # The file was opened before this process was forked; an engine that the caller made
            # must be made anew by the caller.
            if self.engine is not None:
                raise
            return act(self._open())

    def _open(self) -> File:
        self.file = self.open_file(self.engine or default_engine())
        return self.file

    def _open_fetcher(self, engine: Engine) -> File:
        file: Any = getattr(self.fetcher, "__self__", None)
        if not isinstance(file, AbstractBufferedFile):
            name = getattr(self.fetcher, "__qualname__", repr(self.fetcher))
            return engine.open_fetcher(self.fetcher, self.size, f"fetcher:{name}")
        # The engine keeps the fetcher for as long as the pages, and must not keep the file: that
        # has this cache, which has the engine's file.
        kind: Any = type(file)
        twin: Any = kind.__new__(kind)
        twin.__dict__.update(file.__dict__)
        twin.__dict__.update(cache=None, _closed=True)
        fetch = self.fetcher.__func__.__get__(twin)
        return _open_fetched(engine, file.fs, file.path, fetch, file._details, self.size)


def _open_fetched(
    engine: Engine,
    fs: AbstractFileSystem,
    path: str,
    fetch: Callable[[int, int], bytes],
    info: dict[str, Any] | None,
    size: int,
) -> File:
    """Opens a file of a file system, or finds it open."""
    stated = _version_of(info)
    device = f"{fs.protocol}:{fs._fs_token}"
    name, version = fs.unstrip_protocol(path), f"{stated or uuid.uuid4().hex} {device}"
    key = None if stated is None else (engine._token, name, version)
    return _keep_open(
        key, lambda: engine.open_fetcher(fetch, size, name, version, device=device)
    )


class ForereadFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file of another file system, whose bytes come through the engine."""

    loc: int

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
        super().__init__(fs, path, "rb", block_size or "default", cache_type="none", size=size)
        self._details = info
        self.kwargs = kwargs
        self.cache = ForereadCache(self.blocksize, self._fetch_range, size, fs.engine)
        self.cache.open_file = open_file

    def _fetch_range(self, start: int, end: int) -> bytes:
        data: bytes = self.cache._fetch(start, end)
        return data

    def read(self, length: int | None = -1) -> bytes:
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        rest = max(self.size - self.loc, 0)
        size = rest if length is None or length < 0 else min(int(length), rest)
        if size == 0:
            return b""
        at = self.loc
        data: bytes = self.cache.call(lambda file: file.pread(size, at))
        self.loc = at + len(data)
        return data

    def readinto(self, b: Any) -> int:
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        at = self.loc
        count: int = self.cache.call(lambda file: file.preadinto(b, at))
        self.loc = at + count
        return count

    def read_ranges(self, ranges: Iterable[tuple[int, int]]) -> list[bytes]:
        """Reads many ranges `(start, end)` at once: `foreread.File.read_ranges`."""
        ranges = list(ranges)
        data: list[bytes] = self.cache.call(lambda file: file.read_ranges(ranges))
        return data


class ForereadFileSystem(ChainedFileSystem):  # type: ignore[misc]
    """Reads the files of another file system through the engine: `foreread::s3://bucket/key`.

    fs, target_protocol, target_options: the other file system, as `CachingFileSystem` takes them.
    memory: the bound of the engine of the process, if it was not made yet: `"2GiB"`.

    Whatever is not reading is the other file system's.
    """

    protocol: ClassVar[str] = "foreread"
    _strip_tokenize_options = ("fo",)

    def __init__(
        self,
        fs: AbstractFileSystem | None = None,
        target_protocol: str | None = None,
        target_options: dict[str, Any] | None = None,
        fo: str | None = None,
        memory: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if (fs is None) == (target_protocol is None):
            raise ValueError("give either fs or target_protocol: the file system to read from")
        self.fs = fs if fs is not None else filesystem(target_protocol, **(target_options or {}))
        self.engine = None
        if memory is not None:
            default_engine(memory)

        strip_own: Callable[[Any], Any] = getattr(type(self), "_strip_protocol")  # noqa: B009

        def strip(path: Any) -> Any:
            if isinstance(path, list):
                return [strip(each) for each in path]
            return self.fs._strip_protocol(strip_own(path))

        self._strip_protocol: Callable[[Any], Any] = strip

    def unstrip_protocol(self, name: str) -> str:
        full: str = self.fs.unstrip_protocol(name)
        return full

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
            # The engine reads it itself.
            info = self.fs.info(path)
            if info["type"] == "directory":
                raise IsADirectoryError(path)

            def open_local(engine: Engine) -> File:
                key = (engine._token, path, f"{info['mtime']} {info['ino']} {info['size']}")
                return _keep_open(key, lambda: engine.open(path))

            return ForereadFile(self, path, open_local, info, block_size, **kwargs)
        target = self.fs._open(path, mode="rb", cache_type="none", **kwargs)
        info = getattr(target, "_details", None)
        if isinstance(target, AbstractBufferedFile):
            if target.size is None:
                return target
            if _version_of(info) is None:
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

        def open_fetched(engine: Engine) -> File:
            return _open_fetched(engine, self.fs, path, fetch, info, int(info["size"]))

        return ForereadFile(self, path, open_fetched, info, block_size, **kwargs)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        """Returns the bytes of a file. One that is wanted whole is not kept."""
        path = self._strip_protocol(path)
        if start is None and end is None:
            whole: bytes = self.fs.cat_file(path, **kwargs)
            return whole
        with self.open(path, "rb", **kwargs) as file:
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
        """Returns the bytes of ranges of many files: those of one file are read as one."""
        if max_gap is not None:
            raise NotImplementedError("max_gap: the engine learns which gaps are worth reading")
        starts = starts if isinstance(starts, list) else [starts] * len(paths)
        ends = ends if isinstance(ends, list) else [ends] * len(paths)
        if len(starts) != len(paths) or len(ends) != len(paths):
            raise ValueError("give as many starts and ends as paths")
        numbers: dict[str, list[int]] = {}
        for number, path in enumerate(self._strip_protocol(path) for path in paths):
            numbers.setdefault(path, []).append(number)
        out: list[Any] = [b""] * len(paths)
        for path, of_path in numbers.items():
            try:
                with self.open(path, "rb", **kwargs) as file:
                    ranges = [_range_of(file.size, starts[n], ends[n]) for n in of_path]
                    parts = file.read_ranges(ranges)
            except Exception as error:
                if on_error != "return":
                    raise
                parts = [error] * len(of_path)
            for number, part in zip(of_path, parts, strict=True):
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


def _range_of(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Returns a range of a file of this size, as slices have it: negative counts from the end."""
    begin, stop, _ = slice(start, end).indices(size)
    return begin, max(begin, stop)


def _delegate(name: str) -> None:
    """Makes a method the other file system's."""

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
