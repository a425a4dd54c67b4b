import numpy as np
import pytest
from numpy.testing import assert_allclose

from labelgap.estimators.judges import metric_judge
from labelgap.exceptions import UnknownNameError
from labelgap.labels import ObservedLabels
from labelgap.losses import loss_names
from labelgap.metrics import get_metric
from labelgap.objective.protocol import Factors
from labelgap.solvers import SOLVERS, Penalties
from labelgap.solvers.path import (
    Candidate,
    HeldOutJudge,
    PenaltyGrid,
    SolverSettings,
    fit_path,
    largest_trace_penalty,
    select_penalties,
    trace_penalty_grid,
)
from labelgap.thresholds import best_threshold
from labelgap.thresholds.cross_fit import hold_out_plan
from solver_problems import Case


@pytest.mark.parametrize("loss", loss_names())
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", ["dense", "csr", "identity"])
def test_the_largest_penalty_is_the_norm_of_the_gradient_at_the_best_constant(loss, intercept, kind):
    case = Case(kind, loss, intercept, weighted=True)
    objective = case.objective()
    zero = Factors.zero(objective.shape, objective.starting_intercept())
    point = objective.at(zero)
    expected = np.linalg.norm(point.score_gradient().matrix(), 2)
    assert largest_trace_penalty(objective) == pytest.approx(expected, rel=1e-9)
    assert largest_trace_penalty(objective) >= expected * (1 - 1e-14)


def test_the_grid_falls_geometrically():
    grid = trace_penalty_grid(8.0, 4, 1 / 8)
    assert_allclose(grid, [8, 4, 2, 1])
    assert_allclose(trace_penalty_grid(3.0, 1, 0.1), [3.0])


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("bound", [None, 0.3])
def test_a_path_gives_what_cold_fits_give(solver, bound):
    case = Case(bound=bound, n=18, d=4, n_labels=5)
    objective = case.objective()
    settings = SolverSettings(SOLVERS[solver], tol=1e-5, max_iter=1000)
    path = [Penalties(trace, 1e-3) for trace in trace_penalty_grid(largest_trace_penalty(objective), 5, 0.05)]
    warm = list(fit_path(case.problem, objective, path, settings))
    assert len(warm) == len(path)
    assert warm[0].rank == 0
    for fit, penalties in zip(warm, path, strict=True):
        cold = settings.fit(case.problem, objective, penalties)
        assert fit.objective == pytest.approx(cold.objective, rel=2e-5)
    objectives = [fit.objective for fit in warm]
    assert objectives == sorted(objectives, reverse=True)


def test_a_path_fits_only_what_is_asked_for():
    case, calls = Case(), []

    def solver(objective, penalties, **options):
        calls.append((penalties.trace, options["warm_start"]))
        return SOLVERS["factored"](objective, penalties, **options)

    settings = SolverSettings(solver, tol=1e-3, max_iter=100)
    path = fit_path(case.problem, case.objective(), [Penalties(0.05), Penalties(0.02)], settings)
    first = next(path)
    assert calls == [(0.05, None)]
    next(path)
    assert calls[1][1] is first.factors


# -- the search, with a judge whose opinion is a formula -------------------------------------------------


class FakeJudge:
    """Quality as a function of (λ, λ₂, κ); remembers what it was asked."""

    def __init__(self, quality, loss=None):
        self.quality, self.loss, self.asked = quality, loss, []

    def __call__(self, penalties):
        self.asked.append((penalties.trace, penalties.ridge, penalties.intercept))
        value = self.quality(*self.asked[-1])
        loss = -value if self.loss is None else self.loss(*self.asked[-1])
        return Candidate(penalties, value, threshold=0.5, loss=loss, rank=1.0)


TRACES = tuple(2.0**-step for step in range(10))


def log_peak(trace, ridge=None, intercept=None):
    """A smooth hill in the logarithms with its top at the given penalties."""

    def quality(t, r, k):
        height = -(np.log2(t / trace) ** 2)
        if ridge is not None:
            height -= np.log2(r / ridge) ** 2
        if intercept is not None:
            height -= np.log2((k + 1) / (intercept + 1)) ** 2
        return 0.01 * height

    return quality


