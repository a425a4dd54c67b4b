import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracles_sampling import dense_margins, mask_of
from scipy import sparse, stats
from scipy.special import expit

from labelgap.data import data_folder
from labelgap.exceptions import InvalidInputError, InvalidLabelsError, LabelgapWarning, UnknownNameError
from labelgap.labels import ObservedLabels
from labelgap.sampling import (
    Bounded,
    Popular,
    PropensityEstimate,
    Uniform,
    estimate_propensities,
    inverse_propensity_weights,
    margins,
)
from labelgap.sampling.calibration import fit_link
from labelgap.sampling.margins import Margin
from labelgap.sampling.smoothing import smooth_sums


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
    assert_allclose(estimate.row_counts.sum(), mask.sum())
    assert_allclose(estimate.label_counts.sum(), mask.sum())


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


@pytest.mark.parametrize("noise", ["test", "smooth"])
@pytest.mark.parametrize("share", [0.01, 0.3, 0.73])
def test_uniform_sampling_looks_uniform(share, noise):
    labels = Uniform(share).observe(np.zeros((500, 80)), random_state=0)
    P = estimate_propensities(labels, noise).probabilities()
    assert_allclose(P, labels.n_observed / labels.shape[0] / labels.shape[1], rtol=1e-9)


@pytest.mark.parametrize("noise", ["test", "smooth", "keep"])
def test_rows_and_labels_can_come_in_any_order(noise):
    mask = draw(Popular(0.3, 0.6, 0.8), (80, 30))
    generator = np.random.default_rng(0)
    rows, cols = generator.permutation(80), generator.permutation(30)
    P = estimate_propensities(mask, noise).probabilities()
    assert_allclose(
        estimate_propensities(mask[rows][:, cols], noise).probabilities(), P[rows][:, cols], rtol=1e-9
    )
    assert_allclose(estimate_propensities(mask.T, noise).probabilities(), P.T, rtol=1e-6)


def test_labels_and_masks_in_every_form_give_the_same():
    labels = Popular(0.4).observe(np.eye(30, 12), random_state=0)
    mask = ~np.isnan(labels.to_dense())
    extra = sparse.coo_array(([True, False], ([0, 29], [0, 11])), shape=(30, 12))
    assert_array_equal(
        estimate_propensities(extra).probabilities(), estimate_propensities(extra.toarray()).probabilities()
    )
    expected = estimate_propensities(labels).probabilities()
    for form in (labels.to_dense(), labels.to_sparse(), mask, sparse.csr_array(mask)):
        assert_array_equal(estimate_propensities(form).probabilities(), expected)


def test_where_everything_is_observed_every_propensity_is_one():
    estimate = estimate_propensities([[1, 0], [0, 1]])
    assert_array_equal(estimate.probabilities(), np.ones((2, 2)))
    assert_array_equal(inverse_propensity_weights([[1, 0], [0, 1]]), np.ones(4))


def test_at_agrees_with_the_dense_probabilities():
    mask = draw(Popular(0.3, 1, 1), (60, 40))
    estimate = estimate_propensities(mask)
    rows, cols = np.nonzero(mask)
    assert_allclose(estimate.at(rows, cols), estimate.probabilities()[mask], rtol=1e-12)
    assert estimate.shape == (60, 40)


def test_smoothed_counts_follow_bayes_rule():
    # Half the rows have the rate 0.1 and half 0.3: what a count says of its row is known exactly.
    L, rates = 40, np.array([0.1, 0.3])
    counts = np.random.default_rng(0).binomial(L, np.repeat(rates, 20_000))
    sums, members = np.unique(counts, return_counts=True)
    rows, cols = (
        Margin(sums.astype(float), members.astype(float)),
        Margin(np.array([counts.sum() / L]), np.array([L])),
    )
    likelihood = stats.binom.pmf(sums[:, None], L, rates)
    expected = likelihood @ (L * rates) / likelihood.sum(axis=1)
    shrunk = rows.shrunk(1e-6)
    smoothed = smooth_sums(shrunk, np.log(shrunk.sums / (L - shrunk.sums)), cols, np.zeros(1)).sums

    def error(sums):
        return np.sqrt(np.average((sums - expected) ** 2, weights=members))

    assert error(smoothed) < 0.15 * error(sums)
    assert_allclose(smoothed @ members, counts.sum())
    assert np.all(np.diff(smoothed) >= 0)


def test_the_test_lets_counts_stand_unless_chance_explains_them():
    mask = draw(Popular(0.3, row_skew=0, label_skew=1), (400, 20))
    estimate = estimate_propensities(mask)
    assert_allclose(estimate.row_counts, mask.sum() / 400)
    assert_allclose(estimate.label_counts, mask.sum(axis=0), rtol=1e-4)


def test_smoothed_counts_are_majorised_by_the_counts():
    for seed in range(10):
        mask = draw(Popular(0.6, 0.8, 0.8), (50, 25), seed)
        estimate = estimate_propensities(mask, "smooth")
        for smoothed, counts in (
            (estimate.row_counts, mask.sum(axis=1)),
            (estimate.label_counts, mask.sum(axis=0)),
        ):
            ours, theirs = np.cumsum(np.sort(smoothed)[::-1]), np.cumsum(np.sort(counts)[::-1])
            assert np.all(ours <= theirs + 1e-8)


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


def test_the_link_is_monotone_and_level_beyond_the_data():
    z = np.linspace(-6, 6, 200)
    cells = np.full(200, 500.0)
    link = fit_link(z, cells, np.random.default_rng(0).binomial(500, expit(z)).astype(float))
    there = link(np.linspace(-20, 20, 500))
    assert np.all(np.diff(there) >= 0)
    assert there[0] == there[1] == link(link.knots[:1])[0]
    assert_allclose(expit(link(z))[50:150], expit(z)[50:150], atol=0.03)
    assert_allclose(cells @ expit(link(z)), cells @ expit(z), rtol=0.03)


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


def test_what_says_nothing_of_observation_is_refused():
    with pytest.raises(InvalidInputError, match="Nothing is observed"):
        estimate_propensities(np.zeros((3, 2), dtype=bool))
    with pytest.raises(InvalidLabelsError, match="unlabelled"):
        estimate_propensities(ObservedLabels.from_any([[1, 0]], unobserved="unlabelled"))
    with pytest.raises(UnknownNameError, match="smooth"):
        estimate_propensities([[1, None]], noise="smoth")


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
