"""The rows of an ARFF file, dense or sparse, as numbers."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.data.files.arff_header import ArffFile, Attribute
from labelgap.data.files.arff_text import split_pairs, split_values, strip_comment
from labelgap.data.files.formats import shortened
from labelgap.exceptions import DataFileError

_PAIR = re.compile(r"([0-9]++)\s++(.*)", re.DOTALL)
# Anything but plain numbers: quotes, comments, words, and what Python alone reads as a number.
_CAREFUL = re.compile(r"[^0-9\s,.eE+\-{}?]")


@dataclass(frozen=True)
class Rows:
    """The values of the attributes that were asked for: a matrix, or CSC with the stored values alone."""

    values: Any
    lines: NDArray[np.int64]

    @property
    def is_sparse(self) -> bool:
        return bool(sp.issparse(self.values))

    def column(self, place: int, attribute: Attribute) -> Floats:
        """All values of one attribute; an absent one is the attribute's default."""
        if not self.is_sparse:
            return np.asarray(self.values[:, place])
        stored = slice(*self.values.indptr[place : place + 2])
        column = np.full(len(self.lines), attribute.default)
        column[self.values.indices[stored]] = self.values.data[stored]
        return column


def read_rows(file: ArffFile, wanted: Sequence[int]) -> Rows:
    """The rows after the header; attributes that are not wanted are skipped."""
    reader = _RowReader(file, wanted)
    begin = file.header.lines
    for number, line in enumerate(file.lines[begin:], start=begin + 1):
        text = line.strip()
        if text and not text.startswith("%"):
            reader.add(number, text)
    return reader.rows()


class _RowReader:
    def __init__(self, file: ArffFile, wanted: Sequence[int]) -> None:
        self.path = file.path
        self.attributes = file.header.attributes
        self.width = len(self.attributes)
        keep = set(wanted)
        self.readers: list[Callable[[str], float]] = [
            attribute.reader() if place in keep else _skip for place, attribute in enumerate(self.attributes)
        ]
        # All numbers, as in nearly every file: a row is read in one go, and nominal values are checked later.
        self.plain = all(attribute.is_number for attribute in self.attributes)
        self.nominal = [place for place in sorted(keep) if self.attributes[place].values]
        self.sparse: bool | None = None
        self.lines = array("q")
        self.values = array("d")
        self.places = array("q")
        self.counts = array("q")

    def add(self, number: int, text: str) -> None:
        sparse = text.startswith("{")
        if self.sparse is None:
            self.sparse = sparse
        if sparse != self.sparse:
            raise DataFileError(f"{self.path}, line {number}: dense and sparse rows in one file.")
        self.lines.append(number)
        careful = _CAREFUL.search(text) is not None
        if careful:
            text = strip_comment(text).rstrip()
        if sparse:
            self._add_sparse(number, text, careful)
        else:
            self._add_dense(number, text, careful)

    def _add_dense(self, number: int, text: str, careful: bool) -> None:
        texts = self._split(number, text, careful)
        if len(texts) != self.width:
            raise DataFileError(
                f"{self.path}, line {number}: {len(texts)} values for {self.width} attributes."
            )
        if self.plain and not careful:
            try:
                self.values.extend([float(word) for word in texts])
                return
            except ValueError:
                del self.values[(len(self.lines) - 1) * len(texts) :]
        for place, word in enumerate(texts):
            self.values.append(self._value(number, place, word.strip()))

    def _add_sparse(self, number: int, text: str, careful: bool) -> None:
        if not text.endswith("}"):
            raise DataFileError(f"{self.path}, line {number}: a sparse row does not end in a brace.")
        inside = text[1:-1].strip()
        if careful or not self._add_plain(inside):
            self._add_pairs(number, inside)

    def _add_plain(self, inside: str) -> bool:
        """Add pairs that are numbers and in order, as nearly all are; False, with nothing added, if not."""
        words = inside.replace(",", " ").split()
        if not self.plain or len(words) != 2 * inside.count(",") + 2:
            return False
        try:
            places = [int(word) for word in words[::2]]
            values = [float(word) for word in words[1::2]]
        except ValueError:
            return False
        if min(places) < 0 or max(places) >= self.width or len(set(places)) < len(places):
            return False
        self.places.extend(places)
        self.values.extend(values)
        self.counts.append(len(places))
        return True

    def _add_pairs(self, number: int, inside: str) -> None:
        seen: set[int] = set()
        pairs = split_pairs(inside)
        if pairs is None:
            raise DataFileError(f"{self.path}, line {number}: the quotes do not match.")
        for pair in pairs:
            found = _PAIR.fullmatch(pair)
            # A number of very many digits is not even converted.
            digits = found[1].lstrip("0")[:19] if found else ""
            place = int(digits or 0)
            if found is None or place >= self.width:
                raise DataFileError(
                    f"{self.path}, line {number}: {shortened(pair)} is no 'number value' with a number from "
                    "0 "
                    f"to {self.width - 1}."
                )
            if place in seen:
                raise DataFileError(f"{self.path}, line {number}: the attribute {place} comes twice.")
            seen.add(place)
            word = self._split(number, found[2], careful=True)[0]
            self.places.append(place)
            self.values.append(self._value(number, place, word.strip()))
        self.counts.append(len(seen))

    def _split(self, number: int, text: str, careful: bool) -> list[str]:
        texts = split_values(text) if careful else text.split(",")
        if texts is None:
            raise DataFileError(f"{self.path}, line {number}: the quotes do not match.")
        return texts

    def _value(self, number: int, place: int, word: str) -> float:
        try:
            return self.readers[place](word)
        except ValueError:
            self._refuse(number, self.attributes[place], word)

    def _refuse(self, number: int, attribute: Attribute, word: str) -> NoReturn:
        values = ", ".join(shortened(value, quotes=False) for value in attribute.values[:10])
        expected = f"one of {values}" if values else "a number"
        raise DataFileError(
            f"{self.path}, line {number}, attribute {shortened(attribute.name)}: {shortened(word)} is not "
            f"{expected}."
        )

    def rows(self) -> Rows:
        lines = np.array(self.lines, dtype=np.int64)
        if not len(lines):
            raise DataFileError(f"{self.path} has no rows after @data.")
        shape = (len(lines), self.width)
        values = np.array(self.values, dtype=np.float64)
        if self.sparse:
            indptr = np.concatenate(([0], np.cumsum(np.array(self.counts, dtype=np.int64))))
            stored = (values, np.array(self.places, dtype=np.int64), indptr)
            rows = Rows(sp.csr_array(stored, shape=shape).tocsc(), lines)
        else:
            rows = Rows(values.reshape(shape), lines)
        if self.plain:
            self._check_finite(values)
            self._check_nominal(rows)
        return rows

    def _check_finite(self, values: Floats) -> None:
        infinite = np.isinf(values)
        if infinite.any():
            first = int(np.argmax(infinite))
            ends = np.cumsum(self.counts) if self.sparse else np.arange(1, len(self.lines) + 1) * self.width
            place = self.places[first] if self.sparse else first % self.width
            row = int(np.searchsorted(ends, first, side="right"))
            self._refuse(self.lines[row], self.attributes[place], f"{values[first]}")

    def _check_nominal(self, rows: Rows) -> None:
        for place in self.nominal:
            attribute = self.attributes[place]
            column = rows.column(place, attribute)
            wrong = ~(np.isnan(column) | np.isin(column, list(attribute.codes.values())))
            if wrong.any():
                row = int(np.argmax(wrong))
                self._refuse(self.lines[row], attribute, f"{column[row]:g}")


def _skip(text: str) -> float:
    return math.nan
