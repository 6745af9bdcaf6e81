"""Results as tables of pandas and pyarrow, which are optional."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pandas
    import pyarrow


class HasRows(Protocol):
    """A result with one or more table rows."""

    def rows(self) -> list[dict[str, Any]]: ...


def to_pandas(results: HasRows | Iterable[HasRows]) -> pandas.DataFrame:
    """Return the rows of one or several results as a DataFrame."""
    frame = optional("pandas", "pandas").DataFrame.from_records(rows_of(results))
    return frame


# pyarrow has no types.
def to_arrow(results: HasRows | Iterable[HasRows]) -> pyarrow.Table:  # pyright: ignore
    """Return the rows of one or several results as a Table."""
    table = optional("pyarrow", "arrow").Table.from_pylist(same_keys(rows_of(results)))
    return table


def rows_of(results: HasRows | Iterable[HasRows]) -> list[dict[str, Any]]:
    """Return the rows of one or several results."""
    several = results if isinstance(results, Iterable) else [results]
    return [row for result in several for row in result.rows()]


def same_keys(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with the union of their keys, using None for missing values."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    return [{key: row.get(key) for key in keys} for row in rows]


def optional(module: str, extra: str) -> Any:
    """Import an optional module; if it is missing, the error says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise ImportError(
            f"this needs {package}: pip install 'foreread[{extra}]'", name=package
        ) from error
