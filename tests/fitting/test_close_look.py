"""The close look: fits within a few directions, and a search that compares by them."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from labelgap import LowRankClassifier, ObservedLabels, get_metric
from labelgap.data import make_low_rank_labels
from labelgap.exceptions import InterruptedFitWarning
from labelgap.fitting import choice, close_look
from labelgap.fitting import run as fit_run
from labelgap.fitting.close_look import few_directions, span_of
from labelgap.fitting.cross_validation import CrossValidation, SolverSettings
from labelgap.fitting.judges import MetricJudge
from labelgap.fitting.run import FitRun
from labelgap.objective.protocol import Factors
from labelgap.solvers import SOLVERS, FitListener, Penalties
from labelgap.solvers.loop import Checkpoint
from solver_problems import dense_coordinates, make_problem, random_features, random_labels

N, D, N_LABELS = 60, 40, 12
PENALTIES = Penalties(0.02, 0.005)
EXACT = SolverSettings(SOLVERS["auto"], tol=1e-9)
FEATURES: dict[str, dict[str, Any]] = {
    "plain": {},
    "scaled": {"scaling": "root"},
    "weighted labels": {"label_weighting": 0.5},
    "label features": {"label_features": sp.csr_array(np.eye(N_LABELS)[:, :3] + 0.5)},
}


def problem_with(kind: str = "csr", **features: Any) -> tuple[Any, ObservedLabels]:
    rng = np.random.default_rng(0)
    X = random_features(rng, kind, N, D)
    labels = ObservedLabels.from_dense(random_labels(rng, N, N_LABELS))
    return make_problem(X, labels, features={"centre": kind == "dense", **features}), labels


def directions(d: int, count: int = 5) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(1).standard_normal((d, count)))[0]


# -- the problem within a span -----------------------------------------------------------------------------


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_a_model_within_a_span_has_the_scores_of_the_model_that_it_stands_for(
    kind: str, features: str
) -> None:
    problem, labels = problem_with(kind, **FEATURES[features])
    objective = problem.objective(labels)
    U = directions(objective.shape[0])
    within = problem.in_span(U)
    rng = np.random.default_rng(2)
    M = Factors(
        rng.standard_normal((U.shape[1], 2)),
        rng.standard_normal((objective.shape[1], 2)),
        rng.standard_normal(N_LABELS),
    )
    W = M._replace(left=U @ M.left)
    here, there = within.objective(labels).at(M), objective.at(W)
    assert_allclose(here.value, there.value, rtol=1e-12)
    assert_allclose(within.scores(M, labels), problem.scores(W, labels), atol=1e-12)
    # The gradient in M is that in W, projected.
    assert_allclose(here.gradient().left, U.T @ there.gradient().left, atol=1e-12)
    assert_allclose(here.gradient().right, there.gradient().right, atol=1e-12)


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_a_span_that_holds_the_optimum_has_it_and_others_are_worse(kind: str) -> None:
    problem, labels = problem_with(kind)
    best = EXACT.fit(problem.objective(labels), PENALTIES)
    U = np.linalg.qr(np.hstack([best.factors.left, directions(best.factors.left.shape[0], 2)]))[0]
    within = EXACT.fit(problem.in_span(U).objective(labels), PENALTIES)
    assert_allclose(within.objective, best.objective, rtol=1e-8)
    assert_allclose(
        U @ within.factors.left @ within.factors.right.T, best.factors.left @ best.factors.right.T, atol=1e-4
    )
    elsewhere = EXACT.fit(problem.in_span(directions(len(U))).objective(labels), PENALTIES)
    assert elsewhere.objective > best.objective * (1 + 1e-6)


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_the_span_holds_the_model_and_what_a_smaller_penalty_lets_in(kind: str) -> None:
    problem, labels = problem_with(kind)
    penalties = Penalties(0.04, 0.005)
    objective = problem.objective(labels)
    fit = EXACT.fit(objective, penalties)
    U = span_of(objective, fit.factors, penalties)
    assert_allclose(U.T @ U, np.eye(U.shape[1]), atol=1e-9)
    left = fit.factors.left
    assert_allclose(U @ (U.T @ left), left, atol=1e-6 * np.abs(left).max())
    assert fit.rank < U.shape[1] < D
    # The slope, formed by hand; its singular vectors that are no part of W come in if their values say so.
    X = dense_coordinates(problem, objective)
    z = problem.scores(fit.factors, labels)
    G = np.zeros(labels.shape)
    G[labels.rows, labels.cols] = (1 / (1 + np.exp(-z)) - labels.values) / labels.n_observed
    H = X.T @ G + penalties.ridge * left @ fit.factors.right.T
    vectors, values, _ = np.linalg.svd(H, full_matrices=False)
    inside = np.linalg.norm(U.T @ vectors, axis=0)
    assert np.all(inside[values > 1.02 * close_look._LET_IN * penalties.trace] > 0.99)
    assert np.any(inside[values < 0.9 * close_look._LET_IN * penalties.trace] < 0.5)


def test_folds_within_all_directions_judge_as_folds_without_a_basis() -> None:
    problem, labels = problem_with()
    plan = np.arange(labels.n_observed) % 5 // 3
    judge = MetricJudge(get_metric("micro-f1"), problem.loss)
    turned = directions(D, D)
    plain, within = (
        CrossValidation(problem, labels, plan, judge, EXACT, basis=basis) for basis in (None, turned)
    )
    one, other = plain(PENALTIES), within(PENALTIES)
    assert_allclose(other.loss, one.loss, rtol=1e-5)
    assert other.metric_value == pytest.approx(one.metric_value, abs=1e-9)
    # What others ask for is W, whatever the fits are within.
    for fold in range(2):
        fits = [folds.fit_of_fold(fold) for folds in (plain, within)]
        one_W, other_W = (fit.left @ fit.right.T for fit in fits if fit is not None)
        assert_allclose(other_W, one_W, atol=1e-4)
        assert within.penalties_of_fold(fold) == PENALTIES
    assert within.best_so_far is not None
    assert within.best_so_far[1].left.shape[0] == D
    # A fit that is handed to and fro stays what it is.
    plain.start_from(within)
    handed, own = plain.fit_of_fold(0), within.fit_of_fold(0)
    assert handed is not None
    assert own is not None
    assert_allclose(handed.left, own.left)


# -- the search ----------------------------------------------------------------------------------------------

PROBLEM = make_low_rank_labels(n=400, n_labels=12, n_features=80, rank=3, observed=0.5, random_state=0)
X, LABELS = sp.csr_array(PROBLEM.X), ObservedLabels.from_any(PROBLEM.Y_observed)
OPTIONS: dict[str, Any] = {"random_state": 0, "max_iter": 300, "tol": 5e-3}
SOON = {"_FOR_PENALTIES": (1, 1), "_FOR_THRESHOLD": (0.3 * LABELS.n_observed, 1)}


@pytest.fixture
def looks_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few entries are enough for a coarse search, and two of five folds for a threshold."""
    for name, value in SOON.items():
        monkeypatch.setattr(choice, name, value)


