"""What values without a type are, such as those of JSON, TOML and a caller's dictionaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard


def is_table(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether it is a mapping; the formats have no other keys than texts."""
    return isinstance(value, Mapping)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether it is a list, of anything."""
    return isinstance(value, list)


def is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether it is a list or a tuple, of anything."""
    return isinstance(value, (list, tuple))
