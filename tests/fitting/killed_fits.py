"""Fits that are killed again and again; run as ``python killed_fits.py KIND FOLDER``, prints JSON.

Every attempt is a child process, killed by SIGKILL at a moment of a fixed random sequence: just before some
call that puts a file on the disk or gives it its name, or after some milliseconds. The next one goes on with
the same checkpoint, until one ends. What it fitted is compared with a fit that nobody killed and that had no
checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np

from labelgap import LowRankClassifier, LowRankRegressor, Recommender
from labelgap.data import make_low_rank_labels
from labelgap.fitting import checkpoint as module

problem = make_low_rank_labels(n=120, n_labels=10, observed=0.4, random_state=0)
LENGTHS = np.geomspace(1, 10, problem.X.shape[1])


def classifier(checkpoint, **options):
    return LowRankClassifier(random_state=0, **options).fit(
        problem.X * LENGTHS, problem.Y_observed, checkpoint=checkpoint
    )


def likes(checkpoint):
    kept = np.random.default_rng(0).random(problem.Y.shape) < 0.6
    users, items = np.nonzero(problem.Y * kept)
    return Recommender(unobserved="unlabelled", random_state=0).fit((users, items), checkpoint=checkpoint)


KINDS = {
    "default": classifier,
    "close": lambda c: classifier(c, tol=1e-9, trace_penalty=1e-3, ridge_penalty=0.0),
    "proximal": lambda c: classifier(c, tol=1e-6, trace_penalty=1e-3, ridge_penalty=0.0, solver="proximal"),
    "bounded": lambda c: classifier(c, score_bound=2.0, trace_penalty=1e-3, ridge_penalty=0.0),
    "likes": likes,
    "counts": lambda c: LowRankRegressor(family="poisson", random_state=0).fit(
        problem.X, problem.Y_observed, checkpoint=c
    ),
}


def fingerprint(model):
    """All numbers of a fitted model but the seconds that it took."""
    found = hashlib.sha256()
    for name in sorted(vars(model)):
        value = getattr(model, name)
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            found.update(np.ascontiguousarray(value).tobytes())
        elif isinstance(value, (float, int, str, type(None))):
            found.update(repr(value).encode())
    steps = [(one.iteration, one.objective, one.gap, one.rank) for one in model.history_]
    judged = [(one.penalties, one.metric_value, one.loss, one.rank) for one in model.candidates_]
    found.update(repr((steps, judged)).encode())
    return found.hexdigest()


def die_before_call(number):
    """Kill this process before its ``number``-th step of writing a file."""
    calls = iter(range(1, number + 1))

    def dying(work):
        def call(*args, **kwargs):
            if next(calls, number) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return work(*args, **kwargs)

        return call

    for name in ("fsync", "replace", "unlink"):
        setattr(os, name, dying(getattr(os, name)))


def attempt(fit, folder, answer, die):
    """One child; True if it ended by itself."""
    child = os.fork()
    if child == 0:
        warnings.simplefilter("ignore")
        module._EVERY = module._TIMES_THE_COST = 0.0
        die()
        Path(answer).write_text(fingerprint(fit(folder)), encoding="utf-8")
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return False
    assert os.WEXITSTATUS(status) == 0, "a fit failed"
    return True


def main(kind, folder):
    fit, rng = KINDS[kind], np.random.default_rng(len(kind))
    answer = f"{folder}.answer"
    attempt(fit, None, answer, lambda: None)
    expected = Path(answer).read_text(encoding="utf-8")
    kills = 0
    # Killed ever later, so that there is an end to it.
    while kills < 40:
        if kills % 3 == 2:
            delay = rng.uniform(0.0, 0.4) + 0.1 * kills
            ended = attempt(fit, folder, answer, lambda delay=delay: die_after(delay))
        else:
            number = int(rng.integers(1, 12)) + 14 * kills
            ended = attempt(fit, folder, answer, lambda number=number: die_before_call(number))
        if ended:
            break
        kills += 1
    else:
        attempt(fit, folder, answer, lambda: None)
    found = Path(answer).read_text(encoding="utf-8")
    print(json.dumps({"kills": kills, "same": found == expected}))


def die_after(seconds):
    def die():
        time.sleep(seconds)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=die, daemon=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