@pytest.fixture(scope="module")
def plain() -> LowRankClassifier:
    """A model that such a search has chosen, fitted once."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name, value in SOON.items():
            monkeypatch.setattr(choice, name, value)
        return LowRankClassifier(**OPTIONS).fit(X, LABELS)


class Fits:
    """Remembers every fit: the rows of its W, its penalties, and the entries that it saw."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[int, Penalties]] = []
        fit = SolverSettings.fit

        def remembered(settings: Any, objective: Any, penalties: Penalties, *args: Any, **kwargs: Any) -> Any:
            self.seen.append((objective.shape[0], penalties))
            return fit(settings, objective, penalties, *args, **kwargs)

        monkeypatch.setattr(SolverSettings, "fit", remembered)


def test_most_choices_are_compared_within_few_directions_and_the_last_fits_are_not(
    looks_soon: None, plain: LowRankClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = Fits(monkeypatch)
    model = LowRankClassifier(**OPTIONS).fit(X, LABELS)
    rows = [d for d, _ in fits.seen]
    within = [d for d in rows if d < 80]
    assert len(within) > 4
    assert max(within) <= close_look._FEW * 80
    # The fits of both folds and the last fit.
    assert rows[-3:] == [80, 80, 80]
    assert model.coef_.shape == (80, 12)
    assert model.relative_gap_ <= model.tol
    assert np.array_equal(model.coef_, plain.coef_)


def test_candidates_are_listed_in_the_penalties_of_a_fold(plain: LowRankClassifier) -> None:
    *searched, last = plain.candidates_
    assert {candidate.n_folds for candidate in plain.candidates_} == {2}
    assert last.penalties in [candidate.penalties for candidate in searched]
    assert plain.trace_penalty_ == pytest.approx(last.penalties.trace * 0.8**0.5, rel=1e-2)
    assert plain.ridge_penalty_ == last.penalties.ridge


def test_the_choice_is_about_as_good_as_that_of_fits_with_all_directions(
    looks_soon: None, plain: LowRankClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(close_look, "_FEW", 0.0)
    fits = Fits(monkeypatch)
    all_directions = LowRankClassifier(**OPTIONS).fit(X, LABELS)
    assert {d for d, _ in fits.seen} == {80}
    close, far = (
        model.score(sp.csr_array(PROBLEM.X_test), PROBLEM.Y_test) for model in (plain, all_directions)
    )
    assert close == pytest.approx(far, abs=0.01)


def test_directions_whose_features_would_be_larger_than_the_data_are_not_taken(
    looks_soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(close_look, "_SMALL", 0)
    rare = sp.csr_array(np.where(np.random.default_rng(0).random(X.shape) < 0.02, PROBLEM.X, 0.0))
    few = LABELS.select(np.arange(LABELS.n_observed) % 4 == 0)
    fits = Fits(monkeypatch)
    LowRankClassifier(**OPTIONS).fit(rare, few)
    assert {d for d, _ in fits.seen} == {80}


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_jobs_do_not_change_the_model(looks_soon: None, plain: LowRankClassifier, n_jobs: int) -> None:
    other = LowRankClassifier(**OPTIONS, n_jobs=n_jobs).fit(X, LABELS)
    assert [c.penalties for c in other.candidates_] == [c.penalties for c in plain.candidates_]
    assert_allclose(other.coef_, plain.coef_)


@pytest.mark.parametrize("few", [close_look._FEW, 0.0])
def test_a_fit_that_is_killed_anywhere_ends_with_the_same_model(
    few: float, looks_soon: None, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(close_look, "_FEW", few)
    plain = LowRankClassifier(**OPTIONS).fit(X, LABELS)

    class Killed(Exception):
        pass

    class Killer(FitListener):
        def __init__(self, at: int) -> None:
            self.left = at

        def candidate(self, candidate: Any) -> None:
            self.left -= 1
            if not self.left:
                raise Killed

    # Each attempt comes one candidate further than the one before it; the last one ends.
    for at in range(1, len(plain.candidates_) + 1):
        with pytest.raises(Killed):
            LowRankClassifier(**OPTIONS).fit(X, LABELS, Killer(at), checkpoint=tmp_path / "fit")
    resumed = LowRankClassifier(**OPTIONS).fit(X, LABELS, checkpoint=tmp_path / "fit")
    assert [c.penalties for c in resumed.candidates_] == [c.penalties for c in plain.candidates_]
    assert [c.loss for c in resumed.candidates_] == [c.loss for c in plain.candidates_]
    assert resumed.threshold_ == plain.threshold_
    assert np.array_equal(resumed.coef_, plain.coef_)


UNEVEN = LABELS.select(np.random.default_rng(3).random(LABELS.n_observed) < 0.9**LABELS.indices)


@pytest.mark.parametrize("part", [0.3, 0.5, 0.7, 0.8, 0.9, 0.95])
def test_a_stopped_fit_is_the_one_that_was_judged_and_resumes_to_the_same_model(
    part: float, looks_soon: None, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With label weightings to compare, whose directions must not come from unfinished fits."""
    asked = 0
    request, at = threading.Event(), float("inf")
    monkeypatch.setattr(fit_run, "stop_on_interrupt", lambda: contextlib.nullcontext(request))
    stopping = Checkpoint.stopping

    def counted(checkpoint: Checkpoint) -> bool:
        nonlocal asked
        asked += 1
        if asked >= at:
            request.set()
        return stopping(checkpoint)

    monkeypatch.setattr(Checkpoint, "stopping", counted)
    plain = LowRankClassifier(**OPTIONS).fit(X, UNEVEN)
    at, asked = part * asked, 0
    with pytest.warns(InterruptedFitWarning):
        stopped = LowRankClassifier(**OPTIONS).fit(X, UNEVEN, checkpoint=tmp_path / "fit")
    assert stopped.coef_.shape == (80, 12)
    at = float("inf")
    request.clear()
    resumed = LowRankClassifier(**OPTIONS).fit(X, UNEVEN, checkpoint=tmp_path / "fit")
    assert np.array_equal(resumed.coef_, plain.coef_)
    assert resumed.threshold_ == plain.threshold_


def test_a_penalty_that_is_given_is_compared_as_given(
    looks_soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = Fits(monkeypatch)
    LowRankClassifier(**OPTIONS, trace_penalty=0.01).fit(X, LABELS)
    assert {penalties.trace for _, penalties in fits.seen} == {0.01}


def test_stopped_during_the_close_look_the_best_so_far_is_a_model_of_all_features(
    looks_soon: None, plain: LowRankClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = threading.Event()
    monkeypatch.setattr(fit_run, "stop_on_interrupt", lambda: contextlib.nullcontext(request))

    class Stopper(FitListener):
        left = len(plain.candidates_) - 2

        def candidate(self, candidate: Any) -> None:
            self.left -= 1
            if not self.left:
                request.set()

    with pytest.warns(InterruptedFitWarning, match="while choosing penalties"):
        model = LowRankClassifier(**OPTIONS).fit(X, LABELS, Stopper())
    assert model.interrupted_
    assert model.coef_.shape == (80, 12)
    assert model.rank_ > 0
    assert model.score(sp.csr_array(PROBLEM.X_test), PROBLEM.Y_test) > 0.7


@pytest.mark.parametrize("has_other", [False, True])
def test_directions_are_those_of_a_fit_with_the_penalties_asked_for(
    has_other: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where another fit scored better and is what the folds start from."""
    monkeypatch.setattr(close_look, "_FEW", 1.0)
    problem, labels = problem_with()
    plan = (np.arange(labels.n_observed) % 5 < 2).astype(int) - 1
    judge = MetricJudge(get_metric("micro-f1"), problem.loss)
    folds = CrossValidation(problem, labels, plan, judge, EXACT)

    class Choice:
        run = FitRun()

    penalties = Penalties(0.03, 0.005)
    folds.compare([Penalties(0.05, 0.005)] if has_other else [penalties])
    one = few_directions(Choice(), folds, penalties, "here", 1e-9)  # type: ignore[arg-type]
    assert one is not None
    alone = EXACT.fit(folds.objective(0, free_intercept=True), penalties).factors
    assert_allclose(one.model.left @ one.model.right.T, alone.left @ alone.right.T, atol=1e-5)
    assert_allclose(one.basis @ (one.basis.T @ alone.left), alone.left, atol=1e-4)
    # The folds still start from what they started from.
    assert folds.penalties_of_fold(0) == (Penalties(0.05, 0.005) if has_other else penalties)


def test_a_comparison_may_start_elsewhere_for_once() -> None:
    problem, labels = problem_with()
    plan = np.arange(labels.n_observed) % 5 // 3
    judge = MetricJudge(get_metric("micro-f1"), problem.loss)
    loose = SolverSettings(SOLVERS["auto"], tol=0.5)
    folds, others = (CrossValidation(problem, labels, plan, judge, loose) for _ in range(2))
    first, second = Penalties(0.05, 0.005), Penalties(0.01, 0.005)
    folds.compare([first])
    kept = folds.fit_of_fold(0)
    others.compare([second], tol=1e-9)
    (near,) = folds.compare([second], start=others)
    (far,) = CrossValidation(problem, labels, plan, judge, EXACT).compare([second])
    assert near.loss == pytest.approx(far.loss, rel=1e-3)
    if near.metric_value < folds.best_so_far[0].metric_value:  # type: ignore[index]
        assert folds.fit_of_fold(0) is kept
