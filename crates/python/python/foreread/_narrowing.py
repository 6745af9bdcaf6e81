"""Type guards for untyped values, such as those of JSON, TOML and a caller's dictionaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard


def is_table(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a value is a mapping. The formats have only string keys."""
    return isinstance(value, Mapping)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Return whether a value is a list."""
    return isinstance(value, list)


def is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    """Return whether a value is a list or a tuple."""
    return isinstance(value, (list, tuple))
