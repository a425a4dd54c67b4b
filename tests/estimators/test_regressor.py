"""Real values, counts and fractions as a user meets them; test_families_against_cvxpy tests the optimum.

What a LowRankRegressor has in common with other estimators is in test_every_estimator and test_every_fit.
"""

from __future__ import annotations

import tracemalloc
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.metrics import d2_tweedie_score, mean_poisson_deviance, mean_squared_error, r2_score
from sklearn.model_selection import GridSearchCV

from labelgap import LowRankRegressor, ObservedLabels
from labelgap.exceptions import (
    InvalidFeaturesError,
    InvalidInputError,
    InvalidLabelsError,
    InvalidParameterError,
    UninformativeLabelsWarning,
    UnknownNameError,
)
from labelgap.losses import CustomFamily, Poisson
from refusals import assert_refused

FAMILIES = ("gaussian", "poisson", "bernoulli")
every_family = pytest.mark.parametrize("family", FAMILIES)
FIXED: dict[str, Any] = {"trace_penalty": 0.02, "ridge_penalty": 0.01, "intercept_penalty": 0.0}


def truth(n: int = 150, d: int = 5, n_labels: int = 8, seed: int = 0) -> tuple[Any, Any]:
    """Features and the scores of a model of rank 2."""
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n, d))
    W = rng.standard_normal((d, 2)) @ rng.standard_normal((2, n_labels)) / np.sqrt(2 * d)
    return X, X @ W + rng.uniform(-0.5, 0.5, size=n_labels)


def draw_values(family: str, Z: Any, exposure: Any = 1.0, observed: float = 0.6) -> Any:
    """Complete values with these scores, and the same with NaN where not observed."""
    rng = np.random.RandomState(1)
    Y = {
        "gaussian": lambda: Z + 0.5 * rng.standard_normal(Z.shape),
        "poisson": lambda: rng.poisson(exposure * np.exp(Z)).astype(float),
        "bernoulli": lambda: (rng.uniform(size=Z.shape) < expit(Z)).astype(float),
    }[family]()
    return Y, np.where(rng.uniform(size=Z.shape) < observed, Y, np.nan)


X, Z = truth()
HOURS = np.random.RandomState(5).uniform(0.3, 6.0, size=Z.shape)
BY_ROW = HOURS[:, 0]
LABELS = ObservedLabels.from_dense(draw_values("poisson", Z, HOURS[:, :1])[1], binary=False)


def data(family: str) -> Any:
    return draw_values(family, Z)[1]


def quick(family: Any = "gaussian", **settings: Any) -> LowRankRegressor:
    return LowRankRegressor(family, **FIXED | settings)


@cache
def fitted(family: str) -> LowRankRegressor:
    """The model of the values with gaps, fitted once for all tests that only ask it."""
    return quick(family).fit(X, data(family))


@cache
def by_hours() -> LowRankRegressor:
    return quick("poisson").fit(X, LABELS, exposure=BY_ROW)


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
def test_attributes_and_score_are_those_of_the_model(family: str) -> None:
    model, Y = fitted(family), data(family)
    assert_allclose(model.coef_, model.coef_left_ @ model.coef_right_.T)
    values = np.linalg.svd(model.coef_, compute_uv=False)
    assert_allclose(values[: model.rank_], model.singular_values_, rtol=1e-8)
    assert (model.trace_penalty_, model.ridge_penalty_, model.intercept_penalty_) == (0.02, 0.01, 0.0)
    assert (model.n_features_in_, model.n_labels_, model.candidates_) == (5, 8, ())
    assert model.label_names_ is None
    assert model.history_[-1].objective == pytest.approx(model.objective_)
    scores, means = X @ model.coef_ + model.intercept_, model.predict(X)
    assert_allclose(model.decision_function(X), scores)
    assert_allclose(means, model.family_.inverse_link(scores))
    # What is judged are the observed values alone.
    seen, null = ~np.isnan(Y), np.nanmean(Y, axis=0) * np.ones_like(Y)
    deviance = model.family_.unit_deviance(Y[seen], means[seen])
    assert model.deviance(X, Y) == pytest.approx(deviance.mean())
    reference = model.family_.unit_deviance(Y[seen], null[seen])
    assert model.score(X, Y) == pytest.approx(1 - deviance.sum() / reference.sum())


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


