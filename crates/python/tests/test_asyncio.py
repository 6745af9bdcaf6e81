"""Reads that are awaited, on the loops that are installed."""

import asyncio
import errno
import gc
import threading
import weakref

import pytest

from conftest import CountingFetcher

LOOPS = [asyncio.new_event_loop]
try:
    import uvloop

    LOOPS.append(uvloop.new_event_loop)
except ImportError:
    pass


def run(new_loop, coroutine):
    loop = new_loop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()


@pytest.mark.parametrize("new_loop", LOOPS)
def test_many_reads_at_once_give_their_bytes(new_loop, engine, path, data):
    file = engine.open(path)

    async def main():
        offsets = range(0, len(data) + 10_000, 37_000)
        reads = [file.pread_async(10_000, offset) for offset in offsets]
        for offset, read in zip(offsets, await asyncio.gather(*reads), strict=True):
            assert read == data[offset : offset + 10_000]
        assert await file.pread_async(100, 0) == data[:100]
        assert await file.pread_async(0, 0) == b""
        return await file.pread_async(1 << 21, 100)

    assert run(new_loop, main()) == data[100 : 100 + (1 << 21)]


@pytest.mark.parametrize("new_loop", LOOPS)
def test_the_loop_runs_while_a_read_waits(new_loop, engine, data):
    gate = threading.Event()

    def fetch(start, end):
        gate.wait()
        return data[start:end]

    file = engine.open_fetcher(fetch, len(data), "memory:gated")

    async def main():
        read = asyncio.ensure_future(file.pread_async(1000, 5))
        await asyncio.sleep(0)
        assert not read.done()
        gate.set()
        return await read

    assert run(new_loop, main()) == data[5:1005]


@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_cancelled_read_leaves_the_file_usable(new_loop, engine, data):
    gate = threading.Event()

    def fetch(start, end):
        gate.wait()
        return data[start:end]

    file = engine.open_fetcher(fetch, len(data), "memory:cancelled")

    async def main():
        reads = [file.pread_async(1000, at) for at in (0, 1 << 20)]
        reads[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await reads[0]
        gate.set()
        assert await reads[1] == data[1 << 20 : (1 << 20) + 1000]
        return await file.pread_async(1000, 0)

    assert run(new_loop, main()) == data[:1000]


@pytest.mark.parametrize("new_loop", LOOPS)
def test_errors_are_raised_where_a_read_is_awaited(new_loop, engine):
    def fetch(start, end):
        raise FileNotFoundError(errno.ENOENT, "gone")

    file = engine.open_fetcher(fetch, 1 << 20, "memory:gone")

    async def main():
        with pytest.raises(FileNotFoundError) as raised:
            await file.pread_async(10, 0)
        assert isinstance(raised.value.__cause__, FileNotFoundError)
        with pytest.raises(ValueError):
            await file.pread_async(-1, 0)

    run(new_loop, main())


def test_each_loop_has_its_own_reads(engine, data):
    fetch = CountingFetcher(data)
    file = engine.open_fetcher(fetch, len(data), "memory:loops")

    async def main(at):
        return await file.pread_async(10, at)

    results = {}

    def thread(at):
        results[at] = asyncio.run(main(at))

    threads = [threading.Thread(target=thread, args=[at]) for at in range(0, 1 << 20, 1 << 17)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert results == {at: data[at : at + 10] for at in range(0, 1 << 20, 1 << 17)}


@pytest.mark.parametrize("new_loop", LOOPS)
def test_reads_that_nothing_awaits_end_with_their_loop(new_loop, engine, data):
    """They kept it alive for ever, with their buffers."""
    gate = threading.Event()

    def fetch(start, end):
        gate.wait()
        return data[start:end]

    file = engine.open_fetcher(fetch, len(data), "memory:abandoned")
    loops = []

    async def main():
        loops.append(weakref.ref(asyncio.get_running_loop()))
        file.pread_async(100_000, 0)

    for _ in range(3):
        run(new_loop, main())
    gate.set()
    assert run(new_loop, file_read(file)) == data[:10]
    gc.collect()
    assert [loop() for loop in loops] == [None] * 3


async def file_read(file):
    return await file.pread_async(10, 0)


def test_outside_of_a_loop_it_says_so(engine, path):
    with pytest.raises(RuntimeError, match="no running event loop"):
        engine.open(path).pread_async(1, 0)
