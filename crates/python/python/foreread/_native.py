"""Selection of the fsspec files that the engine reads with its own client.

It reads a file of s3fs itself if the options explicitly say how to reach the store: the native
client must not guess where s3fs found an endpoint or credentials. The ETag is compared to verify
that both clients see the same object.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from foreread._file import ObjectFile
from foreread._foreread import EngineForkedError
from foreread._storage_options import settings_of

if TYPE_CHECKING:
    from foreread._engine import Engine


class NotNativeError(Exception):
    """The engine cannot read a file itself, for the reason in the text."""


def native_options(fs: Any) -> dict[str, Any]:
    """Return the storage options with which the engine can read files of a file system itself."""
    if type(fs).__module__.partition(".")[0] != "s3fs":
        raise NotNativeError("it is not of s3fs")
    if fs.storage_args:
        raise NotNativeError("its options have no names")
    options = {name: value for name, value in fs.storage_options.items() if value not in (None, {})}
    try:
        settings = dict(settings_of("s3://bucket/key", options))
    except (TypeError, ValueError, AttributeError) as error:
        raise NotNativeError(str(error)) from error
    is_anonymous = settings.get("aws_skip_signature") == "true"
    names = ("aws_access_key_id", "aws_secret_access_key")
    has_keys = all(settings.get(name) or os.environ.get(name.upper()) for name in names)
    if not (is_anonymous or has_keys):
        raise NotNativeError("neither its options nor the environment have credentials or anon")
    return options


def open_native(
    engine: Engine, path: str, info: dict[str, Any], options: dict[str, Any]
) -> ObjectFile:
    """Open an object from its description by the file system."""
    url = f"s3://{path}"
    try:
        file = engine.open(url, storage_options=options)
    except EngineForkedError:
        raise
    except (OSError, ValueError) as error:
        raise NotNativeError(str(error)) from error
    assert isinstance(file, ObjectFile)
    stated = str(info.get("ETag") or "")
    if not stated or stated.strip('"') != (file.etag or "").strip('"'):
        raise NotNativeError(f"s3fs states the ETag {stated or '(none)'}, the store {file.etag}")
    return file