def test_given_penalties_are_in_the_units_of_the_values() -> None:
    Y = data("gaussian")
    plain = quick(fit_intercept=False, tol=1e-8).fit(X, Y)
    scaled = quick(trace_penalty=0.02 * 37, fit_intercept=False, tol=1e-8).fit(X, -37 * Y)
    assert_allclose(scaled.predict(X), -37 * plain.predict(X), rtol=1e-4, atol=1e-3)
    assert not scaled.intercept_.any()
    apart = Y + 3 * np.arange(8)
    model = quick(trace_penalty=20.0, intercept_penalty=10.0).fit(X, 1e3 * apart + 5e4)
    assert_allclose(model.intercept_, 1e3 * np.nanmean(apart) + 5e4, rtol=1e-2)


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


# -- against scikit-learn ------------------------------------------------------------------------------------


@every_family
def test_ridge_alone_is_the_linear_model_of_scikit_learn(family: str) -> None:
    Y = data(family)
    strength = 3.0
    ridge = strength / np.sum(~np.isnan(Y))
    model = quick(family, trace_penalty=0.0, ridge_penalty=ridge, tol=1e-9).fit(X, Y)
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


def test_score_and_deviance_are_those_of_scikit_learn() -> None:
    Y, counts = draw_values("gaussian", Z)[0], draw_values("poisson", Z)[0]
    model = quick().fit(X, Y)
    assert model.deviance(X, Y) == pytest.approx(mean_squared_error(Y, model.predict(X)))
    expected = r2_score(Y, model.predict(X), multioutput="variance_weighted")
    assert model.score(X, Y) == pytest.approx(expected)
    model = quick("poisson").fit(X, counts)
    pairs = zip(counts.T, model.predict(X).T, strict=True)
    assert model.deviance(X, counts) == pytest.approx(np.mean([mean_poisson_deviance(*one) for one in pairs]))
    one = quick("poisson").fit(X, counts[:, 0])
    assert one.score(X, counts[:, 0]) == pytest.approx(
        d2_tweedie_score(counts[:, 0], one.predict(X), power=1)
    )


# -- offsets and exposures -----------------------------------------------------------------------------------


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
    # So is the null model of a score.
    rate = np.nansum(Y, axis=0) / np.sum(HOURS * seen, axis=0)
    null = model.family_.unit_deviance(Y[seen], (rate * HOURS)[seen]).sum()
    left = model.deviance(X, Y, exposure=HOURS) * seen.sum()
    assert model.score(X, Y, exposure=HOURS) == pytest.approx(1 - left / null)


def test_an_offset_of_real_values_is_subtracted_from_them() -> None:
    Y, offset, plain = data("gaussian"), 100 * HOURS, fitted("gaussian")
    with_offset = quick().fit(X, Y + offset, offset=offset)
    assert_allclose(with_offset.predict(X), plain.predict(X), rtol=1e-6)
    assert_allclose(with_offset.predict(X, offset=offset), plain.predict(X) + offset, rtol=1e-6)
    assert with_offset.score(X, Y + offset, offset=offset) == pytest.approx(plain.score(X, Y))


@pytest.mark.parametrize("factor", [1e-6, pytest.param(1e5, marks=pytest.mark.slow)])
def test_the_unit_of_exposure_does_not_matter(factor: float) -> None:
    Y = draw_values("poisson", Z, HOURS)[1]
    Y[:, 3] = np.nan
    models = []
    for hours in (HOURS, factor * HOURS):
        model = LowRankRegressor("poisson", ridge_penalty=0.0, random_state=0)
        with pytest.warns(UninformativeLabelsWarning):
            models.append(model.fit(X, Y, exposure=hours))
    hourly, other = models
    assert_allclose(other.predict(X, exposure=factor * HOURS), hourly.predict(X, exposure=HOURS), rtol=1e-6)
    # A label that nobody looked at gets the overall rate.
    overall = np.nansum(Y) / HOURS[~np.isnan(Y)].sum()
    assert hourly.predict(X)[0, 3] == pytest.approx(overall)


