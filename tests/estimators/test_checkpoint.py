"""Checkpoints: killed fits end as if nothing had happened; foreign, damaged and busy folders are refused."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from labelgap import LowRankClassifier, Recommender
from labelgap.data import make_low_rank_labels
from labelgap.estimators.checkpoint import open_checkpoint, remove_checkpoint
from labelgap.estimators.interrupt import StopRequest
from labelgap.exceptions import CheckpointError
from labelgap.solvers import FitListener
from labelgap.storage import read_file

problem = make_low_rank_labels(n=80, n_labels=6, observed=0.5, random_state=1)
X, Y = problem.X, problem.Y_observed
GIVEN = {"trace_penalty": 1e-2, "ridge_penalty": 0.0, "random_state": 0}


def fitted(folder, X=X, Y=Y, **options):
    return LowRankClassifier(**{**GIVEN, **options}).fit(X, Y, checkpoint=folder)


def same(one, other):
    for name in ("coef_left_", "coef_right_", "intercept_", "threshold_", "objective_", "duality_gap_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


# The others of killed_fits.KINDS take the same way; run them by hand after a change to a solver.
@pytest.mark.parametrize("kind", ["default", "bounded", "likes"])
def test_a_fit_killed_many_times_ends_with_the_same_bits(kind, tmp_path):
    if not hasattr(os, "fork"):
        pytest.skip("this system cannot fork")
    script = Path(__file__).with_name("killed_fits.py")
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "LABELGAP_NUM_THREADS": "2"}
    run = subprocess.run(
        [sys.executable, str(script), kind, str(tmp_path / "checkpoint")],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    assert report["same"]
    assert report["kills"] >= 5


def test_a_checkpoint_changes_nothing_and_is_gone_on_from(tmp_path):
    plain = LowRankClassifier(ridge_penalty=0.0, random_state=0).fit(X, Y)
    kept = LowRankClassifier(ridge_penalty=0.0, random_state=0).fit(X, Y, checkpoint=tmp_path / "a" / "b")
    same(plain, kept)
    heard = Heard()
    again = LowRankClassifier(ridge_penalty=0.0, random_state=0).fit(
        X, Y, callback=heard, checkpoint=tmp_path / "a" / "b"
    )
    same(plain, again)
    assert [c.metric_value for c in again.candidates_] == [c.metric_value for c in plain.candidates_]
    # Nothing was left to be fitted.
    assert heard.rounds == 0
    assert len(heard.candidates) == len(plain.candidates_)


class Heard(FitListener):
    def __init__(self):
        self.stages, self.candidates, self.rounds = [], [], 0

    def stage(self, what):
        self.stages.append(what)

    def candidate(self, candidate):
        self.candidates.append(candidate)

    def __call__(self, progress):
        self.rounds += 1


def test_a_listener_hears_of_the_whole_fit():
    heard = Heard()
    model = LowRankClassifier(ridge_penalty=0.0, random_state=0).fit(X, Y, callback=heard)
    assert heard.stages == ["choosing penalties", "fitting"]
    assert tuple(heard.candidates) == model.candidates_
    assert heard.rounds == len(model.history_)
    likes = np.nonzero(problem.Y)
    Recommender(unobserved="unlabelled", trace_penalty=1e-2, random_state=0).fit(likes, callback=heard)
    assert heard.stages[2:] == [
        "estimating the flip rate",
        "scoring held-out entries",
        "fitting",
        "choosing the threshold",
    ]


def test_without_a_random_state_the_checkpoint_keeps_the_draw(tmp_path):
    one = fitted(tmp_path, random_state=None)
    same(one, fitted(tmp_path, random_state=None))


def test_how_the_work_is_done_may_change(tmp_path):
    same(fitted(tmp_path, n_jobs=1), fitted(tmp_path, n_jobs=2))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"metric": "macro-f1"}, r"metric was 'micro-f1', and is now 'macro-f1'"),
        ({"trace_penalty": 0.02}, r"trace_penalty was 0.01, and is now 0.02"),
        ({"X": X + 1}, "the features have changed"),
        ({"Y": 1 - Y}, "the labels have changed"),
        ({"random_state": np.random.RandomState(1)}, "random_state was 0"),
    ],
)
def test_a_checkpoint_of_another_fit_is_refused(change, named, tmp_path):
    fitted(tmp_path)
    with pytest.raises(CheckpointError, match=named) as caught:
        fitted(tmp_path, **change)
    assert "Give another folder" in str(caught.value)


def test_a_folder_with_other_things_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(CheckpointError, match=r"holds 'thesis.txt' and is no checkpoint"):
        fitted(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "precious"


def test_a_file_is_no_folder(tmp_path):
    path = tmp_path / "file"
    path.write_text("x")
    with pytest.raises(CheckpointError, match="is a file; give a folder"):
        fitted(path)


@pytest.mark.parametrize("name", ["checkpoint.npz", "work/fit/fit.npz", "work/search/state.npz"])
def test_a_damaged_checkpoint_says_so(name, tmp_path):
    fitted(tmp_path)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(CheckpointError, match="damaged"):
        fitted(tmp_path)


def test_two_processes_do_not_share_a_checkpoint(tmp_path):
    pytest.importorskip("fcntl", reason="this system has no file locks")
    fitted(tmp_path)
    with (
        pytest.raises(CheckpointError, match="Another process is fitting"),
        _open(tmp_path),
        _open(tmp_path),
    ):
        raise AssertionError("two of them have it open")


@contextlib.contextmanager
def _open(folder):
    about = _about(folder)
    with open_checkpoint(folder, about, StopRequest()) as opened:
        yield opened


def _about(folder):
    return read_file(folder / "checkpoint.npz", "checkpoint").document["about"]


def test_a_removed_checkpoint_leaves_nothing_but_what_is_not_its_own(tmp_path):
    folder = tmp_path / "checkpoint"
    fitted(folder)
    remove_checkpoint(folder)
    assert not folder.exists()
    fitted(folder)
    (folder / "mine.txt").write_text("mine")
    remove_checkpoint(folder)
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]
