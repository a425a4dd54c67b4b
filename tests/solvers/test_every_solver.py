"""Every solver, on problems whose optima are known: what it claims is true, and it gets there.

A solver enters by its line in ``SOLVERS``, a loss by its line in the registry.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from snapshots import Memory, bits

from labelgap.fitting.cross_validation import SolverSettings
from labelgap.solvers import RIVALS, SOLVERS
from problem_settings import random_model
from stored_problems import ORACLE, PROBLEMS, STORED, stored_optima

# "auto" chooses among the others; it is asked for as many digits as the estimators ask for.
TOLS = dict.fromkeys(SOLVERS, 5e-6) | {"auto": 1e-3}
# Where the penalties hardly curve the problem, solvers may need more steps than they take unasked.
TINY = {name: one for name, one in PROBLEMS.items() if "tiny" in name}
REACHED = {name: one for name, one in PROBLEMS.items() if name not in TINY}
SOME = {name: one for i, (name, one) in enumerate(REACHED.items()) if i % 7 == 0}
OWN_ROWS = {name: one for name, one in PROBLEMS.items() if "X = I" in name}
FEW = dict(list(SOME.items())[::4])
TOL_OF_RIVALS = 1e-3
every_solver = pytest.mark.parametrize("solver", SOLVERS)


def fitted(solver, problem, tol=None, rank=None, max_iter=None, **options):
    settings = SolverSettings(SOLVERS[solver], tol=tol or TOLS[solver], rank=rank, max_iter=max_iter)
    return settings.fit(problem.objective, problem.penalties, **options)


def too_slow(solver, problem):
    """With free intercepts the curvature of this loss has no limit, where proximal steps get short."""
    setting = problem.setting
    unlimited = setting.unlabelled and setting.loss.name == "exponential"
    return solver == "proximal" and unlimited and setting.fit_intercept and setting.free_intercept


def check_claims(problem, fit, told):
    """Nothing that is said of a fit is more than is true, wherever it ended."""
    model, optimum = fit.factors, problem.optimum
    scale = problem.scale(model)
    assert fit.objective == pytest.approx(problem.value(model), rel=1e-9, abs=1e-9 * scale), told
    values = np.linalg.svd(model.left @ model.right.T, compute_uv=False)
    np.testing.assert_allclose(values[: fit.rank], fit.singular_values, rtol=1e-7, atol=1e-10, err_msg=told)
    assert values[fit.rank :].max(initial=0.0) <= 1e-10, told
    slack = ORACLE * scale
    assert fit.objective >= optimum - slack, told
    assert fit.objective - fit.gap <= optimum + slack, told
    if problem.objective.bounds is not None:
        assert np.abs(problem.dense.low_rank(model)).max() <= problem.setting.bound * (1 + 1e-10), told
    else:
        assert fit.gap == pytest.approx(fit.relative_gap * scale, rel=1e-4, abs=1e-12), told


@every_solver
def test_the_optimum_is_reached_within_the_gap(solver):
    for name, problem in REACHED.items():
        if too_slow(solver, problem):
            continue
        told, reports = f"{solver}: {name}", []
        fit = fitted(solver, problem, callback=reports.append)
        check_claims(problem, fit, told)
        assert fit.converged, told
        assert fit.relative_gap <= TOLS[solver], told
        assert tuple(reports) == fit.history, told
        assert (reports[-1].objective, reports[-1].gap) == (fit.objective, fit.relative_gap), told
        iterations, seconds = [one.iteration for one in reports], [one.seconds for one in reports]
        assert iterations == sorted(iterations), told
        if problem.objective.bounds is None:
            # A round under a bound may be done at once.
            assert len(set(iterations)) == len(iterations), told
            assert reports[-1].rank == fit.rank, told
        elif problem.setting.bound < 1 and TOLS[solver] < 1e-4:
            # The bound binds: it is touched.
            largest = np.abs(problem.dense.low_rank(fit.factors)).max()
            assert largest >= 0.999 * problem.setting.bound, told
        assert seconds == sorted(seconds), told
        # Every bound that was reported on the way is one.
        for one in reports:
            assert 0 <= one.gap <= 1, told
            if not problem.setting.unlabelled:
                assert one.objective * (1 - one.gap) <= problem.optimum * (1 + ORACLE), told


@every_solver
def test_the_optimum_is_reached_under_tiny_penalties(solver):
    for name, problem in TINY.items():
        told = f"{solver}: {name}"
        fit = fitted(solver, problem, tol=5e-6, max_iter=2000)
        check_claims(problem, fit, told)
        assert fit.objective - problem.optimum <= 1e-5 * problem.scale(fit.factors), told


@every_solver
@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-4])
def test_few_digits_are_true_ones_where_every_row_has_parameters_of_its_own(solver, tol):
    """There solvers may take another way while few digits are asked for."""
    for name, problem in OWN_ROWS.items():
        if too_slow(solver, problem):
            continue
        told, whole = f"{solver}: {name}", Memory()
        fit = fitted(solver, problem, tol=tol, checkpoint=whole)
        check_claims(problem, fit, told)
        assert fit.converged, told
        assert fit.relative_gap <= tol, told
        if whole.snapshots:
            again = fitted(solver, problem, tol=tol, checkpoint=Memory(whole.snapshots[-1]))
            assert bits(again) == bits(fit), told


@pytest.mark.parametrize("rival", RIVALS)
def test_what_rivals_say_of_themselves_is_true(rival):
    for name, problem in SOME.items():
        full = min(problem.objective.shape)
        for rank in (full, 2):
            told = f"{rival}, rank {rank}: {name}"
            settings = SolverSettings(RIVALS[rival], rank=rank, tol=TOL_OF_RIVALS)
            fit = settings.fit(problem.objective, problem.penalties)
            check_claims(problem, fit, told)
            assert fit.rank <= rank, told
            if rank == full:
                best, scale = problem.optimum, problem.scale(fit.factors)
                assert fit.objective - best <= TOL_OF_RIVALS * scale, told


@every_solver
def test_few_steps_a_cap_of_the_rank_and_a_stop_are_honest(solver):
    for name, problem in SOME.items():
        if too_slow(solver, problem):
            continue
        for steps in (1, 2, 7):
            told = f"{solver}, {steps} steps: {name}"
            fit = fitted(solver, problem, tol=1e-12, max_iter=steps)
            check_claims(problem, fit, told)
            assert fit.n_iter <= steps, told
            assert fit.converged == (fit.relative_gap <= 1e-12), told
        for rank in (1, 2):
            told = f"{solver}, rank {rank}: {name}"
            fit = fitted(solver, problem, tol=1e-4, rank=rank)
            check_claims(problem, fit, told)
            assert fit.rank <= rank, told
            assert fit.capped or fit.relative_gap <= 1e-4, told
        for stop_after in (0, 3):
            told = f"{solver}, stopped after {stop_after}: {name}"
            fit = fitted(solver, problem, checkpoint=Memory(stop_after=stop_after))
            check_claims(problem, fit, told)


@every_solver
def test_a_run_that_is_resumed_is_one_that_was_never_interrupted(solver):
    resumed = by_rounds = 0
    for name, problem in FEW.items():
        told, whole = f"{solver}: {name}", Memory()
        expected = bits(fitted(solver, problem, checkpoint=whole))
        assert bits(fitted(solver, problem)) == expected, told
        for snapshot in whole.snapshots[:: max(1, len(whole.snapshots) // 2)]:
            assert bits(fitted(solver, problem, checkpoint=Memory(snapshot))) == expected, told
            resumed += 1
        # Under a bound the finished rounds are kept.
        if len(whole.fits) > 1:
            some = dict(list(whole.fits.items())[: len(whole.fits) // 2])
            assert bits(fitted(solver, problem, checkpoint=Memory(fits=some))) == expected, told
            by_rounds += 1
    assert resumed > 0
    assert by_rounds > 0


@every_solver
def test_warm_starts_lead_to_the_same_optimum_and_stay_as_they_are(solver):
    for name, problem in FEW.items():
        if too_slow(solver, problem):
            continue
        told = f"{solver}: {name}"
        cold = fitted(solver, problem, tol=1e-7)
        done = fitted(solver, problem, tol=1e-5, warm_start=cold.factors)
        assert done.converged, told
        if problem.objective.bounds is None:
            assert done.n_iter == 0, told
        for rank in (1, 6):
            start = random_model(problem.objective, seed=rank, rank=rank)
            copies = [part.copy() for part in start]
            warm = fitted(solver, problem, warm_start=start)
            assert warm.converged, (told, rank)
            check_claims(problem, warm, told)
            for part, copy in zip(start, copies, strict=True):
                assert_array_equal(part, copy, err_msg=told)
            capped = fitted(solver, problem, tol=1e-3, rank=1, warm_start=start)
            assert capped.rank <= 1, told


@every_solver
def test_a_penalty_beyond_the_largest_gives_zero_at_once(solver):
    for name, problem in SOME.items():
        # An intercept that is penalised is elsewhere at W = 0 than where λ's largest value is read off.
        if problem.trace == 0 or not problem.setting.free_intercept:
            continue
        above = replace(problem.penalties, trace=1.001 * problem.penalties.trace / problem.trace)
        fit = SolverSettings(SOLVERS[solver], tol=1e-6).fit(problem.objective, above)
        assert fit.rank == 0, name
        assert fit.converged, name


def test_what_is_stored_is_of_these_problems():
    stale = set(stored_optima()) - set(PROBLEMS)
    assert not stale, f"{STORED.name} is older: python -m tests.stored_problems"


@pytest.mark.slow
def test_stored_optima_are_found_again():
    for name, problem in PROBLEMS.items():
        again = problem.found_again()
        scale = max(abs(again), problem.dense.size(random_model(problem.objective, 0, size=0.0)))
        assert stored_optima()[name] == pytest.approx(again, abs=ORACLE * scale), name