def test_the_top_of_a_single_hill_is_found_and_the_walk_stops_soon_after():
    judge = FakeJudge(log_peak(2.0**-3))
    selection = select_penalties(judge, PenaltyGrid(TRACES), patience=2)
    assert selection.best.penalties == Penalties(2.0**-3)
    # Down to the top and two steps beyond; nothing twice.
    assert [trace for trace, _, _ in judge.asked] == list(TRACES[:6])
    assert [candidate.penalties.trace for candidate in selection.candidates] == list(TRACES[:6])


@pytest.mark.parametrize("patience", [1, 2, 4])
def test_patience_bounds_the_steps_beyond_the_best(patience):
    judge = FakeJudge(log_peak(2.0**-2))
    select_penalties(judge, PenaltyGrid(TRACES), patience=patience)
    assert len(judge.asked) == 3 + patience


def test_patience_sees_over_a_dip():
    values = dict(zip(TRACES, [0.1, 0.3, 0.29, 0.4, 0.2, 0.2, 0.9, 0.0, 0.0, 0.0], strict=True))
    judge = FakeJudge(lambda trace, ridge, intercept: values[trace])
    assert select_penalties(judge, PenaltyGrid(TRACES), patience=2).best.penalties.trace == TRACES[3]
    assert select_penalties(judge, PenaltyGrid(TRACES), patience=3).best.penalties.trace == TRACES[6]


def test_ties_stay_with_the_larger_penalty():
    judge = FakeJudge(lambda trace, ridge, intercept: 0.5)
    grid = PenaltyGrid(TRACES, ridges=(0.1, 0.2), intercepts=(0.0, 1.0))
    assert select_penalties(judge, grid).best.penalties == Penalties(1.0, 0.1)


def test_gains_too_small_to_be_worth_it_end_the_walk_but_count():
    # Each step gains 1e-4: real, but not worth walking on for.
    judge = FakeJudge(lambda trace, ridge, intercept: -1e-4 * np.log2(trace))
    selection = select_penalties(judge, PenaltyGrid(TRACES, intercepts=(0.0,)), patience=2)
    assert selection.best.metric_value == max(c.metric_value for c in selection.candidates)


def test_ridge_and_intercept_are_explored_in_both_directions():
    ridges = tuple(2.0**power for power in range(-4, 4))
    intercepts = (0.0, 1.0, 3.0, 7.0)
    for ridge, intercept in ((2.0**2, 3.0), (2.0**-3, 1.0), (1.0, 0.0)):
        judge = FakeJudge(log_peak(2.0**-3, ridge, intercept))
        grid = PenaltyGrid(TRACES, ridges, intercepts, centre=-1.5, first_ridge=4)
        selection = select_penalties(judge, grid)
        assert selection.best.penalties == Penalties(2.0**-3, ridge, intercept, -1.5)
        # Far from the whole grid, and nothing twice.
        assert len(judge.asked) == len(set(judge.asked)) < 0.15 * 10 * 8 * 4
        assert judge.asked[0][1] == ridges[4]


def test_the_trace_penalty_follows_when_the_ridge_moves():
    # More ridge wants less trace: the hill runs along a diagonal.
    def quality(trace, ridge, intercept):
        return -0.01 * (np.log2(trace * ridge) + 4) ** 2 + 0.02 * np.log2(ridge)

    ridges = tuple(2.0**power for power in range(4))
    selection = select_penalties(FakeJudge(quality), PenaltyGrid(TRACES, ridges))
    assert selection.best.penalties == Penalties(2.0**-7, 2.0**3)


def test_the_loss_can_be_the_criterion():
    judge = FakeJudge(log_peak(2.0**-5), loss=lambda t, r, k: np.log2(t / 2.0**-2) ** 2)
    assert select_penalties(judge, PenaltyGrid(TRACES), criterion="loss").best.penalties.trace == 2.0**-2
    assert select_penalties(judge, PenaltyGrid(TRACES), criterion="metric").best.penalties.trace == 2.0**-5


