"""``suggest`` of the estimators: against the parts by hand, known entries, budgets, many rows and names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from labelgap import MetricThreshold, ObservedLabels, PlugInClassifier, load
from labelgap.asking.gains import entry_gains
from labelgap.asking.spreading import choose_spread
from labelgap.data import make_low_rank_labels
from labelgap.exceptions import InvalidLabelsError, InvalidMetricError
from labelgap.metrics import LinearFractional
from quick_estimators import ONE_FIT, PLAIN, cut, likes, low_rank, plug_in

PROBLEM = make_low_rank_labels(n=40, n_labels=6, n_features=5, rank=2, observed=0.5, random_state=0)
X, Y = PROBLEM.X, PROBLEM.Y_observed
KNOWN = ~np.isnan(Y)


def model_for(metric: Any) -> Any:
    return low_rank(metric=metric, trace_penalty=0.02, **PLAIN, **ONE_FIT).fit(X, Y)


@pytest.fixture(scope="module")
def model() -> Any:
    return model_for("micro-f1")


def assert_those_by_hand(model: Any, n: int, per_row: int | None, X: Any = X, Y: Any = Y) -> None:
    """The same from the whole n x L matrices."""
    found = model.suggest(X, n, Y, budget_per_row=per_row)
    known = ~np.isnan(Y)
    p = np.where(known, Y, model.predict_proba(X))
    yes = np.where(known, Y == 1, model.predict(X) == 1)
    groups = {"micro": 1, "macro": Y.shape[1], "instance": len(Y)}[model.metric_.average]
    gains = entry_gains(p, yes, model.metric_) / groups
    rows, labels = np.nonzero(~known)
    phi = np.ones((len(Y), 1))
    if hasattr(model, "coef_left_"):
        factors = X @ model.coef_left_
        values, vectors = np.linalg.eigh(factors.T @ factors / len(Y))
        phi = np.column_stack([phi, factors @ vectors / np.sqrt(values)])
        phi /= np.sqrt(phi.shape[1])
    counts = known.sum(axis=0).astype(float)
    chosen, values = choose_spread(gains[rows, labels], rows, labels, phi[rows], counts[labels], n, per_row)
    assert_array_equal(found.rows, rows[chosen])
    assert_array_equal(found.labels, labels[chosen])
    assert_allclose(found.gain, gains[rows, labels][chosen])
    assert_allclose(found.value, values)
    assert_allclose(found.probability, p[found.rows, found.labels])


@pytest.mark.parametrize("metric", ["micro-f1", "macro-f1", "instance-jaccard", "micro-balanced-accuracy"])
def test_suggestions_are_those_by_hand(metric: str) -> None:
    model = model_for(metric)
    for per_row in (None, 3):
        assert_those_by_hand(model, 20, per_row)
    # More rows than a block has, of which only the first and the last have gaps.
    many = np.tile(PROBLEM.Y, (3000, 1))
    many[:40], many[-40:] = Y, Y
    features = np.tile(X, (3000, 1)) + 1e-3 * np.random.RandomState(0).standard_normal((120_000, 5))
    assert_those_by_hand(model, 20, 2, features, many)


def test_models_without_factors_count_the_entries_of_labels() -> None:
    for model in (plug_in(**ONE_FIT), cut(**ONE_FIT), plug_in(calibration="sigmoid")):
        assert_those_by_hand(model.fit(X, Y), 15, None)


def test_known_entries_are_left_out_and_the_rest_comes_once(model: Any) -> None:
    found = model.suggest(X, 10_000, Y)
    assert len(set(found)) == len(found) == np.sum(~KNOWN)
    assert not KNOWN[found.rows, found.labels].any()
    assert np.all(np.diff(found.value) <= 1e-12)
    assert len(model.suggest(X, 5, np.nan_to_num(Y))) == 0
    for per_row in (1, 2):
        found = model.suggest(X, 10_000, Y, budget_per_row=per_row)
        counts = np.bincount(found.rows, minlength=40)
        assert_array_equal(counts, np.minimum((~KNOWN).sum(axis=1), per_row))


def test_rows_in_another_order_are_the_same_entries_and_copies_wait(model: Any) -> None:
    order = np.random.RandomState(1).permutation(40)
    found, other = model.suggest(X, 30, Y), model.suggest(X[order], 30, Y[order])
    assert_array_equal(order[other.rows], found.rows)
    assert_array_equal(other.labels, found.labels)
    assert_allclose(other.gain, found.gain)
    # Every row twice: alone the gain would put each copy right after its row.
    found = model.suggest(np.repeat(X, 2, axis=0), 12)
    assert not np.array_equal(np.argsort(-found.gain, kind="stable"), np.arange(12))
    pairs = list(zip((found.rows // 2).tolist(), found.labels.tolist(), strict=True))
    assert pairs[0] != pairs[1]
    assert len(set(pairs)) > 6


def test_forms_of_known_labels_and_of_features(model: Any, tmp_path: Any) -> None:
    complete_yes = np.where(Y == 1, 1.0, np.nan)
    wanted = list(model.suggest(X, 10, complete_yes))
    for form in (sp.csr_array, ObservedLabels.from_dense, pd.DataFrame):
        given = np.nan_to_num(complete_yes) if form is sp.csr_array else complete_yes
        assert list(model.suggest(X, 10, form(given))) == wanted
    assert list(model.suggest(sp.csr_array(X), 10, complete_yes)) == wanted
    model.save(tmp_path / "model.labelgap")
    assert list(load(tmp_path / "model.labelgap").suggest(X, 10, complete_yes)) == wanted
    p = model.predict_proba(X)
    assert len(MetricThreshold().fit(p, Y).suggest(p, 5, Y)) == 5
    y = np.where(PROBLEM.Y[:, 0] == 1, "yes", "no")
    one = PlugInClassifier(threshold="train").fit(X, y)
    found = one.suggest(X, 5)
    assert_array_equal(found.labels, np.zeros(5))
    assert_allclose(found.probability, one.predict_proba(X)[found.rows, 1])
    recorded = np.where(np.nan_to_num(Y) == 1, 1.0, 0.0)
    found = likes(trace_penalty=0.02, features="linear", **ONE_FIT).fit(X, recorded).suggest(X, 10, recorded)
    assert len(found) == 10
    assert not recorded[found.rows, found.labels].any()


def test_names_and_frames() -> None:
    names = [f"tag {label}" for label in range(6)]
    index = [f"row {row}" for row in range(40)]
    frame, features = pd.DataFrame(Y, columns=names, index=index), pd.DataFrame(X, index=index)
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


def test_what_cannot_be_asked_is_refused(model: Any) -> None:
    with pytest.raises(InvalidLabelsError, match="40 rows of X"):
        model.suggest(X, 5, Y[:-1])
    with pytest.raises(InvalidMetricError, match="wrong decision"):
        model_for(LinearFractional({"fp": 1, "fn": 1}, {"const": 1})).suggest(X, 5)
