"""Figures of lists of n items against brute force and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score

from labelgap.exceptions import InvalidInputError, InvalidParameterError
from labelgap.metrics import RankingFigures, ranking_figures


def by_lists(liked: list[np.ndarray], n: int) -> dict[str, float]:
    """The figures from each user's whole ranking, a vector with 1 where the item is liked, best first."""
    rows = [row for row in liked if row.any()]
    precision, recall, ndcg, average, hit, auc = [], [], [], [], [], []
    for row in rows:
        shown = row[:n]
        precision.append(shown.sum() / len(shown))
        recall.append(shown.sum() / row.sum())
        discount = [1 / np.log2(place + 2) for place in range(len(row))]
        best = sum(discount[: min(n, int(row.sum()))])
        ndcg.append(sum(d for d, one in zip(discount, shown, strict=False) if one) / best)
        at_hits = [row[: place + 1].mean() for place in range(len(shown)) if row[place]]
        average.append(sum(at_hits) / min(n, int(row.sum())))
        hit.append(float(shown.any()))
        pairs = [(a, b) for a in np.flatnonzero(row) for b in np.flatnonzero(row == 0)]
        if pairs:
            auc.append(np.mean([a < b for a, b in pairs]))
    names = ("precision", "recall", "ndcg", "map", "hit_rate", "auc")
    figures = (precision, recall, ndcg, average, hit, auc)
    return {
        name: float(np.mean(values)) if values else float("nan")
        for name, values in zip(names, figures, strict=True)
    }


def from_lists(liked: list[np.ndarray], n: int) -> RankingFigures:
    ranks = [np.flatnonzero(row)[::-1] + 1 for row in liked]  # The order within a user does not matter.
    indptr = np.concatenate([[0], np.cumsum([len(some) for some in ranks])])
    return ranking_figures(np.concatenate([*ranks, []]), indptr, [len(row) for row in liked], n)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=12), min_size=1, max_size=6), st.integers(1, 14))
def test_figures_are_those_of_the_lists(rows: list[list[bool]], n: int) -> None:
    liked = [np.array(row, dtype=int) for row in rows]
    found, wanted = from_lists(liked, n)._asdict(), by_lists(liked, n)
    for name, value in wanted.items():
        assert found[name] == pytest.approx(value, nan_ok=True), name


@pytest.mark.parametrize("n", [1, 5, 30])
def test_scikit_learn_agrees(n: int) -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(40, 30))
    truth = rng.uniform(size=scores.shape) < 0.2
    truth[:, 0], truth[:, 1] = True, False
    order = np.argsort(-scores, axis=1)
    figures = from_lists([row[places] for row, places in zip(truth, order, strict=True)], n)
    assert figures.ndcg == pytest.approx(ndcg_score(truth, scores, k=n))
    assert figures.auc == pytest.approx(roc_auc_score(truth, scores, average="samples"))
    if n == 30:
        expected = [average_precision_score(*row) for row in zip(truth, scores, strict=True)]
        assert figures.map == pytest.approx(np.mean(expected))
        assert figures.recall == figures.hit_rate == 1.0


def test_without_likes_there_is_nothing_to_say() -> None:
    figures = ranking_figures([], [0, 0], [5], n=3)
    assert all(np.isnan(value) for value in figures)


@pytest.mark.parametrize(
    ("ranks", "indptr", "candidates", "words"),
    [
        ([0], [0, 1], [5], "The rank 0 of user 0"),
        ([6], [0, 1], [5], "between 1 and the number of candidates, 5"),
        ([1], [0, 2], [5], "they must agree"),
        ([1], [0, 1], [5, 5], "they must agree"),
    ],
)
def test_ranks_must_fit(ranks: list[int], indptr: list[int], candidates: list[int], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        ranking_figures(ranks, indptr, candidates, n=2)


@pytest.mark.parametrize("n", [0, 1.5, True])
def test_n_is_a_count(n: object) -> None:
    with pytest.raises(InvalidParameterError, match="n must be a whole number"):
        ranking_figures([1], [0, 1], [5], n=n)  # type: ignore[arg-type]
