"""Engines: one memory bound for all files opened through an engine."""

from __future__ import annotations

import atexit
import os
import re
import threading
import uuid
import weakref
from collections.abc import Callable
from typing import Any

from foreread import _foreread
from foreread._fetching import start_threads
from foreread._file import File, ObjectFile
from foreread._foreread import DEFAULT_MEMORY, RawEngine, RawFile
from foreread._storage_options import StorageOptions, is_url, settings_of

_BINARY = {unit: 1024**power for power, unit in enumerate("KMGT", 1)}
_UNITS = {
    "": 1,
    "B": 1,
    **_BINARY,
    **{f"{unit}iB": factor for unit, factor in _BINARY.items()},
    **{f"{unit}B": 1000**power for power, unit in enumerate("KMGT", 1)},
}


def parse_size(size: int | str) -> int:
    """Return a size in bytes: `"2GiB"` and `"2G"` are 2 x 2**30, `"2GB"` is 2 x 10**9."""
    if isinstance(size, int):
        return size
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", size)
    factor = _UNITS.get(match[2], _UNITS.get(match[2].upper())) if match else None
    if match is None or factor is None:
        raise ValueError(f"{size!r} is not a size: give bytes, or a text such as 512MiB or 2GiB")
    return int(float(match[1]) * factor)


class Engine:
    """Page cache with a fixed memory bound, and the I/O ring that fills it.

    An engine stays alive as long as one of its files is open. Unpickling an engine creates one with
    the same settings, once per process.

    Parameters
    ----------
    memory : int or str
        Memory bound of the cached pages, in bytes or as text such as `"2GiB"`.
    policy : str
        Read-ahead policy, one of `foreread.POLICIES`.
    max_window : int, str or None
        Largest read-ahead window. None: `adaptive` learns it, and other policies use 128 KiB.
    timeout : float or None
        Time limit of a read, in seconds. None: no limit for devices, 60 s per request for stores.
    io_backend : str
        `"io_uring"`, `"threads"`, or `"auto"`: io_uring where the system allows it.
    prefault : bool
        Allocate all memory now. False: allocate it lazily, as pages are read.
    """

    def __init__(
        self,
        memory: int | str = DEFAULT_MEMORY,
        *,
        policy: str = "adaptive",
        max_window: int | str | None = None,
        timeout: float | None = None,
        io_backend: str = "auto",
        prefault: bool = False,
    ) -> None:
        window = None if max_window is None else parse_size(max_window)
        self.memory = parse_size(memory)
        self._settings = (self.memory, policy, window, timeout, io_backend, prefault)
        if self.memory < 0 or (window or 0) < 0:
            raise ValueError("a size is negative: give a number of bytes")
        self._raw = RawEngine(*self._settings)
        self._token = uuid.uuid4().hex
        with _engines_lock:
            _engines[self._token] = self

    def open(
        self,
        path: str | os.PathLike[str],
        mode: str = "rb",
        *,
        buffered: bool = False,
        storage_options: StorageOptions | None = None,
    ) -> File:
        """Open a regular file, a block device, or the object of a URL for reading bytes.

        Reads bypass the kernel's page cache where the file system allows it, unless `buffered` is
        true.

        A `str` with a scheme is a URL: `s3://bucket/key`, `gs://`, `az://`, `https://`, `http://`,
        or `file:///path`, which opens the path. A key of a store is literal, including `%`, `?` and
        `#`; `https://` and `http://` URLs are percent-decoded. The file stays at the version of the
        object that is current when it is opened.

        Parameters
        ----------
        path : str or os.PathLike
            Path or URL.
        mode : str
            `"rb"` or `"br"`; any other mode is a ValueError. Wrap the file in `io.TextIOWrapper` to
            read text.
        buffered : bool
            Read through the kernel's page cache.
        storage_options : mapping or None
            Options of s3fs, gcsfs and adlfs for endpoints, regions and credentials, which override
            the environment.
        """
        name = os.fsdecode(path)
        _check_mode(name, mode)
        if isinstance(path, str) and is_url(path):
            if not path.startswith("file:///"):
                return self._open_url(path, storage_options)
            name = path.removeprefix("file://")
        if storage_options:
            raise ValueError(f"{name}: storage_options are for the URLs of stores")
        raw = self._raw.open(name, buffered)
        return File(self, raw, name, path=os.path.abspath(name), buffered=buffered)

    def list_url(
        self,
        url: str,
        *,
        recursive: bool = False,
        storage_options: StorageOptions | None = None,
    ) -> list[tuple[str, int | None]]:
        """Return the names under a prefix of a store, sorted, with their sizes in bytes.

        Names are relative to the prefix: open `url + name`. A name that ends with `/` stands for
        all names that begin with it, and its size is None; `recursive` lists all keys instead. A
        key that no request can name, such as `a//b`, also has size None, and opening it is an
        OSError (EINVAL). A listing that may be incomplete is an OSError.
        """
        self._need_stores(url)
        return self._raw.list_url(url, settings_of(url, storage_options or {}), recursive)

    def _need_stores(self, url: str) -> None:
        if not hasattr(self._raw, "open_url"):
            raise NotImplementedError(
                f"{url}: this foreread was built without stores; build it with the cargo feature "
                "'objects'"
            )

    def _open_url(self, url: str, storage_options: StorageOptions | None) -> ObjectFile:
        self._need_stores(url)
        options = dict(storage_options or {})
        raw, version = self._raw.open_url(url, settings_of(url, options))
        return ObjectFile(self, raw, url, version, options)

    def open_fetcher(
        self,
        fetch: Callable[[int, int], Any],
        size: int,
        name: str,
        version: str | None = None,
        *,
        device: str | None = None,
    ) -> File:
        """Open a file backed by `fetch(start, end)`, which is called from other threads.

        Without a timeout, a reader that has waited for a second calls `fetch` itself for missing
        bytes, because the other thread may be waiting for a lock that the reader holds.

        Files with the same name and version share their pages while one of them is open, so their
        contents must be equal. Without a version, a file shares no pages. A new file of the same
        `device` (such as a host) starts with the costs that the engine has learnt from earlier
        ones.
        """
        raw = self._fetcher(fetch, size, name, version or uuid.uuid4().hex, device)
        return FetchedFile(self, raw, name)

    def _fetcher(
        self,
        fetch: Callable[[int, int], Any],
        size: int,
        name: str,
        version: str,
        device: str | None,
    ) -> RawFile:
        if not callable(fetch):
            raise TypeError(f"{fetch!r} is not callable: give fetch(start, end) -> bytes")
        if size < 0:
            raise ValueError(f"size {size} is negative: give the length in bytes")
        start_threads(self._raw.server())
        return self._raw.open_fetcher(fetch, size, name, version, device)

    def counters(self) -> dict[str, int]:
        """Return the engine's counters: hits, misses, evictions and others.

        `store_requests` and `store_bytes` count all requests to stores by URL, including retries
        and hedged copies.
        """
        return self._raw.counters()

    @property
    def io_backend(self) -> str:
        """The I/O backend in use: io_uring, or threads and the reason."""
        return self._raw.io_backend()

    def settings(self) -> dict[str, str]:
        """Return the current values of the settings that `set` accepts."""
        return self._raw.settings()

    def set(self, name: str, value: object) -> None:
        """Change a setting at run time."""
        self._raw.set(name, str(value))

    def __reduce__(self) -> tuple[Any, ...]:
        return (_engine_of, (self._token, self._settings))

    def __repr__(self) -> str:
        return f"<foreread.Engine of {self.memory} bytes, {self.io_backend}>"


