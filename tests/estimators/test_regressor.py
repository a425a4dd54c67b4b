"""Real values, counts and fractions as a user meets them; test_families_against_cvxpy tests the optimum."""

from __future__ import annotations

import pickle
import tracemalloc
from typing import Any
from unittest import SkipTest

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.base import clone, is_regressor
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.metrics import d2_tweedie_score, mean_poisson_deviance, mean_squared_error, r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from labelgap import ObservedLabels
from labelgap.estimators.regressor import LowRankRegressor
from labelgap.exceptions import (
    InvalidFeaturesError,
    InvalidInputError,
    InvalidLabelsError,
    InvalidParameterError,
    LabelgapWarning,
    UninformativeLabelsWarning,
    UnknownNameError,
)
from labelgap.losses import CustomFamily, Poisson

FAMILIES = ("gaussian", "poisson", "bernoulli")
every_family = pytest.mark.parametrize("family", FAMILIES)
FIXED: dict[str, Any] = {"trace_penalty": 0.02, "ridge_penalty": 0.01, "intercept_penalty": 0.0}


def truth(n: int = 150, d: int = 5, n_labels: int = 8, seed: int = 0) -> tuple[Any, Any]:
    """Features and the scores of a model of rank 2."""
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n, d))
    W = rng.standard_normal((d, 2)) @ rng.standard_normal((2, n_labels)) / np.sqrt(2 * d)
    return X, X @ W + rng.uniform(-0.5, 0.5, size=n_labels)


def draw_values(family: str, Z: Any, exposure: Any = 1.0, observed: float = 0.6, seed: int = 1) -> Any:
    """Complete values with these scores, and the same with NaN where not observed."""
    rng = np.random.RandomState(seed)
    Y = {
        "gaussian": lambda: Z + 0.5 * rng.standard_normal(Z.shape),
        "poisson": lambda: rng.poisson(exposure * np.exp(Z)).astype(float),
        "bernoulli": lambda: (rng.uniform(size=Z.shape) < expit(Z)).astype(float),
    }[family]()
    return Y, np.where(rng.uniform(size=Z.shape) < observed, Y, np.nan)


X, Z = truth()
HOURS = np.random.RandomState(5).uniform(0.3, 6.0, size=Z.shape)


def data(family: str) -> Any:
    return draw_values(family, Z)[1]


# -- the model -----------------------------------------------------------------------------------------------


@every_family
def test_default_fit_comes_close_to_the_truth_on_fresh_rows(family: str) -> None:
    features, scores = truth(n=800, n_labels=6)
    model = LowRankRegressor(family, random_state=0).fit(features[:400], draw_values(family, scores)[1][:400])
    means = model.family_.inverse_link(scores[400:])
    spread = np.mean((means - means.mean(axis=0)) ** 2)
    assert np.mean((model.predict(features[400:]) - means) ** 2) < 0.1 * spread
    assert model.duality_gap_ <= model.tol * model.objective_
    assert len(model.candidates_) > 3


@every_family
def test_attributes_describe_the_model(family: str) -> None:
    model = LowRankRegressor(family, **FIXED, random_state=0).fit(X, data(family))
    assert_allclose(model.coef_, model.coef_left_ @ model.coef_right_.T)
    values = np.linalg.svd(model.coef_, compute_uv=False)
    assert_allclose(values[: model.rank_], model.singular_values_, rtol=1e-8)
    assert (model.trace_penalty_, model.ridge_penalty_, model.intercept_penalty_) == (0.02, 0.01, 0.0)
    assert (model.n_features_in_, model.n_labels_, model.candidates_) == (5, 8, ())
    assert model.label_names_ is None
    assert model.history_[-1].objective == pytest.approx(model.objective_)
    scores = X @ model.coef_ + model.intercept_
    assert_allclose(model.decision_function(X), scores)
    assert_allclose(model.predict(X), model.family_.inverse_link(scores))


@pytest.mark.parametrize(
    ("scale", "solver"),
    [(1e-8, "factored"), pytest.param(1e6, "factored", marks=pytest.mark.slow), (1e9, "proximal")],
)
def test_real_values_of_any_scale_and_origin(scale: float, solver: str) -> None:
    Y = data("gaussian")[:, :5]
    # Not centred, so there is no search for an intercept penalty.
    features = X + 1
    plain = LowRankRegressor(solver=solver, random_state=0).fit(features, Y)
    moved = LowRankRegressor(solver=solver, random_state=0).fit(features, scale * (Y + 7))
    assert_allclose(moved.predict(features), scale * (plain.predict(features) + 7), rtol=1e-6)
    assert moved.trace_penalty_ == pytest.approx(scale * plain.trace_penalty_)
    assert moved.ridge_penalty_ == pytest.approx(plain.ridge_penalty_)
    assert moved.objective_ == pytest.approx(scale**2 * plain.objective_)
    assert moved.score(features, scale * (Y + 7)) == pytest.approx(plain.score(features, Y))
    pairs = zip(moved.candidates_, plain.candidates_, strict=True)
    assert all(a.loss == pytest.approx(b.loss) for a, b in pairs)


