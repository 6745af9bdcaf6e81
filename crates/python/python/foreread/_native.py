"""Which files of fsspec's file systems the engine reads itself, by a client of its own.

A file of s3fs is, if its options say in so many words how the store is reached: another client must
not have to guess where s3fs found an endpoint or credentials. Whether both mean the same object is
checked by its ETag.
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
    """The engine cannot read a file itself; the text says why."""


def native_options(fs: Any) -> dict[str, Any]:
    """Returns the storage options by which the engine reads the files of a file system itself."""
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
    """Opens the object that a file system has described."""
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
