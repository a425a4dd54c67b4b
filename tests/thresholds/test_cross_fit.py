import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from labelgap.kernels import threads
from labelgap.kernels.threads import limit_threads, thread_count
from labelgap.labels import ObservedLabels
from labelgap.thresholds import cross_fit
from labelgap.thresholds.cross_fit import N_FOLDS, NEVER, gather, hold_out_plan, map_folds


def random_observed(n=20, n_labels=6, seed=0):
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, n_labels)) < 0.4).astype(float)
    Y[rng.random(Y.shape) < 0.3] = np.nan
    return ObservedLabels.from_dense(Y)


def test_cross_fit_holds_every_entry_out_once_in_even_folds():
    labels = random_observed()
    plan = hold_out_plan(labels, "cross-fit", 0)
    counts = np.bincount(plan, minlength=N_FOLDS)
    assert len(plan) == labels.n_observed
    assert len(counts) == N_FOLDS == 5
    assert np.ptp(counts) <= 1


def test_holdout_holds_a_fifth_out_once():
    labels = random_observed()
    plan = hold_out_plan(labels, "holdout", 0)
    assert set(plan.tolist()) == {0, NEVER}
    assert abs(np.sum(plan == 0) - labels.n_observed / 5) <= 1


def test_train_holds_nothing_out():
    labels = random_observed()
    plan = hold_out_plan(labels, "train", 0)
    assert_array_equal(plan, np.full(labels.n_observed, NEVER))


@pytest.mark.parametrize("how", ["cross-fit", "holdout", "train"])
@pytest.mark.parametrize("n_observed", [1, 2, 3])
def test_with_too_few_entries_nothing_is_held_out(how, n_observed):
    labels = ObservedLabels.from_dense(np.arange(n_observed)[:, None] % 2)
    assert_array_equal(hold_out_plan(labels, how, 0), np.full(n_observed, NEVER))


@pytest.mark.parametrize(("n_observed", "n_folds"), [(4, 2), (6, 3), (9, 4), (10, 5), (50, 5)])
def test_few_entries_make_fewer_folds(n_observed, n_folds):
    labels = ObservedLabels.from_dense(np.arange(n_observed)[:, None] % 2)
    assert set(hold_out_plan(labels, "cross-fit", 0).tolist()) == set(range(n_folds))


@pytest.mark.parametrize("how", ["cross-fit", "holdout"])
def test_the_plan_follows_the_random_state(how):
    labels = random_observed()
    assert_array_equal(hold_out_plan(labels, how, 3), hold_out_plan(labels, how, 3))
    assert np.any(hold_out_plan(labels, how, 3) != hold_out_plan(labels, how, 4))


def sums(fold, train, held):
    return fold, train.n_observed, held.n_observed, train.values.sum(), held.indices.tolist()


@pytest.mark.parametrize("how", ["cross-fit", "holdout", "train"])
def test_jobs_do_not_change_the_answer(how):
    labels = random_observed()
    plan = hold_out_plan(labels, how, 0)
    alone, two, all_cores = (map_folds(labels, plan, sums, n_jobs) for n_jobs in (1, 2, -1))
    assert alone == two == all_cores == map_folds(labels, plan, sums)
    assert [answer[0] for answer in alone] == list(range(plan.max() + 1))


def test_each_fold_gets_its_own_entries_and_the_rest():
    labels = random_observed()
    plan = hold_out_plan(labels, "cross-fit", 0)

    def check(fold, train, held):
        assert train == labels.select(plan != fold)
        assert held == labels.select(plan == fold)

    map_folds(labels, plan, check)


def test_entries_that_are_never_held_out_are_trained_on():
    labels = random_observed()
    plan = hold_out_plan(labels, "holdout", 0)
    ((train, held),) = map_folds(labels, plan, lambda fold, train, held: (train, held))
    assert train.n_observed + held.n_observed == labels.n_observed
    assert train == labels.select(plan == NEVER)


def threads_of_each(n_together):
    """Work that says how many threads it has while so many folds are worked on."""
    barrier = threading.Barrier(n_together)

    def work(*_):
        barrier.wait(timeout=20)
        count = thread_count()
        barrier.wait(timeout=20)
        return count

    return work


def test_two_jobs_run_side_by_side():
    labels = random_observed()
    # Each waits for the other: with one after the other the barrier would break.
    barrier = threading.Barrier(2)
    plan = np.arange(labels.n_observed) % 2
    map_folds(labels, plan, lambda *_: barrier.wait(timeout=20), n_jobs=2)


def test_no_more_threads_are_started_than_there_are_tasks():
    before = threading.active_count()
    counts = cross_fit.side_by_side([threading.active_count] * 3, n_jobs=200)
    # joblib has a few threads of its own beside the workers.
    assert max(counts) - before < 20