def test_the_intercept_penalty_follows_the_values() -> None:
    fixed = {"trace_penalty": 0.02, "ridge_penalty": 0.01, "intercept_penalty": 10.0}
    Y = data("gaussian") + 3 * np.arange(8)
    model = LowRankRegressor(**fixed | {"trace_penalty": 20.0}).fit(X, 1e3 * Y + 5e4)
    assert_allclose(model.intercept_, 1e3 * np.nanmean(Y) + 5e4, rtol=1e-2)


def test_scaled_values_with_penalties_scaled_accordingly() -> None:
    Y = data("gaussian")
    plain = LowRankRegressor(**FIXED, fit_intercept=False, tol=1e-8).fit(X, Y)
    scaled = LowRankRegressor(**FIXED | {"trace_penalty": 0.02 * 37}, fit_intercept=False, tol=1e-8)
    assert_allclose(scaled.fit(X, -37 * Y).predict(X), -37 * plain.predict(X), rtol=1e-4, atol=1e-3)
    assert not scaled.intercept_.any()


@pytest.mark.parametrize("rate", [0.03, 500.0])
@pytest.mark.slow
def test_penalties_are_chosen_for_counts_of_any_size(rate: float) -> None:
    # What a gain on held-out entries is worth must not depend on how large the deviances are.
    features, scores = truth(n=800)
    Y = draw_values("poisson", 1.5 * scores, exposure=rate, observed=1.0)[0]
    model = LowRankRegressor("poisson", intercept_penalty=0.0, random_state=0).fit(features, Y)
    best = min(model.candidates_, key=lambda candidate: candidate.loss)
    # The last fit has more entries than a fold, and so a smaller λ.
    assert best.penalties.trace * 0.8**0.5 == pytest.approx(model.trace_penalty_, rel=1e-2)
    assert best.loss < 0.95
    assert best.metric_value == pytest.approx(1 - best.loss)
    worst = max(candidate.penalties.trace for candidate in model.candidates_)
    assert model.trace_penalty_ < 0.3 * worst


# -- against scikit-learn, label by label --------------------------------------------------------------------


@every_family
def test_ridge_alone_is_the_linear_model_of_scikit_learn(family: str) -> None:
    Y = data(family)
    total, strength = int(np.sum(~np.isnan(Y))), 3.0
    model = LowRankRegressor(
        family, trace_penalty=0.0, ridge_penalty=strength / total, intercept_penalty=0.0, tol=1e-9
    ).fit(X, Y)
    for j in range(Y.shape[1]):
        seen = ~np.isnan(Y[:, j])
        reference = {
            "gaussian": Ridge(alpha=strength),
            # Its data term is the mean over the rows of the label.
            "poisson": PoissonRegressor(alpha=strength / seen.sum(), tol=1e-10, max_iter=10_000),
            "bernoulli": LogisticRegression(C=1 / strength, tol=1e-10, max_iter=10_000),
        }[family].fit(X[seen], Y[seen, j])
        assert_allclose(model.coef_[:, j], np.ravel(reference.coef_), atol=2e-4)
        assert model.intercept_[j] == pytest.approx(np.ravel(reference.intercept_)[0], abs=2e-4)


def test_exposure_is_a_rate_weighted_by_exposure() -> None:
    Y = draw_values("poisson", Z, HOURS)[1]
    fixed = {"trace_penalty": 0.02, "ridge_penalty": 0.01, "intercept_penalty": 0.005}
    model = LowRankRegressor("poisson", **fixed, tol=1e-7).fit(X, Y, exposure=HOURS)
    # Σ_Ω e(exp(η) − (y/e)η) / Σ_Ω e has the penalties multiplied by |Ω| / Σ_Ω e.
    seen = ~np.isnan(Y)
    rates = ObservedLabels.from_dense(Y / HOURS, weights=HOURS, binary=False)
    factor = seen.sum() / HOURS[seen].sum()
    scaled = {name: factor * value for name, value in fixed.items()}
    weighted = LowRankRegressor("poisson", **scaled, tol=1e-7).fit(X, rates)
    assert_allclose(model.coef_, weighted.coef_, atol=2e-4)
    assert_allclose(model.intercept_, weighted.intercept_, atol=2e-4)
    assert_allclose(model.predict(X, exposure=HOURS), HOURS * weighted.predict(X), rtol=1e-3)


# -- offsets and exposures -----------------------------------------------------------------------------------


