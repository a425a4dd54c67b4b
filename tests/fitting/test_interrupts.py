"""Ctrl-C during a fit: a usable model and a warning that says what it is worth; twice: out at once."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

from labelgap import LowRankClassifier, LowRankRegressor, Recommender
from labelgap.data import make_low_rank_labels
from labelgap.exceptions import InterruptedFitWarning
from labelgap.fitting import run as fit_run
from labelgap.solvers import FitListener

problem = make_low_rank_labels(n=80, n_labels=6, observed=0.5, random_state=1)
X, Y = problem.X, problem.Y_observed


class Stopper(FitListener):
    """Asks the fit to stop at the beginning of a stage, after some candidates, or after some rounds."""

    def __init__(self, request, *, stage=None, candidates=None, rounds=None):
        self._request, self._stage = request, stage
        self._candidates, self._rounds = candidates, rounds
        self.seen = 0

    def stage(self, what):
        if what == self._stage:
            self._request.set()

    def candidate(self, candidate):
        self.seen += 1
        if self.seen == self._candidates:
            self._request.set()

    def __call__(self, progress):
        self._rounds = None if self._rounds is None else self._rounds - 1
        if self._rounds == 0:
            self._request.set()


@pytest.fixture
def request_to_stop(monkeypatch):
    request = threading.Event()
    monkeypatch.setattr(fit_run, "stop_on_interrupt", lambda: contextlib.nullcontext(request))
    return request


def check_usable(model):
    assert model.interrupted_
    # With W = 0 it may be best to say yes to all, or to none.
    assert not np.isnan(model.threshold_)
    assert model.decision_function(X).shape == Y.shape
    assert np.isin(model.predict(X), [0, 1]).all()
    assert model.relative_gap_ > 0


def test_stopped_in_the_search_the_best_candidate_so_far_is_taken(request_to_stop):
    with pytest.warns(InterruptedFitWarning, match="stopped on request while choosing penalties"):
        model = LowRankClassifier(random_state=0).fit(X, Y, Stopper(request_to_stop, candidates=4))
    check_usable(model)
    assert len(model.candidates_) >= 4
    best = max(model.candidates_, key=lambda c: c.metric_value)
    assert model.held_out_metric_ <= best.metric_value
    assert model.trace_penalty_ in {c.penalties.trace for c in model.candidates_}


def test_stopped_in_the_last_fit_the_gap_says_how_far_it_is(request_to_stop):
    options = {"trace_penalty": 1e-3, "ridge_penalty": 0.0, "tol": 1e-7, "random_state": 0}
    whole = LowRankClassifier(**options).fit(X, Y)
    with pytest.warns(
        InterruptedFitWarning, match=r"relative duality gap .* \(asked for: 1.0e-07\)"
    ) as caught:
        model = LowRankClassifier(**options).fit(X, Y, Stopper(request_to_stop, rounds=3))
    check_usable(model)
    assert model.relative_gap_ > 1e-7
    assert len(model.history_) < len(whole.history_)
    assert caught[0].filename == __file__


def test_stopped_before_any_candidate_it_is_a_guess_but_a_model(request_to_stop):
    with pytest.warns(InterruptedFitWarning, match="can be used"):
        model = LowRankClassifier(random_state=0).fit(
            X, Y, Stopper(request_to_stop, stage="choosing penalties")
        )
    check_usable(model)
    assert model.candidates_ == ()
    assert model.held_out_metric_ is None
    # It tells rows apart.
    assert model.rank_ > 0
    assert model.score(X, Y) > 0.8


@pytest.mark.parametrize("rank", [None, 3])
def test_a_stopped_search_is_worth_what_its_best_candidate_was(request_to_stop, rank):
    # The leading fit with its own intercepts and its own threshold, whatever was tried after it.
    model = LowRankClassifier(rank=rank, ridge_penalty=0.0, random_state=0)
    with pytest.warns(InterruptedFitWarning):
        model.fit(X, Y, Stopper(request_to_stop, candidates=6))
    top = max(candidate.metric_value for candidate in model.candidates_)
    # Some may be equally good.
    best = [candidate for candidate in model.candidates_ if candidate.metric_value == top]
    assert model.trace_penalty_ in {candidate.penalties.trace for candidate in best}
    assert model.threshold_ in {candidate.threshold for candidate in best}
    assert model.score(problem.X_test, problem.Y_test) > top - 0.03


@pytest.mark.slow
def test_a_stopped_fit_goes_on_from_its_checkpoint(request_to_stop, tmp_path, monkeypatch):
    whole = LowRankClassifier(ridge_penalty=0.0, random_state=0).fit(X, Y)
    stopper = Stopper(request_to_stop, candidates=3)
    with pytest.warns(InterruptedFitWarning, match="Fit again with checkpoint="):
        LowRankClassifier(ridge_penalty=0.0, random_state=0).fit(X, Y, stopper, checkpoint=tmp_path)
    monkeypatch.undo()
    model = LowRankClassifier(ridge_penalty=0.0, random_state=0).fit(X, Y, checkpoint=tmp_path)
    np.testing.assert_array_equal(model.coef_, whole.coef_)
    assert model.threshold_ == whole.threshold_
    assert not model.interrupted_


def test_stopped_while_only_likes_are_fitted(request_to_stop):
    likes = np.nonzero(problem.Y[:40])
    for stage in ("choosing penalties", "fitting", "choosing the threshold"):
        stopper = Stopper(request_to_stop, stage=stage)
        model = Recommender(unobserved="unlabelled", flip_rate=0.3, tol=1e-2, random_state=0)
        with pytest.warns(InterruptedFitWarning):
            model.fit(likes, callback=stopper)
        assert not np.isnan(model.threshold_)
        model.predict(0, [0, 1, 2])
        request_to_stop.clear()


@pytest.mark.parametrize("settings", [{}, {"features": "linear", "feature_scaling": "none"}])
def test_stopped_while_new_rows_are_placed_it_goes_no_further(request_to_stop, settings, capsys):
    given = {"trace_penalty": 1e-3, "ridge_penalty": 0.0, "threshold": "train", "random_state": 0}
    model = LowRankClassifier(verbose=2, **given, **settings).partial_fit(X[:60], Y[:60])
    before = model.coef_left_ @ model.coef_right_.T
    stopper = Stopper(request_to_stop, stage="placing new rows and labels")
    request_to_stop.clear()
    capsys.readouterr()
    with pytest.warns(InterruptedFitWarning, match="stopped on request while placing new rows and labels"):
        model.partial_fit(X[60:], Y[60:], callback=stopper)
    check_usable(model)
    assert "placing new rows and labels\n" in capsys.readouterr().out
    # Not one step was made: that is the model that was there.
    np.testing.assert_allclose(model.coef_left_ @ model.coef_right_.T, before, atol=1e-8)


def test_stopped_before_the_flip_rate_is_known_there_is_no_model(request_to_stop):
    stopper = Stopper(request_to_stop, stage="estimating the flip rate")
    with pytest.raises(KeyboardInterrupt, match="before there was a model"):
        LowRankClassifier(unobserved="unlabelled", random_state=0).fit(X, problem.Y, stopper)


def test_a_stopped_regression_can_be_used(request_to_stop):
    with pytest.warns(InterruptedFitWarning):
        model = LowRankRegressor(random_state=0).fit(X, Y, callback=Stopper(request_to_stop, candidates=2))
    assert np.isfinite(model.predict(X)).all()


SCRIPT = """
    import signal, sys, time, warnings
    import numpy as np
    from labelgap import LowRankClassifier
    from labelgap.data import make_low_rank_labels
    from labelgap.solvers import FitListener

    class Teller(FitListener):
        def candidate(self, candidate):
            print("working", flush=True)
            time.sleep(float(sys.argv[1]))

    # A process that was started in the background may have inherited that interrupts are ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    problem = make_low_rank_labels(n=100, n_labels=8, observed=0.5, random_state=1)
    model = LowRankClassifier(random_state=0)
    warnings.simplefilter("always")
    model.fit(problem.X, problem.Y_observed, Teller())
    print("usable", model.interrupted_, model.predict(problem.X).shape, flush=True)
"""


def started(nap):
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(nap)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert child.stdout.readline() == "working\n"
    child.send_signal(signal.SIGINT)
    return child


def test_a_real_interrupt_leaves_a_usable_model_and_says_so():
    child = started(nap=0.05)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    assert out.splitlines()[-1] == "usable True (100, 8)"
    assert "InterruptedFitWarning: The fit was stopped on request" in err


@pytest.mark.slow
def test_a_second_interrupt_ends_it_at_once():
    child = started(nap=60)
    # Two that come at the same moment are one.
    for _ in range(40):
        time.sleep(0.3)
        if child.poll() is not None:
            break
        child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=5)
    assert "usable" not in out
    assert "KeyboardInterrupt" in err
