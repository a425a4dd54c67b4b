"""Conformal cuts against their definition, and the coverage that it implies."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelgap import ObservedLabels
from labelgap.confidence.conformal import ConformalScores, SetCuts, check_coverage, sets_of
from labelgap.exceptions import InvalidParameterError, UnknownNameError
from refusals import assert_refused

COVERAGES = st.sampled_from([Fraction(1, 2), Fraction(3, 4), Fraction(9, 10), Fraction(95, 100)])
# Few values, so that there are ties.
SCORES = st.lists(st.integers(-6, 6), min_size=1, max_size=30)


def labels_of(values: Any, weights: Any = None) -> ObservedLabels:
    labels = ObservedLabels.from_dense(np.asarray(values, dtype=float)[:, None])
    return labels if weights is None else labels.with_weights(np.asarray(weights, dtype=float))


def cut_by_definition(strange: list[float], weights: list[int], coverage: Fraction) -> float:
    """The smallest q with Σ_{s_i ≤ q} w_i ≥ coverage (Σ w + max w), by trying all of them."""
    target = coverage * (sum(weights) + max(weights))
    for q in sorted(strange):
        if sum(w for s, w in zip(strange, weights, strict=True) if s <= q) >= target:
            return q
    return float("inf")


@given(yes=SCORES, no=SCORES, coverage=COVERAGES, data=st.data())
def test_cuts_are_those_of_the_definition(yes: Any, no: Any, coverage: Fraction, data: Any) -> None:
    count = len(yes) + len(no)
    weights = data.draw(st.lists(st.integers(1, 4), min_size=count, max_size=count))
    labels = labels_of([1] * len(yes) + [0] * len(no), weights)
    held_out = ConformalScores.of(np.array([*yes, *no], dtype=float), labels)
    of_yes, of_no = weights[: len(yes)], weights[len(yes) :]
    expected = SetCuts(
        -cut_by_definition([-z for z in yes], of_yes, coverage), cut_by_definition(no, of_no, coverage)
    )
    assert held_out.cuts(float(coverage), "class", 0.0) == expected
    strange = cut_by_definition([1 - z for z in yes] + [z - 1 for z in no], weights, coverage)
    assert held_out.cuts(float(coverage), "entries", 1.0) == SetCuts(1 - strange, 1 + strange)


@given(scores=st.lists(st.integers(-6, 6), min_size=2, max_size=30), coverage=COVERAGES)
def test_each_of_n_plus_one_entries_is_covered_often_enough(scores: Any, coverage: Fraction) -> None:
    # This is why exchangeable entries are covered: each is as likely as any other to be the new one.
    z = np.array(scores, dtype=float)
    covered = 0
    for new in range(len(z)):
        others = np.delete(z, new)
        held_out = ConformalScores.of(others, labels_of(np.ones(len(others))))
        covered += bool(z[new] >= held_out.cuts(float(coverage), "class", 0.0).yes_from)
    assert Fraction(covered, len(z)) >= coverage


@given(scores=SCORES, cuts=st.tuples(st.integers(-6, 6), st.integers(-6, 6)), threshold=st.integers(-6, 6))
def test_sets_by_definition(scores: Any, cuts: Any, threshold: int) -> None:
    found = sets_of(np.array(scores, dtype=float), SetCuts(*map(float, cuts)), threshold)
    yes_from, no_up_to = cuts
    for z, one in zip(scores, found, strict=True):
        held = {value for value, there in ((1, z >= yes_from), (0, z <= no_up_to)) if there}
        if held == {0, 1}:
            assert np.isnan(one)
        else:
            assert one == (held.pop() if held else int(z >= threshold))


def test_too_few_entries_for_the_coverage() -> None:
    held_out = ConformalScores.of(np.arange(12.0), labels_of([1] * 8 + [0] * 4))
    assert held_out.cuts(0.9, "class", 0.0) == SetCuts(-np.inf, np.inf)
    assert held_out.cuts(0.99, "entries", 0.0) == SetCuts(-np.inf, np.inf)
    needed, there = held_out.fewest_needed(0.9)
    assert needed == pytest.approx(9)
    assert there == {"yes": 8.0, "no": 4.0}
    # Exactly as many as are needed.
    held_out = ConformalScores.of(np.arange(18.0), labels_of([1] * 9 + [0] * 9))
    assert held_out.cuts(0.9, "class", 0.0) == SetCuts(0.0, 17.0)
    # A class without entries is in every set.
    held_out = ConformalScores.of(np.arange(20.0), labels_of(np.ones(20)))
    assert held_out.cuts(0.5, "class", 0.0).no_up_to == np.inf


@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.999])
def test_many_scores_are_thinned_on_the_safe_side(coverage: float) -> None:
    rng = np.random.RandomState(0)
    scores, values = rng.standard_normal(20_000), rng.uniform(size=20_000) < 0.3
    thinned = ConformalScores.of(scores, labels_of(values))
    assert len(thinned.no_scores) < 6000

    def exact(strange: Any) -> float:
        """The smallest q with at least coverage · (n + 1) scores up to it."""
        return float(np.sort(strange)[int(np.ceil(coverage * (len(strange) + 1))) - 1])

    of_all = exact(np.where(values, 0.1 - scores, scores - 0.1))
    for guarantee, cuts in {
        "class": SetCuts(-exact(-scores[values]), exact(scores[~values])),
        "entries": SetCuts(0.1 - of_all, 0.1 + of_all),
    }.items():
        yes_from, no_up_to = thinned.cuts(coverage, guarantee, 0.1)
        assert yes_from <= cuts.yes_from + 1e-12, guarantee
        assert no_up_to >= cuts.no_up_to - 1e-12, guarantee
        assert abs(np.mean(scores < yes_from) - np.mean(scores < cuts.yes_from)) < 1e-3
        assert abs(np.mean(scores > no_up_to) - np.mean(scores > cuts.no_up_to)) < 1e-3


def test_what_cannot_be_is_refused() -> None:
    for bad in (0, 1, -0.1, 1.1, float("nan"), "0.9", None, True):
        assert_refused(partial(check_coverage, bad), "coverage must be", InvalidParameterError, bad)
    good = ConformalScores.of(np.zeros(2), labels_of([0, 1]))
    with pytest.raises(UnknownNameError, match="guarantee"):
        good.cuts(0.9, "label", 0.0)
    parts = {name: getattr(good, name) for name in ConformalScores.__dataclass_fields__}
    for change in ({"yes_scores": np.zeros(3)}, {"no_at_most": np.zeros((1, 1))}, {"yes_heaviest": np.nan}):
        with pytest.raises(ValueError, match="do not fit together"):
            ConformalScores(**{**parts, **change})