def test_an_offset_of_real_values_is_subtracted_from_them() -> None:
    Y, offset = data("gaussian"), 100 * HOURS
    with_offset = LowRankRegressor(**FIXED).fit(X, Y + offset, offset=offset)
    plain = LowRankRegressor(**FIXED).fit(X, Y)
    assert_allclose(with_offset.predict(X), plain.predict(X), rtol=1e-6)
    assert_allclose(with_offset.predict(X, offset=offset), plain.predict(X) + offset, rtol=1e-6)
    assert with_offset.score(X, Y + offset, offset=offset) == pytest.approx(plain.score(X, Y))


@pytest.mark.parametrize("factor", [1e-6, pytest.param(1e5, marks=pytest.mark.slow)])
def test_the_unit_of_exposure_does_not_matter(factor: float) -> None:
    Y = draw_values("poisson", Z, HOURS)[1]
    Y[:, 3] = np.nan
    estimator = LowRankRegressor("poisson", ridge_penalty=0.0, random_state=0)
    models = []
    for hours in (HOURS, factor * HOURS):
        with pytest.warns(UninformativeLabelsWarning):
            models.append(clone(estimator).fit(X, Y, exposure=hours))
    hourly, other = models
    assert_allclose(other.predict(X, exposure=factor * HOURS), hourly.predict(X, exposure=HOURS), rtol=1e-6)
    # A label that nobody looked at gets the overall rate.
    overall = np.nansum(Y) / HOURS[~np.isnan(Y)].sum()
    assert hourly.predict(X)[0, 3] == pytest.approx(overall)


def forms_of_exposure(labels: ObservedLabels) -> dict[str, Any]:
    by_row = HOURS[:, 0]
    matrix = np.repeat(by_row[:, None], Z.shape[1], axis=1)
    gaps = np.where(np.isnan(labels.to_dense()), np.nan, matrix)
    return {
        "exposure by row": {"exposure": by_row},
        "exposure by row in a list": {"exposure": by_row.tolist()},
        "matrix": {"exposure": matrix},
        "matrix with gaps where nothing is observed": {"exposure": gaps},
        "frame": {"exposure": pd.DataFrame(matrix)},
        "sparse": {"exposure": sp.csr_array(np.nan_to_num(gaps))},
        "over the values": {"exposure": by_row[labels.rows]},
        "offset": {"offset": np.log(matrix)},
        "both": {"offset": np.log(matrix / 3), "exposure": 3.0},
        "both, by row and by entry": {"offset": np.log(by_row / 3), "exposure": np.full_like(matrix, 3.0)},
    }


KNOWN_AT_VALUES_ONLY = {"matrix with gaps where nothing is observed", "sparse", "over the values"}
LABELS = ObservedLabels.from_dense(draw_values("poisson", Z, HOURS[:, :1])[1], binary=False)


@pytest.mark.parametrize("form", forms_of_exposure(LABELS))
def test_every_form_of_exposure_gives_the_same_model(form: str) -> None:
    given = forms_of_exposure(LABELS)[form]
    estimator = LowRankRegressor("poisson", **FIXED)
    reference = clone(estimator).fit(X, LABELS, exposure=HOURS[:, 0])
    fitted = clone(estimator).fit(X, LABELS, **given)
    assert_allclose(fitted.coef_, reference.coef_, atol=1e-10)
    assert fitted.score(X, LABELS, **given) == pytest.approx(reference.score(X, LABELS, exposure=HOURS[:, 0]))
    expected = reference.predict_entries(X, LABELS, exposure=HOURS[:, 0])
    assert_allclose(fitted.predict_entries(X, LABELS, **given), expected, rtol=1e-9)
    if form not in KNOWN_AT_VALUES_ONLY:
        means = reference.predict(X, exposure=HOURS[:, 0])
        assert_allclose(fitted.predict(X, **given), means, rtol=1e-9)


def test_offsets_that_the_labels_hold_add_up_with_those_given() -> None:
    half = LABELS.with_offsets(np.full(LABELS.n_observed, np.log(2.0)))
    twice = LowRankRegressor("poisson", **FIXED).fit(X, half, exposure=3.0)
    once = LowRankRegressor("poisson", **FIXED).fit(X, LABELS, exposure=6.0)
    assert_allclose(twice.intercept_, once.intercept_)
    assert twice.score(X, half, exposure=3.0) == pytest.approx(once.score(X, LABELS, exposure=6.0))


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"offset": np.zeros((150, 7))}, InvalidInputError, r"offset has shape \(150, 7\).*\(150, 8\)"),
        ({"exposure": np.ones(3)}, InvalidInputError, r"exposure has shape \(3,\).*150 \(one per row\)"),
        ({"exposure": np.zeros(150)}, InvalidInputError, "exposure is 0 where a positive number"),
        ({"exposure": -1.0}, InvalidInputError, "exposure is -1 where a positive number"),
        ({"exposure": np.inf}, InvalidInputError, "exposure is inf"),
        ({"offset": np.full(150, np.nan)}, InvalidInputError, "offset is nan where a number"),
        ({"offset": "much"}, InvalidInputError, "offset must be numbers"),
        ({"sample_weight": np.ones((150, 8))}, InvalidInputError, "sample_weight has shape"),
        ({"sample_weight": np.full(150, -1.0)}, InvalidInputError, "not negative"),
        ({"sample_weight": np.zeros(150)}, InvalidParameterError, "zero for every row"),
    ],
)
def test_known_parts_that_cannot_be_used(given: Any, error: Any, message: str) -> None:
    fitted = LowRankRegressor("poisson", **FIXED).fit(X, LABELS)
    for use in (fitted.fit, fitted.score, fitted.deviance):
        with pytest.raises(error, match=message):
            use(X, LABELS, **given)
    if "sample_weight" not in given:
        with pytest.raises(error, match=message.replace(r".*150 \(one per row\)", "")):
            fitted.predict(X, **given)


