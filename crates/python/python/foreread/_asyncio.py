"""Reads for event loops: one descriptor per loop signals the reads to poll again."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from foreread._foreread import LoopNotifier

if TYPE_CHECKING:
    from foreread._foreread import PendingRead, RawFile


class _Reads:
    """Reads of an event loop in flight."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.notifier = LoopNotifier()
        self.pending: dict[int, tuple[PendingRead, asyncio.Future[bytes]]] = {}
        loop.add_reader(self.notifier.fileno(), self._woken)

    def add(self, read: PendingRead, future: asyncio.Future[bytes]) -> None:
        self.pending[read.number] = (read, future)
        future.add_done_callback(lambda _: self._done(read))
        self._poll(read.number)

    def _done(self, read: PendingRead) -> None:
        if self.pending.pop(read.number, None) is not None:
            read.cancel()

    def _woken(self) -> None:
        for number in self.notifier.take():
            self._poll(number)

    def _poll(self, number: int) -> None:
        entry = self.pending.get(number)
        if entry is None:
            return
        read, future = entry
        try:
            data = read.poll()
        except BaseException as error:
            del self.pending[number]
            if not future.done():
                future.set_exception(error)
            return
        if data is not None:
            del self.pending[number]
            if not future.done():
                future.set_result(data)


    def end(self) -> None:
        """Cancel the reads of a closed loop, which no longer polls them."""
        for read, _ in self.pending.values():
            read.cancel()
        self.pending.clear()


_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Reads] = weakref.WeakKeyDictionary()


def _end_closed() -> None:
    """Cancel reads that were not awaited before their loop was closed, and that keep it alive."""
    for loop in list(_loops):
        if loop.is_closed():
            reads = _loops.pop(loop, None)
            if reads is not None:
                reads.end()


def start_read(raw: RawFile, size: int, offset: int) -> Awaitable[bytes]:
    loop = asyncio.get_running_loop()
    reads = _loops.get(loop)
    if reads is None:
        _end_closed()
        reads = _loops[loop] = _Reads(loop)
    started = raw.pread_start(size, offset, reads.notifier)
    future: asyncio.Future[bytes] = loop.create_future()
    if isinstance(started, bytes):
        future.set_result(started)
    else:
        reads.add(started, future)
    return future
