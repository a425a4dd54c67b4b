"""The made-up matrix of compounds and assays is what its documentation says."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from labelgap import LowRankClassifier
from labelgap.data import make_assay_matrix
from labelgap.exceptions import InvalidParameterError


def test_shapes_names_values_and_repetition() -> None:
    size = {"n_compounds": 120, "n_assays": 7, "n_bits": 64, "n_series": 9, "n_new": 30}
    matrix, same, other = (make_assay_matrix(**size, random_state=seed) for seed in (3, 3, 4))
    assert isinstance(matrix.X, sp.csr_array)
    assert (matrix.X.shape, matrix.X_new.shape) == ((120, 64), (30, 64))
    assert (matrix.Y.shape, matrix.Y_observed.shape, matrix.Y_new.shape) == ((120, 7), (120, 7), (30, 7))
    assert set(np.unique(matrix.X.toarray())) == set(np.unique(matrix.Y)) == {0.0, 1.0}
    known = np.isfinite(matrix.Y_observed)
    np.testing.assert_array_equal(matrix.Y_observed[known], matrix.Y[known])
    assert (len(set(matrix.compounds)), len(set(matrix.assays))) == (120, 7)
    assert set(matrix.series.tolist()) <= set(range(9))
    np.testing.assert_array_equal(matrix.Y_observed, same.Y_observed)
    np.testing.assert_array_equal(matrix.X_new.toarray(), same.X_new.toarray())
    assert not np.array_equal(matrix.Y, other.Y)
    for name, value in (("observed", 0.95), ("n_bits", 8), ("n_series", 0), ("n_new", -1)):
        with pytest.raises(InvalidParameterError, match=name):
            make_assay_matrix(**{name: value})


def test_the_measured_fraction_and_the_rates_of_actives() -> None:
    for observed in (0.05, 0.3, 0.9):
        matrix = make_assay_matrix(n_compounds=2000, n_new=0, observed=observed, random_state=0)
        known = np.isfinite(matrix.Y_observed)
        assert known.mean() == pytest.approx(observed, rel=0.15)
        rates = matrix.Y.mean(axis=0)
        assert 0.03 < rates.min() < rates.max() < 0.4
        # Whether a pair was measured does not depend on its outcome: both kinds are known equally often.
        expected = known.mean(axis=0) * matrix.Y.sum(axis=0)
        assert np.sum(known & (matrix.Y == 1)) == pytest.approx(np.sum(expected), rel=0.1)


def test_compounds_of_a_series_and_assays_of_a_family_are_alike() -> None:
    matrix = make_assay_matrix(n_compounds=1500, random_state=0)
    bits = matrix.X.toarray()
    # By Tanimoto: the bits that two compounds share, of those that either has.
    some = np.arange(0, 300, 2)
    shared = bits[some] @ bits.T
    counts = bits.sum(axis=1)
    alike = shared / np.maximum(counts[some, None] + counts - shared, 1)
    same = matrix.series[some, None] == matrix.series
    others = same & (some[:, None] != np.arange(1500))
    together, apart = (np.average(alike, axis=1, weights=part).mean() for part in (others, ~same))
    assert together > 2 * apart
    family = np.array([name.rsplit(" ", 1)[0] for name in matrix.assays])
    between = np.corrcoef(matrix.Y.T)
    same = (family[:, None] == family) & ~np.eye(len(family), dtype=bool)
    assert between[same].mean() > 0.15 + between[family[:, None] != family].mean()


def test_the_gaps_of_a_small_matrix_are_filled_better_than_by_rates() -> None:
    matrix = make_assay_matrix(
        n_compounds=150, n_assays=9, n_bits=64, n_series=8, observed=0.4, random_state=0
    )
    model = LowRankClassifier(trace_penalty=0.02, ridge_penalty=1e-3, random_state=0)
    model.fit(matrix.X, matrix.Y_observed)
    gaps = np.where(np.isnan(matrix.Y_observed), matrix.Y, np.nan)
    rate = np.nanmean(gaps)
    # The micro-F1 of a yes everywhere is 2r/(1 + r) at a rate r.
    assert model.score(matrix.X, gaps) > 1.3 * 2 * rate / (1 + rate)
    probability = model.predict_proba(matrix.X)
    assert probability[gaps == 1].mean() > 1.5 * probability[gaps == 0].mean()
