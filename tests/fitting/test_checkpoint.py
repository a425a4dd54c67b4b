"""Checkpoints: killed fits end as if nothing had happened; foreign, damaged and busy folders are refused."""

from __future__ import annotations

import contextlib
import copy
import errno
import functools
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from labelgap import LowRankClassifier, ObservedLabels, Recommender
from labelgap.data import make_low_rank_labels
from labelgap.exceptions import CheckpointError, LabelgapWarning
from labelgap.fitting.checkpoint import (
    FolderCheckpoint,
    described,
    open_checkpoint,
    remove_checkpoint,
)
from labelgap.persistence.container import read_file
from labelgap.solvers import FitListener

problem = make_low_rank_labels(n=80, n_labels=6, observed=0.5, random_state=1)
X, Y = problem.X, problem.Y_observed
GIVEN = {"trace_penalty": 1e-2, "ridge_penalty": 0.0, "random_state": 0}
SEARCH = {"ridge_penalty": 0.0, "tol": 1e-2, "random_state": 0}
FEW = X[:50], Y[:50, :3]


def fitted(folder, X=X, Y=Y, **options):
    return LowRankClassifier(**{**GIVEN, **options}).fit(X, Y, checkpoint=folder)


def same(one, other):
    for name in ("coef_left_", "coef_right_", "intercept_", "threshold_", "objective_", "duality_gap_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


# The other kinds of killed_fits.KINDS use the same code; run them by hand after a change to a solver.
@pytest.mark.parametrize("kind", ["default", "likes"])
@pytest.mark.slow
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


@functools.cache
def searched():
    """A fit that chooses its penalty, made once; with what it told."""
    heard = Heard()
    return LowRankClassifier(**SEARCH).fit(*FEW, callback=heard), heard


def test_a_checkpoint_changes_nothing_and_can_be_resumed(tmp_path):
    plain, _ = searched()
    kept = LowRankClassifier(**SEARCH).fit(*FEW, checkpoint=tmp_path / "a" / "b")
    same(plain, kept)
    heard = Heard()
    again = LowRankClassifier(**SEARCH).fit(*FEW, callback=heard, checkpoint=tmp_path / "a" / "b")
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
    model, heard = searched()
    assert heard.stages == ["choosing penalties", "fitting"]
    assert tuple(heard.candidates) == model.candidates_
    assert heard.rounds == len(model.history_)
    likes, heard = np.nonzero(problem.Y[:40]), Heard()
    Recommender(unobserved="unlabelled", trace_penalty=1e-2, random_state=0).fit(likes, callback=heard)
    assert heard.stages == [
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
        ({"random_state": np.random.RandomState(1)}, "random_state was 0, and is now RandomState"),
    ],
)
def test_a_checkpoint_of_another_fit_is_refused(change, named, tmp_path):
    fitted(tmp_path)
    with pytest.raises(CheckpointError, match=named) as caught:
        fitted(tmp_path, **change)
    assert "Give another folder" in str(caught.value)


def test_a_folder_with_other_things_is_refused_and_left_alone(tmp_path):
    mine = {"thesis.txt": "precious", "sub/.film.mkv.part": "half a film", "work/.x.part": "mine", "lock": ""}
    for name, text in mine.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(CheckpointError, match=r"holds 'lock' and is no checkpoint"):
        fitted(tmp_path)
    found = {p.relative_to(tmp_path).as_posix(): p.read_text() for p in tmp_path.rglob("*") if p.is_file()}
    assert found == mine


def test_a_full_disk_ends_the_checkpoint_and_not_the_fit(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(FolderCheckpoint, "_write_file", staticmethod(full))
    with pytest.warns(LabelgapWarning, match="cannot be written any more") as caught:
        model = fitted(tmp_path)
    assert len(caught) == 1
    monkeypatch.undo()
    same(model, fitted(None))
    same(model, fitted(tmp_path))


def test_a_file_system_without_locks_will_do(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl", reason="this system has no file locks")

    def unknown(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", unknown)
    same(fitted(tmp_path), fitted(None))


def test_a_thread_that_outlives_the_fit_writes_nothing(tmp_path):
    fitted(tmp_path / "a")
    with open_checkpoint(tmp_path / "a", _about(tmp_path / "a"), threading.Event()) as (checkpoint, _):
        part = checkpoint.part("late")
        part.snapshot({"x": np.zeros(1)}, at_once=True)
        assert part.last() is not None
    part.snapshot({"x": np.ones(1)}, at_once=True)
    assert part.last()["x"] == 0


class Broken(FitListener):
    def candidate(self, candidate):
        raise RuntimeError("the listener broke")


@pytest.mark.usefixtures("default_interrupts")
def test_a_fit_that_fails_leaves_no_half_model_and_no_lock(tmp_path):
    model = LowRankClassifier(**GIVEN).fit(X, Y)
    with pytest.raises(RuntimeError, match="broke"):
        model.fit(X[:, :5], Y, callback=Broken(), checkpoint=tmp_path)
    with pytest.raises(NotFittedError):
        model.predict(X)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    model.fit(X[:, :5], Y, checkpoint=tmp_path)


def scaled(scale):
    return lambda z: scale * z


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pd.Series(np.r_[np.zeros(70), 0.5]), pd.Series(np.r_[np.zeros(69), 0.5, 0.5])),
        (pd.Series([0.1, 0.2], index=["a", "b"]), pd.Series([0.1, 0.2], index=["b", "a"])),
        ({"a": 0.1, "b": 0.2}, {"a": 0.1, "b": 0.3}),
        ([np.arange(2000)], [np.r_[np.arange(1000), 0, np.arange(1001, 2000)]]),
        (scaled(1), scaled(2)),
        (lambda v: v > 3, lambda v: v > 4),
        (np.random.RandomState(0), np.random.RandomState(1)),
        (functools.partial(max, 1), functools.partial(max, 2)),
        (("a", ("b",)), (("a", "b"),)),
        (ObservedLabels.from_dense(Y), ObservedLabels.from_dense(1 - Y)),
    ],
)
def test_settings_are_told_apart_by_their_contents(one, other):
    assert described(one) != described(other)
    assert described(one) == described(copy.deepcopy(one))


def test_what_leads_back_to_itself_has_a_digest():
    loop = []
    loop.append(loop)
    assert described(loop) == described(loop)


def test_numpys_own_random_numbers_are_no_seed():
    assert described(np.random) == described(None)


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
    with open_checkpoint(folder, about, threading.Event()) as opened:
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
