"""Members of a tar archive, read from their 512-byte headers without the data in between.

Supports the formats of POSIX (ustar, pax) and GNU tar. Only regular files are members; a sparse
file is an error, because its bytes are not contiguous.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, NoReturn

if TYPE_CHECKING:
    from foreread._file import File

BLOCK = 512

# Limit of a long name stored in a separate entry. The longest path of Linux is 4096.
EXTENSION_MAX = 1 << 20


class TarError(ValueError):
    """A shard that is not a valid tar archive."""


class TarMember(NamedTuple):
    """A regular file of an archive. Its bytes are those of the archive from `offset` on."""

    name: str
    offset: int
    size: int


def members(file: File, at: int = 0) -> Iterator[TarMember]:
    """Yield the members from a header on, in order.

    Global extended headers before `at` are ignored.
    """

    def wrong(why: str) -> NoReturn:
        raise TarError(f"{file.name}: no valid tar archive: header at {at}: {why}")

    stated: dict[str, str] = {}
    common: dict[str, str] = {}
    while at < file.size:
        header = file.pread(BLOCK, at)
        if len(header) < BLOCK:
            wrong(f"it ends after {len(header)} bytes")
        if not any(header):
            # The end; some programs omit the second block of zeros.
            return
        try:
            check(header)
            size = number(header[124:136])
        except ValueError as error:
            wrong(str(error))
        kind, data = header[156:157], at + BLOCK
        if kind in (b"x", b"g", b"L", b"K"):
            if size > EXTENSION_MAX:
                wrong(f"an extended header of {size} bytes")
            text = b"" if kind == b"K" else file.pread(size, data)
            if kind == b"L":
                stated["path"] = decoded(text.rstrip(b"\0"))
            elif kind != b"K":
                try:
                    (stated if kind == b"x" else common).update(records(text))
                except ValueError as error:
                    wrong(str(error))
        else:
            all_stated = {**common, **stated}
            stated = {}
            if "size" in all_stated:
                size = int(all_stated["size"])
            if kind == b"S" or any(name.startswith("GNU.sparse") for name in all_stated):
                wrong("a sparse file, whose bytes are not side by side")
            if data + size > file.size and kind in (b"0", b"\0", b"7"):
                wrong(f"a member of {size} bytes, and the archive ends at {file.size}")
            if kind in (b"0", b"\0", b"7"):
                name = all_stated.get("path") or name_of(header)
                if not name.endswith("/"):
                    yield TarMember(name, data, size)
            elif kind in (b"1", b"2", b"3", b"4", b"5", b"6"):
                # Links, devices and directories have no data, whatever size they state.
                size = 0
        at = data + (size + BLOCK - 1) // BLOCK * BLOCK


def check(header: bytes) -> None:
    """Verify the checksum of a header; raise ValueError on a mismatch."""
    stated = number(header[148:156])
    # Some programs have summed the bytes as signed ones.
    rest = header[:148] + b" " * 8 + header[156:]
    signed = sum(byte - 256 if byte > 127 else byte for byte in rest)
    if stated not in (sum(rest), signed):
        raise ValueError("its checksum is wrong")


def number(field: bytes) -> int:
    """Parse a number of a header: octal text, or binary for large values."""
    if field[0] in (0x80, 0xFF):
        value = int.from_bytes(field[1:], "big")
        if field[0] == 0xFF or value >= 1 << 63:
            raise ValueError("a number that is negative or too large")
        return value
    text = field.split(b"\0", 1)[0].strip()
    try:
        return int(text, 8) if text else 0
    except ValueError:
        raise ValueError(f"{text!r} is not an octal number") from None


def name_of(header: bytes) -> str:
    """Return the name stored in the header itself."""
    name = header[:100].split(b"\0", 1)[0]
    prefix = header[345:500].split(b"\0", 1)[0] if header[257:263] == b"ustar\0" else b""
    return decoded(prefix + b"/" + name if prefix else name)


def records(text: bytes) -> dict[str, str]:
    """Return the records `LENGTH NAME=VALUE` of an extended header."""
    found: dict[str, str] = {}
    while text:
        length, space, _ = text.partition(b" ")
        if not space or not length.isdigit() or not len(length) + 2 < int(length) <= len(text):
            raise ValueError("a record of an extended header has no valid length")
        name, equals, value = text[len(length) + 1 : int(length) - 1].partition(b"=")
        if not equals or text[int(length) - 1 : int(length)] != b"\n":
            raise ValueError("a record of an extended header is no NAME=VALUE")
        found[decoded(name)] = decoded(value)
        text = text[int(length) :]
    if "size" in found and not found["size"].isdigit():
        raise ValueError("the size in an extended header is not a number")
    return found


def decoded(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
