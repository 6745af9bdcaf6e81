"""Scenarios and traces of a sweep: by name, in files, or behind URLs of fsspec."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from foreread import sim
from foreread.sim._tables import optional
from foreread.sweep._errors import GridError, SweepError
from foreread.sweep._grid import Grid

_BLOCK = 1 << 20


@dataclass(frozen=True)
class SweepInput:
    """A scenario with its text, or a trace with its location."""

    kind: str
    """`scenario` or `trace`."""
    name: str
    """Name in the grid."""
    sha256: str
    """Hash of its bytes: other nodes must read the same ones."""
    text: str | None = None
    """Text of a scenario."""
    where: str = ""
    """Location of a trace: an absolute path or a URL."""
    modified_ns: int | None = None
    """Modification time of a trace in a file; None for a URL."""
    size: int = 0
    """Size of a trace, in bytes."""


def read_inputs(grid: Grid) -> list[SweepInput]:
    """Read all scenarios and hash all traces, and check each scenario with each device."""
    inputs = [_scenario(grid, name) for name in grid.scenarios]
    for of in inputs:
        assert of.text is not None
        for device in grid.devices or (None,):
            try:
                sim.check(of.text, device=device, until_s=grid.until_s)
            except ValueError as error:
                raise GridError(f"{grid.place}: scenario {of.name}: {error}") from None
    return inputs + [_trace(grid, name) for name in grid.traces]


def _scenario(grid: Grid, name: str) -> SweepInput:
    if name in sim.scenarios():
        text = sim.scenario_text(name)
    else:
        try:
            with _opened(_where(grid, name)) as file:
                text = file.read().decode()
        except FileNotFoundError:
            names = ", ".join(sim.scenarios())
            raise GridError(
                f"{grid.place}: scenario: no file {name!r}, and no built-in one; those are {names}"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise GridError(f"{grid.place}: scenario: {name}: {error}") from None
    return SweepInput("scenario", name, hashlib.sha256(text.encode()).hexdigest(), text=text)


def _trace(grid: Grid, name: str) -> SweepInput:
    where = _where(grid, name)
    try:
        with _opened(where) as file:
            sha256, size = _hash(file)
        modified_ns = None if _is_url(where) else os.stat(where).st_mtime_ns
    except OSError as error:
        raise GridError(f"{grid.place}: trace: {name}: {error}") from None
    return SweepInput("trace", name, sha256, where=where, modified_ns=modified_ns, size=size)


def _is_url(name: str) -> bool:
    return "://" in name


def _where(grid: Grid, name: str) -> str:
    return name if _is_url(name) else os.path.abspath(os.path.join(grid.folder, name))


def _opened(where: str) -> Any:
    if _is_url(where):
        return optional("fsspec", "fsspec").open(where, "rb")
    return open(where, "rb")


def _blocks(file: Any) -> Iterator[bytes]:
    while block := file.read(_BLOCK):
        yield block


def _hash(file: Any) -> tuple[str, int]:
    sha256, size = hashlib.sha256(), 0
    for block in _blocks(file):
        sha256.update(block)
        size += len(block)
    return sha256.hexdigest(), size


def local_trace(of: SweepInput) -> str:
    """Return the local path of a trace with the bytes of the sweep.

    A file is used in place: unchanged since the sweep began or, on another node, with the same
    hash. A URL is downloaded once per machine.
    """
    if _is_url(of.where):
        return _fetched(of)
    try:
        found = os.stat(of.where)
        if found.st_size == of.size and found.st_mtime_ns == of.modified_ns:
            return of.where
        with open(of.where, "rb") as file:
            sha256, _ = _hash(file)
    except OSError as error:
        raise SweepError(
            f"trace {of.name}: {error}: put it where every node sees it, or give a URL"
        ) from None
    if sha256 != of.sha256:
        raise SweepError(f"trace {of.name}: {of.where} is not what it was as the sweep began")
    return of.where


def _fetched(of: SweepInput) -> str:
    """Download a trace into the temporary folder, named by its hash."""
    folder = os.path.join(tempfile.gettempdir(), f"foreread-sweep-{os.getuid()}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if os.stat(folder).st_uid != os.getuid():
        raise SweepError(f"{folder} belongs to another user: set TMPDIR")
    path = os.path.join(folder, of.sha256)
    if _is_whole(path, of):
        return path
    # All workers of a machine start at once: one of them downloads the trace while the others wait.
    # The system releases the lock of a killed worker.
    with open(f"{path}.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_whole(path, of):
            _fetch(of, folder, path)
    return path


def _is_whole(path: str, of: SweepInput) -> bool:
    return os.path.exists(path) and os.path.getsize(path) == of.size


def _fetch(of: SweepInput, folder: str, path: str) -> None:
    """Download a trace, and move it into place atomically."""
    sha256 = hashlib.sha256()
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as copy:
        try:
            with _opened(of.where) as file:
                for block in _blocks(file):
                    sha256.update(block)
                    copy.write(block)
            copy.flush()
            if sha256.hexdigest() != of.sha256:
                raise SweepError(f"trace {of.name}: is not what it was as the sweep began")
            os.replace(copy.name, path)
        except BaseException:
            os.unlink(copy.name)
            raise
