"""The columns of a sheet as numbers and ids. An error names the file, the line, the column and the value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.data.files.formats import shortened
from labelgap.data.files.source import Sheet
from labelgap.data.files.tables import number_of
from labelgap.exceptions import DataFileError
from labelgap.labels.sources import minus_one_advice

# Up to here every whole number is a float64 of its own.
_LARGEST_EXACT = 2.0**53


def feature_matrix(sheet: Sheet, columns: dict[str, Any], names: Sequence[str]) -> Floats | None:
    """The columns as features, all numbers and none missing; None where there are none."""
    if not names:
        return None
    X = np.empty((len(columns[names[0]]), len(names)))
    for place, name in enumerate(names):
        shown = shortened(name, quotes=False)
        advice = (
            f"Features are numbers: encode the column as numbers, or leave it out with drop (--drop {shown})."
        )
        values = to_numbers(sheet, name, columns[name], advice)
        _refuse_infinite(sheet, name, values, advice)
        missing = np.isnan(values)
        if missing.any():
            _refuse(
                sheet,
                name,
                int(np.argmax(missing)),
                "is a missing value",
                "Fill it in (impute), or leave the column out with drop (--drop "
                f"{shortened(name, quotes=False)}).",
            )
        X[:, place] = values
    return X


def label_matrix(sheet: Sheet, columns: dict[str, Any], names: Sequence[str], binary: bool) -> Floats:
    """The columns as labels, NaN where missing."""
    if not names:
        raise DataFileError(f"{sheet.path} has no label columns.")
    Y = np.empty((len(columns[names[0]]), len(names)))
    advice = (
        "A label is 1 or 0, true or false, yes or no; what is not known is empty, ? or NA."
        if binary
        else "A label or score is a number; what is not known is empty, ? or NA."
    )
    for place, name in enumerate(names):
        Y[:, place] = to_numbers(sheet, name, columns[name], advice)
    for place, name in enumerate(names):
        values = Y[:, place]
        wrong = ~(np.isnan(values) | (values == 0) | (values == 1))
        if binary and wrong.any():
            first = int(np.argmax(wrong))
            if values[first] == -1:
                # What -1 means depends on all labels.
                advice = minus_one_advice(
                    Y,
                    with_zeros="If -1 is a no and 0 is not known, leave the zeros empty and write 0 for -1; "
                    f"if -1 is not known and 0 is a no, leave the -1 empty. {advice}",
                    without=f"For labels coded -1/+1 write 0 for -1. {advice}",
                    else_=advice,
                )
            _refuse(sheet, name, first, "is no label", advice)
        _refuse_infinite(sheet, name, values, advice)
    return Y


def to_numbers(sheet: Sheet, name: str, column: Any, advice: str) -> Floats:
    """An Arrow column as float64, NaN where missing."""
    types = sheet.arrow.types
    kind = column.type
    if types.is_boolean(kind):
        column = column.cast(sheet.arrow.uint8())
    elif types.is_string(kind) or types.is_large_string(kind):
        return _text_to_numbers(sheet, name, column, advice)
    elif not (
        types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind)
    ):
        raise DataFileError(
            f"{sheet.path}, column {shortened(name)}: its type is {kind}, which is no number. {advice}"
        )
    numbers = column.cast(sheet.arrow.float64(), safe=False)
    return np.array(numbers.to_numpy(), dtype=np.float64)


def _text_to_numbers(sheet: Sheet, name: str, column: Any, advice: str) -> Floats:
    if sheet.decimal != ".":
        from pyarrow import compute

        column = compute.replace_substring(column, pattern=sheet.decimal, replacement=".")
    try:
        return np.array(column.cast(sheet.arrow.float64()).to_numpy(), dtype=np.float64)
    except sheet.arrow.ArrowInvalid:
        pass
    # Some are words or missing. Few differ, as a rule, so each different text is read once.
    coded = column.combine_chunks().dictionary_encode()
    numbers = [number_of(text) for text in coded.dictionary.to_pylist()]
    codes = coded.indices.fill_null(len(numbers)).to_numpy(zero_copy_only=False)
    wrong = np.array([number is None for number in numbers] + [False])[codes]
    if wrong.any():
        _refuse(sheet, name, int(np.argmax(wrong)), "is no number", advice)
    return np.asarray(np.array([*numbers, np.nan], dtype=np.float64)[codes])


def id_values(sheet: Sheet, name: str, column: Any, advice: str = "") -> NDArray[Any]:
    """An Arrow column as ids: int64 if all are whole numbers written plainly, else str.

    ``advice`` says what to do where one is missing.
    """
    arrow = sheet.arrow
    text = arrow.types.is_string(column.type) or arrow.types.is_large_string(column.type)
    if text:
        from pyarrow import compute

        column = compute.utf8_trim_whitespace(column)
        missing = compute.fill_null(compute.equal(column, ""), True)
    else:
        missing = column.is_null(nan_is_null=True)
    gaps = missing.to_numpy()
    if gaps.any():
        row = int(np.argmax(gaps))
        place = f"{sheet.path}, {sheet.place(row)}, column {shortened(name)}"
        raise DataFileError(f"{place}: the id is missing.{advice}")
    if text:
        return _text_ids(arrow, column)
    if arrow.types.is_signed_integer(column.type):
        return np.array(column.cast(arrow.int64()).to_numpy(), dtype=np.int64)
    if arrow.types.is_integer(column.type):
        # Numbers from 2^63 on become texts, as they do from a csv file.
        return _text_ids(arrow, column.cast(arrow.string()))
    if arrow.types.is_floating(column.type):
        values = np.asarray(column.to_numpy(), dtype=np.float64)
        inexact = ~(np.abs(values) <= _LARGEST_EXACT)
        if inexact.any():
            advice = "Write ids as integers or text: a real number does not hold all digits of such an id."
            _refuse(sheet, name, int(np.argmax(inexact)), "is no exact id", advice)
        if (values == np.round(values)).all():
            return np.asarray(values.astype(np.int64))
    raise DataFileError(
        f"{sheet.path}, column {shortened(name)}: its type is {column.type}; ids are whole numbers or text."
    )


def _text_ids(arrow: Any, column: Any) -> NDArray[Any]:
    try:
        numbers = column.cast(arrow.int64())
        # 007 and 7 are two ids.
        if numbers.cast(column.type).equals(column):
            return np.array(numbers.to_numpy(), dtype=np.int64)
    except arrow.ArrowInvalid:
        pass
    return np.asarray(column.to_numpy(), dtype=object)


def _refuse_infinite(sheet: Sheet, name: str, values: Floats, advice: str) -> None:
    infinite = np.isinf(values)
    if infinite.any():
        _refuse(sheet, name, int(np.argmax(infinite)), "is not finite", advice)


def _refuse(sheet: Sheet, name: str, row: int, why: str, advice: str) -> NoReturn:
    raise DataFileError(
        f"{sheet.path}, {sheet.place(row)}, column {shortened(name)}: {shortened(sheet.value(name, row))} "
        f"{why}. "
        f"{advice}"
    )
