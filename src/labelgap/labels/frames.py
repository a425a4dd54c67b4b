"""Entries from pandas and polars frames, neither of which is imported before the user has handed one in."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap._arrays import frame_library
from labelgap.exceptions import InvalidLabelsError
from labelgap.labels.sources import Entries, Names, as_names, check_names, is_null, read_dense


def _check_frame(frame: Any) -> str:
    library = frame_library(frame)
    if library is None or type(frame).__name__ != "DataFrame":
        raise InvalidLabelsError(
            f"Expected a pandas or polars DataFrame, got {type(frame).__module__}.{type(frame).__name__}; "
            "use frame.collect() for a LazyFrame and series.to_frame() for a Series."
        )
    return library


def read_wide(
    frame: Any,
    weights: Any,
    row_names: Sequence[Hashable] | None,
    label_names: Sequence[Hashable] | None,
) -> Entries:
    """Entries of a frame with one column per label; nulls and NaN are not observed."""
    library = _check_frame(frame)
    columns = list(frame.columns)
    if library == "pandas" and row_names is None:
        row_names = list(frame.index)
    matrix = np.empty(tuple(frame.shape), dtype=np.float64, order="F")
    for position, column in enumerate(columns):
        # By position: pandas allows two columns of one name, which check_names then reports.
        series = frame.iloc[:, position] if library == "pandas" else frame[column]
        matrix[:, position] = _numbers(series, column, library)
    if weights is not None and frame_library(weights):
        weights = weights.to_numpy()
    return read_dense(matrix, None, weights, row_names, columns if label_names is None else label_names)


def _numbers(series: Any, column: Hashable, library: str) -> NDArray[np.float64]:
    """One column as float64 with NaN for null."""
    if library == "polars" and (series.dtype.is_numeric() or str(series.dtype) in ("Boolean", "Null")):
        import polars

        return np.asarray(series.cast(polars.Float64).to_numpy(), dtype=np.float64)
    if library == "pandas" and getattr(series.dtype, "kind", "O") in "biuf":
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)
    numbers = np.empty(len(series), dtype=np.float64)
    for row, value in enumerate(series):
        if is_null(value):
            numbers[row] = np.nan
        elif isinstance(value, bool | int | float | np.number | np.bool_):
            numbers[row] = float(value)
        else:
            raise InvalidLabelsError(
                f"The label at row {row}, column {column!r} is {value!r}, which is no number. "
                "Code positives as 1, negatives as 0 and leave what is not observed null; "
                "drop columns that are no labels."
            )
    return numbers


def read_long(
    frame: Any,
    row: str,
    label: str,
    value: str,
    weights: str | None,
    row_names: Sequence[Hashable] | None,
    label_names: Sequence[Hashable] | None,
) -> Entries:
    """Entries of a frame with one line per entry; ids become positions in order of first appearance."""
    library = _check_frame(frame)
    columns = list(frame.columns)
    for column in (row, label, value) + (() if weights is None else (weights,)):
        if not (isinstance(column, Hashable) and column in set(columns)):
            raise InvalidLabelsError(
                f"The frame has no column {column!r}; it has {', '.join(map(repr, columns))}."
            )
    rows, row_ids = _codes(frame[row], row, library, row_names, "row")
    cols, label_ids = _codes(frame[label], label, library, label_names, "label")
    return Entries(
        rows,
        cols,
        _numbers(frame[value], value, library),
        None if weights is None else _numbers(frame[weights], weights, library),
        (len(row_ids), len(label_ids)),
        row_ids,
        label_ids,
    )


def _codes(
    series: Any, column: str, library: str, names: Sequence[Hashable] | None, what: str
) -> tuple[NDArray[np.int64], Names]:
    """The position of each id among ``names``, or among the ids themselves in order of first appearance."""
    if library == "pandas":
        import pandas

        codes, found = pandas.factorize(series, use_na_sentinel=True)
        codes, ids = np.asarray(codes, dtype=np.int64), tuple(found.tolist())
    else:
        import polars

        unique = series.drop_nulls().unique(maintain_order=True)
        numbered = polars.Series(range(len(unique)), dtype=polars.Int64)
        positions = series.replace_strict(unique, numbered, default=None, return_dtype=polars.Int64)
        codes, ids = positions.fill_null(-1).to_numpy().astype(np.int64), tuple(unique.to_list())
    if (codes < 0).any():
        raise InvalidLabelsError(
            f"Column {column!r} has no {what} id in line {int(np.argmax(codes < 0))}; "
            "drop that line or fill it in."
        )
    if names is None:
        return codes, ids
    names = as_names(names, what) or ()
    known = check_names(names, len(names), what) or ()
    place = {name: position for position, name in enumerate(known)}
    if len(place) != len(known):
        raise InvalidLabelsError(f"{what}_names has a name twice, so ids cannot be matched with it.")
    absent = [name for name in ids if name not in place]
    if absent:
        raise InvalidLabelsError(
            f"Column {column!r} has the {what} id {absent[0]!r}, which is not among {what}_names; "
            "add it there or drop its lines."
        )
    return np.array([place[name] for name in ids], dtype=np.int64)[codes], known
