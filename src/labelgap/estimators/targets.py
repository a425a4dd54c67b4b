"""What an estimator is given as y, turned into observed labels, and decisions turned back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from labelgap.exceptions import InvalidLabelsError
from labelgap.labels import ObservedLabels
from labelgap.labels.sources import observed_mask


@dataclass(frozen=True)
class Targets:
    """Labels with the form in which they came."""

    labels: ObservedLabels
    classes: NDArray[Any]
    """``[0, 1]``, or for a 1-d y its two values."""
    single: bool
    """A 1-d y: one label, answered by 1-d decisions in the user's own two values."""
    sparse: bool
    """Labels in a sparse form: decisions are answered in one too."""


def read_targets(y: Any, unobserved: str) -> Targets:
    """Read any form of y; a 1-d y may hold any two values, and NaN or None where not observed."""
    if y is None:
        raise InvalidLabelsError(
            "This estimator requires y to be passed, but the target y is None. "
            "Pass the label matrix, with NaN for labels that are not observed."
        )
    if _is_one_dimensional(y):
        values, missing = _one_dimensional(y)
        known = values[~missing]
        # Where silence has a meaning of its own, the yes alone may be given.
        likes_alone = unobserved != "missing" and len(known) > 0 and bool(np.all(known == 1))
        classes = np.array([0, 1]) if likes_alone else _two_classes(known)
        labels = ObservedLabels.from_any(_encode(values, missing, classes), unobserved=unobserved)
        return Targets(labels, classes, single=True, sparse=False)
    labels = ObservedLabels.from_any(y, unobserved=unobserved)
    is_sparse = sp.issparse(y) or isinstance(y, ObservedLabels)
    return Targets(labels, np.array([0, 1]), single=False, sparse=is_sparse)


def read_labels_like(y: Any, targets_single: bool, classes: NDArray[Any], unobserved: str) -> ObservedLabels:
    """Labels to be judged against, in the form that the estimator was fitted with."""
    if targets_single and _is_one_dimensional(y):
        values, missing = _one_dimensional(y)
        unknown = ~missing & ~np.isin(values, classes)
        if unknown.any():
            row = int(np.argmax(unknown))
            # As plain Python values, which print without numpy's type names.
            value, (no, yes) = values[row : row + 1].tolist()[0], classes.tolist()
            raise InvalidLabelsError(
                f"y holds {value!r} at row {row}; the estimator was fitted to the classes {no!r} and {yes!r}."
            )
        return _encode(values, missing, classes)
    return ObservedLabels.from_any(y, unobserved=unobserved)


def _is_one_dimensional(y: Any) -> bool:
    if isinstance(y, ObservedLabels) or sp.issparse(y):
        return False
    try:
        return np.ndim(y) == 1
    except ValueError:  # Rows of several lengths: the reader of matrices says so.
        return False


def _two_classes(values: NDArray[Any]) -> NDArray[Any]:
    """The two classes of a 1-d y, or an error that says what there is instead."""
    try:
        classes = np.unique(values)
    except TypeError as error:
        raise InvalidLabelsError(
            f"The values of a 1-d y cannot be compared with each other ({error}). Give two classes of one "
            "type, such as 0 and 1, and None or NaN where nothing is observed."
        ) from error
    if len(classes) == 2:
        # Numbers that None made into objects: decisions come back as numbers.
        plain = np.array(classes.tolist())
        return plain if plain.dtype.kind in "biuf" else classes
    advice = "Pass a label with both a yes and a no, or a 2-d matrix with one column per label."
    if len(classes) == 0:
        raise InvalidLabelsError(f"A 1-d y must hold two classes, but nothing is observed. {advice}")
    listed = ", ".join(repr(c) for c in classes[:5].tolist()) + (", ..." if len(classes) > 5 else "")
    count = "one class" if len(classes) == 1 else f"{len(classes)} classes"
    raise InvalidLabelsError(f"A 1-d y must hold two classes; got {count}: {listed}. {advice}")


def _one_dimensional(y: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Values and where they are missing; masked, None, NaN and pandas' NA all count as missing."""
    masked = np.ma.getmaskarray(y) if np.ma.isMaskedArray(y) else None
    values = column_or_1d(np.ma.getdata(y) if masked is not None else y, warn=False)
    missing = np.zeros(len(values), dtype=bool) if masked is None else masked
    if values.dtype.kind == "f":
        infinite = np.isinf(values) & ~missing
        if infinite.any():
            raise InvalidLabelsError(
                f"Input y contains infinity at row {int(np.argmax(infinite))}; "
                "use NaN for a label that is not observed."
            )
    return values, missing | ~observed_mask(values)


def _encode(values: NDArray[Any], missing: NDArray[np.bool_], classes: NDArray[Any]) -> ObservedLabels:
    rows = np.flatnonzero(~missing)
    return ObservedLabels.from_triplets(
        rows, np.zeros(len(rows), dtype=np.int64), values[rows] == classes[1], shape=(len(values), 1)
    )
