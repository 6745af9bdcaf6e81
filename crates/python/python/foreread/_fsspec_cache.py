"""The cache type `foreread` of fsspec, and its open files."""

# fsspec has no types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
from __future__ import annotations

import os
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

from fsspec.caching import BaseCache
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from foreread._engine import Engine, default_engine
from foreread._file import File
from foreread._foreread import EngineForkedError

# Limit of files that stay open without a reader, so that the next one finds their pages. The limit
# for local files is lower, because each has a descriptor, of which a program may have 1024 by
# default.
OPEN_MAX = 1024
LOCAL_OPEN_MAX = 128

# Keys that file systems use for the version of a file's contents. The creation time is not one: it
# stays the same when the file is changed in place. The engine never mixes two versions.
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
)

_OpenFiles: TypeAlias = "OrderedDict[tuple[str, str, str], File]"

_open_files: _OpenFiles = OrderedDict()
_open_local_files: _OpenFiles = OrderedDict()
_open_lock = threading.Lock()


def _after_fork_in_child() -> None:
    global _open_lock
    _open_lock = threading.Lock()
    _open_files.clear()
    _open_local_files.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)


def version_of(info: dict[str, Any] | None) -> str | None:
    """Return the version reported by a file system, or None."""
    stated = [(key, str((info or {})[key])) for key in VERSION_KEYS if (info or {}).get(key)]
    return f"{stated} {(info or {}).get('size')}" if stated else None


def keep_open(
    key: tuple[str, str, str] | None, open_file: Callable[[], File], *, is_local: bool = False
) -> File:
    """Return the file with this key, opening it if necessary."""
    if key is None:
        return open_file()
    files, most = (_open_local_files, LOCAL_OPEN_MAX) if is_local else (_open_files, OPEN_MAX)
    with _open_lock:
        file = files.get(key)
        if file is not None:
            files.move_to_end(key)
            return file
    # Open without the lock, because it may take long. A second thread gets the same pages.
    file = open_file()
    # Close without the lock: the fetcher of a file may be any object, and is finalised with it.
    closed: list[tuple[tuple[str, str, str], File]] = []
    with _open_lock:
        file = files.setdefault(key, file)
        files.move_to_end(key)
        while len(files) > most:
            closed.append(files.popitem(last=False))
    return file


class ForereadCache(BaseCache):  # type: ignore[misc]
    """The cache type `foreread`: the pages of all files are in one engine.

    The engine reads ahead, so `blocksize` has no effect. The parameters are set through
    `cache_options`.

    Parameters
    ----------
    engine : Engine or None
        Engine to use instead of the process's.
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
        if stop is None or stop > self.size:
            stop = self.size
        if start >= stop:
            return b""
        return self.pread(stop - start, start)

    def pread(self, size: int, offset: int) -> bytes:
        """Read `size` bytes at an offset; fewer only at the end of the file.

        A cache hit runs no other Python code, so this must be short.
        """
        file = self.file
        if file is None:
            file = self._open()
        try:
            return file._raw.pread(size, offset)
        except EngineForkedError as error:
            return self._open_in_child(error).pread(size, offset)

    def call(self, act: Callable[[File], Any]) -> Any:
        """Call a function with the engine's file, opening it if necessary."""
        try:
            return act(self.file or self._open())
        except EngineForkedError as error:
            return act(self._open_in_child(error))

    def _open_in_child(self, error: EngineForkedError) -> File:
        """Reopen a file that was opened before this process was forked."""
        # An engine created by the caller must be recreated by the caller.
        if self.engine is not None:
            raise error
        return self._open()

    def _open(self) -> File:
        self.file = self.open_file(self.engine or default_engine())
        return self.file

    def _open_fetcher(self, engine: Engine) -> File:
        file: Any = getattr(self.fetcher, "__self__", None)
        if not isinstance(file, AbstractBufferedFile):
            name = getattr(self.fetcher, "__qualname__", repr(self.fetcher))
            return engine.open_fetcher(self.fetcher, self.size, f"fetcher:{name}")
        # The engine keeps the fetcher as long as the pages. The fetcher must not keep the file,
        # because the file has this cache, which has the engine's file.
        kind: Any = type(file)
        twin: Any = kind.__new__(kind)
        twin.__dict__.update(file.__dict__)
        twin.__dict__.update(cache=None, _closed=True)
        fetch = getattr(self.fetcher, "__func__").__get__(twin)  # noqa: B009
        return open_fetched(engine, file.fs, file.path, fetch, file._details, self.size)


def open_fetched(
    engine: Engine,
    fs: AbstractFileSystem,
    path: str,
    fetch: Callable[[int, int], bytes],
    info: dict[str, Any] | None,
    size: int,
) -> File:
    """Open a file of a file system, or return it if it is open."""
    stated = version_of(info)
    device = f"{fs.protocol}:{fs._fs_token}"
    name, version = fs.unstrip_protocol(path), f"{stated or uuid.uuid4().hex} {device}"
    key = None if stated is None else (engine._token, name, version)
    return keep_open(
        key, lambda: engine.open_fetcher(fetch, size, name, version, device=device)
    )
