"""Stand-ins for the data sets that could not be had, and the problems that experiments make of data."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

sys.path.insert(0, str(Path(__file__).parents[1]))

from experiments.problems import (
    REAL,
    STAND_INS,
    available,
    observe,
    problem,
    real_problem,
    split_and_observe,
    synthetic_problem,
)
from experiments.stand_ins import SHAPES, Shape, make_stand_in

from labelgap import LowRankClassifier, ObservedLabels
from labelgap.data import MultiLabelData, data_folder
from labelgap.exceptions import InvalidParameterError

SMALL = Shape(60, 30, 500, 15, positive=0.15, n_topics=4, mean_length=80.0)
needs_data = pytest.mark.skipif(
    data_folder() is None, reason="LABELGAP_DATA names no folder with the data sets (see docs/data.md)"
)


# -- stand-ins ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SHAPES))
def test_a_stand_in_has_its_shape_and_looks_like_text(name: str) -> None:
    shape, data = SHAPES[name], make_stand_in(name, 0)
    n = shape.n_train + shape.n_test
    assert data.X.shape == (n, shape.n_features)
    assert data.Y.shape == (n, shape.n_labels)
    assert np.concatenate([data.train, data.test]).tolist() == list(range(n))
    assert data.X.min() >= 0
    assert data.X.nnz < 0.1 * n * shape.n_features
    # As much as the shape says, and every label at least once.
    assert data.Y.mean() == pytest.approx(shape.positive, rel=0.1)
    assert data.Y.sum(axis=0).min() >= 1
    # Words by rank: frequent ones first, and a long tail that hardly comes up.
    rows_with = (data.X > 0).sum(axis=0)
    assert rows_with[:20].mean() > 5 * rows_with[1000:].mean()


def test_a_stand_in_is_repeatable_and_every_seed_is_another() -> None:
    first, again, other = (make_stand_in("toy", seed, SMALL) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.X.toarray(), again.X.toarray())
    np.testing.assert_array_equal(first.Y.toarray(), again.Y.toarray())
    assert (first.Y.toarray() != other.Y.toarray()).any()


@pytest.mark.slow
def test_the_words_tell_about_the_labels() -> None:
    drawn = split_and_observe(make_stand_in("toy", 0, SMALL), np.random.RandomState(0), 0.5)
    assert drawn.X.shape[1] > drawn.X.shape[0]
    model = LowRankClassifier(random_state=0).fit(drawn.X, drawn.labels)
    chance = 2 * SMALL.positive / (1 + SMALL.positive)  # micro-F1 of a yes to everything
    assert model.score(drawn.X_test, drawn.Y_test, unobserved="negative") > chance + 0.1


# -- problems ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", STAND_INS)
def test_rows_of_sparse_features_have_length_one(name: str) -> None:
    drawn = problem(name, 0)
    for X in (drawn.X, drawn.X_test):
        np.testing.assert_allclose(sp.linalg.norm(X, axis=1), 1.0)
    assert sp.issparse(drawn.Y_test)
    n, n_labels = drawn.labels.shape
    assert drawn.labels.n_observed == pytest.approx(0.2 * n * n_labels, rel=0.1)


@pytest.mark.slow
def test_a_draw_with_all_labels_has_the_same_rows() -> None:
    some, everything = problem(STAND_INS[0], 2), problem(STAND_INS[0], 2, observed=1.0)
    assert everything.labels.is_complete
    assert (some.X != everything.X).nnz == 0
    np.testing.assert_array_equal(
        everything.labels.to_dense()[some.labels.rows, some.labels.cols], some.labels.values
    )


def test_observed_entries_do_not_depend_on_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    Y = sp.csr_array((np.random.RandomState(0).uniform(size=(40, 7)) < 0.3).astype(np.uint8))
    whole = observe(Y, 0.3, np.random.RandomState(1))
    mask = np.random.RandomState(1).random_sample(Y.shape) < 0.3
    assert whole == ObservedLabels.from_mask(Y.toarray(), mask)
    monkeypatch.setattr("experiments.problems._BLOCK_ENTRIES", 20)
    assert observe(Y, 0.3, np.random.RandomState(1)) == whole


def test_without_a_published_split_every_draw_has_its_own() -> None:
    rng = np.random.RandomState(0)
    X, Y = rng.standard_normal((50, 3)), sp.csr_array((rng.uniform(size=(50, 4)) < 0.5).astype(np.uint8))
    data = MultiLabelData("toy", X, Y, None, None)
    first, second = (split_and_observe(data, np.random.RandomState(seed), 0.5) for seed in (0, 1))
    assert first.X.shape == (40, 3)
    assert first.X_test.shape == (10, 3)
    assert not np.array_equal(first.Y_test.toarray(), second.Y_test.toarray())
    np.testing.assert_allclose(first.X.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose((first.X**2).sum(axis=1).mean(), 1.0)


def test_what_is_not_there_is_left_out_with_a_note(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("LABELGAP_DATA", raising=False)
    assert available(["scene", "autofood", "autofood-like", "synthetic"]) == ["autofood-like", "synthetic"]
    assert "scene is left out: LABELGAP_DATA names no folder" in capsys.readouterr().out
    monkeypatch.setenv("LABELGAP_DATA", str(tmp_path))
    (tmp_path / "autofood.npz").touch()
    assert available(["autofood", "compphys"]) == ["autofood"]
    assert "compphys is left out: there is no compphys.npz" in capsys.readouterr().out
    with pytest.raises(InvalidParameterError, match="no data set 'mnist'"):
        problem("mnist", 0)


def test_the_users_own_file_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = make_stand_in("toy", 0, SMALL)
    parts = {
        f"{key}_{part}": getattr(matrix, part)
        for key, matrix in (("X", data.X), ("Y", data.Y))
        for part in ("data", "indices", "indptr", "shape")
    }
    np.savez(tmp_path / "autofood.npz", train=data.train, test=data.test, **parts)
    monkeypatch.setenv("LABELGAP_DATA", str(tmp_path))
    drawn = problem("autofood", 0)
    assert drawn.X.shape == (60, 500)
    np.testing.assert_array_equal(drawn.Y_test.toarray(), data.Y[data.test].toarray())


def test_the_synthetic_problem_takes_sizes() -> None:
    drawn = synthetic_problem(0, 0.5, n=20, n_labels=6, n_features=4, rank=2, n_test=5)
    assert (drawn.X.shape, drawn.X_test.shape) == ((20, 4), (5, 4))


@needs_data
@pytest.mark.parametrize("name", REAL)
def test_real_problems(name: str) -> None:
    drawn = real_problem(name, 0)
    lengths = drawn.X.multiply(drawn.X).sum(axis=1) if sp.issparse(drawn.X) else (drawn.X**2).sum(axis=1)
    assert lengths.mean() == pytest.approx(1.0)
    assert drawn.labels.shape[0] == drawn.X.shape[0]
    assert sp.issparse(drawn.Y_test)
