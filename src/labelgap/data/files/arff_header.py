"""The header of an ARFF file: its attributes, and how their values are read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from labelgap.data.files.arff_text import split_attribute, split_values, strip_comment
from labelgap.data.files.formats import PathLike, shortened
from labelgap.data.files.limits import Limits
from labelgap.data.files.tables import number_of
from labelgap.exceptions import DataFileError

_MEKA = re.compile(r"-C\s++(-?)([0-9]++)", re.IGNORECASE)
_NUMERIC = ("numeric", "real", "integer")
_TEXT = ("string", "date", "relational")


@dataclass(frozen=True)
class Attribute:
    """One attribute; ``values`` are those of a nominal one, ``kind`` else its type."""

    name: str
    kind: str
    values: tuple[str, ...] = ()

    @cached_property
    def is_number(self) -> bool:
        """Numeric, or nominal with numbers as values."""
        if self.kind in _NUMERIC:
            return True
        numbers = [
            number_of(value) for value in self.values if value.lower() not in ("true", "false", "yes", "no")
        ]
        return (
            bool(self.values)
            and len(numbers) == len(self.values)
            and all(number is not None and not math.isnan(number) for number in numbers)
        )

    @cached_property
    def codes(self) -> dict[str, float]:
        """The number that stands for each nominal value: itself, or its place."""
        if self.is_number:
            return {value: float(value) for value in self.values}
        return {value: float(place) for place, value in enumerate(self.values)}

    @property
    def is_one_feature(self) -> bool:
        """Whether it is one feature: a number, or one of two numbers such as 0 and 1.

        A nominal attribute of more values has one feature for each, also where the values are numbers: the
        header says that they are names, such as those of a continent, and not amounts.
        """
        return self.is_number and len(self.values) <= 2

    @property
    def feature_names(self) -> list[str]:
        """The features that it becomes: one, or one for each value."""
        return [self.name] if self.is_one_feature else [f"{self.name}={value}" for value in self.values]

    @property
    def default(self) -> float:
        """What an absent entry of a sparse row means: 0, or the first nominal value."""
        return next(iter(self.codes.values()), 0.0)

    def reader(self) -> Callable[[str], float]:
        """From a text to its number or code, NaN for ``?``; ValueError if it is no value of the attribute."""
        codes = self.codes
        plain = {number: number for number in codes.values()} if self.is_number else {}

        def read(text: str) -> float:
            if text == "?":
                return math.nan
            if text in codes:
                return codes[text]
            number = number_of(text)
            if number is None or math.isnan(number) or not self.is_number:
                raise ValueError(text)
            if codes and number not in plain:
                raise ValueError(text)
            return number

        return read


@dataclass(frozen=True)
class Header:
    """Relation, attributes and the number of lines of the header."""

    relation: str
    attributes: tuple[Attribute, ...]
    lines: int

    def meka_labels(self, path: PathLike) -> tuple[str, ...] | None:
        """The labels of a MEKA file: the first ``-C n`` attributes, the last for a negative number."""
        found = _MEKA.search(self.relation)
        digits = found[2].lstrip("0") if found else ""
        if found is None or not digits:
            return None
        names = tuple(attribute.name for attribute in self.attributes)
        # A number of very many digits is not even converted.
        if len(digits) > 9 or int(digits) > len(names):
            raise DataFileError(
                f"{path}: the relation says that {shortened(digits)} attributes are labels (-C), but there "
                "are "
                f"{len(names)}."
            )
        return names[: int(digits)] if not found[1] else names[-int(digits) :]


class ArffFile:
    """An ARFF file: its header, its lines, and what it may become."""

    def __init__(self, path: PathLike, text: bytes, limits: Limits) -> None:
        self.path, self.size, self.limits = path, len(text), limits
        self.lines = text.decode("utf-8").split("\n")
        self.header = read_header(path, self.lines)

    def count_rows(self) -> int:
        """How many rows follow the header."""
        return sum(1 for line in self.lines[self.header.lines :] if line.partition("%")[0].strip())


def read_header(path: PathLike, lines: list[str]) -> Header:
    """The header of an ARFF file, up to ``@data``."""
    relation, attributes = "", []
    for number, line in enumerate(lines, start=1):
        text = strip_comment(line).strip()
        if not text:
            continue
        keyword = text.split(None, 1)[0].lower()
        if keyword == "@relation":
            relation = text[len(keyword) :].strip()
        elif keyword == "@attribute":
            attributes.append(_read_attribute(path, number, text))
        elif keyword == "@data":
            _check_names(path, attributes)
            return Header(relation, tuple(attributes), number)
        else:
            raise DataFileError(
                f"{path}, line {number}: {shortened(text)} is none of @relation, @attribute and @data."
            )
    raise DataFileError(f"{path} has no @data, so it is no ARFF file, or it was cut short.")


def _check_names(path: PathLike, attributes: list[Attribute]) -> None:
    if not attributes:
        raise DataFileError(f"{path} has no @attribute before @data.")
    seen: set[str] = set()
    for attribute in attributes:
        if attribute.name in seen:
            raise DataFileError(
                f"{path}: two attributes are both named {shortened(attribute.name)}; rename one."
            )
        seen.add(attribute.name)


def _read_attribute(path: PathLike, number: int, text: str) -> Attribute:
    parts = split_attribute(text)
    if parts is None:
        raise DataFileError(f"{path}, line {number}: {shortened(text)} is not '@attribute name type'.")
    name, kind = parts
    if kind.startswith("{"):
        if not kind.endswith("}"):
            raise DataFileError(
                f"{path}, line {number}: the values of the attribute {shortened(name)} do not end in a brace."
            )
        values = split_values(kind[1:-1])
        if values is None or "" in values:
            raise DataFileError(
                f"{path}, line {number}: the values of the attribute {shortened(name)} cannot be read."
            )
        if len(set(values)) < len(values):
            raise DataFileError(
                f"{path}, line {number}: the attribute {shortened(name)} has a value twice; remove one."
            )
        return Attribute(name, "nominal", tuple(values))
    word = kind.split(None, 1)[0].lower()
    if word not in _NUMERIC + _TEXT:
        raise DataFileError(
            f"{path}, line {number}: the attribute {shortened(name)} has the type {shortened(word)}; known "
            "are "
            f"{', '.join(_NUMERIC + _TEXT)} and {{values}}."
        )
    return Attribute(name, word)
