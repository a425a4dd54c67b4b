"""``suggest`` of the estimators: against the parts by hand, known entries, budgets, blocks and names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression

from labelgap import LowRankClassifier, MetricThreshold, ObservedLabels, PlugInClassifier, load
from labelgap.asking.gains import entry_gains
from labelgap.asking.spreading import choose_spread
from labelgap.data import make_low_rank_labels
from labelgap.estimators import base, suggesting
from labelgap.exceptions import InvalidLabelsError, InvalidMetricError
from labelgap.metrics import LinearFractional

PROBLEM = make_low_rank_labels(n=40, n_labels=6, n_features=5, rank=2, observed=0.5, random_state=0)
X, Y = PROBLEM.X, PROBLEM.Y_observed
KNOWN = ~np.isnan(Y)


def low_rank(metric: Any = "micro-f1", **changes: Any) -> LowRankClassifier:
    settings: dict[str, Any] = {
        "trace_penalty": 0.02,
        "ridge_penalty": 0.0,
        "intercept_penalty": 0.0,
        "threshold": "train",
        "features": "linear",
        "label_weighting": 0.0,
    }
    return LowRankClassifier(metric=metric, **(settings | changes)).fit(X, Y)


MODEL = low_rank()


def by_hand(model: Any, n: int, per_row: int | None, factors: np.ndarray | None) -> Any:
    """The same from the whole n x L matrices."""
    p = np.where(KNOWN, Y, model.predict_proba(X))
    yes = np.where(KNOWN, Y == 1, model.predict(X) == 1)
    groups = {"micro": 1, "macro": 6, "instance": 40}[model.metric_.average]
    gains = entry_gains(p, yes, model.metric_) / groups
    rows, labels = np.nonzero(~KNOWN)
    phi = np.ones((40, 1))
    if factors is not None:
        values, vectors = np.linalg.eigh(factors.T @ factors / 40)
        phi = np.column_stack([np.ones(40), factors @ vectors / np.sqrt(values)])
        phi /= np.sqrt(phi.shape[1])
    counts = KNOWN.sum(axis=0).astype(float)
    chosen, values = choose_spread(gains[rows, labels], rows, labels, phi[rows], counts[labels], n, per_row)
    return rows[chosen], labels[chosen], gains[rows, labels][chosen], values


@pytest.mark.parametrize("metric", ["micro-f1", "macro-f1", "instance-jaccard", "micro-balanced-accuracy"])
@pytest.mark.parametrize("per_row", [None, 3])
def test_suggestions_are_those_by_hand(metric: str, per_row: int | None) -> None:
    model = low_rank(metric)
    found = model.suggest(X, 20, Y, budget_per_row=per_row)
    rows, labels, gains, values = by_hand(model, 20, per_row, X @ model.coef_left_)
    assert_array_equal(found.rows, rows)
    assert_array_equal(found.labels, labels)
    assert_allclose(found.gain, gains)
    assert_allclose(found.value, values)
    assert_allclose(found.probability, model.predict_proba(X)[rows, labels])


def test_models_without_factors_count_the_entries_of_labels() -> None:
    for model in (
        PlugInClassifier(threshold="train").fit(X, Y),
        MetricThreshold(LogisticRegression(), threshold="train").fit(X, Y),
    ):
        found = model.suggest(X, 15, Y)
        rows, labels, _, values = by_hand(model, 15, None, None)
        assert_array_equal(found.rows, rows)
        assert_array_equal(found.labels, labels)
        assert_allclose(found.value, values)


def test_known_entries_are_left_out_and_the_rest_comes_once() -> None:
    found = MODEL.suggest(X, 10_000, Y)
    places = set(found)
    assert len(places) == len(found) == np.sum(~KNOWN)
    assert not KNOWN[found.rows, found.labels].any()
    assert np.all(np.diff(found.value) <= 1e-12)
    assert len(MODEL.suggest(X, 5, np.nan_to_num(Y))) == 0


@pytest.mark.parametrize("per_row", [1, 2])
def test_a_budget_per_row_is_kept_and_used(per_row: int) -> None:
    found = MODEL.suggest(X, 10_000, Y, budget_per_row=per_row)
    counts = np.bincount(found.rows, minlength=40)
    assert_array_equal(counts, np.minimum((~KNOWN).sum(axis=1), per_row))


def test_rows_in_another_order_are_the_same_entries() -> None:
    order = np.random.RandomState(1).permutation(40)
    found, other = MODEL.suggest(X, 30, Y), MODEL.suggest(X[order], 30, Y[order])
    assert_array_equal(order[other.rows], found.rows)
    assert_array_equal(other.labels, found.labels)
    assert_allclose(other.gain, found.gain)


@pytest.mark.parametrize("metric", ["micro-f1", "macro-f1", "instance-f1"])
def test_blocks_of_rows_change_nothing(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = low_rank(metric)
    whole = model.suggest(X, 20, Y, budget_per_row=2)
    monkeypatch.setattr(base, "_BLOCK_SCORES", 7 * 6)
    monkeypatch.setattr(suggesting, "_BLOCK_ENTRIES", 3 * 6)
    parts = model.suggest(X, 20, Y, budget_per_row=2)
    assert_array_equal(parts.rows, whole.rows)
    assert_array_equal(parts.labels, whole.labels)
    assert_allclose(parts.value, whole.value)


def test_a_copy_of_a_row_is_asked_about_later() -> None:
    # Every row twice: alone the gain would put each copy right after its row.
    twice = np.repeat(X, 2, axis=0)
    found = MODEL.suggest(twice, 12)
    by_gain = np.argsort(-found.gain, kind="stable")
    assert not np.array_equal(by_gain, np.arange(12))
    pairs = list(zip((found.rows // 2).tolist(), found.labels.tolist(), strict=True))
    assert pairs[0] != pairs[1]
    assert len(set(pairs)) > 6


@pytest.mark.parametrize(
    "form", [sp.csr_array, ObservedLabels.from_dense, pandas.DataFrame], ids=["sparse", "labels", "frame"]
)
def test_forms_of_known_labels(form: Any) -> None:
    complete_yes = np.where(Y == 1, 1.0, np.nan)
    wanted = MODEL.suggest(X, 10, complete_yes)
    given = np.nan_to_num(complete_yes) if form is sp.csr_array else complete_yes
    found = MODEL.suggest(X, 10, form(given))
    assert list(found) == list(wanted)


def test_names_and_frames() -> None:
    names = [f"tag {label}" for label in range(6)]
    index = [f"row {row}" for row in range(40)]
    frame, features = pandas.DataFrame(Y, columns=names, index=index), pandas.DataFrame(X, index=index)
    features.columns = [f"x{column}" for column in range(5)]
    model = PlugInClassifier(threshold="train").fit(features, frame)
    for found in (model.suggest(features, 4, frame), model.suggest(features, 4)):
        table = found.to_frame()
        assert table.columns.tolist() == ["row", "label", "probability", "gain", "value"]
        assert table["row"].tolist() == [f"row {row}" for row in found.rows]
        assert table["label"].tolist() == [f"tag {label}" for label in found.labels]
        assert found.names == list(zip(table["row"], table["label"], strict=True))
        assert str(found).splitlines()[0].startswith(f"row {found.names[0][0]}, label {found.names[0][1]} ")
        assert "<table>" in found._repr_html_()
    # Labels are matched by name.
    assert list(model.suggest(features, 4, frame[names[::-1]])) == list(model.suggest(features, 4, frame))


def test_one_label() -> None:
    y = np.where(PROBLEM.Y[:, 0] == 1, "yes", "no")
    model = PlugInClassifier(threshold="train").fit(X, y)
    found = model.suggest(X, 5)
    assert_array_equal(found.labels, np.zeros(5))
    assert_allclose(found.probability, model.predict_proba(X)[found.rows, 1])


def test_a_matrix_of_probabilities_and_sparse_features() -> None:
    p = MODEL.predict_proba(X)
    given = MetricThreshold().fit(p, Y)
    assert len(given.suggest(p, 5, Y)) == 5
    assert list(MODEL.suggest(sp.csr_array(X), 9, Y)) == list(MODEL.suggest(X, 9, Y))


def test_after_a_fit_to_recorded_positives() -> None:
    recorded = np.where(np.nan_to_num(Y) == 1, 1.0, 0.0)
    model = LowRankClassifier(
        unobserved="unlabelled", flip_rate=0.3, trace_penalty=0.02, threshold="train", features="linear"
    ).fit(X, recorded)
    found = model.suggest(X, 10, recorded)
    assert len(found) == 10
    assert not recorded[found.rows, found.labels].any()


def test_a_saved_model_suggests_the_same(tmp_path: Any) -> None:
    MODEL.save(tmp_path / "model.labelgap")
    assert list(load(tmp_path / "model.labelgap").suggest(X, 9, Y)) == list(MODEL.suggest(X, 9, Y))


def test_calibrated_probabilities_are_used() -> None:
    model = PlugInClassifier(calibration="sigmoid", random_state=0).fit(X, Y)
    found = model.suggest(X, 5, Y)
    assert_allclose(found.probability, model.predict_proba(X)[found.rows, found.labels])


def test_labels_of_other_rows_are_refused() -> None:
    with pytest.raises(InvalidLabelsError, match="40 rows of X"):
        MODEL.suggest(X, 5, Y[:-1])


def test_a_metric_that_rewards_errors_is_refused() -> None:
    contrary = LinearFractional({"fp": 1, "fn": 1}, {"const": 1})
    with pytest.raises(InvalidMetricError, match="wrong decision"):
        low_rank(contrary).suggest(X, 5)