@pytest.mark.parametrize(("few", "together", "expected"), [(10, 2, 2), (10**6, 1, 4)])
def test_few_entries_are_worked_on_one_fold_after_the_other(few, together, expected, monkeypatch):
    monkeypatch.setattr(cross_fit, "_FEW_FOR_THREADS", few)
    labels = random_observed()
    plan = np.arange(labels.n_observed) % 2
    with limit_threads(4):
        # A fold that is alone has all threads.
        assert map_folds(labels, plan, threads_of_each(together)) == [expected, expected]


def test_where_all_pairs_count_few_recorded_ones_are_no_small_problem():
    labels = ObservedLabels.from_sparse(sp.eye_array(50, 40, format="csr"), unobserved="unlabelled")
    labels = labels.select(np.arange(labels.n_observed) < 4)
    with limit_threads(4):
        counts = map_folds(labels, np.arange(4) % 2, threads_of_each(2))
    assert counts == [2, 2]


@pytest.mark.parametrize(("limit", "n_jobs", "expected"), [(4, 1, 4), (4, 2, 2), (1, 2, 1), (6, 2, 3)])
def test_folds_side_by_side_share_the_threads_of_the_caller(limit, n_jobs, expected, monkeypatch):
    monkeypatch.setattr(threads, "available_threads", lambda: 8)
    labels = random_observed()
    plan = np.arange(labels.n_observed) % 2
    with limit_threads(limit):
        counts = map_folds(labels, plan, threads_of_each(n_jobs), n_jobs=n_jobs)
    assert counts == [expected, expected]


def test_the_last_fold_takes_over_the_threads_of_the_others():
    ended, seen = threading.Event(), []

    def first():
        seen.append(thread_count())
        ended.wait(timeout=20)

    def last():
        seen.append(thread_count())
        ended.set()
        # A task has ended a moment after its last line.
        until = time.monotonic() + 20
        while thread_count() < 4 and time.monotonic() < until:
            time.sleep(0.001)
        return thread_count()

    with limit_threads(4):
        assert cross_fit.side_by_side([first, last], n_jobs=2) == [None, 4]
        assert thread_count() == 4
    assert seen == [2, 2]


@pytest.mark.parametrize("n_jobs", [1, 2, None])
@pytest.mark.parametrize("how", ["cross-fit", "holdout"])
def test_choices_and_folds_are_worked_on_together(how, n_jobs):
    labels = random_observed()
    plan = hold_out_plan(labels, how, 0)

    def work(fold, train, held, choice):
        return choice, *sums(fold, train, held)

    answers = map_folds(labels, plan, work, n_jobs, choices=["a", "b", "c"])
    plain = map_folds(labels, plan, sums, 1)
    assert answers == [[(choice, *answer) for answer in plain] for choice in "abc"]
    assert map_folds(labels, plan, work, n_jobs, choices=[]) == []


def test_without_a_number_of_jobs_there_are_as_many_as_threads(monkeypatch):
    monkeypatch.setattr(cross_fit, "_FEW_FOR_THREADS", 0)
    monkeypatch.setenv("LABELGAP_NUM_THREADS", "3")
    labels = random_observed()
    # Each waits for two others.
    counts = map_folds(labels, np.arange(labels.n_observed) % 3, threads_of_each(3))
    assert counts == [1, 1, 1]
    with limit_threads(1):
        assert map_folds(labels, np.arange(labels.n_observed) % 2, threads_of_each(1)) == [1, 1]


def test_an_error_in_a_fold_reaches_the_caller():
    labels = random_observed()

    def fail(fold, train, held):
        raise FloatingPointError(f"in fold {fold}")

    for n_jobs in (1, 2):
        with pytest.raises(FloatingPointError, match="in fold"):
            map_folds(labels, hold_out_plan(labels, "cross-fit", 0), fail, n_jobs)


def test_gathered_scores_come_in_the_order_of_the_entries():
    plan = np.array([1, 0, NEVER, 1, 2, 0])
    held, scores = gather(plan, [np.array([10.0, 11.0]), np.array([20.0, 21.0]), np.array([30.0])])
    assert_array_equal(held, [True, True, False, True, True, True])
    assert_array_equal(scores, [20, 10, 21, 30, 11])


def test_gather_undoes_map_folds():
    labels = random_observed()
    for how in ("cross-fit", "holdout", "train"):
        plan = hold_out_plan(labels, how, 1)
        parts = map_folds(labels, plan, lambda fold, train, held: held.rows * 100.0 + held.indices)
        held, scores = gather(plan, parts)
        assert_array_equal(scores, (labels.rows * 100.0 + labels.indices)[held])
        assert held.sum() == np.sum(plan >= 0)