def test_exposure_is_for_counts_only() -> None:
    with pytest.raises(InvalidParameterError, match=r"family='poisson'.*'gaussian'.*offset="):
        LowRankRegressor().fit(X, data("gaussian"), exposure=HOURS)
    assert LowRankRegressor(Poisson(), **FIXED).fit(X, LABELS, exposure=HOURS).rank_ > 0


def test_a_vector_that_could_be_meant_by_row_or_by_value() -> None:
    Y = np.full((4, 2), np.nan)
    Y[0], Y[2], known = [1.0, 2.0], [3.0, 0.0], np.arange(1.0, 5.0)
    with pytest.raises(InvalidInputError, match="by row or by value"):
        LowRankRegressor("poisson", **FIXED).fit(X[:4], Y, exposure=known)
    # With one value in every row the two are the same.
    one_each = np.array([[1.0, np.nan], [np.nan, 2.0], [3.0, np.nan], [np.nan, 0.0]])
    LowRankRegressor("poisson", **FIXED).fit(X[:4], one_each, exposure=known)


# -- weights -------------------------------------------------------------------------------------------------


@every_family
def test_weights_of_rows_are_repetitions(family: str) -> None:
    Y, times = data(family), np.random.RandomState(3).randint(0, 4, size=len(X))
    weighted = LowRankRegressor(family, **FIXED, tol=1e-8).fit(X, Y, sample_weight=times)
    rows = np.repeat(np.arange(len(X)), times)
    repeated = LowRankRegressor(family, **FIXED, tol=1e-8).fit(X[rows], Y[rows])
    assert_allclose(weighted.coef_, repeated.coef_, atol=1e-4)
    assert_allclose(weighted.intercept_, repeated.intercept_, atol=1e-4)
    assert weighted.score(X, Y, sample_weight=times) == pytest.approx(
        weighted.score(X[rows], Y[rows]), abs=1e-9
    )


def test_weights_of_rows_and_of_values_multiply() -> None:
    Y = data("gaussian")
    rows, entries = HOURS[:, 0], HOURS
    both = ObservedLabels.from_dense(Y, weights=entries * rows[:, None], binary=False)
    entries_only = ObservedLabels.from_dense(Y, weights=entries, binary=False)
    one = LowRankRegressor(**FIXED).fit(X, both)
    two = LowRankRegressor(**FIXED).fit(X, entries_only, sample_weight=rows)
    assert_allclose(one.coef_, two.coef_, atol=1e-10)


# -- values on an edge, unseen labels -----------------------------------------------------------------------


def test_a_label_without_a_single_count_gets_a_small_rate() -> None:
    Y = data("poisson")
    Y[:, 2] *= 0
    model = LowRankRegressor("poisson", **FIXED).fit(X, Y)
    assert_allclose(model.coef_[:, 2], 0, atol=1e-12)
    count, mean = np.sum(~np.isnan(Y[:, 2])), np.nanmean(Y)
    assert_allclose(model.predict(X)[:, 2], mean / (count + 1))
    assert np.isfinite(model.score(X, Y))


@pytest.mark.parametrize(
    ("family", "Y", "message"),
    [
        ("poisson", np.zeros((6, 3)), "18 observed values are, label by label, all 0,"),
        ("bernoulli", np.ones((6, 3)), "all 0 or all 1,"),
        ("bernoulli", np.tile([0.0, 1.0], (6, 1)), "all 0 or all 1,"),
    ],
)
def test_values_that_all_lie_on_an_edge(family: str, Y: Any, message: str) -> None:
    with pytest.raises(InvalidLabelsError, match=message):
        LowRankRegressor(family).fit(X[:6], Y)


@every_family
def test_a_label_without_values_gets_the_overall_mean(family: str) -> None:
    Y = data(family)
    Y[:, [1, 4]] = np.nan
    with pytest.warns(UninformativeLabelsWarning, match=r"2 of 8 labels .*the first: 1"):
        model = LowRankRegressor(family, **FIXED).fit(X, Y)
    # For fractions the mean is smoothed by one value of ½.
    assert_allclose(model.predict(X)[:, [1, 4]], np.nanmean(Y), atol=2e-3)


