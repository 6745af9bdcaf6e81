"""Files and objects read through one bounded cache, with read-ahead.

    import foreread

    with foreread.open("/data/table") as file:      # a file object of io: seekable, thread-safe
        header = file.read(512)
        footer = file.pread(512, 1 << 30)           # the position stays

    file = foreread.open("s3://bucket/key")         # an object of a store, without fsspec

`foreread.fsspec` brings the same to every file system of fsspec.
"""

from foreread._engine import Engine, default_engine, open, parse_size
from foreread._file import File, ObjectFile
from foreread._foreread import (
    DEFAULT_MEMORY,
    POLICIES,
    EngineForkedError,
    ObjectChangedError,
    PinLimitError,
    PinnedPart,
    PinnedRange,
)

__all__ = [
    "DEFAULT_MEMORY",
    "POLICIES",
    "Engine",
    "EngineForkedError",
    "File",
    "ObjectChangedError",
    "ObjectFile",
    "PinLimitError",
    "PinnedPart",
    "PinnedRange",
    "default_engine",
    "open",
    "parse_size",
]
