"""Fits in other features than X itself: kernels, transformers, and which of them "auto" takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import labelgap
from labelgap import LowRankClassifier, LowRankRegressor, PlugInClassifier
from labelgap.estimators.description import describe
from labelgap.exceptions import InvalidFeaturesError, InvalidInputError, InvalidParameterError
from labelgap.fitting import feature_maps
from labelgap.fitting.feature_maps import RbfMap, mapped, mapped_product
from labelgap.onnx_export import to_onnx

FIXED: dict[str, Any] = {"trace_penalty": 0.003, "ridge_penalty": 0.001, "random_state": 0}
SEARCHED: dict[str, Any] = {"ridge_penalty": 0.0, "tol": 1e-2, "random_state": 0}
RNG = np.random.RandomState(0)
X = RNG.uniform(-2, 2, size=(240, 3)) * [1.0, 5.0, 0.1] + [0.0, 3.0, 1.0]
# Yes within a circle: no linear score can say so.
Q = (X - [0.0, 3.0, 1.0]) / [1.0, 5.0, 0.1]
INNER, OUTER = np.hypot(Q[:, 0], Q[:, 1]) < 1.3, np.hypot(Q[:, 0], Q[:, 2]) > 1.5
ROUND = np.column_stack([INNER, OUTER, Q[:, 0] * Q[:, 1] > 0]).astype(float)
FLAT = (Q @ RNG.standard_normal((3, 3)) > 0).astype(float)
SEEN = RNG.uniform(size=ROUND.shape) < 0.7
SEEN[:40] = False


def observed(Y: Any) -> Any:
    return np.where(SEEN, Y, np.nan)


@pytest.fixture(scope="module")
def in_kernels() -> LowRankClassifier:
    return LowRankClassifier(features="rbf", **FIXED).fit(X, observed(ROUND))


# -- what "auto" takes ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_kernels_that_are_clearly_worse_in_one_fold_are_left_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # However little they are behind: the loss alone tells here.
    monkeypatch.setattr(feature_maps, "_HOPELESS_IN_FOLD", -np.inf)
    model = LowRankClassifier(**SEARCHED).fit(X, observed(FLAT))
    assert model.feature_map_ is None
    folds = [candidate.n_folds for candidate in model.candidates_ if candidate.feature_map is not None]
    assert 0 < len(folds) <= 3
    assert set(folds) == {1}
    linear = LowRankClassifier(features="linear", **SEARCHED).fit(X, observed(FLAT))
    assert_array_equal(model.coef_, linear.coef_)


@pytest.mark.slow
def test_a_sample_of_many_rows_leaves_kernels_that_are_clearly_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_maps, "_SAMPLED_NUMBERS", 100 * 300)
    monkeypatch.setattr(feature_maps, "_SAMPLED_FRACTION", 0.5)
    monkeypatch.setattr(feature_maps, "_HOPELESS_IN_FOLD", -np.inf)
    made: list[tuple[int, int]] = []
    real = feature_maps.mapped

    def remembered(transformer: Any, rows: Any) -> Any:
        Z = real(transformer, rows)
        made.append(Z.shape)
        return Z

    monkeypatch.setattr(feature_maps, "mapped", remembered)
    noisy = observed(np.where(np.random.RandomState(5).uniform(size=FLAT.shape) < 0.2, 1 - FLAT, FLAT))
    model = LowRankClassifier(**SEARCHED).fit(X, noisy)
    assert model.feature_map_ is None
    # Landmarks are as many as there are rows, where those are few.
    assert made == [(100, 100)]
    linear = LowRankClassifier(features="linear", **SEARCHED).fit(X, noisy)
    assert_array_equal(model.coef_, linear.coef_)
    assert model.threshold_ == linear.threshold_


def test_kernels_that_a_sample_does_not_rule_out_are_compared_on_all_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feature_maps, "_SAMPLED_NUMBERS", 100 * 300)
    monkeypatch.setattr(feature_maps, "_SAMPLED_FRACTION", 0.5)
    clf = LowRankClassifier(**SEARCHED).fit(X, observed(ROUND))
    assert clf.features_ == "rbf"
    assert len(clf.feature_map_[-1].components_) == 240
    assert clf.score(X[:40], ROUND[:40]) > 0.9


def test_auto_takes_kernels_where_they_are_clearly_better() -> None:
    clf = LowRankClassifier(**SEARCHED).fit(X, observed(ROUND))
    assert clf.features_ == "rbf"
    assert clf.score(X[:40], ROUND[:40]) > 0.9
    last = clf.candidates_[-1]
    assert last.feature_map.startswith("rbf of width")
    assert last.penalties.trace * 0.8**0.5 == pytest.approx(clf.trace_penalty_, rel=1e-2)
    assert last.threshold == clf.threshold_
    assert describe(clf)["held_out"]["of"] == "rows"
    assert clf.relative_gap_ <= 1e-2
    gamma = clf.feature_map_[-1].gamma
    assert gamma == pytest.approx(float(last.feature_map.split()[3].split("/")[0]) / 3)
    plug_in = PlugInClassifier(features="auto", random_state=0).fit(X, observed(ROUND))
    assert plug_in.features_ == "rbf"


@pytest.mark.slow
def test_auto_stays_linear_where_that_does_as_well() -> None:
    auto = LowRankClassifier(**SEARCHED).fit(X, observed(FLAT))
    plain = LowRankClassifier(**SEARCHED, features="linear").fit(X, observed(FLAT))
    assert auto.features_ == plain.features_ == "linear"
    assert any(one.feature_map is not None for one in auto.candidates_)
    # The search in linear features is not changed by the look at others.
    assert_array_equal(auto.decision_function(X), plain.decision_function(X))
    assert auto.threshold_ == plain.threshold_
    assert auto.candidates_[-1] == plain.candidates_[-1]


@pytest.mark.parametrize(
    ("features", "settings"),
    [(X[:150], {}), (sp.csr_array(X), {}), (X, {"trace_penalty": 0.01}), (X, {"penalty": "scores"})],
    ids=["few rows", "sparse", "a given penalty", "a penalty on the scores"],
)
def test_auto_does_not_look_at_kernels(features: Any, settings: Any) -> None:
    Y = observed(ROUND)[: features.shape[0]]
    clf = LowRankClassifier(**SEARCHED, **settings).fit(features, Y)
    assert clf.features_ == "linear"
    assert all(one.feature_map is None for one in clf.candidates_)


@pytest.mark.slow
def test_a_regressor_takes_kernels_where_they_explain_more() -> None:
    values = np.column_stack([np.sin(2 * Q[:, 0]), Q[:, 1] ** 2, Q[:, 2] ** 2])
    model = LowRankRegressor(features="auto", **SEARCHED).fit(X, observed(values))
    assert model.features_ == "rbf"
    assert model.score(X[:40], values[:40]) > 0.8
    assert LowRankRegressor(**FIXED).fit(X, observed(values)).features_ == "linear"
    with pytest.raises(InvalidParameterError, match="X is None"):
        LowRankRegressor(features="rbf", **FIXED).fit(None, observed(values))


# -- the features themselves ---------------------------------------------------------------------------------


def test_scores_are_those_of_the_kernel(in_kernels: LowRankClassifier) -> None:
    scaler, kernel = (step for _, step in in_kernels.feature_map_.steps)
    rows = (X - X.mean(axis=0)) / X.std(axis=0)
    landmarks = rows[kernel.component_indices_]

    def K(left: Any, right: Any) -> Any:
        return np.exp(-np.sum((left[:, None] - right[None]) ** 2, axis=2) / X.shape[1])

    values, vectors = np.linalg.eigh(K(landmarks, landmarks))
    root = vectors / np.sqrt(np.maximum(values, 1e-12)) @ vectors.T
    phi = K(rows, landmarks) @ root
    assert_allclose(scaler.scale_, X.std(axis=0))
    assert_allclose(in_kernels.feature_map_.transform(X), phi, atol=1e-5)
    scores = in_kernels.feature_map_.transform(X) @ in_kernels.coef_ + in_kernels.intercept_
    assert_allclose(in_kernels.decision_function(X), scores, atol=1e-9)
    assert in_kernels.n_features_in_ == 3
    assert in_kernels.coef_left_.shape[0] == len(kernel.component_indices_) == 240


def test_landmarks_depend_on_no_label_and_come_from_rows_without_labels_too(
    in_kernels: LowRankClassifier,
) -> None:
    other = LowRankClassifier(features="rbf", **FIXED).fit(X, observed(FLAT))
    for one, two in zip(in_kernels.feature_map_.steps, other.feature_map_.steps, strict=True):
        for name, value in vars(one[1]).items():
            assert_array_equal(value, vars(two[1])[name])
    few = feature_maps.fitted_rbf(X, RbfMap(n_landmarks=60), 0)
    assert np.any(few[-1].component_indices_ < 40)


def test_a_transformer_gives_what_a_pipeline_gives() -> None:
    for transformer in (PCA(2), make_pipeline(StandardScaler(), PCA(2))):
        clf = LowRankClassifier(features=transformer, **FIXED).fit(X, observed(FLAT))
        Z = clone(transformer).fit_transform(X)
        plain = LowRankClassifier(features="linear", **FIXED).fit(Z, observed(FLAT))
        assert_array_equal(clf.decision_function(X), plain.decision_function(Z))
        assert_array_equal(clf.predict(X), plain.predict(Z))
        assert_array_equal(clf.predict_topk(X, 1), plain.predict_topk(Z, 1))
        assert clf.score(X, FLAT) == plain.score(Z, FLAT)
        # The one that was given is not fitted.
        assert not hasattr(transformer, "n_features_in_")
    sparse = FunctionTransformer(sp.csr_matrix)
    assert LowRankClassifier(features=sparse, **FIXED).fit(X, observed(FLAT)).score(X, FLAT) > 0.9
    plug_in = PlugInClassifier(features=PCA(2), random_state=0).fit(X, observed(FLAT))
    assert plug_in.estimators_[0].n_features_in_ == 2
    assert plug_in.predict(X).shape == (240, 3)


def test_rows_are_mapped_in_blocks(monkeypatch: pytest.MonkeyPatch, in_kernels: LowRankClassifier) -> None:
    whole = mapped(in_kernels.feature_map_, X) @ in_kernels.coef_left_
    kernels = mapped(in_kernels.feature_map_, X)
    monkeypatch.setattr(feature_maps, "_BLOCK_NUMBERS", 7 * 240)
    assert_allclose(mapped(in_kernels.feature_map_, X), kernels, atol=1e-9)
    sparse = FunctionTransformer(sp.csr_array)
    assert_array_equal(mapped(sparse, X).toarray(), X)
    assert_allclose(mapped_product(in_kernels.feature_map_, X, in_kernels.coef_left_), whole, atol=1e-9)


def test_names_and_numbers_of_features_are_those_of_x() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    clf = LowRankClassifier(features="rbf", **FIXED).fit(frame, observed(ROUND))
    assert clf.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(frame.iloc[:, :2])
    with pytest.raises(InvalidFeaturesError, match="NaN"):
        clf.predict(frame * np.nan)


def test_recorded_positives_can_be_fitted_in_kernels() -> None:
    recorded = np.where(observed(ROUND) == 1, 1, 0)
    clf = LowRankClassifier(
        features="rbf", unobserved="unlabelled", flip_rate=0.3, loss="squared", threshold="train", **FIXED
    ).fit(X, recorded)
    assert clf.features_ == "rbf"


# -- explaining ----------------------------------------------------------------------------------------------


def test_contributions_of_rows_add_up_to_the_score() -> None:
    Y = pd.DataFrame(observed(ROUND), columns=["inner", "outer", "signs"])
    clf = LowRankClassifier(features="rbf", trace_penalty=0.01, random_state=0).fit(X, Y)
    all_rows = clf.explain_rows(X[7], "outer", n=240)
    assert sorted(all_rows.rows.tolist()) == list(range(240))
    assert all_rows.score == pytest.approx(clf.decision_function(X[7:8])[0, 1])
    total = all_rows.intercept + all_rows.contributions.sum() + all_rows.unexplained
    assert total == pytest.approx(all_rows.score)
    assert abs(all_rows.unexplained) < 0.1 * abs(all_rows.score - all_rows.intercept)
    # The row itself is the most similar one.
    assert all_rows.similarities[all_rows.rows.tolist().index(7)] == pytest.approx(1.0)
    first = clf.explain_rows(X[7:8], 1, n=3)
    assert_array_equal(first.rows, all_rows.rows[:3])
    assert np.all(np.diff(np.abs(all_rows.contributions)) <= 0)


def test_what_cannot_be_explained_is_said(in_kernels: LowRankClassifier) -> None:
    with pytest.raises(InvalidParameterError, match="no label 'x'"):
        in_kernels.explain_rows(X[0], "x")
    with pytest.raises(InvalidFeaturesError, match="one row"):
        in_kernels.explain_rows(X[:2], 0)
    with pytest.raises(InvalidParameterError, match="from 1 to 240"):
        in_kernels.explain_rows(X[0], 0, n=999)
    with pytest.raises(InvalidInputError, match="'linear' features"):
        LowRankClassifier(**FIXED).fit(X, observed(FLAT)).explain_rows(X[0], 0)


# -- keeping -------------------------------------------------------------------------------------------------


def small(kind: str) -> Any:
    rows = slice(0, 80)
    Y = np.where(np.arange(80)[:, None] % 3 > 0, ROUND[rows], np.nan)
    if kind == "classifier":
        return LowRankClassifier(features="rbf", **FIXED).fit(X[rows], Y)
    if kind == "plug-in":
        return PlugInClassifier(features="rbf", random_state=0).fit(X[rows], Y)
    return LowRankRegressor(features="rbf", **FIXED).fit(X[rows], Y)


@pytest.mark.parametrize("kind", ["classifier", "plug-in", "regressor"])
def test_saved_exported_and_cloned(kind: str, tmp_path: Any) -> None:
    model = small(kind)
    model.save(tmp_path / "kernels.labelgap")
    again = labelgap.load(tmp_path / "kernels.labelgap")
    assert again.features_ == "rbf"
    read = "predict" if kind == "regressor" else "predict_proba"
    assert_array_equal(getattr(again, read)(X), getattr(model, read)(X))
    assert clone(model).features == "rbf"
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    session = runtime.InferenceSession(to_onnx(model).SerializeToString())
    assert_allclose(session.run(["scores"], {"features": X})[0], model.decision_function(X), atol=1e-6)


def test_transformers_that_cannot_be_saved_or_exported_are_named(tmp_path: Any) -> None:
    squares = FunctionTransformer(np.square)
    model = LowRankClassifier(features=squares, **FIXED).fit(X, observed(FLAT))
    with pytest.raises(InvalidInputError, match="transformers that can be saved are"):
        model.save(tmp_path / "squares.labelgap")
    pytest.importorskip("onnx", reason="onnx is not installed")
    with pytest.raises(InvalidInputError, match="FunctionTransformer makes cannot be exported"):
        to_onnx(model)


@pytest.mark.parametrize("features", ["cubic", 3, None, PCA])
def test_other_features_are_refused(features: Any) -> None:
    for estimator in (LowRankClassifier, PlugInClassifier, LowRankRegressor):
        with pytest.raises(InvalidParameterError, match="features must be one of 'auto', 'linear', 'rbf'"):
            estimator(features=features).fit(X, observed(FLAT))


def test_kernels_need_dense_features() -> None:
    for estimator in (LowRankClassifier, PlugInClassifier, LowRankRegressor):
        with pytest.raises(InvalidFeaturesError, match="needs a dense X"):
            estimator(features="rbf").fit(sp.csr_array(X), observed(FLAT))


def test_a_transformer_must_give_each_row_finite_numbers() -> None:
    for broken in (
        FunctionTransformer(lambda rows: rows[:5]),
        FunctionTransformer(lambda rows: rows * np.inf),
    ):
        with pytest.raises(InvalidFeaturesError, match="one row of finite numbers"):
            LowRankClassifier(features=broken, **FIXED).fit(X, observed(FLAT))


def expected_failures(estimator: Any) -> dict[str, str]:
    reason = "landmarks and folds are drawn from the rows, whatever their weights are"
    return {"check_sample_weight_equivalence_on_dense_data": reason}


@pytest.mark.slow
@parametrize_with_checks(
    [LowRankClassifier(features="rbf", **FIXED), PlugInClassifier(features="rbf")],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks_in_kernels(estimator: Any, check: Any) -> None:
    check(estimator)
