"""The union of batches, against a dictionary from (row id, label) to value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelgap.arriving import RowIds, join_labels, place_labels
from labelgap.exceptions import InvalidInputError, InvalidLabelsError
from labelgap.labels import ObservedLabels

IDS, NAMES = "abcdefg", ("p", "q", "r", "s", "t")


def drawn_batches(seed):
    """Some batches: ids of rows, names of labels, entries, and whether they have weights and offsets."""
    rng = np.random.RandomState(seed)
    for _ in range(rng.randint(1, 5)):
        ids = rng.permutation(list(IDS))[: rng.randint(1, len(IDS) + 1)].tolist()
        names = rng.permutation(NAMES)[: rng.randint(1, len(NAMES) + 1)].tolist()
        dense = rng.choice([0.0, 1.0, np.nan], size=(len(ids), len(names)))
        yield ids, names, dense, bool(rng.randint(2))


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_union_equals_a_dictionary_that_is_written_to(seed):
    union, rows_known, names = None, RowIds(), None
    truth, counts = {}, []
    for ids, labels_of, dense, weighted in drawn_batches(seed):
        batch = ObservedLabels.from_dense(dense, label_names=labels_of)
        if weighted:
            batch = batch.with_weights(np.arange(1.0, batch.n_observed + 1))
            batch = batch.with_offsets(np.arange(batch.n_observed) / 7)
        rows_known, rows = rows_known.place(ids, len(ids))
        if union is None:
            union, names = batch, batch.label_names
            joined = None
        else:
            columns, names, n_labels = place_labels(names, union.shape[1], labels_of, len(labels_of))
            joined = join_labels(
                union, batch, rows, columns, shape=(rows_known.n_rows, n_labels), label_names=names
            )
            union = joined.labels
        expected = {"added": 0, "corrected": 0, "repeated": 0}
        entries = zip(batch.rows, batch.cols, strict=True)
        for entry, (i, j) in enumerate(entries):
            key, value = (ids[i], labels_of[j]), int(batch.values[entry])
            kind = "added" if key not in truth else "repeated" if truth[key][0] == value else "corrected"
            expected[kind] += 1
            truth[key] = (
                value,
                1.0 if batch.weights is None else batch.weights[entry],
                0.0 if batch.offsets is None else batch.offsets[entry],
            )
        counts.append((expected, joined))
    for expected, joined in counts:
        if joined is not None:
            assert {name: getattr(joined, name) for name in expected} == expected
    id_of = dict(zip(rows_known.rows.tolist(), rows_known.ids, strict=True))
    found = {
        (id_of[i], names[j]): (
            union.values[entry],
            1.0 if union.weights is None else union.weights[entry],
            0.0 if union.offsets is None else union.offsets[entry],
        )
        for entry, (i, j) in enumerate(zip(union.rows.tolist(), union.cols.tolist(), strict=True))
    }
    assert found == truth
    # The order of a compressed row matrix, which kernels rely on.
    keys = union.rows * union.shape[1] + union.cols
    assert np.all(np.diff(keys) > 0)


def test_what_belongs_to_entries_is_joined_by_their_source():
    old = ObservedLabels.from_dense([[1, np.nan], [0, 1]])
    new = ObservedLabels.from_dense([[0, 0]])
    joined = join_labels(old, new, np.array([0]))
    born = joined.per_entry(np.full(3, 1), np.full(2, 2))
    assert born.tolist() == [2, 2, 1, 1]


def test_where_absent_is_no_a_row_of_the_batch_replaces_the_row_and_new_labels_are_filled():
    old = ObservedLabels.from_any(np.array([[1, 0], [0, 1]]), unobserved="negative")
    new = ObservedLabels.from_any(np.array([[np.nan, 1], [1, np.nan]]), unobserved="negative")
    joined = join_labels(old, new, np.array([0, 2]), np.array([1, 2]), shape=(3, 3))
    assert joined.labels.to_dense().tolist() == [[1, 0, 1], [0, 1, 0], [0, 1, 0]]
    assert joined.labels.is_complete
    assert joined.labels.unobserved == "negative"
    assert joined.source.tolist() == [0, 4, 5, 2, 3, -1, -1, 6, 7]


def test_labels_without_names_go_by_their_order():
    columns, names, n_labels = place_labels(None, 2, None, 3)
    assert (columns.tolist(), names, n_labels) == ([0, 1, 2], None, 3)
    assert place_labels(("a", "b"), 2, None, 2)[1] == ("a", "b")
    # A frame without names numbers its columns.
    assert place_labels(("a", "b"), 2, (0, 1), 2)[1] == ("a", "b")
    with pytest.raises(InvalidLabelsError, match="give all columns"):
        place_labels(None, 3, None, 2)
    with pytest.raises(InvalidLabelsError, match="only the model names"):
        place_labels(("a", "b"), 2, None, 3)
    with pytest.raises(InvalidLabelsError, match="only the batch names"):
        place_labels(None, 2, ("a", "b", "c"), 3)


def test_row_ids_that_cannot_be_used_are_refused():
    known, rows = RowIds().place(None, 3)
    assert rows.tolist() == [0, 1, 2]
    assert known.ids == ()
    known, rows = known.place([7, 9], 2)
    assert rows.tolist() == [3, 4]
    assert known.place(np.array([9, 8]), 2)[1].tolist() == [4, 5]
    with pytest.raises(InvalidInputError, match="comes twice in one batch, at rows 0 and 2"):
        known.place(["a", "b", "a"], 3)
    with pytest.raises(InvalidInputError, match="There are 2 row_ids for 3 rows"):
        known.place(["a", "b"], 3)
