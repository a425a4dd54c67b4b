"""Checks that what was fitted fits together: whole numbers are whole, and agree with the arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

LARGEST_COUNT = 2**53
"""Up to here every whole number is a float64 of its own; nothing that is counted comes near."""
_COUNTS = re.compile(r"_?n_\w+|rank_")
# Sums of weights, where rows have weights.
_WEIGHTED = ("n_samples_seen_",)
# What a letter of a shape stands for where the attribute is there; other letters are what they are first.
_LENGTHS = {"n": "n_features_in_", "k": "n_components_"}
_SPECTRUM = dict.fromkeys(("explained_variance_", "explained_variance_ratio_", "singular_values_"), "k")
_SHAPES: dict[str, dict[str, str]] = {
    "LogisticRegression": {"coef_": "rn", "intercept_": "r"},
    "MaxAbsScaler": {"scale_": "n", "max_abs_": "n"},
    "MinMaxScaler": dict.fromkeys(("min_", "scale_", "data_min_", "data_max_", "data_range_"), "n"),
    "Nystroem": {"components_": "mn", "normalization_": "mm", "component_indices_": "m"},
    "PCA": {"components_": "kn", "mean_": "n", **_SPECTRUM},
    "RobustScaler": {"center_": "n", "scale_": "n"},
    "SimpleImputer": {"statistics_": "n"},
    "StandardScaler": {"mean_": "n", "var_": "n", "scale_": "n"},
    "TruncatedSVD": {"components_": "kn", **_SPECTRUM},
    "TfidfTransformer": {"idf_": "n"},
    "VarianceThreshold": {"variances_": "n"},
}
"""The shapes of fitted arrays of scikit-learn's classes, a letter for each length."""
_SWITCHES = {
    "RobustScaler": {"center_": "with_centering", "scale_": "with_scaling"},
    "StandardScaler": {"mean_": "with_mean", "var_": "with_std", "scale_": "with_std"},
}
"""The parameters without which such an array may be None."""
_LISTS = {"OneHotEncoder": ("categories_", "_n_features_outs")}
"""Lists with a value for each feature."""
_TYPES_OF_NUMBERS = re.compile(r"_\w+_dtype")


def is_count(value: Any) -> bool:
    """Whether it is a whole number of at least 0 that can be a number of things.

    Examples
    --------
    >>> is_count(3), is_count(True), is_count(3.0), is_count(10**30)
    (True, False, False, False)
    """
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and 0 <= int(value) <= LARGEST_COUNT


def check_counts(attributes: Mapping[str, Any]) -> None:
    """Raise ValueError where an attribute that counts something, such as ``n_iter_``, holds anything else.

    Examples
    --------
    >>> check_counts({"n_iter_": np.array([7]), "n_features_in_": 2.5})
    Traceback (most recent call last):
    ValueError: n_features_in_ is 2.5; a whole number was expected
    """
    for name, value in attributes.items():
        if not _COUNTS.fullmatch(name):
            continue
        several: Iterable[Any] = value if isinstance(value, list) else np.ravel(np.asarray(value)).tolist()
        good = _is_weight if name in _WEIGHTED else is_count
        if not all(map(good, several)):
            found = value if isinstance(value, bool | int | float) else type(value).__name__
            raise ValueError(f"{name} is {found}; a whole number was expected")


def _is_weight(value: Any) -> bool:
    return is_count(value) or (isinstance(value, float) and 0 <= value <= LARGEST_COUNT)


def is_float(value: Any) -> bool:
    """Whether it is an array of the types in which a fit computes; float16 and others are not computed "
    "with."""
    return isinstance(value, np.ndarray) and value.dtype in (np.float32, np.float64)


def check_agreement(cls: str, fitted: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
    """Raise ValueError where fitted attributes of a class of scikit-learn's do not fit together.

    Examples
    --------
    >>> check_agreement("StandardScaler", {"n_features_in_": 3, "mean_": np.zeros(2)}, {})
    Traceback (most recent call last):
    ValueError: mean_ of a StandardScaler has the shape (2,); numbers of shape (3,) were expected
    """
    check_counts(fitted)
    lengths = {letter: int(fitted[name]) for letter, name in _LENGTHS.items() if name in fitted}
    for name, letters in _SHAPES.get(cls, {}).items():
        if name not in fitted:
            continue
        array = fitted[name]
        if array is None and not parameters.get(_SWITCHES.get(cls, {}).get(name, ""), True):
            continue
        shape = getattr(array, "shape", None)
        if type(shape) is not tuple or len(shape) != len(letters):
            raise ValueError(f"{name} of a {cls} is no array of {len(letters)} dimensions")
        expected = tuple(
            lengths.setdefault(letter, length) for letter, length in zip(letters, shape, strict=True)
        )
        if shape != expected:
            raise ValueError(
                f"{name} of a {cls} has the shape {shape}; numbers of shape {expected} were expected"
            )
        # What fills gaps in texts is no number.
        if array.dtype.kind not in "biuf" and cls != "SimpleImputer":
            raise ValueError(f"{name} of a {cls} holds {array.dtype}; numbers were expected")
    for name, value in fitted.items():
        if _TYPES_OF_NUMBERS.fullmatch(name) and not isinstance(value, np.dtype):
            raise ValueError(f"{name} of a {cls} is no type of an array")
    for name in _LISTS.get(cls, ()):
        if name in fitted and (type(fitted[name]) is not list or len(fitted[name]) != lengths.get("n")):
            raise ValueError(f"{name} of a {cls} does not have one value for each feature")
    for values in fitted.get("categories_", ()) if cls in _LISTS else ():
        if not isinstance(values, np.ndarray) or values.ndim != 1:
            raise ValueError(f"categories_ of a {cls} does not hold an array for each feature")