@pytest.mark.parametrize("Y", [np.full((150, 3), 1 / 3), np.tile([0.1, 7 / 3, 1e6 / 3], (150, 1))])
def test_constant_values_are_predicted_exactly(Y: Any) -> None:
    model = LowRankRegressor(random_state=0).fit(X, Y)
    assert_allclose(model.predict(X), Y, rtol=1e-10)
    assert model.score(X, Y) == 1.0
    assert model.score(X, Y + 1) == 0.0


# -- judging -------------------------------------------------------------------------------------------------


def test_score_and_deviance_are_those_of_scikit_learn() -> None:
    complete = {family: draw_values(family, Z)[0] for family in FAMILIES}
    fitted = {family: LowRankRegressor(family, **FIXED).fit(X, Y) for family, Y in complete.items()}
    model, Y = fitted["gaussian"], complete["gaussian"]
    assert model.deviance(X, Y) == pytest.approx(mean_squared_error(Y, model.predict(X)))
    expected = r2_score(Y, model.predict(X), multioutput="variance_weighted")
    assert model.score(X, Y) == pytest.approx(expected)
    model, Y = fitted["poisson"], complete["poisson"]
    expected = np.mean([mean_poisson_deviance(y, p) for y, p in zip(Y.T, model.predict(X).T, strict=True)])
    assert model.deviance(X, Y) == pytest.approx(expected)
    single = LowRankRegressor("poisson", **FIXED).fit(X, Y[:, 0])
    assert single.score(X, Y[:, 0]) == pytest.approx(d2_tweedie_score(Y[:, 0], single.predict(X), power=1))


@every_family
def test_score_is_about_observed_values_only(family: str) -> None:
    Y = data(family)
    model = LowRankRegressor(family, **FIXED).fit(X, Y)
    means, null = model.predict(X), np.nanmean(Y, axis=0) * np.ones_like(Y)
    seen = ~np.isnan(Y)
    deviance = model.family_.unit_deviance(Y[seen], means[seen])
    reference = model.family_.unit_deviance(Y[seen], null[seen])
    assert model.deviance(X, Y) == pytest.approx(deviance.mean())
    assert model.score(X, Y) == pytest.approx(1 - deviance.sum() / reference.sum())


def test_the_null_model_knows_the_exposure() -> None:
    Y = LABELS.to_dense()
    hours = HOURS[:, :1] * np.ones_like(Y)
    model = LowRankRegressor("poisson", **FIXED).fit(X, Y, exposure=hours)
    seen = ~np.isnan(Y)
    rate = np.nansum(Y, axis=0) / np.sum(hours * seen, axis=0)
    null = model.family_.unit_deviance(Y[seen], (rate * hours)[seen]).sum()
    left = model.deviance(X, Y, exposure=hours) * seen.sum()
    assert model.score(X, Y, exposure=hours) == pytest.approx(1 - left / null)


def test_entries_are_predicted_without_a_dense_array() -> None:
    model = LowRankRegressor("poisson", **FIXED).fit(X, LABELS, exposure=HOURS[:, 0])
    means = model.predict(X, exposure=HOURS[:, 0])
    got = model.predict_entries(X, LABELS, exposure=HOURS[:, 0])
    assert_allclose(got, means[LABELS.rows, LABELS.cols])
    wanted = sp.csr_array(([1, 1], ([0, 3], [2, 1])), shape=Z.shape)
    assert_allclose(model.predict_entries(X, wanted), model.predict(X)[[0, 3], [2, 1]])
    n = 3000
    diagonal = ObservedLabels.from_triplets(np.arange(n), np.arange(n), np.arange(n) % 3, binary=False)
    large = LowRankRegressor(trace_penalty=0.01, ridge_penalty=0.0, intercept_penalty=0.0, rank=2)
    large.fit(None, diagonal)
    tracemalloc.start()
    large.predict_entries(None, diagonal)
    large.score(None, diagonal)
    assert tracemalloc.get_traced_memory()[1] < n * n
    tracemalloc.stop()


# -- without features ----------------------------------------------------------------------------------------


@every_family
def test_no_features_are_the_identity(family: str) -> None:
    Y = data(family)[:40]
    fixed = {"trace_penalty": 0.01, "ridge_penalty": 0.002, "intercept_penalty": 0.01}
    without = LowRankRegressor(family, **fixed, tol=1e-7).fit(None, Y)
    identity = LowRankRegressor(family, **fixed, tol=1e-7).fit(np.eye(40), Y)
    assert_allclose(without.predict(), identity.predict(np.eye(40)), atol=1e-3)
    assert_allclose(without.predict(None), without.predict())
    assert without.n_features_in_ == 40
    assert without.coef_left_.shape == (40, without.rank_)
    assert without.score(None, Y) == pytest.approx(identity.score(np.eye(40), Y), abs=1e-3)
    with pytest.raises(InvalidFeaturesError, match="without features"):
        without.predict(X)
    with pytest.raises(InvalidFeaturesError, match="pass those of the rows"):
        identity.predict()


