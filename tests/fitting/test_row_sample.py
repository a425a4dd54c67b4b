"""A sample of the rows that chooses for all of them."""

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
from labelgap.fitting import row_sample
from labelgap.fitting import run as fit_run
from labelgap.fitting.choice import PenaltyChoice
from labelgap.fitting.cross_validation import SolverSettings
from labelgap.fitting.judges import MetricJudge
from labelgap.fitting.penalty_grid import PenaltyGrid
from labelgap.fitting.row_sample import RowSample, SampleValidation, draw_rows
from labelgap.solvers import SOLVERS, FitListener, Penalties
from solver_problems import make_problem, random_features, random_labels

PROBLEM = make_low_rank_labels(n=240, n_labels=8, n_features=5, observed=0.6, random_state=0)
X, LABELS = sp.csr_array(PROBLEM.X), ObservedLabels.from_any(PROBLEM.Y_observed)
OPTIONS: dict[str, Any] = {"features": "linear", "random_state": 0}


SOON = {"_ENTRIES": 100, "_RARE": 20, "_FRACTION": 0.2, "_MOST": 0.5, "_JUDGED": 2.0}


@pytest.fixture
def samples_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few entries are enough for a sample."""
    for name, value in SOON.items():
        monkeypatch.setattr(row_sample, name, value)


@pytest.fixture(scope="module")
def plain() -> LowRankClassifier:
    """A model that a sample has chosen, fitted once."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name, value in SOON.items():
            monkeypatch.setattr(row_sample, name, value)
        return LowRankClassifier(**OPTIONS).fit(X, LABELS)


def test_rows_that_judge_are_not_fitted(samples_soon: None) -> None:
    sample = draw_rows(LABELS, np.random.RandomState(0))
    assert sample is not None
    assert not set(sample.fitted) & set(sample.judged)
    counts = LABELS.row_counts()
    fitted, judged = (int(counts[rows].sum()) for rows in (sample.fitted, sample.judged))
    assert 0.2 * LABELS.n_observed <= fitted <= 0.2 * LABELS.n_observed + counts.max()
    assert fitted <= judged <= 2 * fitted + counts.max()
    assert sample.times == LABELS.n_observed / fitted


def test_where_few_labels_are_observed_or_few_rows_have_most_there_is_no_sample(samples_soon: None) -> None:
    rng = np.random.RandomState(0)
    assert draw_rows(LABELS.take_rows(np.arange(20)), rng) is None
    # One class alone cannot be judged.
    assert draw_rows(LABELS.select(LABELS.values == 1), rng) is None
    Y = np.full((50, 400), np.nan)
    Y[0] = np.arange(400) % 2
    Y[1:, 0] = 1
    assert draw_rows(ObservedLabels.from_dense(Y), rng) is None


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_a_sample_has_the_coordinates_of_all_rows(kind: str) -> None:
    rng = np.random.default_rng(0)
    features = random_features(rng, kind, 30, 4)
    labels = ObservedLabels.from_dense(random_labels(rng, 30, 5))
    settings = {"scaling": "standard" if kind == "dense" else "root", "centre": kind == "dense"}
    whole = make_problem(features, labels, features=settings)
    rows = np.array([0, 1, 4, 9, 17])
    some = whole.of_rows(rows, labels.take_rows(rows))
    fit = SolverSettings(SOLVERS["auto"]).fit(whole.objective(labels), Penalties(0.02, 0.01))
    scores = np.full(labels.shape, np.nan)
    scores[labels.rows, labels.cols] = whole.scores(fit.factors, labels)
    taken = labels.take_rows(rows)
    assert_allclose(some.scores(fit.factors, taken), scores[rows][taken.rows, taken.cols])
    # The mean loss over the sample, by hand.
    z, y = some.scores(fit.factors, taken), taken.values
    by_hand = np.mean(np.logaddexp(0.0, np.where(y == 1, -z, z)))
    assert_allclose(some.objective(taken, free_intercept=False).at(fit.factors).value, by_hand)


def test_a_candidate_of_a_sample_is_a_fit_to_its_rows_judged_on_others() -> None:
    rng = np.random.default_rng(1)
    features = sp.csr_array(random_features(rng, "csr", 40, 4))
    labels = ObservedLabels.from_dense(random_labels(rng, 40, 5))
    problem, penalties = make_problem(features, labels), Penalties(0.02, 0.01)
    settings = SolverSettings(SOLVERS["auto"], tol=1e-8)
    judge = MetricJudge(get_metric("micro-f1"), problem.loss)
    sample = RowSample(np.arange(0, 25), np.arange(25, 40), 1.0)
    # Entries that a fold holds out are not fitted to.
    seen = labels.select(np.arange(labels.n_observed) % 5 != 0)
    candidate = SampleValidation(problem, labels, seen, sample, judge, settings)(penalties)
    fitted, judged = seen.take_rows(sample.fitted), labels.take_rows(sample.judged)
    alone = make_problem(features[:25], fitted)
    fit = settings.fit(alone.objective(fitted), penalties)
    verdict = judge(make_problem(features[25:], judged).scores(fit.factors, judged), judged)
    assert_allclose(candidate.loss, verdict.loss, rtol=1e-4)
    assert_allclose(candidate.metric_value, verdict.value, rtol=1e-3)
    assert candidate.n_folds == 1


