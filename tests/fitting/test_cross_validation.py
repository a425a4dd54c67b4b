import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from labelgap.fitting.cross_validation import CrossValidation, SolverSettings
from labelgap.fitting.judges import MetricJudge, Verdict
from labelgap.fitting.penalty_grid import largest_trace_penalty, trace_penalty_grid
from labelgap.labels import ObservedLabels
from labelgap.losses import loss_names
from labelgap.metrics import get_metric
from labelgap.metrics.jackknife import leave_out_values
from labelgap.objective.protocol import Factors
from labelgap.solvers import SOLVERS, Penalties
from labelgap.thresholds import best_threshold
from labelgap.thresholds.cross_fit import NEVER, hold_out_plan
from solver_problems import Case

pytestmark = pytest.mark.pairwise


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
def test_fits_along_a_path_give_what_cold_fits_give(solver, bound):
    case = Case(bound=bound, n=18, d=4, n_labels=5)
    objective = case.objective()
    settings = SolverSettings(SOLVERS[solver], tol=1e-5, max_iter=1000)
    path = [Penalties(trace, 1e-3) for trace in trace_penalty_grid(largest_trace_penalty(objective), 4, 0.1)]
    warm, start = [], None
    for penalties in path:
        warm.append(settings.fit(objective, penalties, warm_start=start))
        start = warm[-1].factors
    assert warm[0].rank == 0
    for fit, penalties in zip(warm, path, strict=True):
        cold = settings.fit(objective, penalties)
        assert fit.objective == pytest.approx(cold.objective, rel=2e-5)
    objectives = [fit.objective for fit in warm]
    assert objectives == sorted(objectives, reverse=True)


# -- cross-validation ----------------------------------------------------------------------------------------


def by_hand(case, labels, plan, penalties, metric, settings):
    """A plain loop over the folds, with cold fits and dense scores."""
    scores, ranks = np.full(labels.n_observed, np.nan), []
    for fold in range(plan.max() + 1):
        held = plan == fold
        train = labels.select(~held)
        objective = case.problem.objective(train, free_intercept=penalties.intercept == 0)
        fit = settings.fit(objective, penalties)
        dense = case.scores(fit.factors) + case.problem.to_original(fit.factors).intercept
        scores[held] = dense[labels.rows[held], labels.indices[held]]
        ranks.append(fit.rank)
    seen = plan >= 0
    judged = labels.select(seen)
    loss = np.average(case.problem.loss.value(scores[seen], judged.values), weights=judged.weights)
    return best_threshold(scores[seen], judged, metric), loss, np.mean(ranks)


@pytest.mark.parametrize(
    ("how", "n_jobs", "weighted"),
    [("cross-fit", 1, True), ("cross-fit", 2, False), ("holdout", 1, False), ("holdout", 2, True)],
)
def test_the_judge_is_a_loop_over_folds(how, n_jobs, weighted):
    case = Case(n=24, n_labels=5, weighted=weighted)
    labels, metric = case.labels, get_metric("macro-f1")
    plan = hold_out_plan(labels, how, 0)
    settings = SolverSettings(SOLVERS["factored"], tol=1e-8)
    verdict = MetricJudge(metric, case.problem.loss)
    judge = CrossValidation(case.problem, labels, plan, verdict, settings, n_jobs)
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

    verdict = MetricJudge(get_metric("micro-f1"), case.problem.loss)

    def judge():
        return CrossValidation(case.problem, labels, plan, verdict, settings)

    free, penalised = Penalties(0.05, 1e-3), Penalties(0.05, 1e-3, 0.5, 0.0)
    experienced = judge()
    experienced(penalised)
    assert experienced(free).loss == pytest.approx(judge()(free).loss, abs=1e-4)


def judge_of(case, plan, n_jobs=1, **settings):
    verdict = MetricJudge(get_metric("macro-f1"), case.problem.loss)
    settings = SolverSettings(settings.pop("solver", SOLVERS["factored"]), **settings)
    return CrossValidation(case.problem, case.labels, plan, verdict, settings, n_jobs)


