"""What libnbd sees of a server. Arguments: what to try, a URI, the file below it."""

import errno
import os
import sys

import nbd

PAGE = 4096


def connected(uri, contexts=("base:allocation",)):
    h = nbd.NBD()
    for context in contexts:
        h.add_meta_context(context)
    h.connect_uri(uri)
    return h


def fails(number, act):
    try:
        act()
    except nbd.Error as error:
        assert error.errnum == number, (error.errnum, number, str(error))
    else:
        raise AssertionError("it succeeded")


def requests(uri, path):
    """Every request, and what may be wrong with it."""
    h = connected(uri)
    size = h.get_size()
    assert size == os.path.getsize(path)
    assert h.get_structured_replies_negotiated()
    for can in ("flush", "fua", "trim", "zero", "cache", "df", "multi_conn"):
        assert getattr(h, "can_" + can)(), can
    assert not h.is_read_only()
    assert h.can_meta_context("base:allocation")

    h.pwrite(b"a" * 10_000, 5_000)
    assert h.pread(10_002, 4_999)[1:-1] == b"a" * 10_000
    h.pwrite(b"b" * PAGE, PAGE, nbd.CMD_FLAG_FUA)
    with open(path, "rb") as f:
        f.seek(PAGE)
        assert f.read(PAGE) == b"b" * PAGE, "FUA is in the file"
    h.zero(20_000, 3_000)
    assert h.pread(20_000, 3_000) == bytes(20_000)
    h.zero(PAGE, 8 * PAGE, nbd.CMD_FLAG_NO_HOLE | nbd.CMD_FLAG_FUA)
    assert h.pread(PAGE, 8 * PAGE) == bytes(PAGE)
    h.pwrite(b"c" * 3 * PAGE, 16 * PAGE)
    h.trim(PAGE, 17 * PAGE)
    assert h.pread(PAGE, 16 * PAGE) == b"c" * PAGE
    assert h.pread(PAGE, 18 * PAGE) == b"c" * PAGE
    h.cache(size - size % PAGE, 0)
    h.flush()

    # Past the end, and too much: errors of these requests, and the connection goes on.
    h.set_strict_mode(0)
    fails(errno.EINVAL, lambda: h.pread(2, size - 1))
    fails(errno.ENOSPC, lambda: h.pwrite(b"xx", size - 1))
    fails(errno.EINVAL, lambda: h.trim(2, size - 1))
    fails(errno.ENOSPC, lambda: h.zero(2, size - 1))
    assert h.pread(1, size - 1) is not None


def structured(uri, path):
    """Replies in pieces, and replies that must not be."""
    size = os.path.getsize(path)
    with open(path, "rb") as f:
        expected = f.read()
    h = connected(uri)
    for flags in (0, nbd.CMD_FLAG_DF):
        for offset, length in ((0, size // 2), (1, 1_000_001), (size - 1, 1)):
            pieces = []

            def piece(data, at, status, error):
                assert status in (nbd.READ_DATA, nbd.READ_HOLE)
                pieces.append((at, bytes(data)))

            if flags and length > 1 << 20:
                # In one piece only as far as the server has a buffer: the protocol allows that.
                fails(errno.EOVERFLOW, lambda: h.pread_structured(length, offset, piece, flags))
                continue
            h.pread_structured(length, offset, piece, flags)
            assert flags == 0 or len(pieces) == 1, len(pieces)
            at = offset
            for start, data in sorted(pieces):
                assert start == at, (start, at)
                assert data == expected[start : start + len(data)]
                at += len(data)
            assert at == offset + length
    # Without structured replies the same bytes come in one.
    h = nbd.NBD()
    h.set_request_structured_replies(False)
    h.connect_uri(uri)
    assert not h.get_structured_replies_negotiated()
    assert h.pread(1_000_001, 1) == expected[1:1_000_002]


def status(uri, path):
    """Block status: what is data, what is a hole, before and after."""
    h = connected(uri)
    size = h.get_size()

    def extents(offset, length, flags=0):
        found = []

        def extent(context, at, entries, error):
            assert context == "base:allocation"
            found.extend(zip(entries[0::2], entries[1::2]))

        h.block_status(length, offset, extent, flags)
        assert found, "an answer has an extent"
        return found

    def is_data(offset, length):
        pieces, at = [], offset
        while at < offset + length:
            for piece, flags in extents(at, offset + length - at):
                pieces.append((piece, flags))
                at += piece
        return not all(flags & nbd.STATE_ZERO for _, flags in pieces)

    assert len(extents(0, size, nbd.CMD_FLAG_REQ_ONE)) == 1
    assert is_data(0, size)
    h.trim(1 << 20, 1 << 20)
    h.zero(1 << 20, 2 << 20)
    h.flush()
    assert h.pread(1 << 20, 2 << 20) == bytes(1 << 20)
    assert not is_data(2 << 20, 1 << 20)
    h.pwrite(b"x", (2 << 20) + 5)
    assert is_data(2 << 20, PAGE), "what is not on the device yet counts"


def many(uri, path):
    """Several connections: each sees what the others wrote, and one flush is for all."""
    handles = [connected(uri) for _ in range(4)]
    for number, h in enumerate(handles):
        h.pwrite(bytes([65 + number]) * PAGE, number * 3 * PAGE + 100)
    for h in handles:
        for number in range(4):
            assert h.pread(PAGE, number * 3 * PAGE + 100) == bytes([65 + number]) * PAGE
    handles[3].flush()
    print("flushed", flush=True)
    sys.stdin.readline()


def queued(uri, path):
    """Many requests on their way at a time, answered in any order."""
    h = connected(uri)
    size = h.get_size()
    with open(path, "rb") as f:
        expected = f.read()
    # As many as the server works on, and four times as many.
    buffers = {}
    for number in range(512):
        offset = number * 7919 * 512 % (size - 8192)
        buffer = nbd.Buffer(8192)
        buffers[h.aio_pread(buffer, offset)] = (offset, buffer)
    while buffers:
        for cookie in list(buffers):
            if h.aio_command_completed(cookie):
                offset, buffer = buffers.pop(cookie)
                assert buffer.to_bytearray() == expected[offset : offset + 8192], offset
        if buffers:
            h.poll(-1)
    # A write behind another that is not answered yet.
    page = lambda n: nbd.Buffer.from_bytearray(bytearray([n]) * PAGE)
    cookies = [h.aio_pwrite(page(n), n * PAGE) for n in range(200)]
    while cookies:
        cookies = [cookie for cookie in cookies if not h.aio_command_completed(cookie)]
        if cookies:
            h.poll(-1)
    for n in range(200):
        assert h.pread(PAGE, n * PAGE) == bytes([n]) * PAGE


globals()[sys.argv[1]](*sys.argv[2:])
