"""The journal of a sweep: rows of finished tasks, next to the output, until it is complete.

    {"foreread-sweep": 1, "version": "0.1.0", "grid": "5d41..", "tasks": 1000}
    {"task": 17, "row": ["scenario", "streaming-fast", ..]}
    {"task": 3, "row": [..]}

A line is appended by a single write. After a crash, a torn line and all lines after it are cut off,
and their tasks run again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from typing import Any

from foreread._narrowing import is_list, is_table
from foreread.sweep._errors import SweepError
from foreread.sweep._tasks import COLUMNS, Row


class Journal:
    """A journal opened for appending, and locked against a second sweep."""

    def __init__(self, path: str, version: str, grid: str, tasks: int, *, resume: bool) -> None:
        self.path = path
        self.rows: dict[int, Row] = {}
        self._tasks = tasks
        self._head = {"foreread-sweep": 1, "version": version, "grid": grid, "tasks": tasks}
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(path, flags, 0o666)
        try:
            self._lock()
            self._begin(resume)
        except BaseException:
            os.close(self._file)
            raise

    def append(self, index: int, row: Row) -> None:
        """Record a finished task."""
        self._append({"task": index, "row": [row[name] for name in COLUMNS]})
        self.rows[index] = row

    def remove(self) -> None:
        """Remove the journal, once the output is complete."""
        os.unlink(self.path)

    def close(self) -> None:
        """Close the file and keep its contents."""
        with contextlib.suppress(OSError):
            os.close(self._file)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SweepError(f"{self.path}: another sweep writes it; wait for its end") from None

    def _begin(self, resume: bool) -> None:
        content = _content(self._file)
        if not content:
            self._append(self._head)
            return
        if not resume:
            raise SweepError(
                f"{self.path}: is there from a sweep that was not finished; --resume goes on with "
                "it, or remove it"
            )
        if not content.startswith(_HEAD) and not _HEAD.startswith(content):
            raise SweepError(f"{self.path}: is not the journal of a sweep; give another output")
        whole = 0
        for number, line in enumerate(content.splitlines(keepends=True)):
            entry = _entry(line)
            if entry is None:
                break
            if number == 0:
                self._check(entry)
            elif not self._take(entry):
                break
            whole += len(line)
        os.ftruncate(self._file, whole)
        if whole == 0:
            self._append(self._head)

    def _check(self, head: dict[str, Any]) -> None:
        if head.get("foreread-sweep") != 1:
            raise SweepError(f"{self.path}: is of a later version of foreread")
        for key, what in (("version", "another version of foreread"), ("grid", "another grid")):
            if head.get(key) != self._head[key]:
                theirs, ours = head.get(key), self._head[key]
                raise SweepError(
                    f"{self.path}: is of {what} ({theirs}, here it is {ours}): finish it there, "
                    "or remove it and begin again"
                )

    def _take(self, entry: dict[str, Any]) -> bool:
        index, row = entry.get("task"), entry.get("row")
        is_task = isinstance(index, int) and 0 <= index < self._tasks
        if not is_task or not is_list(row) or len(row) != len(COLUMNS):
            return False
        assert isinstance(index, int)
        self.rows[index] = dict(zip(COLUMNS, row, strict=True))
        return True

    def _append(self, entry: dict[str, Any]) -> None:
        line = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        if os.write(self._file, line) != len(line):
            raise SweepError(f"{self.path}: the disk is full; make room, and go on with --resume")


_HEAD = b'{"foreread-sweep":'


def _content(file: int) -> bytes:
    blocks: list[bytes] = []
    os.lseek(file, 0, os.SEEK_SET)
    while block := os.read(file, 1 << 20):
        blocks.append(block)
    return b"".join(blocks)


def _entry(line: bytes) -> dict[str, Any] | None:
    """Parse a complete line; None for a torn one."""
    if not line.endswith(b"\n"):
        return None
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return dict(entry) if is_table(entry) else None
