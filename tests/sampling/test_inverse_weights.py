import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from labelgap.exceptions import InvalidInputError, InvalidLabelsError, InvalidParameterError, LabelgapWarning
from labelgap.labels import ObservedLabels
from labelgap.sampling import (
    Bounded,
    Popular,
    PositiveBiased,
    estimate_propensities,
    inverse_propensity_weights,
)

SHAPE = (60, 25)
RNG = np.random.default_rng(0)
# The answer goes with the popularity of the row and of the label, so a biased sample has a biased mean.
TREND = np.add.outer(np.linspace(1, 0, SHAPE[0]), np.linspace(1, 0, SHAPE[1])) / 2
Y = (RNG.random(SHAPE) < 0.8 * TREND).astype(int)
MODELS = [
    Popular(0.3, row_skew=0.4, label_skew=0.6),
    Bounded(0.3, mu=5, nu=2.5),
    PositiveBiased(0.3, odds=2),
]


def means_over_draws(model, weigh, n_draws=250):
    """The plain and the weighted means over Ω of many draws."""
    plain, weighted = np.empty(n_draws), np.empty(n_draws)
    for seed in range(n_draws):
        labels = model.observe(Y, seed)
        plain[seed] = np.mean(labels.values)
        weighted[seed] = np.average(labels.values, weights=weigh(labels))
    return plain, weighted


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_the_weighted_mean_over_observed_entries_is_that_over_all(model):
    P = model.probabilities(Y)
    plain, weighted = means_over_draws(model, lambda labels: inverse_propensity_weights(labels, P, clip=None))
    error = weighted.std() / np.sqrt(len(weighted))
    assert abs(weighted.mean() - Y.mean()) < 4 * error
    assert abs(plain.mean() - Y.mean()) > 20 * error


@pytest.mark.parametrize("model", MODELS[:2], ids=repr)
def test_estimated_propensities_take_most_of_the_bias_away(model):
    plain, weighted = means_over_draws(
        model, lambda labels: inverse_propensity_weights(labels, clip=None), 40
    )
    assert abs(weighted.mean() - Y.mean()) < 0.25 * abs(plain.mean() - Y.mean())


def test_propensities_in_every_form_give_the_same_weights():
    model = Popular(0.3)
    labels, P = model.observe(Y, 0), model.probabilities(SHAPE)
    vector = model.propensities_at(labels.rows, labels.cols, SHAPE)
    expected = 1 / vector / np.mean(1 / vector)
    stored = sparse.csr_array((vector, (labels.rows, labels.cols)), shape=SHAPE)
    for form in (P, P.tolist(), pd.DataFrame(P), vector, stored, sparse.csr_array(P)):
        assert_allclose(inverse_propensity_weights(labels, form), expected, rtol=1e-12)
    assert_allclose(inverse_propensity_weights(labels.to_dense(), P), expected, rtol=1e-12)
    estimate = estimate_propensities(labels)
    assert_array_equal(inverse_propensity_weights(labels, estimate), inverse_propensity_weights(labels))


def test_weights_have_mean_1_and_the_labels_take_them():
    labels = Popular(0.3, 1, 1).observe(Y, 0)
    weights = inverse_propensity_weights(labels)
    assert weights.dtype == np.float64
    assert_allclose(weights.mean(), 1)
    assert np.all(weights > 0)
    assert_array_equal(labels.with_weights(weights).weights, weights)


def test_large_weights_are_clipped_with_a_warning_that_counts_them():
    labels = ObservedLabels.from_dense(np.ones((1, 100)))
    p = np.full(100, 0.9)
    p[:2] = 0.001
    unclipped = inverse_propensity_weights(labels, p, clip=None)
    with pytest.warns(LabelgapWarning, match=r"2 of 100 .*\(2 %\) are above 20 times"):
        clipped = inverse_propensity_weights(labels, p)
    assert_allclose(clipped.mean(), 1)
    assert_allclose(clipped[:2] / clipped[2:].max(), 20 / unclipped[2:].max())
    assert_array_equal(inverse_propensity_weights(labels, p, clip=100.0), unclipped)


def test_tiny_propensities_do_not_overflow():
    weights = inverse_propensity_weights([[1, 0]], [[1e-300, 1e-300]])
    assert_allclose(weights, 1)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (0.0, "column 1 is 0, as one of 1 outside"),
        (-0.1, "is -0.1"),
        (1.5, "is 1.5"),
        (float("nan"), "is nan"),
        (float("inf"), "is inf"),
    ],
)
def test_values_that_are_no_probability_of_an_observed_entry(bad, message):
    with pytest.raises(InvalidInputError, match=message):
        inverse_propensity_weights([[1, 0], [None, 1]], [[0.5, bad], [0.5, 0.5]])


def test_bad_values_elsewhere_do_not_matter():
    weights = inverse_propensity_weights([[1, 0], [None, 1]], [[0.5, 0.5], [np.nan, 0.5]])
    assert_allclose(weights, 1)


def test_other_bad_propensities():
    labels = ObservedLabels.from_dense([[1, 0], [None, 1]])
    with pytest.raises(InvalidInputError, match=r"shape \(2, 3\)"):
        inverse_propensity_weights(labels, np.ones((2, 3)))
    with pytest.raises(InvalidInputError, match=r"shape \(4,\)"):
        inverse_propensity_weights(labels, np.ones(4))
    with pytest.raises(InvalidInputError, match="does not store"):
        inverse_propensity_weights(labels, sparse.csr_array(([0.5], ([0], [0])), shape=(2, 2)))
    with pytest.raises(InvalidInputError, match="of a 3 x 2 matrix"):
        inverse_propensity_weights(labels, estimate_propensities(np.eye(3, 2, dtype=bool)))
    with pytest.raises(InvalidInputError, match="must be numbers"):
        inverse_propensity_weights(labels, np.full((2, 2), "half"))
    with pytest.raises(InvalidLabelsError, match="No label is observed"):
        inverse_propensity_weights([[None, None]])
    for clip in (1.0, 0, float("nan"), float("inf")):
        with pytest.raises(InvalidParameterError, match="clip"):
            inverse_propensity_weights(labels, clip=clip)
