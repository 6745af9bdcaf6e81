"""Scenarios as given by the user: dictionaries, text, files, names. Converts them to TOML."""

from __future__ import annotations

import contextlib
import json
import numbers
import os
import re
from collections.abc import Generator, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

from foreread import _foreread
from foreread._narrowing import is_sequence, is_table

Scenario: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any]"


def read_scenario(scenario: Scenario) -> tuple[str, str | None]:
    """Return the TOML text of a scenario, and its location: a path, or None for text."""
    if isinstance(scenario, Mapping):
        return to_toml(scenario), "scenario"
    if isinstance(scenario, str):
        # A file name may contain =: dir/date=2026-11-26/a.toml.
        if "\n" in scenario or ("=" in scenario and not os.path.exists(scenario)):
            return scenario, None
        built_in = _foreread.sim_scenario(scenario)
        if built_in is not None:
            return built_in, scenario
    path = os.fsdecode(scenario)
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(), path
    except FileNotFoundError as error:
        names = ", ".join(_foreread.sim_names()["scenarios"])
        error.strerror = f"no such file, and no scenario of this name; those are {names}"
        raise
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is no TOML: it is not UTF-8") from None


@contextlib.contextmanager
def with_place(text: str, place: str | None) -> Generator[None, None, None]:
    """Prefix errors of a scenario with its location.

    The line numbers of a dictionary refer to its TOML, which the user has not seen, so the line
    itself is shown instead.
    """
    try:
        yield
    except ValueError as error:
        message = str(error)
        found = re.match(r"line (\d+): ", message)
        if found is None or place is None:
            raise
        if place == "scenario":
            line = text.splitlines()[int(found[1]) - 1].strip()
            where = f"scenario: line {found[1]} of its TOML ({line})"
            raise ValueError(f"{where}: {message[found.end() :]}") from None
        raise ValueError(f"{place}: {message}") from None


def to_toml(scenario: Mapping[str, Any]) -> str:
    """Format a dictionary as TOML: tables of one and two levels as sections, others inline."""
    lines: list[str] = []
    sections: list[str] = []
    for key, value in scenario.items():
        if is_table(value):
            sections += _section(_key(key), value)
        elif _is_tables(value):
            for index, table in enumerate(value):
                sections.append(f"[[{_key(key)}]]")
                sections += _pairs(table, f"{key}[{index}]")
        else:
            lines.append(f"{_key(key)} = {_value(value, key)}")
    return "\n".join(lines + sections) + "\n"


def _section(name: str, table: Mapping[str, Any]) -> list[str]:
    """Format a table; if it contains only tables, each of them becomes a section."""
    if table and all(isinstance(value, Mapping) for value in table.values()):
        lines: list[str] = []
        for key, value in table.items():
            lines += [f"[{name}.{_key(key)}]", *_pairs(value, f"{name}.{key}")]
        return lines
    return [f"[{name}]", *_pairs(table, name)]


def _pairs(table: Mapping[str, Any], path: str) -> list[str]:
    return [f"{_key(key)} = {_value(value, f'{path}.{key}')}" for key, value in table.items()]


def _is_tables(value: object) -> TypeGuard[Sequence[Mapping[str, Any]]]:
    return is_sequence(value) and len(value) > 0 and all(is_table(item) for item in value)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _text(key)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: object, path: str) -> str:
    """Format a value inline."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))
    if is_table(value):
        pairs = (f"{_key(key)} = {_value(item, f'{path}.{key}')}" for key, item in value.items())
        return "{ " + ", ".join(pairs) + " }"
    if is_sequence(value):
        return "[" + ", ".join(_value(item, path) for item in value) + "]"
    raise ValueError(f"{path}: {value!r} is not a string, number, boolean, list or dictionary")