def test_the_grid_of_a_sample_has_the_places_of_the_grid_of_all_rows() -> None:
    grid = PenaltyGrid([0.4, 0.2, 0.1], [0.0, 1e-3], [0.0, 0.5])
    small = grid.for_sample(4.0)
    assert small.of_all is grid
    assert small.at((1, 1, 1)) == Penalties(0.4, 4e-3, 2.0)
    assert small.place_of(small.at((2, 0, 1))) == (2, 0, 1)


def test_candidates_are_listed_in_the_penalties_of_all_rows(plain: LowRankClassifier) -> None:
    model = plain
    *searched, last = model.candidates_
    assert last.penalties in [candidate.penalties for candidate in searched]
    assert model.trace_penalty_ == pytest.approx(last.penalties.trace * 0.8**0.5, rel=1e-2)
    assert model.ridge_penalty_ == last.penalties.ridge
    # Those of a sample are judged by the rows outside; at least two are then judged by folds of all rows.
    folds = [candidate.n_folds for candidate in searched]
    assert folds[0] == 1
    assert last.n_folds == folds[-1] == folds[-2] == 5
    assert model.relative_gap_ <= model.tol


@pytest.mark.slow
def test_a_sample_costs_fewer_fits_and_its_choice_is_about_as_good(
    plain: LowRankClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampled = plain
    monkeypatch.setattr(PenaltyChoice, "samples_rows", False)
    thorough = LowRankClassifier(**OPTIONS).fit(X, LABELS)
    assert 3 * len(sampled.candidates_) < sum(candidate.n_folds for candidate in thorough.candidates_)
    scores = [model.score(sp.csr_array(PROBLEM.X_test), PROBLEM.Y_test) for model in (sampled, thorough)]
    assert scores[0] >= scores[1] - 0.03


def test_dense_features_are_never_sampled(samples_soon: None) -> None:
    given = {"ridge_penalty": 0.0, "intercept_penalty": 0.0, "label_weighting": 0.0}
    model = LowRankClassifier(**OPTIONS, **given).fit(PROBLEM.X[:80], LABELS.take_rows(np.arange(80)))
    assert {candidate.n_folds for candidate in model.candidates_} == {5}


@pytest.mark.parametrize("n_jobs", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_neither_jobs_nor_a_second_run_change_the_model(
    samples_soon: None, plain: LowRankClassifier, n_jobs: int
) -> None:
    one, other = plain, LowRankClassifier(**OPTIONS, n_jobs=n_jobs).fit(X, LABELS)
    assert one.candidates_[-1].penalties == other.candidates_[-1].penalties
    assert_allclose(one.coef_, other.coef_)
    assert one.threshold_ == pytest.approx(other.threshold_)


def test_a_resumed_fit_ends_with_the_same_model(
    samples_soon: None, plain: LowRankClassifier, tmp_path: Any
) -> None:
    class Killed(Exception):
        pass

    class Killer(FitListener):
        seen = 0

        def candidate(self, candidate: Any) -> None:
            self.seen += 1
            if self.seen == 3:
                raise Killed

    with pytest.raises(Killed):
        LowRankClassifier(**OPTIONS).fit(X, LABELS, Killer(), checkpoint=tmp_path / "fit")
    resumed = LowRankClassifier(**OPTIONS).fit(X, LABELS, checkpoint=tmp_path / "fit")
    assert resumed.threshold_ == plain.threshold_
    assert np.array_equal(resumed.coef_, plain.coef_)


def test_stopped_while_it_looks_at_a_sample_the_best_so_far_is_taken(
    samples_soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = threading.Event()
    monkeypatch.setattr(fit_run, "stop_on_interrupt", lambda: contextlib.nullcontext(request))

    class Stopper(FitListener):
        seen = 0

        def candidate(self, candidate: Any) -> None:
            self.seen += 1
            if self.seen == 4:
                request.set()

    with pytest.warns(InterruptedFitWarning, match="while choosing penalties"):
        model = LowRankClassifier(**OPTIONS).fit(X, LABELS, Stopper())
    assert model.interrupted_
    assert model.rank_ > 0
    assert model.trace_penalty_ in {candidate.penalties.trace for candidate in model.candidates_}
    assert model.score(sp.csr_array(PROBLEM.X_test), PROBLEM.Y_test) > 0.6
