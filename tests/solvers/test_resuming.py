"""A run that resumes from a snapshot ends with the same fit, to the last bit; a stopped one ends early."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from snapshots import Memory, bits

from labelgap.fitting.cross_validation import ComparisonLog
from labelgap.fitting.penalty_grid import PenaltyGrid
from labelgap.fitting.search import Candidate, select_penalties
from labelgap.solvers import Penalties, solve_alternating, solve_bounded, solve_factored, solve_proximal
from labelgap.solvers.loop import Stopped
from solver_problems import Case, make_problem, random_factors

# With features of very different lengths proximal steps are slow, and the factored solver uses Newton's
# method at once.
HARD = Case(n=60, d=12, n_labels=8, seed=5)
RUNS = {
    "proximal": (solve_proximal, Penalties(2e-3), {"tol": 1e-3}),
    "proximal, capped": (solve_proximal, Penalties(2e-3), {"tol": 1e-3, "rank": 3}),
    "factored": (solve_factored, Penalties(2e-3), {"tol": 1e-10}),
    "factored, ridge": (solve_factored, Penalties(1e-4, 1e-4), {"tol": 1e-9}),
    "factored, capped": (solve_factored, Penalties(2e-3), {"tol": 1e-6, "rank": 3}),
    "alternating": (solve_alternating, Penalties(2e-3), {"tol": 1e-5, "rank": 4}),
}


@cache
def hard_objective(longest=30.0):
    X = HARD.data[0] * np.geomspace(1, longest, HARD.d)
    return make_problem(X, HARD.labels, features={"centre": True}).objective(HARD.labels)


@pytest.mark.parametrize("name", RUNS)
def test_resuming_from_any_snapshot_ends_with_the_same_bits(name):
    solve, penalties, options = RUNS[name]
    objective = hard_objective()
    whole = Memory()
    expected = bits(solve(objective, penalties, checkpoint=whole, **options))
    assert bits(solve(objective, penalties, **options)) == expected
    assert len(whole.snapshots) >= 2
    for snapshot in whole.snapshots[:: max(1, len(whole.snapshots) // 3)]:
        assert bits(solve(objective, penalties, checkpoint=Memory(snapshot), **options)) == expected


def test_a_bounded_fit_takes_its_finished_rounds_from_the_checkpoint():
    case = Case(bound=0.5, n=30, n_labels=6)
    objective = case.objective()
    bounds = objective.bounds
    whole = Memory()
    expected = bits(solve_bounded(solve_factored, objective, Penalties(1e-3), bounds, checkpoint=whole))
    assert len(whole.fits) >= 2
    some = dict(list(whole.fits.items())[:2])
    again = solve_bounded(solve_factored, objective, Penalties(1e-3), bounds, checkpoint=Memory(fits=some))
    assert bits(again) == expected


@pytest.mark.parametrize("solver", [solve_factored, solve_proximal, solve_alternating])
@pytest.mark.parametrize("stop_after", [0, 1, 3, 10])
def test_a_stopped_run_returns_what_it_has(solver, stop_after):
    options = {"rank": 4} if solver is solve_alternating else {}
    objective = hard_objective(longest=3.0)
    fit = solver(objective, Penalties(2e-3), tol=1e-6, checkpoint=Memory(stop_after=stop_after), **options)
    whole = solver(objective, Penalties(2e-3), tol=1e-6, **options)
    assert not fit.converged
    assert fit.n_iter < whole.n_iter
    assert fit.relative_gap > 0
    # The gap of a half-finished fit is a proof too.
    assert fit.objective - fit.gap <= whole.objective + 1e-12


def candidate(trace, value, leave_out=None):
    return Candidate(Penalties(trace, 0.1), value, 0.3, 1.0 / 3.0, 2.5, 5, leave_out)


def test_a_stopped_search_returns_the_best_so_far():
    asked = []

    def judge(choices):
        asked.append(choices)
        if len(asked) > 2:
            raise Stopped
        return [candidate(one.trace, one.trace) for one in choices]

    best = select_penalties(judge, PenaltyGrid([1.0, 0.5, 0.25, 0.125, 0.06], [0.1]))
    assert best.penalties.trace == 1.0
    assert len(asked) == 3


def test_a_search_stopped_before_the_first_comparison_has_no_result():
    def judge(choices):
        raise Stopped

    with pytest.raises(Stopped):
        select_penalties(judge, PenaltyGrid([1.0, 0.5], [0.1]))


def test_a_log_of_comparisons_comes_back_as_it_was():
    rng = np.random.default_rng(0)
    penalties = [Penalties(0.1, 1 / 3, 0.5, -1.0), Penalties(0.2), None]
    fits = {fold: (random_factors(rng, 4, 3, 2), penalties[fold]) for fold in range(3)}
    log = ComparisonLog()
    log = log.with_comparison([candidate(0.1, 1 / 3, rng.random(4)), candidate(0.2, np.pi)], fits)
    log = log.with_comparison([candidate(0.3, 0.1)], fits)
    back = ComparisonLog.of(log.state())
    assert back.comparisons == log.comparisons
    np.testing.assert_array_equal(back.candidates(1)[0].leave_out, log.candidates(1)[0].leave_out)
    assert back.candidates(1)[1].leave_out is None
    for fold, (expected, its_penalties) in fits.items():
        found, found_penalties = back.last_fits[fold]
        assert found_penalties == its_penalties
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
    assert ComparisonLog.of(None).n_comparisons == 0