@pytest.mark.slow
def test_a_matrix_is_completed() -> None:
    rng = np.random.RandomState(0)
    complete = 50 + 10 * rng.standard_normal((80, 2)) @ rng.standard_normal((2, 30))
    Y = np.where(rng.uniform(size=complete.shape) < 0.5, complete + rng.standard_normal((80, 30)), np.nan)
    model = LowRankRegressor(random_state=0).fit(None, Y)
    hidden = np.where(np.isnan(Y), complete, np.nan)
    assert model.score(None, hidden) > 0.97


# -- forms of values ----------------------------------------------------------------------------------------


def forms_of_values(Y: Any) -> dict[str, Any]:
    seen = ~np.isnan(Y)
    rows, cols = np.nonzero(seen)
    names = [f"label {j}" for j in range(Y.shape[1])]
    frame = pd.DataFrame(Y, columns=names)
    return {
        "nested lists with None": [[None if np.isnan(v) else v for v in row] for row in Y],
        "masked array": np.ma.masked_array(np.where(seen, Y, -9), ~seen),
        "sparse with stored zeros": sp.csr_array((Y[seen], (rows, cols)), shape=Y.shape),
        "pandas": frame,
        "polars": pl.DataFrame(frame.to_dict("list")).fill_nan(None),
        "ObservedLabels": ObservedLabels.from_dense(Y, binary=False),
    }


@every_family
@pytest.mark.parametrize("form", forms_of_values(data("poisson")))
def test_every_form_of_values_gives_the_same_model(family: str, form: str) -> None:
    Y = data(family)
    reference = LowRankRegressor(family, **FIXED).fit(X, Y)
    fitted = LowRankRegressor(family, **FIXED).fit(X, forms_of_values(Y)[form])
    assert_array_equal(fitted.predict(X), reference.predict(X))
    assert fitted.score(X, forms_of_values(Y)[form]) == reference.score(X, Y)
    if form == "pandas":
        assert fitted.label_names_.tolist() == [f"label {j}" for j in range(8)]


@every_family
def test_a_vector_of_values_is_one_label(family: str) -> None:
    Y = data(family)[:, :1]
    column = LowRankRegressor(family, **FIXED).fit(X, Y)
    vector = LowRankRegressor(family, **FIXED).fit(X, Y[:, 0])
    assert vector.predict(X).shape == (150,)
    assert vector.decision_function(X, offset=np.ones(150)).shape == (150,)
    assert_array_equal(vector.predict(X), column.predict(X)[:, 0])
    assert vector.score(X, Y[:, 0]) == column.score(X, Y) == vector.score(X, Y)
    missing = Y[:, 0].astype(object)
    missing[np.isnan(Y[:, 0])] = None
    assert_array_equal(LowRankRegressor(family, **FIXED).fit(X, missing).predict(X), vector.predict(X))


def test_sparse_features_give_the_same_model() -> None:
    thin = np.where(np.abs(X) > 0.5, X, 0.0)
    for family in FAMILIES:
        dense = LowRankRegressor(family, **FIXED, tol=1e-7).fit(thin, data(family))
        sparse = LowRankRegressor(family, **FIXED, tol=1e-7).fit(sp.csc_matrix(thin), data(family))
        assert_allclose(sparse.predict(sp.csr_array(thin)), dense.predict(thin), atol=1e-3)


def test_absent_counts_of_a_sparse_matrix_are_not_guessed() -> None:
    counts = sp.csr_array(draw_values("poisson", Z)[0])
    counts.eliminate_zeros()
    with pytest.raises(InvalidLabelsError, match=r"unobserved='negative', binary=False.*binary=False"):
        LowRankRegressor("poisson").fit(X, counts)
    zeros = ObservedLabels.from_sparse(counts, unobserved="negative", binary=False)
    complete = LowRankRegressor("poisson", **FIXED).fit(X, counts.toarray())
    assert_array_equal(LowRankRegressor("poisson", **FIXED).fit(X, zeros).coef_, complete.coef_)
    known = ObservedLabels.from_sparse(counts, binary=False)
    assert LowRankRegressor("poisson", **FIXED).fit(X, known).predict(X).mean() > complete.predict(X).mean()


# -- other parameters ----------------------------------------------------------------------------------------


