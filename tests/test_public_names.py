"""The public names: a sorted list, each with a docstring that shows how to use it."""

from __future__ import annotations

import doctest

import pytest

import labelgap

EXPECTED = [
    "LinearFractional",
    "LowRankClassifier",
    "LowRankRegressor",
    "MetricThreshold",
    "ObservedLabels",
    "PlugInClassifier",
    "Recommender",
    "best_threshold",
    "estimate_flip_rate",
    "get_metric",
    "load",
    "sensitivity",
]


def test_the_list_is_sorted_and_as_expected() -> None:
    assert labelgap.__all__ == sorted(labelgap.__all__)
    assert labelgap.__all__ == EXPECTED


@pytest.mark.parametrize("name", EXPECTED)
def test_every_name_is_documented_with_an_example(name: str) -> None:
    docstring = getattr(labelgap, name).__doc__
    assert docstring
    assert docstring.splitlines()[0].strip(), "the first line says what it is"
    assert doctest.DocTestParser().get_examples(docstring), "there is no example"


def test_the_version_is_that_of_the_distribution() -> None:
    from importlib.metadata import version

    assert labelgap.__version__ == version("labelgap")
