"""Results as tables of pandas and pyarrow, which are optional."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pandas
    import pyarrow


class HasRows(Protocol):
    """A result that is one row of a table, or several."""

    def rows(self) -> list[dict[str, Any]]: ...


def to_pandas(results: HasRows | Iterable[HasRows]) -> pandas.DataFrame:
    """Returns the rows of one result, or of several one after the other, as a DataFrame."""
    frame = optional("pandas", "pandas").DataFrame.from_records(rows_of(results))
    return frame


# pyarrow has no types.
def to_arrow(results: HasRows | Iterable[HasRows]) -> pyarrow.Table:  # pyright: ignore
    """Returns the rows of one result, or of several one after the other, as a Table."""
    table = optional("pyarrow", "arrow").Table.from_pylist(same_keys(rows_of(results)))
    return table


def rows_of(results: HasRows | Iterable[HasRows]) -> list[dict[str, Any]]:
    """Returns the rows of one result, or of several one after the other."""
    several = results if isinstance(results, Iterable) else [results]
    return [row for result in several for row in result.rows()]


def same_keys(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the rows with the keys of all of them, None where a row has none."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    return [{key: row.get(key) for key in keys} for row in rows]


def optional(module: str, extra: str) -> Any:
    """Imports an optional module, or says how it is installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise ImportError(
            f"this needs {package}: pip install 'foreread[{extra}]'", name=package
        ) from error
