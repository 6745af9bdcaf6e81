"""Files and objects read through one bounded cache, with read-ahead.

    import foreread

    with foreread.open("/data/table") as file:      # a file object of io: seekable, thread-safe
        header = file.read(512)
        footer = file.pread(512, 1 << 30)           # the position stays

`foreread.fsspec` brings the same to every file system of fsspec.
"""

from foreread._engine import Engine, default_engine, open, parse_size
from foreread._file import File
from foreread._foreread import (
    DEFAULT_MEMORY,
    POLICIES,
    EngineForkedError,
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
    "PinLimitError",
    "PinnedPart",
    "PinnedRange",
    "default_engine",
    "open",
    "parse_size",
]