@pytest.mark.parametrize("few", [1, 2, 4, 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_first_folds_alone_are_a_loop_over_them(few, weighted):
    case = Case(n=30, n_labels=5, weighted=weighted)
    plan = hold_out_plan(case.labels, "cross-fit", 0)
    settings, penalties = SolverSettings(SOLVERS["factored"], tol=1e-8), Penalties(0.03, 1e-3)
    candidate = judge_of(case, plan, tol=1e-8)(penalties, n_folds=few)
    # What the other folds hold out is trained on.
    first = np.where(plan < few, plan, NEVER)
    expected, loss, rank = by_hand(case, case.labels, first, penalties, get_metric("macro-f1"), settings)
    assert candidate.n_folds == few
    assert candidate.metric_value == pytest.approx(expected.value)
    assert candidate.threshold == pytest.approx(expected.threshold, abs=1e-3)
    assert candidate.loss == pytest.approx(loss, abs=1e-4)
    assert candidate.rank == rank


def test_all_folds_are_judged_unless_fewer_are_asked_for():
    case = Case(n=30, n_labels=5)
    plan = hold_out_plan(case.labels, "cross-fit", 0)
    judge, penalties = judge_of(case, plan, tol=1e-8), Penalties(0.03, 1e-3)
    assert judge.n_folds == plan.max() + 1 == 5
    every, five = judge(penalties), judge_of(case, plan, tol=1e-8)(penalties, n_folds=5)
    assert every == five
    assert every.n_folds == 5
    assert len(judge.scores_with(penalties)) == len(plan)


def test_a_candidate_knows_how_sure_its_metric_is():
    case = Case(n=30, n_labels=5, weighted=True)
    plan = hold_out_plan(case.labels, "cross-fit", 0)
    judge, penalties, metric = judge_of(case, plan, tol=1e-8), Penalties(0.03, 1e-3), get_metric("macro-f1")
    candidate, scores = judge(penalties), judge.scores_with(penalties)
    expected = leave_out_values(metric, scores >= candidate.threshold, case.labels)
    assert_allclose(candidate.leave_out, expected, atol=1e-6)
    assert len(judge(penalties, n_folds=1).leave_out) == len(np.unique(case.labels.rows[plan == 0]))


def test_folds_are_fitted_to_the_gap_asked_for():
    case, asked = Case(n=30, n_labels=5), []

    def solver(objective, penalties, **options):
        asked.append(options["tol"])
        return SOLVERS["factored"](objective, penalties, **options)

    plan = hold_out_plan(case.labels, "cross-fit", 0)
    judge = judge_of(case, plan, solver=solver, tol=1e-4)
    judge(Penalties(0.05), n_folds=2)
    judge(Penalties(0.03), tol=1e-2, n_folds=1)
    judge.compare([Penalties(0.03)], tol=1e-3, n_folds=1)
    # What was asked for once is not remembered.
    judge(Penalties(0.02), n_folds=1)
    assert asked == [1e-4, 1e-4, 1e-2, 1e-3, 1e-4]


def worth(value):
    """A judge that finds the fits worth a value, whatever they are."""
    return lambda scores, labels: Verdict(value, 0.0, 1.0)


def test_each_fold_begins_with_the_best_fit_before():
    case, fits = Case(n=30, n_labels=5), []

    def solver(objective, penalties, **options):
        fits.append((options["warm_start"], SOLVERS["factored"](objective, penalties, **options)))
        return fits[-1][1]

    judge = judge_of(case, hold_out_plan(case.labels, "cross-fit", 0), solver=solver)
    judge._judge = worth(0.5)
    assert judge.fit_of_fold(0) is None
    judge(Penalties(0.05), n_folds=2)
    assert [start for start, _ in fits] == [None, None]
    for fold in (0, 1):
        assert judge.fit_of_fold(fold) is fits[fold][1].factors
    assert judge.fit_of_fold(2) is None
    # A worse one is not begun with.
    judge._judge = worth(0.4)
    judge(Penalties(0.04), n_folds=1)
    assert judge.fit_of_fold(0) is fits[0][1].factors
    judge._judge = worth(0.6)
    judge(Penalties(0.03), n_folds=1)
    assert fits[3][0] is fits[0][1].factors
    assert judge.fit_of_fold(0) is fits[3][1].factors
    # A closer fit with the same penalties is, though it is worth less.
    judge._judge = worth(0.5)
    judge(Penalties(0.03), n_folds=1, tol=1e-8)
    assert fits[4][0] is fits[3][1].factors
    assert judge.fit_of_fold(0) is fits[4][1].factors
    judge._judge = worth(0.6)
    # Under another penalty the intercepts begin anew, the weights do not.
    judge(Penalties(0.03, 0.0, 0.1), n_folds=1)
    assert fits[5][0].left is fits[4][1].factors.left
    assert_array_equal(
        fits[5][0].intercept,
        case.problem.objective(
            case.labels.select(hold_out_plan(case.labels, "cross-fit", 0) != 0), free_intercept=False
        ).starting_intercept(),
    )
    # A choice that has been made is kept, whatever it is worth.
    judge(Penalties(0.02), n_folds=1, judge=worth(0.1))
    assert judge.fit_of_fold(0) is fits[6][1].factors


def test_choices_side_by_side_all_begin_with_the_fits_before_them():
    case = Case(n=30, n_labels=5)
    plan = hold_out_plan(case.labels, "cross-fit", 0)
    first, choices = Penalties(0.05), [Penalties(0.03), Penalties(0.02, 1e-3), Penalties(0.02, 1e-3, 0.01)]
    expected = []
    for penalties in choices:
        alone = judge_of(case, plan)
        alone(first)
        expected.append(alone(penalties, n_folds=3))
    for n_jobs in (1, 2, None):
        judge = judge_of(case, plan, n_jobs)
        judge(first)
        assert judge.compare(choices, n_folds=3) == expected
        assert judge.compare([]) == []
    # The next fits of the folds start from the last of them.
    for part, same in zip(judge.fit_of_fold(0), alone.fit_of_fold(0), strict=True):
        assert_array_equal(part, same)


def test_another_judge_may_be_asked_about_the_same_fits():
    case = Case(n=30, n_labels=5)
    judge = judge_of(case, hold_out_plan(case.labels, "cross-fit", 0), tol=1e-8)
    asked = []

    def other(scores, labels):
        asked.append((scores, labels))
        return Verdict(0.25, -1.0, 7.0)

    candidate = judge(Penalties(0.03), judge=other)
    assert (candidate.metric_value, candidate.threshold, candidate.loss) == (0.25, -1.0, 7.0)
    assert candidate.leave_out is None
    assert asked[0][1] == case.labels
    assert_allclose(asked[0][0], judge.scores_with(Penalties(0.03)), atol=1e-4)
    assert judge(Penalties(0.03)).loss != 7.0


def test_the_number_of_jobs_changes_no_bit():
    case = Case(n=30, n_labels=5)
    plan = hold_out_plan(case.labels, "cross-fit", 0)
    way = [(Penalties(0.05), 2), (Penalties(0.02, 1e-3), 5), (Penalties(0.02, 1e-3, 0.01), 5)]

    def results(n_jobs):
        judge = judge_of(case, plan, n_jobs)
        return [judge(penalties, n_folds=few) for penalties, few in way], judge.fit_of_fold(3)

    alone, fit = results(1)
    for n_jobs in (2, None):
        candidates, other = results(n_jobs)
        assert candidates == alone
        for part, same in zip(other, fit, strict=True):
            assert_array_equal(part, same)
