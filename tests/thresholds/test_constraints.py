"""The best threshold within bounds on other metrics, against every cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelgap import best_threshold
from labelgap.exceptions import InfeasibleConstraintError, InvalidParameterError, UnknownNameError
from labelgap.labels import ObservedLabels
from labelgap.metrics import get_metric
from labelgap.thresholds import Constraint
from labelgap.thresholds.constraints import read_constraints
from oracles_thresholds import every_cut, random_problem

BOUNDED = ["micro-recall", "macro-precision", "instance-f1", "micro-specificity"]


@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, 10_000),
    st.sampled_from(["micro-f1", "macro-f1", "instance-jaccard", "micro-balanced-accuracy"]),
    st.lists(
        st.tuples(st.sampled_from(BOUNDED), st.sampled_from([">=", "<="]), st.sampled_from([0.2, 0.5, 0.8])),
        min_size=1,
        max_size=2,
    ),
)
def test_equals_every_cut(seed, name, bounds):
    scores, labels, weights = random_problem(np.random.default_rng(seed))
    known = ObservedLabels.from_dense(labels)
    known = known if weights is None else known.with_weights(weights)
    entry_scores = known.align(scores)
    metric = get_metric(name)

    def allowed(decided: np.ndarray) -> bool:
        values = [(get_metric(one)(known, decided), sign, bound) for one, sign, bound in bounds]
        return all(
            value >= bound - 1e-9 if sign == ">=" else value <= bound + 1e-9 for value, sign, bound in values
        )

    cuts = every_cut(entry_scores, lambda included: float(metric(known, np.array(included))))
    left = [cut for cut in cuts if allowed(np.array(cut.included))]
    subject_to = [Constraint(one, sign, bound) for one, sign, bound in bounds]
    if not left:
        with pytest.raises(InfeasibleConstraintError, match="No threshold gives"):
            best_threshold(scores, known, metric, subject_to=subject_to)
        return
    found = best_threshold(scores, known, metric, subject_to=subject_to, return_curve=True)
    decided = entry_scores >= found.threshold
    assert found.value == pytest.approx(max(cut.value for cut in left), abs=1e-10)
    assert metric(known, decided) == pytest.approx(found.value, abs=1e-10)
    assert allowed(decided)
    assert len(found.curve.values) == len(cuts)


def test_the_fewest_positives_among_equals():
    scores, labels = np.array([[0.9], [0.5], [0.1]]), np.array([[1], [0], [0]])
    found = best_threshold(scores, labels, "micro-recall", subject_to="precision >= 0.3")
    assert found.threshold == 0.7


def test_texts_are_bounds_or_refused():
    for text, expected in [
        ("recall >= 0.9", ["micro-recall >= 0.9"]),
        ("micro-precision>=.8 and macro_recall ≥ 0.5", ["micro-precision >= 0.8", "macro-recall >= 0.5"]),
        (["f1 >= 0.1", "instance-f2 <= 1"], ["micro-f1 >= 0.1", "instance-f2 <= 1"]),
        (None, []),
    ]:
        assert [str(one) for one in read_constraints(text)] == expected
    (one,) = read_constraints("macro: tp/(tp+fp) >= 0.5")
    assert one.metric == get_metric("macro-precision")
    for bad in ("recall", "recall > 0.9", ">= 0.5", "recall >= much", 3, [3], "recall >= nan"):
        with pytest.raises(InvalidParameterError, match=r"constraint|subject_to"):
            read_constraints(bad)
    with pytest.raises(UnknownNameError, match="'recal'"):
        read_constraints("recal >= 0.5")


def test_the_error_says_what_can_be_reached():
    scores, labels = np.array([[0.9], [0.8], [0.1]]), np.array([[0], [1], [0]])
    for bounds, message, threshold, shortfall in [
        ("precision >= 0.9", r"precision >= 0\.9 .*highest .* 0\.5, at .* 0\.45", 0.45, 0.4),
        ("f1 <= -0.5", r"f1 <= -0\.5 .*lowest .* 0, at a threshold of inf", np.inf, 0.5),
        ("recall >= 1, specificity >= 0.9", r"together .* alone.*recall 1, .*specificity 0\.5", 0.45, 0.4),
    ]:
        with pytest.raises(InfeasibleConstraintError, match=message) as caught:
            best_threshold(scores, labels, subject_to=bounds)
        assert caught.value.threshold == pytest.approx(threshold)
        assert caught.value.shortfall == pytest.approx(shortfall)