def _check_mode(name: str, mode: str) -> None:
    if mode in ("rb", "br"):
        return
    if set(mode) & set("wax+"):
        raise ValueError(f"{name}: mode {mode!r}: foreread opens for reading only: give 'rb'")
    if mode in ("r", "rt", "tr"):
        raise ValueError(
            f"{name}: mode {mode!r}: foreread reads bytes: give 'rb', and wrap the file by "
            "io.TextIOWrapper for text"
        )
    raise ValueError(f"{name}: invalid mode {mode!r}: give 'rb'")


class FetchedFile(File):
    """A file backed by a callable. It cannot be pickled: pickle the inputs to `open_fetcher`."""

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(f"{self.name}: a file of a fetcher cannot be pickled; open it again there")


_engines: weakref.WeakValueDictionary[str, Engine] = weakref.WeakValueDictionary()
_engines_lock = threading.RLock()


def _engine_of(token: str, settings: tuple[Any, ...]) -> Engine:
    """Return the pickled engine, or its replacement in this process."""
    with _engines_lock:
        engine = _engines.get(token)
        if engine is None:
            memory, policy, window, timeout, io_backend, prefault = settings
            engine = Engine(
                memory,
                policy=policy,
                max_window=window,
                timeout=timeout,
                io_backend=io_backend,
                prefault=prefault,
            )
            _name(engine, token)
            if token == _DEFAULT:
                _DefaultEngine.engine = engine
        return engine


def _name(engine: Engine, token: str) -> None:
    """Set the name by which pickles find an engine."""
    del _engines[engine._token]
    engine._token = token
    _engines[token] = engine


_DEFAULT = "default"


class _DefaultEngine:
    """The engine of the process, once it exists."""

    engine: Engine | None = None
    memory: int | None = None
    """Memory bound of the parent's engine, in a forked child."""


def default_engine(memory: int | str | None = None) -> Engine:
    """Return the engine of this process, creating it at the first call.

    Its memory bound is `memory`, else FOREREAD_MEMORY from the environment, else 256 MiB. A forked
    child gets a new engine, with the bound of its parent's unless FOREREAD_MEMORY is set.
    """
    with _engines_lock:
        engine = _DefaultEngine.engine
        if engine is None:
            engine = _DefaultEngine.engine = Engine(_default_memory() if memory is None else memory)
            _name(engine, _DEFAULT)
        elif memory is not None and parse_size(memory) != engine.memory:
            raise ValueError(
                f"the engine of this process has {engine.memory} bytes already: set its memory "
                "before its first use, or make an Engine"
            )
        return engine


def _default_memory() -> int:
    text = os.environ.get("FOREREAD_MEMORY")
    if not text:
        return _DefaultEngine.memory or DEFAULT_MEMORY
    try:
        return parse_size(text)
    except ValueError as error:
        raise ValueError(f"FOREREAD_MEMORY: {error}") from None


def open(
    path: str | os.PathLike[str],
    mode: str = "rb",
    *,
    buffered: bool = False,
    storage_options: StorageOptions | None = None,
) -> File:
    """Open a file, a block device or the object of a URL with the engine of this process."""
    return default_engine().open(path, mode, buffered=buffered, storage_options=storage_options)


def _after_fork_in_child() -> None:
    global _engines_lock
    _foreread.note_fork()
    # A thread of the parent may have held the lock.
    _engines_lock = threading.RLock()
    _engines.clear()
    # Keep the parent's engine alive: files of it may be open.
    parent = _DefaultEngine.engine
    if parent is not None:
        _parents.append(parent)
        _DefaultEngine.memory = parent.memory
    _DefaultEngine.engine = None


_parents: list[Engine] = []

os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_foreread.note_exit)
