"""Results as columns: frames of pandas and polars, and tables in notebooks."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from labelgap.exceptions import MissingExtraError

# A longer table hides the notebook around it.
_SHOWN_LINES = 60


def as_column(values: Sequence[Any]) -> Any:
    """Ids or texts as a vector: of whole numbers or texts where all are of that type, else of objects.

    Examples
    --------
    >>> as_column([3, 4]), as_column(["a", ("b", 1)])
    (array([3, 4]), array(['a', ('b', 1)], dtype=object))
    """
    kinds = set(map(type, values))
    if kinds == {int}:
        numbers = np.asarray(values)
        # Beyond 64 bits numpy would turn them into objects or floats.
        if numbers.dtype.kind == "i":
            return numbers
    return np.fromiter(values, dtype=object, count=len(values))


def as_texts(columns: Mapping[str, Any]) -> dict[str, Any]:
    """The columns with every vector of objects as one of texts, for a file.

    Examples
    --------
    >>> as_texts({"item": as_column(["a", ("b", 1)]), "rank": as_column([1, 2])})["item"].tolist()
    ['a', "('b', 1)"]
    """
    return {
        name: as_column(list(map(str, column))) if column.dtype == np.dtype(object) else column
        for name, column in columns.items()
    }


def frame_of(columns: Mapping[str, Any], library: str) -> Any:
    """The columns as a frame of "pandas" or "polars"."""
    try:
        module = import_module(library)
    except ImportError as error:
        raise MissingExtraError(
            f"A {library} frame needs the package {library}; install it first."
        ) from error
    if library == "polars":
        # Polars takes texts and numbers as lists; ids of other types stay objects.
        plain = {name: _listed(column) for name, column in columns.items()}
        return module.DataFrame(plain)
    return module.DataFrame(dict(columns))


def _listed(column: Any) -> Any:
    if getattr(column, "dtype", None) != np.dtype(object):
        return column
    kinds = set(map(type, column.tolist()))
    if kinds <= {str}:
        return column.tolist()
    import polars

    return polars.Series(values=column.tolist(), dtype=polars.Object)


def html_table(columns: Mapping[str, Any], *, titled: bool) -> str:
    """A table of the columns; the ids are left out where titles stand for them.

    Examples
    --------
    >>> html_table({"item": ["a<b"], "score": [0.5]}, titled=False)
    '<table><thead><tr><th>item</th><th>score</th></tr></thead><tbody><tr><td>a&lt;b</td><td>0.5</td></tr></tbody></table>'
    """
    names = [name for name in columns if not (titled and name in ("item", "id"))]
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    count = len(columns[names[0]])
    lines = [
        "<tr>" + "".join(f"<td>{_text(name, columns[name][line])}</td>" for name in names) + "</tr>"
        for line in range(min(count, _SHOWN_LINES))
    ]
    more = "" if count <= _SHOWN_LINES else f"<p>{count - _SHOWN_LINES} more lines.</p>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>{more}"


def _text(name: str, value: Any) -> str:
    if name == "decision":
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float | np.floating) else html.escape(str(value))