def test_a_family_of_ones_own() -> None:
    counts = CustomFamily(np.exp, np.exp, np.exp, name="counts", low=0)
    own = LowRankRegressor(counts, **FIXED, tol=1e-7).fit(X, LABELS, offset=np.log(HOURS))
    poisson = LowRankRegressor("poisson", **FIXED, tol=1e-7).fit(X, LABELS, exposure=HOURS)
    assert_allclose(own.predict(X), poisson.predict(X), rtol=1e-4)
    assert own.score(X, LABELS, offset=np.log(HOURS)) == pytest.approx(
        poisson.score(X, LABELS, exposure=HOURS), abs=1e-5
    )
    with pytest.raises(InvalidParameterError, match="exposure is for counts"):
        own.predict(X, exposure=2.0)


@pytest.mark.slow
@every_family
def test_rank_bound_penalty_and_rival(family: str) -> None:
    Y = data(family)
    plain = LowRankRegressor(family, **FIXED).fit(X, Y)
    assert LowRankRegressor(family, **FIXED, rank=1).fit(X, Y).rank_ == 1
    bounded = LowRankRegressor(family, **FIXED, score_bound=0.4).fit(X, Y)
    assert np.abs(X @ bounded.coef_).max() <= 0.4 * (1 + 1e-9)
    auto = LowRankRegressor(family, **FIXED, score_bound="auto").fit(X, Y)
    assert_array_equal(auto.coef_, plain.coef_)
    scores = LowRankRegressor(family, **FIXED, penalty="scores").fit(X, Y)
    assert not np.allclose(scores.coef_, plain.coef_, atol=1e-2)
    rival = LowRankRegressor(family, **FIXED, solver="alternating", rank=5, max_iter=300, tol=1e-2)
    assert rival.fit(X, Y).score(X, Y) == pytest.approx(plain.score(X, Y), abs=0.02)


def test_a_callback_sees_the_objective_in_the_units_of_the_values(capsys: Any) -> None:
    seen: list[Any] = []
    model = LowRankRegressor(**FIXED | {"trace_penalty": 2e3}, verbose=2, random_state=0)
    model.fit(X, 1e5 * data("gaussian"), callback=seen.append)
    assert seen[-1].objective == pytest.approx(model.objective_) == model.history_[-1].objective
    printed = capsys.readouterr().out
    assert "[LowRankRegressor] values, and trace penalties below, are in units of" in printed
    assert f"objective {model.objective_:.6g}" in printed


@pytest.mark.slow
def test_repeatable_whatever_the_jobs() -> None:
    Y = data("poisson")[:, :4]
    one = LowRankRegressor("poisson", random_state=3, n_jobs=1, intercept_penalty=0.0).fit(X, Y)
    two = LowRankRegressor("poisson", random_state=3, n_jobs=2, intercept_penalty=0.0).fit(X, Y)
    assert_array_equal(one.predict(X), two.predict(X))


def test_too_few_values_to_hold_any_out() -> None:
    with pytest.warns(LabelgapWarning, match=r"too few to hold any out: the penalties are a guess\."):
        model = LowRankRegressor().fit(X[:3], np.array([1.0, 2.0, 4.0]))
    assert np.isfinite(model.predict(X)).all()


# -- bad input -----------------------------------------------------------------------------------------------