def test_an_unknown_criterion_is_named_before_anything_is_fitted():
    judge = FakeJudge(log_peak(1.0))
    with pytest.raises(UnknownNameError, match="metrik"):
        select_penalties(judge, PenaltyGrid(TRACES), criterion="metrik")
    assert judge.asked == []


def test_a_single_choice_is_judged_once():
    grid = PenaltyGrid((0.3,), (0.2,), (0.1,), centre=1.0)
    assert grid.is_single
    assert not PenaltyGrid((0.3, 0.1)).is_single
    judge = FakeJudge(log_peak(1.0))
    selection = select_penalties(judge, grid)
    assert selection.best.penalties == Penalties(0.3, 0.2, 0.1, 1.0)
    assert len(judge.asked) == 1


# -- the judge ----------------------------------------------------------------------------------------


def by_hand(case, labels, plan, penalties, metric, settings):
    """A plain loop over the folds, with cold fits and dense scores."""
    scores, ranks = np.full(labels.n_observed, np.nan), []
    for fold in range(plan.max() + 1):
        held = plan == fold
        train = labels.select(~held)
        objective = case.problem.objective(train, free_intercept=penalties.intercept == 0)
        fit = settings.fit(case.problem, objective, penalties)
        dense = case.scores(fit.factors) + case.features.to_original(fit.factors).intercept
        scores[held] = dense[labels.rows[held], labels.indices[held]]
        ranks.append(fit.rank)
    seen = plan >= 0
    judged = labels.select(seen)
    loss = np.average(case.problem.loss.value(scores[seen], judged.values), weights=judged.weights)
    return best_threshold(scores[seen], judged, metric), loss, np.mean(ranks)


@pytest.mark.parametrize("how", ["cross-fit", "holdout"])
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_judge_is_a_loop_over_folds(how, n_jobs, weighted):
    case = Case(n=24, n_labels=5, weighted=weighted)
    labels, metric = case.labels, get_metric("macro-f1")
    plan = hold_out_plan(labels, how, 0)
    settings = SolverSettings(SOLVERS["factored"], tol=1e-8)
    verdict = metric_judge(metric, case.problem.loss)
    judge = HeldOutJudge(case.problem, labels, plan, verdict, settings, n_jobs)
    for penalties in (Penalties(0.05, 1e-3), Penalties(0.02, 1e-3), Penalties(0.02, 1e-3, 0.01, -0.5)):
        candidate = judge(penalties)
        expected, loss, rank = by_hand(case, labels, plan, penalties, metric, settings)
        assert candidate.penalties == penalties
        assert candidate.metric_value == pytest.approx(expected.value)
        assert candidate.threshold == pytest.approx(expected.threshold, abs=1e-3)
        assert candidate.loss == pytest.approx(loss, abs=1e-4)
        assert candidate.rank == rank


def test_the_judgement_does_not_depend_on_what_was_judged_before():
    # In some folds a rare label has one class only. With a free intercept its score is a smoothed rate,
    # whatever a fit with penalised intercepts has said before.
    rng = np.random.default_rng(0)
    Y = (rng.random((24, 5)) < 0.5).astype(float)
    Y[:, :2] = 0.0
    Y[0, 0] = Y[1, 1] = 1.0
    case = Case(n=24, n_labels=5)
    labels = ObservedLabels.from_dense(Y)
    plan = hold_out_plan(labels, "cross-fit", 0)
    settings = SolverSettings(SOLVERS["factored"], tol=1e-7)

    verdict = metric_judge(get_metric("micro-f1"), case.problem.loss)

    def judge():
        return HeldOutJudge(case.problem, labels, plan, verdict, settings)

    free, pulled = Penalties(0.05, 1e-3), Penalties(0.05, 1e-3, 0.5, 0.0)
    experienced = judge()
    experienced(pulled)
    assert experienced(free).loss == pytest.approx(judge()(free).loss, abs=1e-4)
