"""A bounded sample of entries stands for all of them: sums keep their expectation."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from labelgap.arriving.kept import Incoming, KeptData, draw_in_proportion
from labelgap.labels import ObservedLabels
from labelgap.objective.cpu.part import CpuRows
from labelgap.objective.parts import FeatureSettings, RowBlock


def kept_data(n=40, L=5, seed=0, sparse=False):
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n, 3))
    Y = np.where(rng.uniform(size=(n, L)) < 0.6, rng.uniform(size=(n, L)) < 0.4, np.nan)
    batch = Incoming(sp.csr_array(X) if sparse else X, ObservedLabels.from_dense(Y), np.arange(n), None, None)
    held_out = rng.standard_normal(batch.labels.n_observed)
    return KeptData.begin(batch, held_out, FeatureSettings(scaling="standard"))


def moments_of(X, labels):
    return CpuRows(RowBlock(X, labels)).moments(FeatureSettings(scaling="standard"))


@pytest.mark.parametrize("spread", [0.0, 2.0])
def test_weighted_sums_keep_their_expectation(spread):
    rng = np.random.RandomState(0)
    weights, values = np.exp(spread * rng.standard_normal(50)), rng.standard_normal(50)
    sums, counts = [], np.zeros(50)
    for _ in range(600):
        drawn, probability = draw_in_proportion(weights, 12, rng)
        assert len(np.unique(drawn)) == len(drawn)
        assert abs(len(drawn) - 12) <= 1
        counts[drawn] += 1
        sums.append(np.sum(weights[drawn] / probability[drawn] * values[drawn]))
    np.testing.assert_allclose(counts / 600, probability, atol=0.1)
    error = np.std(sums) / np.sqrt(600)
    assert abs(np.mean(sums) - weights @ values) <= 4 * error + 1e-9


@pytest.mark.parametrize("sparse", [False, True])
def test_repeated_sampling_keeps_sums_and_moments(sparse):
    kept = kept_data(sparse=sparse)
    labels = kept.labels
    truth = np.array([labels.n_observed, *np.bincount(labels.indices, labels.values)], dtype=float)
    found = []
    for seed in range(100):
        rng = np.random.RandomState(seed)
        # A sample of a sample, as after two batches.
        small = kept.within(60, None, rng, moments_of).within(30, None, rng, moments_of)
        assert small.labels.n_observed == 30
        weighted = small.labels.weights * small.labels.values
        found.append([small.labels.weights.sum(), *np.bincount(small.labels.indices, weighted, 5)])
    error = np.std(found, axis=0) / np.sqrt(100)
    assert np.all(np.abs(np.mean(found, axis=0) - truth) <= 4 * error + 1e-9)
    total = CpuRows(RowBlock(small.X, small.labels)).moments(FeatureSettings()) + small.gone
    whole = moments_of(kept.X, labels)
    assert total.n_rows == whole.n_rows
    np.testing.assert_allclose(total.columns.mean, whole.columns.mean, atol=1e-12)
    np.testing.assert_allclose(total.columns.deviations, whole.columns.deviations)
    assert np.array_equal(total.label_counts, whole.label_counts)
    assert np.array_equal(total.label_positives, whole.label_positives)


def test_rows_that_stay_keep_their_ids_and_scores():
    kept = kept_data()
    small = kept.within(20, None, np.random.RandomState(0), moments_of)
    places = zip(kept.labels.rows.tolist(), kept.labels.cols.tolist(), strict=True)
    score_of = dict(zip(places, kept.held_out, strict=True))
    id_of = dict(zip(small.rows.rows.tolist(), small.rows.ids, strict=True))
    assert small.rows.n_rows == len(id_of) == small.X.shape[0]
    for entry, (i, j) in enumerate(zip(small.labels.rows.tolist(), small.labels.cols.tolist(), strict=True)):
        assert small.held_out[entry] == score_of[id_of[i], j]
        assert np.array_equal(small.X[i], kept.X[id_of[i]])
    assert kept.within(10**6, None, np.random.RandomState(0), moments_of) is kept


def test_new_labels_widen_what_is_gone():
    small = kept_data().within(20, None, np.random.RandomState(0), moments_of)
    wide = ObservedLabels.from_dense(np.ones((4, 7)))
    joined, _ = small.join(Incoming(np.zeros((4, 3)), wide, None, None, None))
    again = joined.within(20, None, np.random.RandomState(1), moments_of)
    assert len(again.gone.label_counts) == 7
    assert again.gone.n_rows + again.rows.n_rows == 44


def test_data_that_do_not_fit_together_are_refused():
    kept = kept_data()
    with pytest.raises(ValueError, match="do not fit together"):
        KeptData(**{**vars(kept), "X": kept.X[:-1]})
    with pytest.raises(ValueError, match="do not fit together"):
        KeptData(**{**vars(kept), "born": kept.born[:-1]})
