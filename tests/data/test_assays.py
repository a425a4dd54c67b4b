"""The made-up matrix of compounds and assays is what its documentation says."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from labelgap import LowRankClassifier
from labelgap.data import make_assay_matrix
from labelgap.exceptions import InvalidParameterError


def test_shapes_names_and_values() -> None:
    matrix = make_assay_matrix(n_compounds=120, n_assays=7, n_bits=64, n_series=9, n_new=30, random_state=0)
    assert isinstance(matrix.X, sp.csr_array)
    assert (matrix.X.shape, matrix.X_new.shape) == ((120, 64), (30, 64))
    assert (matrix.Y.shape, matrix.Y_observed.shape, matrix.Y_new.shape) == ((120, 7), (120, 7), (30, 7))
    assert set(np.unique(matrix.X.toarray())) == set(np.unique(matrix.Y)) == {0.0, 1.0}
    known = np.isfinite(matrix.Y_observed)
    np.testing.assert_array_equal(matrix.Y_observed[known], matrix.Y[known])
    assert len(set(matrix.compounds)) == 120
    assert len(set(matrix.assays)) == 7
    assert set(matrix.series.tolist()) <= set(range(9))


def test_it_can_be_repeated() -> None:
    one, same, other = (make_assay_matrix(n_compounds=50, random_state=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.Y_observed, same.Y_observed)
    np.testing.assert_array_equal(one.X_new.toarray(), same.X_new.toarray())
    assert not np.array_equal(one.Y, other.Y)


@pytest.mark.parametrize("observed", [0.05, 0.3, 0.9])
def test_the_measured_fraction_and_the_rates_of_actives(observed: float) -> None:
    matrix = make_assay_matrix(n_compounds=2000, n_new=0, observed=observed, random_state=0)
    known = np.isfinite(matrix.Y_observed)
    assert known.mean() == pytest.approx(observed, rel=0.15)
    rates = matrix.Y.mean(axis=0)
    assert 0.03 < rates.min() < rates.max() < 0.4
    # Whether a pair was measured does not depend on its outcome: both kinds are known equally often.
    expected = known.mean(axis=0) * matrix.Y.sum(axis=0)
    found = (known & (matrix.Y == 1)).sum(axis=0)
    assert np.sum(found) == pytest.approx(np.sum(expected), rel=0.1)


def test_compounds_of_a_series_and_assays_of_a_family_are_alike() -> None:
    matrix = make_assay_matrix(n_compounds=1500, random_state=0)
    bits = matrix.X.toarray()
    together, apart = [], []
    for i in range(0, 300, 2):
        same = matrix.series[i] == matrix.series
        common = (bits @ bits[i]) / np.maximum(bits.sum(axis=1) + bits[i].sum() - bits @ bits[i], 1)
        same[i] = False
        together.append(common[same].mean())
        apart.append(common[~same].mean())
    assert np.mean(together) > 2 * np.mean(apart)
    family = np.array([name.rsplit(" ", 1)[0] for name in matrix.assays])
    between = np.corrcoef(matrix.Y.T)
    alike = (family[:, None] == family) & ~np.eye(len(family), dtype=bool)
    assert between[alike].mean() > 0.15 + between[family[:, None] != family].mean()


def test_the_gaps_of_a_small_matrix_are_filled_better_than_by_rates() -> None:
    matrix = make_assay_matrix(
        n_compounds=150, n_assays=9, n_bits=64, n_series=8, observed=0.4, random_state=0
    )
    model = LowRankClassifier(trace_penalty=0.02, ridge_penalty=1e-3, random_state=0)
    model.fit(matrix.X, matrix.Y_observed)
    gaps = np.where(np.isnan(matrix.Y_observed), matrix.Y, np.nan)
    everything = np.nanmean(gaps)
    # The micro-F1 of a yes everywhere is 2r/(1 + r) at a rate r.
    assert model.score(matrix.X, gaps) > 1.3 * 2 * everything / (1 + everything)
    probability = model.predict_proba(matrix.X)
    hidden = np.isfinite(gaps)
    assert probability[hidden & (gaps == 1)].mean() > 1.5 * probability[hidden & (gaps == 0)].mean()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"observed": 0.95}, "observed"),
        ({"n_bits": 8}, "n_bits"),
        ({"n_series": 0}, "n_series"),
        ({"n_new": -1}, "n_new"),
    ],
)
def test_what_cannot_be_drawn_is_refused(wrong: dict[str, float], said: str) -> None:
    with pytest.raises(InvalidParameterError, match=said):
        make_assay_matrix(**wrong)