def test_every_form_of_exposure_gives_the_same_model() -> None:
    matrix = np.repeat(BY_ROW[:, None], Z.shape[1], axis=1)
    gaps = np.where(np.isnan(LABELS.to_dense()), np.nan, matrix)
    reference = by_hours()
    score, entries, means = (
        use(exposure=BY_ROW)
        for use in (
            partial(reference.score, X, LABELS),
            partial(reference.predict_entries, X, LABELS),
            partial(reference.predict, X),
        )
    )
    known_at_values_only: dict[str, dict[str, Any]] = {
        "matrix with gaps where nothing is observed": {"exposure": gaps},
        "sparse": {"exposure": sp.csr_array(np.nan_to_num(gaps))},
        "over the values": {"exposure": BY_ROW[LABELS.rows]},
    }
    known_everywhere: dict[str, dict[str, Any]] = {
        "by row in a list": {"exposure": BY_ROW.tolist()},
        "matrix": {"exposure": matrix},
        "frame": {"exposure": pd.DataFrame(matrix)},
        "offset": {"offset": np.log(matrix)},
        "both": {"offset": np.log(matrix / 3), "exposure": 3.0},
        "both, by row and by entry": {"offset": np.log(BY_ROW / 3), "exposure": np.full_like(matrix, 3.0)},
    }
    for form, given in (known_at_values_only | known_everywhere).items():
        model = quick("poisson").fit(X, LABELS, **given)
        assert_allclose(model.coef_, reference.coef_, atol=1e-10, err_msg=form)
        assert model.score(X, LABELS, **given) == pytest.approx(score), form
        assert_allclose(model.predict_entries(X, LABELS, **given), entries, rtol=1e-9, err_msg=form)
        if form in known_everywhere:
            assert_allclose(model.predict(X, **given), means, rtol=1e-9, err_msg=form)
    # What the labels hold themselves and what is given add up.
    half = LABELS.with_offsets(np.log(BY_ROW[LABELS.rows] / 3))
    twice = quick("poisson").fit(X, half, exposure=3.0)
    assert_allclose(twice.intercept_, reference.intercept_)
    assert twice.score(X, half, exposure=3.0) == pytest.approx(score)
    # A search splits what is given by row.
    search = GridSearchCV(quick("poisson"), {"rank": [1, 3]}, cv=3).fit(X, LABELS, exposure=BY_ROW)
    direct = quick("poisson", **search.best_params_).fit(X, LABELS, exposure=BY_ROW)
    assert_array_equal(search.predict(X), direct.predict(X))


def test_a_family_of_ones_own() -> None:
    counts = CustomFamily(np.exp, np.exp, np.exp, name="counts", low=0)
    own = quick(counts, tol=1e-7).fit(X, LABELS, offset=np.log(HOURS))
    poisson = quick(Poisson(), tol=1e-7).fit(X, LABELS, exposure=HOURS)
    assert_allclose(own.predict(X), poisson.predict(X), rtol=1e-4)
    scores = own.score(X, LABELS, offset=np.log(HOURS)), poisson.score(X, LABELS, exposure=HOURS)
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)
    with pytest.raises(InvalidParameterError, match="exposure is for counts"):
        own.predict(X, exposure=2.0)


def test_entries_are_predicted_without_a_dense_array() -> None:
    model = by_hours()
    means = model.predict(X, exposure=BY_ROW)
    got = model.predict_entries(X, LABELS, exposure=BY_ROW)
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


# -- values on an edge, unseen labels ------------------------------------------------------------------------


def test_a_label_without_a_single_count_gets_a_small_rate() -> None:
    Y = data("poisson")
    Y[:, 2] *= 0
    model = quick("poisson").fit(X, Y)
    assert_allclose(model.coef_[:, 2], 0, atol=1e-12)
    count, mean = np.sum(~np.isnan(Y[:, 2])), np.nanmean(Y)
    assert_allclose(model.predict(X)[:, 2], mean / (count + 1))
    assert np.isfinite(model.score(X, Y))


@every_family
def test_a_label_without_values_gets_the_overall_mean(family: str) -> None:
    Y = data(family)
    Y[:, [1, 4]] = np.nan
    with pytest.warns(UninformativeLabelsWarning, match=r"2 of 8 labels .*the first: 1"):
        model = quick(family).fit(X, Y)
    # For fractions the mean is smoothed by one value of ½.
    assert_allclose(model.predict(X)[:, [1, 4]], np.nanmean(Y), atol=2e-3)


def test_constant_values_are_predicted_exactly() -> None:
    for Y in (np.full((150, 3), 1 / 3), np.tile([0.1, 7 / 3, 1e6 / 3], (150, 1))):
        model = LowRankRegressor(random_state=0).fit(X, Y)
        assert_allclose(model.predict(X), Y, rtol=1e-10)
        assert model.score(X, Y) == 1.0
        assert model.score(X, Y + 1) == 0.0


