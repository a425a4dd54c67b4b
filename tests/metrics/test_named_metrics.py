"""Metrics by name."""

from __future__ import annotations

import numpy as np
import pytest

from labelgap.exceptions import InvalidParameterError, UnknownNameError
from labelgap.metrics import LinearFractional, get_metric, metric_names


@pytest.mark.parametrize("name", metric_names())
def test_every_name_makes_a_metric(name: str) -> None:
    metric = get_metric(name, beta=3) if name.endswith("fbeta") else get_metric(name)
    assert metric.average == name.partition("-")[0]
    assert metric.balanced == ("balanced" in name)
    assert metric.name == name.replace("fbeta", "f3")
    # A perfect decision on labels of both classes has the value 1, its opposite 0.
    Y = np.array([[1, 0], [0, 1]])
    assert metric(Y, Y) == 1.0
    assert metric(1 - Y, Y) == 0.0
    assert get_metric(metric) is metric


def test_names_are_sorted_and_cover_averages() -> None:
    names = metric_names()
    assert list(names) == sorted(names)
    assert len(names) == len(set(names)) == 3 * 2 * 9


def test_spellings() -> None:
    assert get_metric("samples-f1") == get_metric("instance-f1")
    assert get_metric("samples-f1").name == "instance-f1"
    assert get_metric("Macro_Jaccard") == get_metric("macro-jaccard")
    assert get_metric("micro-f0.5") == get_metric("micro-fbeta", beta=0.5)
    assert get_metric("micro-f1.0") == get_metric("micro-f1")
    assert get_metric("macro-balanced-f2") == get_metric("macro-balanced-fbeta", beta=2)
    assert get_metric("micro-hamming") == get_metric("micro-accuracy")


def test_cost_accuracy() -> None:
    metric = get_metric("micro-cost-accuracy", false_positive_cost=1, false_negative_cost=4)
    assert metric.from_counts(tp=2, fp=1, fn=1, tn=6) == pytest.approx((4 * 2 + 6) / (4 * 3 + 7))
    assert get_metric("micro-cost-accuracy").from_counts(2, 1, 1, 6) == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("micro-f", "Unknown metric 'micro-f'"),
        ("mirco-f1", r"Did you mean 'micro-f1'\?"),
        ("macro-jacard", r"Did you mean 'macro-jaccard'\?"),
        ("f1", "does not say how to average; write one of micro-f1, instance-f1, macro-f1"),
        ("balanced-accuracy", "write one of micro-balanced-accuracy"),
        ("f2", "write one of micro-f2"),
        ("", "Unknown metric"),
        (None, "Unknown metric None"),
    ],
)
def test_unknown_names(name: str, message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        get_metric(name)


def test_parameters_are_checked() -> None:
    for beta in (0, -1, np.inf, np.nan, True, "2"):
        with pytest.raises(InvalidParameterError, match="beta must be a finite number above 0"):
            get_metric("micro-fbeta", beta=beta)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="beta must be a finite number above 0, not 0"):
        get_metric("micro-f0")
    with pytest.raises(InvalidParameterError, match=r"needs beta=.*macro-f2"):
        get_metric("macro-fbeta")
    with pytest.raises(InvalidParameterError, match="false_negative_cost must be a finite number above 0"):
        get_metric("micro-cost-accuracy", false_negative_cost=0)
    with pytest.raises(
        InvalidParameterError, match="'micro-f1' has no parameter 'beta'; it takes zero_division"
    ):
        get_metric("micro-f1", beta=2)
    with pytest.raises(InvalidParameterError, match="'micro-f2' has no parameter 'beta'"):
        get_metric("micro-f2", beta=2)
    with pytest.raises(InvalidParameterError, match="it takes beta, zero_division"):
        get_metric("micro-fbeta", betta=2)
    with pytest.raises(InvalidParameterError, match="complete already"):
        get_metric(LinearFractional({"tp": 1}, {"const": 1}), beta=2)
