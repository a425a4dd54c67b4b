"""What is held out is what will be predicted: rows, whole groups of rows where they are given, or entries."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labelgap import LowRankClassifier, LowRankRegressor, MetricThreshold, ObservedLabels, PlugInClassifier
from labelgap.exceptions import InvalidInputError, InvalidParameterError, LabelgapWarning, UnknownNameError
from labelgap.fitting import row_sample
from labelgap.thresholds.cross_fit import hold_out_plan

Data = tuple[np.ndarray, np.ndarray, np.ndarray]


def patients(first: int, n_groups: int, n_labels: int = 6, visits: int = 8) -> Data:
    """Rows of patients, each with traits of its own that say what its labels are; values, and whose they are.

    The traits tell patients apart, and nothing about other patients.
    """
    rng = np.random.default_rng(0)
    W = rng.standard_normal((5, n_labels))
    rows, values, groups = [], [], []
    for patient in range(first, first + n_groups):
        rng = np.random.default_rng(1000 + patient)
        trait, own = rng.standard_normal(80), 3.0 * rng.standard_normal(n_labels)
        signal = rng.standard_normal((visits, 5))
        rows.append(np.hstack([signal, np.tile(trait, (visits, 1))]))
        values.append(signal @ W + own + 0.5 * rng.standard_normal((visits, n_labels)))
        groups += [patient] * visits
    return np.vstack(rows), np.vstack(values), np.array(groups)


def with_gaps(Y: np.ndarray, known: float = 0.7) -> np.ndarray:
    return np.where(np.random.default_rng(3).random(Y.shape) < known, Y, np.nan)


MODELS: dict[str, Any] = {
    "low-rank": LowRankClassifier(features="linear", random_state=0),
    "threshold": MetricThreshold(LogisticRegression(), random_state=0),
}


@pytest.mark.parametrize("name", MODELS)
def test_with_groups_the_figure_is_about_new_groups(name: str) -> None:
    X, values, groups = patients(0, 40)
    X_new, new_values, _ = patients(500, 60)
    Y, Y_new = with_gaps((values > 0).astype(float)), (new_values > 0).astype(float)

    def promised(**options: Any) -> tuple[float, float]:
        model = sklearn.clone(MODELS[name]).fit(X, Y, **options)
        figure = model.held_out_metric_ if name == "low-rank" else model.best_score_
        return float(figure), float(model.score(X_new, Y_new))

    honest, there = promised(groups=groups)
    hopeful, _ = promised()
    assert honest == pytest.approx(there, abs=0.06)
    assert hopeful > there + 0.1


def test_a_plug_in_chooses_its_threshold_on_new_groups() -> None:
    X, values, groups = patients(0, 40)
    X_new, new_values, _ = patients(500, 60)
    Y, Y_new = with_gaps((values > 0).astype(float)), (new_values > 0).astype(float)
    model = PlugInClassifier(LogisticRegression(), random_state=0)
    by_group = model.fit(X, Y, groups=groups).score(X_new, Y_new)
    assert by_group > model.fit(X, Y).score(X_new, Y_new)


@pytest.mark.parametrize("weight", [3.0, "auto"])
def test_soft_labels_are_judged_on_new_groups(weight: Any) -> None:
    X, values, groups = patients(0, 40)
    X_new, new_values, _ = patients(500, 60)
    Y, Y_new = with_gaps((values > 0).astype(float)), (new_values > 0).astype(float)
    model = LowRankClassifier(features="linear", soft_labels=weight, random_state=0)
    honest = model.fit(X, Y, groups=groups).held_out_metric_
    assert honest == pytest.approx(model.score(X_new, Y_new), abs=0.06)
    assert model.fit(X, Y).held_out_metric_ > honest + 0.1


def test_no_sample_of_rows_chooses_where_rows_come_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows that judge a sample would be of the groups that it is fitted to."""

    class SampleWasDrawn(Exception):
        pass

    def drawn(*_: Any) -> None:
        raise SampleWasDrawn

    monkeypatch.setattr(row_sample, "draw_rows", drawn)
    X, values, groups = patients(0, 40)
    X, Y = sp.csr_array(np.where(X > 0.5, X, 0.0)), (values > 0).astype(float)
    model = LowRankClassifier(random_state=0)
    with pytest.raises(SampleWasDrawn):
        model.fit(X, Y)
    model.fit(X, Y, groups=groups)