# -- without features, and forms of values -------------------------------------------------------------------


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


@every_family
def test_every_form_of_values_gives_the_same_model(family: str) -> None:
    Y, reference = data(family), fitted(family)
    seen = ~np.isnan(Y)
    frame = pd.DataFrame(Y, columns=[f"label {j}" for j in range(8)])
    for form, values in {
        "nested lists with None": [[None if np.isnan(v) else v for v in row] for row in Y],
        "masked array": np.ma.masked_array(np.where(seen, Y, -9), ~seen),
        "sparse with stored zeros": sp.csr_array((Y[seen], np.nonzero(seen)), shape=Y.shape),
        "pandas": frame,
        "polars": pl.DataFrame(frame.to_dict("list")).fill_nan(None),
        "ObservedLabels": ObservedLabels.from_dense(Y, binary=False),
    }.items():
        model = quick(family).fit(X, values)
        assert_array_equal(model.predict(X), reference.predict(X), err_msg=form)
        assert model.score(X, values) == reference.score(X, Y), form
    column, vector = quick(family).fit(X, Y[:, :1]), quick(family).fit(X, Y[:, 0])
    assert vector.predict(X).shape == vector.decision_function(X, offset=np.ones(150)).shape == (150,)
    assert_array_equal(vector.predict(X), column.predict(X)[:, 0])
    assert vector.score(X, Y[:, 0]) == column.score(X, Y[:, :1]) == vector.score(X, Y[:, :1])
    missing = np.where(seen[:, 0], Y[:, 0], None)
    assert_array_equal(quick(family).fit(X, missing).predict(X), vector.predict(X))


def test_absent_counts_of_a_sparse_matrix_are_not_guessed() -> None:
    counts = sp.csr_array(draw_values("poisson", Z)[0])
    counts.eliminate_zeros()
    with pytest.raises(InvalidLabelsError, match=r"unobserved='negative', binary=False.*binary=False"):
        LowRankRegressor("poisson").fit(X, counts)
    zeros = ObservedLabels.from_sparse(counts, unobserved="negative", binary=False)
    complete = quick("poisson").fit(X, counts.toarray())
    assert_array_equal(quick("poisson").fit(X, zeros).coef_, complete.coef_)
    known = ObservedLabels.from_sparse(counts, binary=False)
    assert quick("poisson").fit(X, known).predict(X).mean() > complete.predict(X).mean()


# -- other parameters ----------------------------------------------------------------------------------------


@pytest.mark.slow
@every_family
def test_rank_bound_penalty_and_rival(family: str) -> None:
    Y, plain = data(family), fitted(family)
    assert quick(family, rank=1).fit(X, Y).rank_ == 1
    assert np.abs(X @ quick(family, score_bound=0.4).fit(X, Y).coef_).max() <= 0.4 * (1 + 1e-9)
    assert_array_equal(quick(family, score_bound="auto").fit(X, Y).coef_, plain.coef_)
    assert not np.allclose(quick(family, penalty="scores").fit(X, Y).coef_, plain.coef_, atol=1e-2)
    rival = quick(family, solver="alternating", rank=5, max_iter=300, tol=1e-2).fit(X, Y)
    assert rival.score(X, Y) == pytest.approx(plain.score(X, Y), abs=0.02)


def test_a_callback_sees_the_objective_in_the_units_of_the_values(capsys: Any) -> None:
    seen: list[Any] = []
    model = quick(trace_penalty=2e3, verbose=2, random_state=0)
    model.fit(X, 1e5 * data("gaussian"), callback=seen.append)
    assert seen[-1].objective == pytest.approx(model.objective_) == model.history_[-1].objective
    printed = capsys.readouterr().out
    assert "[LowRankRegressor] values, and trace penalties below, are in units of" in printed
    assert f"objective {model.objective_:.6g}" in printed


# -- bad input -----------------------------------------------------------------------------------------------


