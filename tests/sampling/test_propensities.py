"""Propensities from a mask alone, and the weights that take the bias of a sample away."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracles_sampling import dense_margins, mask_of
from scipy import sparse, stats
from scipy.special import expit

from labelgap.data import data_folder
from labelgap.exceptions import (
    InvalidInputError,
    InvalidLabelsError,
    InvalidParameterError,
    LabelgapWarning,
    UnknownNameError,
)
from labelgap.labels import ObservedLabels
from labelgap.sampling import (
    Bounded,
    Popular,
    PositiveBiased,
    PropensityEstimate,
    Uniform,
    estimate_propensities,
    inverse_propensity_weights,
    margins,
)


def draw(model, shape, seed=0):
    return mask_of(*model.sample(shape, seed), shape)


@st.composite
def masks(draw_from):
    n, L = draw_from(st.integers(1, 12)), draw_from(st.integers(1, 12))
    cells = draw_from(st.lists(st.booleans(), min_size=n * L, max_size=n * L).filter(any))
    return np.array(cells).reshape(n, L)


@settings(max_examples=60, deadline=None)
@given(masks())
def test_kept_counts_are_the_expected_ones(mask):
    P = estimate_propensities(mask, noise="keep").probabilities()
    assert np.all((P > 0) & (P <= 1))
    assert_allclose(P.sum(axis=1), mask.sum(axis=1), atol=2e-5)
    assert_allclose(P.sum(axis=0), mask.sum(axis=0), atol=2e-5)


@settings(max_examples=60, deadline=None)
@given(masks(), st.sampled_from(["test", "smooth"]))
def test_whatever_becomes_of_the_noise_totals_are_kept_and_probabilities_valid(mask, noise):
    estimate = estimate_propensities(mask, noise)
    P = estimate.probabilities()
    assert np.all((P > 0) & (P <= 1))
    assert_allclose([estimate.row_counts.sum(), estimate.label_counts.sum()], mask.sum())
    rows, cols = np.nonzero(mask)
    assert_allclose(estimate.at(rows, cols), P[mask], rtol=1e-12)
    assert estimate.shape == mask.shape


def test_a_step_does_not_run_away_where_it_changes_nothing():
    # After three steps nothing but rounding is left of the slopes.
    mask = np.array([[0, 1], [1, 1], [1, 1], [1, 0], [1, 0], [0, 0], [0, 0], [0, 1], [0, 1]], dtype=bool)
    P = estimate_propensities(mask, noise="keep").probabilities()
    assert_allclose(P.sum(axis=0), mask.sum(axis=0), atol=2e-5)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.73, 0.95])
def test_with_kept_counts_it_is_the_maximum_entropy_fit(share):
    mask = draw(Popular(share, 0.4, 0.7), (40, 15))
    shrunk = [(1 - 1e-6) * counts + 1e-6 * counts.mean() for counts in (mask.sum(axis=1), mask.sum(axis=0))]
    P = estimate_propensities(mask, noise="keep").probabilities()
    assert_allclose(P, dense_margins(*shrunk), atol=1e-4)


@pytest.mark.parametrize("shape", [(2000, 60), (60, 2000), (400, 300)])
@pytest.mark.parametrize("share", [0.02, 0.2, 0.73])
@pytest.mark.parametrize("skews", [(0.5, 0.5), (1, 0.3)])
def test_popular_propensities_are_found(shape, share, skews):
    model = Popular(share, *skews)
    mask, truth = draw(model, shape), model.probabilities(shape)
    weights = 1 / truth[mask]
    weights /= weights.mean()

    def error(P):
        found = 1 / P[mask]
        return np.sqrt(np.mean((found / found.mean() - weights) ** 2))

    # Against taking all entries as equally likely, most of the error must go; none of it may be added to.
    assert error(estimate_propensities(mask, "smooth").probabilities()) < 0.7 * error(np.ones(shape))
    if share >= 0.2:
        assert error(estimate_propensities(mask, "smooth").probabilities()) < 0.5 * error(np.ones(shape))


def test_more_observations_bring_the_propensities_nearer():
    shape, errors = (3000, 100), []
    for share in (0.01, 0.04, 0.16):
        model = Bounded(share, mu=5, nu=2)
        ratio = estimate_propensities(draw(model, shape), "smooth").probabilities() / model.probabilities(
            shape
        )
        errors.append(np.sqrt(np.mean(np.log(ratio) ** 2)))
    assert errors[0] > 1.3 * errors[1] > 1.3**2 * errors[2]
    assert errors[2] < 0.1


@pytest.mark.parametrize("noise", ["test", "smooth", "keep"])
def test_order_and_evenness(noise):
    mask = draw(Popular(0.3, 0.6, 0.8), (80, 30))
    generator = np.random.default_rng(0)
    rows, cols = generator.permutation(80), generator.permutation(30)
    P = estimate_propensities(mask, noise).probabilities()
    moved = estimate_propensities(mask[rows][:, cols], noise).probabilities()
    assert_allclose(moved, P[rows][:, cols], rtol=1e-9)
    assert_allclose(estimate_propensities(mask.T, noise).probabilities(), P.T, rtol=1e-6)
    for share in (0.01, 0.3, 0.73) if noise != "keep" else ():
        labels = Uniform(share).observe(np.zeros((500, 80)), random_state=0)
        P = estimate_propensities(labels, noise).probabilities()
        assert_allclose(P, labels.n_observed / 40_000, rtol=1e-9, err_msg=str(share))


def test_labels_and_masks_in_every_form_give_the_same():
    labels = Popular(0.4).observe(np.eye(30, 12), random_state=0)
    mask = ~np.isnan(labels.to_dense())
    expected = estimate_propensities(labels).probabilities()
    for form in (labels.to_dense(), labels.to_sparse(), mask, sparse.csr_array(mask)):
        assert_array_equal(estimate_propensities(form).probabilities(), expected)
    extra = sparse.coo_array(([True, False], ([0, 29], [0, 11])), shape=(30, 12))
    found = [estimate_propensities(form).probabilities() for form in (extra, extra.toarray())]
    assert_array_equal(*found)
    # Where everything is observed every propensity is one.
    assert_array_equal(estimate_propensities([[1, 0], [0, 1]]).probabilities(), np.ones((2, 2)))
    assert_array_equal(inverse_propensity_weights([[1, 0], [0, 1]]), np.ones(4))


def test_smoothed_counts_follow_bayes_rule():
    # Half the rows have the rate 0.1 and half 0.3: what a count says of its row is known exactly.
    L, rates = 40, np.array([0.1, 0.3])
    mask = np.random.default_rng(0).random((40_000, L)) < np.repeat(rates, 20_000)[:, None]
    counts = mask.sum(axis=1)
    likelihood = stats.binom.pmf(counts[:, None], L, rates)
    expected = likelihood @ (L * rates) / likelihood.sum(axis=1)
    smoothed = estimate_propensities(mask, "smooth").row_counts

    def error(sums):
        return np.sqrt(np.mean((sums - expected) ** 2))

    assert error(smoothed) < 0.15 * error(counts)
    assert_allclose(smoothed.sum(), counts.sum())
    assert np.all(np.diff(smoothed[np.argsort(counts, kind="stable")]) >= -1e-9)


def test_noise_is_taken_out_of_counts_and_nothing_else():
    # Counts stand unless chance explains them.
    mask = draw(Popular(0.3, row_skew=0, label_skew=1), (400, 20))
    estimate = estimate_propensities(mask)
    assert_allclose(estimate.row_counts, mask.sum() / 400)
    assert_allclose(estimate.label_counts, mask.sum(axis=0), rtol=1e-4)
    # Smoothed ones are majorised by the counts.
    for seed in range(10):
        mask = draw(Popular(0.6, 0.8, 0.8), (50, 25), seed)
        estimate = estimate_propensities(mask, "smooth")
        for axis, smoothed in ((1, estimate.row_counts), (0, estimate.label_counts)):
            ours, theirs = (np.cumsum(np.sort(c)[::-1]) for c in (smoothed, mask.sum(axis=axis)))
            assert np.all(ours <= theirs + 1e-8), (seed, axis)


def test_the_link_learns_a_floor_that_the_logistic_one_lacks():
    # Every row and label is looked at, but 5 % of the cells are also observed for no reason at all.
    generator = np.random.default_rng(0)
    z = np.add.outer(generator.normal(0, 2.5, 600), generator.normal(0, 2.5, 80)) - 2
    truth = 0.05 + 0.95 * expit(z)
    mask = generator.random(truth.shape) < truth
    rare = truth < 0.06
    P = estimate_propensities(mask).probabilities()
    plain = estimate_propensities(mask, noise="keep").probabilities()
    assert abs(P[rare].mean() - truth[rare].mean()) < 0.015
    assert (
        np.median(np.abs(np.log(P / truth)[rare]))
        < 0.2
        < 0.6
        < np.median(np.abs(np.log(plain / truth)[rare]))
    )


def test_a_million_entries_of_a_thousand_million_take_little_memory():
    shape = (50_000, 20_000)
    rows, cols = Popular(1e-3, 0.7, 0.7).sample(shape, random_state=0)
    labels = ObservedLabels.from_triplets(rows, cols, np.zeros(len(rows), np.int8), shape)
    tracemalloc.start()
    weights = inverse_propensity_weights(labels, clip=None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert_allclose(weights.mean(), 1)
    # A mask alone would take 1000 MB.
    assert peak < 150e6


def test_a_fit_that_does_not_settle_says_so(monkeypatch):
    monkeypatch.setattr(margins, "_MAX_STEPS", 1)
    with pytest.warns(LabelgapWarning, match="did not settle"):
        estimate_propensities(draw(Popular(0.5, 1, 1), (20, 10)), noise="keep")


@pytest.mark.skipif(
    data_folder() is None or not (data_folder() / "jester5k.npz").is_file(),
    reason="LABELGAP_DATA names no folder with jester5k.npz (see docs/data.md)",
)
def test_jester_is_calibrated():
    with np.load(data_folder() / "jester5k.npz") as data:
        mask = mask_of(data["user"], data["item"], tuple(data["shape"]))
    estimate = estimate_propensities(mask)
    assert isinstance(estimate, PropensityEstimate)
    P = estimate.probabilities()
    groups = np.digitize(P, [0.06, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95, 0.99])
    for group in np.unique(groups):
        inside = groups == group
        assert abs(P[inside].mean() - mask[inside].mean()) < 0.03


# -- weights -------------------------------------------------------------------------------------------

SHAPE = (60, 25)
RNG = np.random.default_rng(0)
TREND = np.add.outer(np.linspace(1, 0, SHAPE[0]), np.linspace(1, 0, SHAPE[1])) / 2


Y = (RNG.random(SHAPE) < 0.8 * TREND).astype(int)


MODELS = [Popular(0.3, row_skew=0.4, label_skew=0.6), Bounded(0.3, mu=5, nu=2.5), PositiveBiased(0.3, odds=2)]


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_the_weighted_mean_over_observed_entries_is_that_over_all(model):
    P, draws = model.probabilities(Y), [model.observe(Y, seed) for seed in range(250)]
    plain = np.array([np.mean(labels.values) for labels in draws])
    weights = [inverse_propensity_weights(labels, P, clip=None) for labels in draws]
    means = [np.average(labels.values, weights=w) for labels, w in zip(draws, weights, strict=True)]
    error = np.std(means) / np.sqrt(len(means))
    assert abs(np.mean(means) - Y.mean()) < 4 * error
    assert abs(plain.mean() - Y.mean()) > 20 * error
    if not isinstance(model, PositiveBiased):
        # Estimated propensities take most of the bias away.
        means = [
            np.average(labels.values, weights=inverse_propensity_weights(labels, clip=None))
            for labels in draws[:40]
        ]
        assert abs(np.mean(means) - Y.mean()) < 0.25 * abs(plain[:40].mean() - Y.mean())


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


def test_weights_have_mean_1_and_large_ones_are_clipped_with_a_warning_that_counts_them():
    labels = Popular(0.3, 1, 1).observe(Y, 0)
    weights = inverse_propensity_weights(labels)
    assert weights.dtype == np.float64
    assert_allclose(weights.mean(), 1)
    assert np.all(weights > 0)
    assert_array_equal(labels.with_weights(weights).weights, weights)
    labels, p = ObservedLabels.from_dense(np.ones((1, 100))), np.full(100, 0.9)
    p[:2] = 0.001
    unclipped = inverse_propensity_weights(labels, p, clip=None)
    with pytest.warns(LabelgapWarning, match=r"2 of 100 .*\(2 %\) are above 20 times"):
        clipped = inverse_propensity_weights(labels, p)
    assert_allclose(clipped.mean(), 1)
    assert_allclose(clipped[:2] / clipped[2:].max(), 20 / unclipped[2:].max())
    assert_array_equal(inverse_propensity_weights(labels, p, clip=100.0), unclipped)
    # Tiny propensities do not overflow, and bad values elsewhere do not matter.
    assert_allclose(inverse_propensity_weights([[1, 0]], [[1e-300, 1e-300]]), 1)
    assert_allclose(inverse_propensity_weights([[1, 0], [None, 1]], [[0.5, 0.5], [np.nan, 0.5]]), 1)


def test_what_is_refused():
    labels = ObservedLabels.from_dense([[1, 0], [None, 1]])
    silent = ObservedLabels.from_any([[1, 0]], unobserved="unlabelled")
    stored = sparse.csr_array(([0.5], ([0], [0])), shape=(2, 2))
    bad = {0.0: "column 1 is 0, as one of 1 outside", -0.1: "is -0.1", 1.5: "is 1.5"}
    bad |= {float("nan"): "is nan", float("inf"): "is inf"}
    for error, match, propensities in (
        *((InvalidInputError, match, [[0.5, value], [0.5, 0.5]]) for value, match in bad.items()),
        (InvalidInputError, r"shape \(2, 3\)", np.ones((2, 3))),
        (InvalidInputError, r"shape \(4,\)", np.ones(4)),
        (InvalidInputError, "does not store", stored),
        (InvalidInputError, "of a 3 x 2 matrix", estimate_propensities(np.eye(3, 2, dtype=bool))),
        (InvalidInputError, "must be numbers", np.full((2, 2), "half")),
    ):
        with pytest.raises(error, match=match):
            inverse_propensity_weights(labels, propensities)
    for clip in (1.0, 0, float("nan"), float("inf")):
        with pytest.raises(InvalidParameterError, match="clip"):
            inverse_propensity_weights(labels, clip=clip)
    with pytest.raises(InvalidLabelsError, match="No label is observed"):
        inverse_propensity_weights([[None, None]])
    with pytest.raises(InvalidInputError, match="Nothing is observed"):
        estimate_propensities(np.zeros((3, 2), dtype=bool))
    with pytest.raises(InvalidLabelsError, match="unlabelled"):
        estimate_propensities(silent)
    with pytest.raises(UnknownNameError, match="smooth"):
        estimate_propensities([[1, None]], noise="smoth")
