"""Precision, recall and nDCG at k."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import ndcg_score

from labelgap.exceptions import (
    InvalidInputError,
    InvalidLabelsError,
    InvalidParameterError,
    InvalidScoresError,
)
from labelgap.labels import ObservedLabels
from labelgap.metrics import ndcg_at_k, precision_at_k, recall_at_k
from oracles_metrics import random_labels, slow_ranking

RANKINGS: dict[str, Callable[..., float]] = {
    "precision": precision_at_k,
    "recall": recall_at_k,
    "ndcg": ndcg_at_k,
}


@settings(deadline=None)
@given(
    st.sampled_from(sorted(RANKINGS)),
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(1, 8),
    st.integers(0, 10**6),
)
def test_equal_to_a_slow_loop(kind: str, n: int, L: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    Y = random_labels(rng, n, L, observed=rng.random(), positive=rng.random())
    # Few distinct scores, so that ties are common.
    scores = rng.integers(-2, 3, (n, L))
    expected = slow_ranking(kind, scores, Y, k)
    labels = ObservedLabels.from_dense(Y)
    ranking = RANKINGS[kind]
    assert ranking(scores, labels, k) == pytest.approx(expected, abs=1e-12, nan_ok=True)
    for form in (labels.align(scores), sparse.csr_array(scores), np.where(np.isnan(Y), np.nan, scores)):
        assert ranking(form, labels, k) == pytest.approx(expected, abs=1e-12, nan_ok=True)
    rows = rng.permutation(n)
    assert ranking(scores[rows], labels[rows], k) == pytest.approx(expected, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("k", [1, 3, 8, 20])
def test_full_labels_match_scikit_learn_and_the_textbook(k: int) -> None:
    rng = np.random.default_rng(k)
    Y = (rng.random((30, 8)) < 0.3).astype(int)
    Y[Y.sum(axis=1) == 0, 0] = 1
    scores = rng.normal(size=Y.shape)
    assert ndcg_at_k(scores, Y, k) == pytest.approx(ndcg_score(Y, scores, k=k), abs=1e-12)
    top = np.argsort(-scores, axis=1)[:, :k]
    hits = np.take_along_axis(Y, top, axis=1).sum(axis=1)
    assert precision_at_k(scores, Y, k) == pytest.approx(np.mean(hits / min(k, 8)), abs=1e-12)
    assert recall_at_k(scores, Y, k) == pytest.approx(np.mean(hits / Y.sum(axis=1)), abs=1e-12)


def test_refusals() -> None:
    labels = ObservedLabels.from_dense([[1, 0], [np.nan, 1]])
    for ranking in RANKINGS.values():
        for k in (0, -1, 1.5, True):
            with pytest.raises(InvalidParameterError, match="k must be an integer of at least 1"):
                ranking(np.zeros((2, 2)), labels, k)
        with pytest.raises(InvalidScoresError, match="row 1, column 1 is NaN"):
            ranking([[1, 2], [3, np.nan]], labels, 1)
        with pytest.raises(InvalidInputError, match=r"scores have shape \(1, 2\)"):
            ranking([[1, 2]], labels, 1)
        with pytest.raises(InvalidLabelsError, match="needs known negatives"):
            ranking(np.zeros((2, 2)), ObservedLabels.from_any(np.eye(2), unobserved="unlabelled"), 1)
        with pytest.raises(InvalidLabelsError, match="No label is observed"):
            ranking([[0.0]], [[np.nan]], 1)