def test_a_regressor_holds_out_groups_too() -> None:
    X, Y, groups = patients(0, 40)
    X_new, Y_new, _ = patients(500, 60)
    model = LowRankRegressor(random_state=0)
    honest = model.fit(X, with_gaps(Y), groups=groups).held_out_metric_
    there = float(model.score(X_new, Y_new))
    hopeful = LowRankRegressor(random_state=0).fit(X, with_gaps(Y)).held_out_metric_
    assert honest is not None
    assert hopeful is not None
    assert honest == pytest.approx(there, abs=0.15)
    assert hopeful > there + 0.3


def test_entries_may_be_held_out_for_rows_of_the_fit() -> None:
    X, values, _ = patients(0, 20)
    Y = with_gaps((values > 0).astype(float))
    by_rows = LowRankClassifier(features="linear", random_state=0).fit(X, Y)
    by_entries = LowRankClassifier(features="linear", random_state=0, held_out="entries").fit(X, Y)
    assert by_rows.held_out_metric_ != by_entries.held_out_metric_
    told = [model._repr_html_() for model in (by_rows, by_entries)]
    assert "held-out rows" in told[0]
    assert "held-out labels of fitted rows" in told[1]


def test_rows_of_weight_0_take_their_groups_with_them() -> None:
    X, values, groups = patients(0, 12)
    Y, weights = with_gaps((values > 0).astype(float)), (groups != 3).astype(float)
    some = groups != 3
    model = LowRankClassifier(features="linear", random_state=0)
    whole = model.fit(X, Y, sample_weight=weights, groups=groups).held_out_metric_
    assert model.fit(X[some], Y[some], groups=groups[some]).held_out_metric_ == whole


def test_a_pipeline_passes_groups_on() -> None:
    X, values, groups = patients(0, 12)
    Y = with_gaps((values > 0).astype(float))
    model = LowRankClassifier(features="linear", random_state=0)
    Z = StandardScaler().fit_transform(X)
    direct = sklearn.clone(model).fit(Z, Y, groups=groups).held_out_metric_
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), sklearn.clone(model))
        assert pipeline.fit(X, Y, groups=groups)[-1].held_out_metric_ == direct


def test_groups_that_cannot_be_used_are_refused() -> None:
    X, values, groups = patients(0, 4)
    Y = with_gaps((values > 0).astype(float))
    with pytest.raises(InvalidInputError, match="32 rows that have labels into one group"):
        LowRankClassifier().fit(X, Y, groups=np.zeros(32))
    with pytest.raises(InvalidInputError, match="groups must be a sequence with the group of each of the 32"):
        PlugInClassifier().fit(X, Y, groups=groups[1:])
    with pytest.raises(InvalidParameterError, match="held_out='entries' holds out no rows"):
        MetricThreshold(LogisticRegression(), held_out="entries").fit(X, Y, groups=groups)
    with pytest.raises(UnknownNameError, match="Known: entries, rows"):
        LowRankRegressor(held_out="columns").fit(X, values)
    with pytest.raises(InvalidParameterError, match="nothing is known without features"):
        LowRankRegressor().fit(None, values, groups=groups)
    with pytest.warns(LabelgapWarning, match="groups has no use"):
        MetricThreshold().fit(values, Y, groups=groups)


def test_batches_have_no_groups() -> None:
    X, values, groups = patients(0, 12)
    Y = (values > 0).astype(float)
    model = LowRankClassifier(features="linear", random_state=0).fit(X[:32], Y[:32], groups=groups[:32])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.partial_fit(X[32:], Y[32:])
    assert any("whatever their groups" in str(warning.message) for warning in said)


def test_no_group_is_on_both_sides() -> None:
    rng = np.random.default_rng(0)
    known, yes = rng.random((200, 5)) < 0.3, rng.random((200, 5)) < 0.1
    labels = ObservedLabels.from_dense(np.where(known, yes, np.nan))
    groups = rng.integers(0, 23, 200)
    plan = hold_out_plan(labels, "cross-fit", 0, groups=groups)
    folds_of_group = [np.unique(plan[groups[labels.rows] == group]) for group in range(23)]
    assert all(len(folds) <= 1 for folds in folds_of_group)
    assert set(plan.tolist()) == set(range(5))
    # Every fold has its part of a label's few positives.
    positives = np.stack([labels.select(plan == fold).positive_counts() for fold in range(5)])
    assert np.all(positives.max(axis=0) <= positives.sum(axis=0) / 5 + 3)