def test_values_that_cannot_be_used() -> None:
    Y = data("poisson")
    with pytest.raises(InvalidLabelsError, match=r"The labels have shape \(149, 8\); 150 rows"):
        LowRankRegressor().fit(X, Y[:-1])
    with pytest.raises(InvalidLabelsError, match="No label is observed"):
        LowRankRegressor().fit(X, np.full_like(Y, np.nan))
    with pytest.raises(InvalidLabelsError, match="target y is None"):
        LowRankRegressor().fit(X, None)
    negative = pd.DataFrame(np.where(np.arange(8) == 3, -Y - 1, Y), columns=list("abcdefgh"))
    row = int(np.argmax(~np.isnan(Y[:, 3])))
    with pytest.raises(InvalidLabelsError, match=rf"row {row}, column 3 \(label 'd'\) is -.*\[0, inf\)"):
        LowRankRegressor("poisson").fit(X, negative)
    with pytest.raises(InvalidLabelsError, match=r"bernoulli family takes numbers in \[0, 1\]"):
        LowRankRegressor("bernoulli").fit(X, Y + 0.5)
    with pytest.raises(InvalidLabelsError, match="infinity"):
        LowRankRegressor().fit(X, np.full(len(X), np.inf))
    with pytest.raises(InvalidLabelsError, match=r"1\.0e\+120, whose square overflows"):
        LowRankRegressor().fit(X, np.where(Y > 0, 1e120, Y))
    recorded = ObservedLabels.from_dense(draw_values("bernoulli", Z)[0])
    unlabelled = ObservedLabels.from_any(recorded, unobserved="unlabelled")
    with pytest.raises(InvalidLabelsError, match="unlabelled"):
        LowRankRegressor("bernoulli").fit(X, unlabelled)
    fitted = LowRankRegressor(**FIXED).fit(X, Y)
    with pytest.raises(InvalidLabelsError, match=r"shape \(150, 7\)"):
        fitted.score(X, Y[:, :7])
    with pytest.raises(InvalidLabelsError, match=r"shape \(150, 7\)"):
        fitted.predict_entries(X, Y[:, :7])


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"family": "poison"}, UnknownNameError, "poisson"),
        ({"penalty": "weight"}, UnknownNameError, "weights"),
        ({"trace_penalty": -1.0}, InvalidParameterError, "trace_penalty"),
        ({"trace_penalty": 0.0, "ridge_penalty": 0.0}, InvalidParameterError, "both 0"),
        ({"score_bound": 0.0}, InvalidParameterError, "score_bound"),
        ({"solver": "alternating"}, InvalidParameterError, "rank"),
    ],
)
def test_bad_parameters(parameters: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        LowRankRegressor(**parameters).fit(X, data("gaussian"))


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_features_that_are_not_finite(bad: float, layout: Any) -> None:
    features = X.copy()
    features[2, 3] = bad
    with pytest.raises(InvalidFeaturesError, match=r"(NaN|infinity) at row 2, column 3"):
        LowRankRegressor().fit(layout(features), data("gaussian"))
    with pytest.raises(InvalidFeaturesError, match="squares overflow"):
        LowRankRegressor().fit(layout(1e120 * X), data("gaussian"))


# -- scikit-learn --------------------------------------------------------------------------------------------

DOES_NOT_APPLY = {
    "check_regressors_no_decision_function": "decision_function gives the scores z on purpose",
    # Weights are repetitions all the same, see test_weights_of_rows_are_repetitions.
    "check_sample_weight_equivalence_on_dense_data": "fits end at a proven gap, not at the seventh digit",
    "check_sample_weight_equivalence_on_sparse_data": "fits end at a proven gap, not at the seventh digit",
    "check_regressor_multioutput": "draws negative values for counts, whatever the tags say",
}


def scikit_learn_checks() -> Any:
    for estimator in (LowRankRegressor(), LowRankRegressor("poisson", **FIXED)):
        for _, check in estimator_checks_generator(estimator):
            name = check.func.__name__
            takes_negative = name == "check_regressor_multioutput" and estimator.family == "gaussian"
            if name not in DOES_NOT_APPLY or takes_negative:
                yield pytest.param(estimator, check, id=f"{estimator}-{name}".replace(" ", ""))


@pytest.mark.parametrize(("estimator", "check"), list(scikit_learn_checks()))
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    try:
        check(clone(estimator))
    except SkipTest as reason:
        pytest.skip(str(reason))


def test_is_a_regressor_and_yet_takes_gaps() -> None:
    Y = data("gaussian")
    estimator = LowRankRegressor(**FIXED)
    assert is_regressor(estimator)
    expected = [
        clone(estimator).fit(X[train], Y[train]).score(X[test], Y[test]) for train, test in KFold(3).split(X)
    ]
    for labels in (Y, ObservedLabels.from_dense(Y, binary=False), pd.DataFrame(Y)):
        assert_allclose(cross_val_score(estimator, X, labels, cv=3), expected, rtol=1e-12)


@every_family
def test_grid_search_and_pipeline(family: str) -> None:
    Y = data(family)
    pipeline = make_pipeline(StandardScaler(), LowRankRegressor(family, **FIXED))
    search = GridSearchCV(pipeline, {"lowrankregressor__trace_penalty": [0.01, 0.3]}, cv=3).fit(3 * X + 1, Y)
    assert search.best_params_ == {"lowrankregressor__trace_penalty": 0.01}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    direct = LowRankRegressor(family, **FIXED | {"trace_penalty": 0.01})
    scaled = StandardScaler().fit_transform(3 * X + 1)
    assert_allclose(search.predict(3 * X + 1), direct.fit(scaled, Y).predict(scaled), rtol=1e-9)


def test_exposures_by_row_are_split_with_the_rows() -> None:
    search = GridSearchCV(LowRankRegressor("poisson", **FIXED), {"rank": [1, 3]}, cv=3)
    search.fit(X, LABELS, exposure=HOURS[:, 0])
    direct = LowRankRegressor("poisson", **FIXED, rank=search.best_params_["rank"])
    assert_array_equal(search.predict(X), direct.fit(X, LABELS, exposure=HOURS[:, 0]).predict(X))


def test_clone_and_pickle() -> None:
    fitted = LowRankRegressor("poisson", **FIXED).fit(X, LABELS)
    copy = clone(fitted)
    assert not hasattr(copy, "coef_left_")
    assert copy.get_params() == fitted.get_params()
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.predict(X), fitted.predict(X))
    assert again.score(X, LABELS) == fitted.score(X, LABELS)
