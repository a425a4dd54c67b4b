"""The text format of extreme classification: ``label,label feature:value feature:value``, all from 0."""

from __future__ import annotations

import io
import itertools
import math
import re
from typing import Any, NamedTuple, NoReturn

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

from labelgap.data.files.formats import PathLike, shortened
from labelgap.data.files.limits import Limits
from labelgap.data.files.tables import LabelTable
from labelgap.exceptions import DataFileError
from labelgap.labels import ObservedLabels

MAX_ENTRIES = 2**28
"""Unless asked to, no more entries than this are made known negatives."""
MAX_NUMBER = 2**31 - 1
"""The largest number of a row, a label or a feature, and the largest size that a header may claim."""
# What is computed of each feature and label takes about so many times one number.
_TIMES = 4.0
_HEADER = re.compile(rb"[ \t]*+([0-9]++)[ \t]++([0-9]++)[ \t]++([0-9]++)[ \t\r]*+")
_LABELS = re.compile(rb"[0-9]++(?:,[0-9]++)*+")
_FEATURE = re.compile(rb"([0-9]++):[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")
# Whatever else there is in a file, scikit-learn's reader and Python's float would read in a way of their own.
_ALLOWED = b"0123456789eE+-.:, \t\r\n\v\f"


class _Sizes(NamedTuple):
    rows: int
    features: int
    labels: int


def read_xmc(path: PathLike, text: bytes, unobserved: str | None, limits: Limits) -> LabelTable:
    """Features as CSR, labels as ones; absent labels are known negatives unless ``unobserved`` says else."""
    lines = text.removesuffix(b"\n").split(b"\n")
    header = _HEADER.fullmatch(lines[0])
    sizes = None if header is None else _Sizes(*(_size(path, digits) for digits in header.groups()))
    rows = lines[1:] if header else lines
    # Lines at the end that hold nothing are rows only if the header counts them.
    while rows and not rows[-1].strip() and (sizes is None or len(rows) > sizes.rows):
        rows.pop()
    first_line = 2 if header else 1
    if sizes is not None and len(rows) != sizes.rows:
        raise DataFileError(
            f"{path}, line 1: the header says {sizes.rows} rows, but there are {len(rows)}; the file was cut "
            "short, or the first line is no header."
        )
    if not rows:
        raise DataFileError(f"{path} has a header and no rows.")
    X, tags = _load(path, rows, sizes, first_line)
    labels = _labels(path, tags, len(rows), sizes, unobserved, rows, first_line)
    # Means and counts are as long as the sides, whatever the matrices hold.
    limits.check(path, 8.0 * (X.shape[1] + labels.shape[1]), None, _TIMES)
    return LabelTable(X, labels)


def _size(path: PathLike, digits: bytes) -> int:
    size = _number(digits)
    if size is None:
        raise DataFileError(
            f"{path}, line 1: the header claims the size {shortened(digits)}; at most {MAX_NUMBER} is read."
        )
    return size


def _number(digits: bytes) -> int | None:
    """The number; None where it is larger than any that is read, however many digits it has."""
    kept = digits.lstrip(b"0")
    number = int(kept or b"0") if len(kept) < 19 else MAX_NUMBER + 1
    return number if number <= MAX_NUMBER else None


def _load(path: PathLike, rows: list[bytes], sizes: _Sizes | None, first_line: int) -> tuple[Any, Any]:
    # scikit-learn skips an empty line, but here it is a row.
    text = b"\n".join(row if row.strip() else b"0:0" for row in rows)
    if text.translate(None, _ALLOWED):
        _refuse(path, rows, sizes, first_line, "there are signs other than those of numbers")
    try:
        X, tags = load_svmlight_file(
            io.BytesIO(text),
            n_features=None if sizes is None else sizes.features,
            multilabel=True,
            zero_based=True,
        )
    except (ValueError, OverflowError, IndexError) as error:
        _refuse(path, rows, sizes, first_line, str(error))
    X = sp.csr_array(X)
    if not np.isfinite(X.data).all() or X.shape[0] != len(rows) or X.shape[1] > MAX_NUMBER:
        _refuse(path, rows, sizes, first_line, "a number is not finite, or a line is no row")
    X.eliminate_zeros()
    return X, tags


