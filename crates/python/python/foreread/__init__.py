"""Files and objects read through one bounded cache, with read-ahead.

    import foreread

    with foreread.open("/data/table") as file:      # an io file object: seekable, thread-safe
        header = file.read(512)
        footer = file.pread(512, 1 << 30)           # does not move the position

    file = foreread.open("s3://bucket/key")         # an object in a store, without fsspec

`foreread.fsspec` does the same for every file system of fsspec.
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