def test_known_parts_that_cannot_be_used() -> None:
    model = by_hours()
    table: dict[str, tuple[dict[str, Any], str]] = {
        "a column less": ({"offset": np.zeros((150, 7))}, r"offset has shape \(150, 7\).*\(150, 8\)"),
        "too few": ({"exposure": np.ones(3)}, r"exposure has shape \(3,\).*150 \(one per row\)"),
        "no time": ({"exposure": np.zeros(150)}, "exposure is 0 where a positive number"),
        "negative": ({"exposure": -1.0}, "exposure is -1 where a positive number"),
        "infinite": ({"exposure": np.inf}, "exposure is inf"),
        "NaN": ({"offset": np.full(150, np.nan)}, "offset is nan where a number"),
        "a word": ({"offset": "much"}, "offset must be numbers"),
        "weights of entries": ({"sample_weight": np.ones((150, 8))}, "sample_weight has shape"),
        "a negative weight": ({"sample_weight": np.full(150, -1.0)}, "not negative"),
    }
    for case, (given, message) in table.items():
        for use in (quick("poisson").fit, model.score, model.deviance):
            assert_refused(partial(use, X, LABELS, **given), message, InvalidInputError, case)
        if "sample_weight" not in given:
            of_prediction = message.replace(r".*150 \(one per row\)", "")
            assert_refused(partial(model.predict, X, **given), of_prediction, InvalidInputError, case)
    for judge in (model.score, model.deviance):
        with pytest.raises(InvalidParameterError, match="zero for every row"):
            judge(X, LABELS, sample_weight=np.zeros(150))
    with pytest.raises(InvalidParameterError, match=r"family='poisson'.*'gaussian'.*offset="):
        LowRankRegressor().fit(X, data("gaussian"), exposure=HOURS)


def test_a_vector_that_could_be_meant_by_row_or_by_value() -> None:
    Y = np.full((4, 2), np.nan)
    Y[0], Y[2], known = [1.0, 2.0], [3.0, 0.0], np.arange(1.0, 5.0)
    with pytest.raises(InvalidInputError, match="by row or by value"):
        quick("poisson").fit(X[:4], Y, exposure=known)
    # With one value in every row the two are the same.
    one_each = np.array([[1.0, np.nan], [np.nan, 2.0], [3.0, np.nan], [np.nan, 0.0]])
    quick("poisson").fit(X[:4], one_each, exposure=known)


def test_values_and_parameters_that_cannot_be_used() -> None:
    Y, ones = data("poisson"), np.ones((6, 3))
    negative = pd.DataFrame(np.where(np.arange(8) == 3, -Y - 1, Y), columns=list("abcdefgh"))
    row = int(np.argmax(~np.isnan(Y[:, 3])))
    recorded = ObservedLabels.from_any(draw_values("bernoulli", Z)[0], unobserved="unlabelled")
    of_values: dict[str, tuple[str, Any, str]] = {
        "no count": ("poisson", 0 * ones, "18 observed values are, label by label, all 0,"),
        "all are one": ("bernoulli", ones, "all 0 or all 1,"),
        "each is one or none": ("bernoulli", np.tile([0.0, 1.0], (6, 1)), "all 0 or all 1,"),
        "negative": ("poisson", negative, rf"row {row}, column 3 \(label 'd'\) is -.*\[0, inf\)"),
        "above one": ("bernoulli", Y + 0.5, r"bernoulli family takes numbers in \[0, 1\]"),
        "infinite": ("gaussian", np.full(len(X), np.inf), "infinity"),
        "huge": ("gaussian", np.where(Y > 0, 1e120, Y), r"1\.0e\+120, whose square overflows"),
        "recorded positives": ("bernoulli", recorded, "unlabelled"),
    }
    for case, (family, values, message) in of_values.items():
        rows = X[: np.shape(values)[0] if case != "recorded positives" else None]
        assert_refused(partial(quick(family).fit, rows, values), message, InvalidLabelsError, case)
    with pytest.raises(InvalidLabelsError, match=r"shape \(150, 7\)"):
        fitted("gaussian").predict_entries(X, Y[:, :7])
    of_parameters: tuple[tuple[dict[str, Any], type[Exception], str], ...] = (
        ({"family": "poison"}, UnknownNameError, "poisson"),
        ({"penalty": "weight"}, UnknownNameError, "weights"),
        ({"trace_penalty": -1.0}, InvalidParameterError, "trace_penalty"),
        ({"trace_penalty": 0.0, "ridge_penalty": 0.0}, InvalidParameterError, "both 0"),
        ({"score_bound": 0.0}, InvalidParameterError, "score_bound"),
        ({"solver": "alternating"}, InvalidParameterError, "rank"),
    )
    for parameters, error, message in of_parameters:
        assert_refused(partial(LowRankRegressor(**parameters).fit, X, Y), message, error, parameters)
