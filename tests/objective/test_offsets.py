"""A known part of each score, carried by the labels."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from labelgap.exceptions import InvalidInputError, InvalidLabelsError
from labelgap.labels import ObservedLabels
from labelgap.objective.protocol import Factors
from problem_settings import OBSERVED_LOSSES, Setting
from solver_problems import make_problem, random_factors


def make_labels():
    """Eight entries whose offset says where they are: row plus a tenth of the column."""
    Y = np.array([[1, 0, np.nan, 1], [np.nan, 1, np.nan, 0], [0, 1, 1, np.nan]])
    return ObservedLabels.from_dense(Y).with_offsets(np.add.outer(np.arange(3.0), np.arange(4) / 10))


def at_home(labels, rows):
    """Whether every offset belongs to its entry, with the rows that the entries came from."""
    return np.allclose(labels.offsets, rows[labels.rows] + labels.cols / 10)


def test_offsets_travel_with_their_entries():
    labels, rows = make_labels(), np.arange(3)
    for some, of_rows in (
        (labels, rows),
        (labels.select(labels.values == 1), rows),
        (labels.select([0, 3, 6]), rows),
        (labels.take_rows([2, 0, 2]), np.array([2, 0, 2])),
        (labels[1:], rows[1:]),
        (labels.with_weights(np.ones(8)), rows),
        *((part, rows) for part in labels.split(0.3, random_state=0)),
        *((part, rows) for fold in labels.folds(3, random_state=0) for part in fold),
    ):
        assert at_home(some, of_rows)
    for train, held_out in labels.folds(3, random_state=0):
        assert len(train.offsets) + len(held_out.offsets) == 8


def test_offsets_that_are_given_equality_and_text():
    labels, dense = make_labels(), np.add.outer(np.arange(3.0), np.arange(4) / 10)
    plain = labels.with_offsets(None)
    assert plain.offsets is None
    for given in (labels.offsets, dense, sp.csr_array(dense), labels.offsets.tolist()):
        again = plain.with_offsets(given)
        assert again == labels
        assert again.offsets.dtype == np.float64
    for other in (labels.with_offsets(labels.offsets + 1), plain):
        assert labels != other
        assert other != labels
    assert repr(labels) == "ObservedLabels(3 x 4, 8 observed (66.7 %), 5 positive, with offsets)"
    assert "offsets" not in repr(plain)
    for bad, message in (
        (np.zeros(9), r"offsets have shape \(9,\).*8 observed"),
        (np.zeros((4, 3)), r"\(4, 3\)"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            labels.with_offsets(bad)
    for bad in (np.nan, np.inf, -np.inf):
        offsets = np.zeros((3, 4))
        # Nothing is observed there.
        offsets[0, 2] = bad
        labels.with_offsets(offsets)
        offsets[1, 3] = bad
        with pytest.raises(InvalidLabelsError, match=f"row 1, column 3 is {bad}"):
            labels.with_offsets(offsets)
    # Entries that were not given have no offset.
    with pytest.raises(InvalidLabelsError, match="offset"):
        ObservedLabels.from_any(labels, unobserved="negative")


def test_offsets_that_a_model_makes_are_that_model_added():
    for loss in OBSERVED_LOSSES:
        setting = Setting(loss=loss, weighted=True)
        labels, (n_rows, n_labels) = setting.labels(), setting.Y.shape
        problem = make_problem(setting.X, labels, loss)
        rng, told = np.random.default_rng(3), repr(loss)
        known, mine = (random_factors(rng, 4, n_labels, rank, 0.3) for rank in (1, 2))
        offsets = problem.left(known.left) @ known.right.T + known.intercept
        both = Factors(
            np.hstack([mine.left, known.left]),
            np.hstack([mine.right, known.right]),
            mine.intercept + known.intercept,
        )
        shifted = problem.objective(labels.with_offsets(offsets)).at(mine)
        plain = problem.objective(labels).at(both)
        assert_allclose(shifted.value, plain.value, rtol=1e-10, err_msg=told)
        assert_allclose(shifted.gradient().left, plain.gradient().left[:, :2], 1e-9, 1e-12, err_msg=told)
        assert_allclose(shifted.gradient().intercept, plain.gradient().intercept, 1e-9, 1e-12, err_msg=told)
        added = problem.scores(mine, labels.with_offsets(offsets)) - problem.scores(mine, labels)
        assert_allclose(added, offsets[~np.isnan(setting.Y)], rtol=1e-10, atol=1e-12, err_msg=told)
        # What a label shares is taken off its starting intercept, and zeros are no offsets.
        shared = np.array([0.5, -1.0, 0.0, 2.0, 0.25, 0.0])
        start = problem.objective(labels).starting_intercept()
        tiled = labels.with_offsets(np.tile(shared, (n_rows, 1)))
        found = problem.objective(tiled).starting_intercept()
        assert_allclose(found, start - shared, rtol=1e-10, atol=1e-12, err_msg=told)
        none = problem.objective(labels.with_offsets(0.0 * offsets)).at(mine)
        assert_array_equal(none.gradient().right, problem.objective(labels).at(mine).gradient().right)
