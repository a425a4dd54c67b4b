"""The choice of penalties as an object of its own, without an estimator around it."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from labelgap import ObservedLabels, best_threshold, get_metric
from labelgap.exceptions import LabelgapWarning
from labelgap.fitting.choice import PenaltyChoice
from labelgap.fitting.cross_validation import SolverSettings
from labelgap.fitting.judges import DecisionRule, MetricJudge
from labelgap.fitting.penalty_grid import PenaltyGrid, PenaltyRequest, grid_for_observed
from labelgap.fitting.problem import feature_settings, intercept_request, observed_problem
from labelgap.fitting.run import FitRun
from labelgap.fitting.unlabelled import UnlabelledChoice
from labelgap.losses import Squared
from labelgap.objective.parts import FeatureSettings
from labelgap.solvers import SOLVERS, FitListener, Penalties
from solver_problems import Case

CASE = Case(n=30, n_labels=5)
METRIC = get_metric("micro-f1")
SETTINGS = SolverSettings(SOLVERS["factored"])
GRID = PenaltyGrid([0.1, 0.05, 0.02], [1e-3])


def choice_for_decisions(problem, labels, grid, metric, settings, run, **options):
    rule = DecisionRule(metric)
    judges = rule.search_judge(problem.loss), rule.last_judge(problem.loss)
    return PenaltyChoice(
        problem, labels, grid, judges[0], settings, run, last_judge=judges[1], rule=rule, **options
    )


class Heard(FitListener):
    def __init__(self):
        self.told = []

    def stage(self, what):
        self.told.append(what)

    def candidate(self, candidate):
        self.told.append(candidate)


def test_a_given_trace_penalty_stays_as_it_is():
    grid = PenaltyGrid([0.05], [1e-3, 1e-2])
    run = FitRun(random_state=0)
    chosen = choice_for_decisions(
        CASE.problem, CASE.labels, grid, METRIC, SETTINGS, run, how="cross-fit"
    ).fit()
    assert chosen.penalties == chosen.candidates[-1].penalties


def test_the_result_says_what_was_compared_and_what_won():
    heard = Heard()
    run = FitRun(heard, random_state=0)
    chosen = choice_for_decisions(
        CASE.problem, CASE.labels, GRID, METRIC, SETTINGS, run, how="cross-fit"
    ).fit()
    assert heard.told == ["choosing penalties", *chosen.candidates, "fitting"]
    *search, last = chosen.candidates
    assert last.penalties in [candidate.penalties for candidate in search]
    # The last fit has more entries than a fold, and so a smaller λ.
    assert chosen.penalties.trace == pytest.approx(last.penalties.trace * 0.8**0.5, rel=2e-2)
    assert chosen.penalties == replace(last.penalties, trace=chosen.penalties.trace)
    assert chosen.threshold == last.threshold
    assert chosen.held_out_metric == last.metric_value
    assert chosen.fit.relative_gap <= SETTINGS.tol
    assert chosen.flip_rates is None


def test_with_given_penalties_and_training_scores_nothing_is_held_out():
    grid = PenaltyGrid([0.02])
    chosen = choice_for_decisions(
        CASE.problem, CASE.labels, grid, METRIC, SETTINGS, FitRun(), how="train"
    ).fit()
    assert chosen.candidates == ()
    assert chosen.held_out_metric is None
    assert chosen.penalties == Penalties(0.02)
    scores = CASE.problem.scores(chosen.fit.factors, CASE.labels)
    assert chosen.threshold == best_threshold(scores, CASE.labels, METRIC).threshold


def test_penalties_are_compared_on_held_out_entries_even_where_training_scores_set_the_threshold():
    how = {
        how: choice_for_decisions(
            CASE.problem, CASE.labels, GRID, METRIC, SETTINGS, FitRun(random_state=0), how=how
        ).fit()
        for how in ("train", "cross-fit")
    }
    assert how["train"].candidates == how["cross-fit"].candidates
    scores = CASE.problem.scores(how["train"].fit.factors, CASE.labels)
    assert how["train"].threshold == best_threshold(scores, CASE.labels, METRIC).threshold


def test_without_decisions_there_is_no_threshold():
    judge = MetricJudge(METRIC, CASE.problem.loss)
    chosen = PenaltyChoice(CASE.problem, CASE.labels, GRID, judge, SETTINGS, FitRun(random_state=0)).fit()
    assert np.isnan(chosen.threshold)
    assert chosen.held_out_metric is not None


def test_too_few_entries_leave_a_guess_with_a_warning():
    few = CASE.labels.select(np.arange(CASE.labels.n_observed) < 3)
    grid = grid_for_observed(CASE.problem, few, PenaltyRequest("auto", "auto", 0.0))
    choice = choice_for_decisions(CASE.problem, few, grid, METRIC, SETTINGS, FitRun(), how="cross-fit")
    with pytest.warns(LabelgapWarning, match="from training scores and the penalties are a guess"):
        chosen = choice.fit()
    assert chosen.candidates == ()
    assert grid.traces[-1] < chosen.penalties.trace < grid.traces[0]


def test_recorded_positives_come_with_their_flip_rates():
    positives = ObservedLabels.from_any(np.nan_to_num(CASE.data[1]), unobserved="unlabelled")
    rates = np.array([0.1, 0.2, 0.3, 0.2, 0.99])
    request = PenaltyRequest(0.02, 0.0, 0.0)
    choice = UnlabelledChoice(
        None,
        positives,
        FeatureSettings(own_rows=True),
        Squared(),
        request,
        SETTINGS,
        FitRun(random_state=0),
    )
    assert choice.entries.is_complete
    with pytest.warns(LabelgapWarning, match="not possible for 1 of 5 labels"):
        chosen = choice.fit(METRIC, rates, how="cross-fit")
    assert chosen.flip_rates is not None
    assert chosen.flip_rates.interval is None
    np.testing.assert_array_equal(chosen.flip_rates.value, rates)
    np.testing.assert_array_equal(chosen.flip_rates.by_label[:4], rates[:4])
    assert chosen.flip_rates.by_label[4] < 0.99
    assert not np.isnan(chosen.threshold)


# -- features ------------------------------------------------------------------------------------------------


def scales(X, trace="auto", scaling="auto"):
    request = PenaltyRequest(trace, "auto", 0.0)
    options = {"fit_intercept": True, "bounded": False, "penalty": "weights", "scaling": scaling}
    labels = ObservedLabels.from_dense(np.zeros((X.shape[0], 3)))
    settings = feature_settings(X, request, **options)
    return observed_problem(
        X, labels, settings, Squared(), fit_intercept=True, score_bound=None
    ).feature_scales


def test_automatic_scaling_depends_on_the_features_and_on_given_penalties():
    X = np.random.default_rng(0).standard_normal((20, 4)) * [1.0, 10.0, 100.0, 1000.0]
    dense = scales(X)
    np.testing.assert_allclose((X * dense).std(axis=0), (X * dense).std(axis=0)[0])
    assert scales(X, trace=0.1) is None
    np.testing.assert_array_equal(scales(X, trace=0.0), dense)
    assert scales(X, trace=0.1, scaling="standard") is not None
    np.testing.assert_array_equal(scales(sp.csr_array(X)), scales(sp.csr_array(X), scaling="root"))
    assert scales(sp.csr_array(X[:3])) is None


def test_intercepts_are_penalised_unasked_only_where_the_features_are_centred():
    X = np.random.default_rng(0).standard_normal((20, 4))
    X -= X.mean(axis=0)
    assert intercept_request(X, "auto", fit_intercept=True) == "auto"
    assert intercept_request(None, "auto", fit_intercept=True) == "auto"
    assert intercept_request(X + 3, "auto", fit_intercept=True) == 0
    assert intercept_request(X + 3, 0.1, fit_intercept=True) == 0.1
    assert intercept_request(X, "auto", fit_intercept=False) == 0