def _labels(
    path: PathLike,
    tags: Any,
    n: int,
    sizes: _Sizes | None,
    unobserved: str | None,
    rows: list[bytes],
    first_line: int,
) -> ObservedLabels:
    counts = np.fromiter((len(row) for row in tags), dtype=np.int64, count=n)
    numbers = np.fromiter(itertools.chain.from_iterable(tags), dtype=np.float64, count=int(counts.sum()))
    # Checked before they are converted: a float64 beyond 2^53 is not the number that was written.
    if not ((numbers >= 0) & (numbers <= MAX_NUMBER)).all():
        _refuse(path, rows, sizes, first_line, "a label is no number from 0")
    indices = numbers.astype(np.int64)
    L = sizes.labels if sizes else int(indices.max(initial=-1)) + 1
    indptr = np.concatenate(([0], np.cumsum(counts)))
    # Labels come sorted within a row.
    repeated = np.diff(numbers) == 0
    repeated[indptr[1:-1][(indptr[1:-1] > 0) & (indptr[1:-1] < len(numbers))] - 1] = False
    if (indices != numbers).any() or (indices >= L).any() or repeated.any():
        _refuse(path, rows, sizes, first_line, "the labels do not fit")
    if unobserved is None and n * L > MAX_ENTRIES:
        raise DataFileError(
            f"{path} has {n} rows and {L} labels. To hold every absent label as a no takes {n * L} entries; "
            "if that is meant, say unobserved='negative' (--unobserved negative); 'unlabelled' keeps the "
            "listed labels alone."
        )
    ones = sp.csr_array((np.ones(len(indices), dtype=np.int8), indices, indptr), shape=(n, L))
    return ObservedLabels.from_sparse(ones, unobserved or "negative")


def _refuse(
    path: PathLike, rows: list[bytes], sizes: _Sizes | None, first_line: int, otherwise: str
) -> NoReturn:
    """Raise for the first line that is not of the format, or with ``otherwise`` if all of them are."""
    for line, row in enumerate(rows, start=first_line):
        wrong = _fault(row.split(), sizes)
        if wrong:
            raise DataFileError(
                f"{path}, line {line}: {wrong} A line is 'label,label feature:value feature:value', numbers "
                "from 0, features ascending; a line without labels begins with a space."
            )
    raise DataFileError(f"{path} cannot be read: {otherwise}.")


def _fault(parts: list[bytes], sizes: _Sizes | None) -> str | None:
    if parts and b":" not in parts[0]:
        labels = parts.pop(0)
        if not _LABELS.fullmatch(labels):
            return f"{shortened(labels)} are no labels."
        numbers = [_number(label) for label in labels.split(b",")]
        known = [number for number in numbers if number is not None]
        if len(known) < len(numbers):
            return f"{shortened(labels)} has a label beyond {MAX_NUMBER}."
        if len(set(known)) < len(known):
            return f"{shortened(labels)} has a label twice."
        if sizes and max(known) >= sizes.labels:
            return f"the label {max(known)} is beyond the {sizes.labels} labels of the header."
    previous = -1
    for part in parts:
        feature = _FEATURE.fullmatch(part)
        if not feature:
            return f"{shortened(part)} is no feature."
        number = _number(feature[1])
        if number is None:
            return f"{shortened(part)} is a feature beyond {MAX_NUMBER}."
        if not math.isfinite(float(part.partition(b":")[2])):
            return f"{shortened(part)} is not finite."
        if number <= previous:
            return f"the feature {number} comes after {previous}."
        if sizes and number >= sizes.features:
            return f"the feature {number} is beyond the {sizes.features} features of the header."
        previous = number
    return None
