"""Columns of a sheet that need work before they are features: words, blanks, dates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap.data.files.choosing import Patterns, choose_columns
from labelgap.data.files.columns import to_numbers
from labelgap.data.files.source import Sheet
from labelgap.data.files.tables import MISSING, number_of
from labelgap.exceptions import DataFileError

MOST_CATEGORIES = 100
"""A column of words with more different values than this is not turned into features unasked."""
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}(?:[T ].*)?|\d{1,2}[./]\d{1,2}[./](?:\d{4}|\d{2})(?:[T ].*)?")
_NAMED = 12


class FeaturePlan:
    """How the columns of a sheet become a matrix: numbers as numbers, words as texts, blanks as NaN.

    Parameters
    ----------
    categorical : names and patterns, default ()
        Columns to read as texts, also if they hold numbers.
    keep_missing : bool, default False
        Whether blanks among the numbers are left as NaN; else they are refused.
    texts : sequence of str, default None
        The columns to read as texts, where a model has decided it; None decides by what the file holds.

    Attributes
    ----------
    categories : dict from name to the number of different texts
        The columns that were read as texts.
    """

    def __init__(
        self,
        categorical: Patterns = (),
        *,
        keep_missing: bool = False,
        texts: Sequence[str] | None = None,
    ) -> None:
        self._asked, self._texts = categorical, texts
        self.keep_missing = keep_missing
        self._chosen: tuple[str, ...] = ()
        self.categories: dict[str, int] = {}

    @property
    def for_model(self) -> bool:
        """Whether a model has decided what the columns are; then none of them can be left out."""
        return self._texts is not None

    @property
    def unasked(self) -> tuple[str, ...]:
        """The columns that were read as texts because of what they hold, and not because somebody said so."""
        return tuple(name for name in self.categories if name not in self._chosen)

    def text_columns(self, sheet: Sheet, names: Sequence[str]) -> tuple[str, ...]:
        """The columns that are to be read as texts, whatever they hold."""
        if self._texts is not None:
            self._chosen = tuple(name for name in names if name in set(self._texts))
        else:
            self._chosen = choose_columns(sheet.path, names, self._asked, "categorical (--categorical)", {})
        return self._chosen

    def matrix(self, sheet: Sheet, columns: dict[str, Any], names: Sequence[str]) -> Any:
        """The columns beside each other: float64, or objects where some are texts."""
        if not names:
            return None
        read: list[Any] = []
        problems: list[str] = []
        for name in names:
            if name in self._chosen:
                read.append(self._words(sheet, name, columns[name]))
                continue
            values, problem = self._column(sheet, name, columns[name])
            read.append(values)
            problems += [] if problem is None else [problem]
        if problems:
            raise DataFileError(_refusal(sheet.path, problems))
        if not self.categories:
            return np.column_stack(read)
        X = np.empty((len(read[0]), len(names)), dtype=object)
        for place, values in enumerate(read):
            X[:, place] = values
        return X

    def _column(self, sheet: Sheet, name: str, column: Any) -> tuple[Any, str | None]:
        """The values, and why they are no features."""
        types = sheet.arrow.types
        if types.is_temporal(column.type):
            wanted = f"{name!r} holds dates, and the model was fitted to numbers in this column"
            return None, wanted if self.for_model else _of_dates(name)
        try:
            values = to_numbers(sheet, name, column, "")
        except DataFileError as error:
            if self.for_model:
                return None, f"{error} The model was fitted to numbers in this column".replace("  ", " ")
            return self._text(sheet, name, column)
        missing = int(np.isnan(values).sum())
        if missing and not self.keep_missing and self.for_model:
            row = int(np.argmax(np.isnan(values)))
            return None, (
                f"{name!r} has a missing value in {missing} of {len(values)} rows (the first: "
                f"{sheet.place(row)}), and the model fills in none: fill them in, or fit again with --impute"
            )
        if missing == len(values) and not self.for_model:
            return None, f"{name!r} is blank in every row: leave it out with --drop {name}"
        if np.isinf(values).any():
            row = int(np.argmax(np.isinf(values)))
            advice = "correct it" if self.for_model else f"correct it, or leave it out with --drop {name}"
            return None, f"{name!r} is not finite ({sheet.place(row)}): {advice}"
        if missing and not self.keep_missing:
            row = int(np.argmax(np.isnan(values)))
            return None, (
                f"{name!r} has a missing value in {missing} of {len(values)} rows (the first: "
                f"{sheet.place(row)}): fill them with --impute median, or leave it out with --drop {name}"
            )
        return values, None

    def _text(self, sheet: Sheet, name: str, column: Any) -> tuple[Any, str | None]:
        words = text_values(column)
        different = {word for word in words if word}
        if different and all(_DATE.fullmatch(word) for word in different):
            return None, _of_dates(name)
        no_number = [word for word in different if number_of(word.replace(sheet.decimal, ".")) is None]
        if 2 * len(no_number) < len(different):
            # A slip in a column of amounts must not turn them into names.
            row = next(row for row, word in enumerate(words) if word in set(no_number))
            return None, (
                f"{name!r} has numbers, but {words[row]!r} ({sheet.place(row)}) is no number: correct it, "
                f"leave the column out with --drop {name}, or say --categorical {name}"
            )
        if len(different) > MOST_CATEGORIES:
            return None, (
                f"{name!r} is text with {len(different)} different values: leave it out with --drop {name}, "
                f"or say --categorical {name} for a feature for each"
            )
        self.categories[name] = len(set(words))
        return words, None

    def _words(self, sheet: Sheet, name: str, column: Any) -> NDArray[Any]:
        words = text_values(column)
        self.categories[name] = len(set(words))
        return words


def text_values(column: Any) -> NDArray[Any]:
    """An Arrow column as texts without blanks around them; empty where nothing is known."""
    words = [_word(value) for value in column.to_pylist()]
    result = np.empty(len(words), dtype=object)
    result[:] = words
    return result


def _word(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.15g}"
    text = str(value).strip()
    return "" if text.lower() in MISSING else text


def _of_dates(name: str) -> str:
    return (
        f"{name!r} holds dates: turn them into numbers, such as the days since some day, leave it out with "
        f"--drop {name}, or say --categorical {name} for a feature for each"
    )


def _refusal(path: object, problems: Sequence[str]) -> str:
    count = f"{len(problems)} columns are no features as they are"
    if len(problems) == 1:
        count = "1 column is no feature as it is"
    listed = "".join(f"\n  {problem}." for problem in problems[:_NAMED])
    more = f"\n  and {len(problems) - _NAMED} more." if len(problems) > _NAMED else ""
    return f"{path}: {count}:{listed}{more}"
