import tracemalloc

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles_sampling import dense_mu_nu, dense_popular, mask_of
from scipy import sparse, stats

from labelgap.exceptions import InvalidInputError, InvalidLabelsError, InvalidParameterError
from labelgap.labels import ObservedLabels
from labelgap.sampling import Bounded, Popular, PositiveBiased, Uniform

pytestmark = pytest.mark.pairwise

rng = np.random.default_rng(0)
SHAPE = (9, 7)
Y = (rng.random(SHAPE) < 0.3).astype(int)
MODELS = [
    Uniform(0.3),
    Uniform(1.0),
    Popular(0.3, row_skew=1, label_skew=2),
    Popular(0.05, row_skew=0.5, label_skew=0),
    Popular(0.8, row_skew=1, label_skew=1, shuffle=3),
    Bounded(0.3, mu=5, nu=2),
    Bounded(0.2, mu=3, nu=1, shuffle=1),
    PositiveBiased(0.4, odds=2),
    PositiveBiased(0.2, odds=0.3),
]


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_every_entry_is_drawn_as_often_as_its_probability_says(model):
    draws = 300
    generator = np.random.RandomState(0)
    counts, totals = np.zeros(SHAPE), np.empty(draws)
    for t in range(draws):
        rows, cols = model.sample(Y, generator)
        np.add.at(counts, (rows, cols), 1)
        totals[t] = len(rows)
    P = model.probabilities(Y)
    assert_allclose(P.mean(), model.share, rtol=1e-9)
    certain = P >= 1
    assert np.all(counts[certain] == draws)
    if certain.all():
        return
    z = (counts - draws * P)[~certain] / np.sqrt(draws * P * (1 - P))[~certain]
    assert 1e-4 < stats.chi2.sf(np.sum(z**2), z.size) < 1 - 1e-4
    # Independent draws: the variance of the total is the sum of the variances.
    assert_allclose(totals.var(), np.sum(P * (1 - P)), rtol=0.25)


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("truth", [Y, Y.T.copy(), Y[:1], Y[:, :1]], ids=["9x7", "7x9", "1x7", "9x1"])
def test_mu_and_nu_are_those_of_the_dense_definition(model, truth):
    if isinstance(model, Bounded) and model.nu > min(truth.shape):
        with pytest.raises(InvalidParameterError, match="is impossible"):
            model.mu_nu(truth)
        return
    assert_allclose(model.mu_nu(truth), dense_mu_nu(model.probabilities(truth)), rtol=1e-9)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_draw_is_sorted_distinct_and_repeatable(model):
    rows, cols = model.sample(Y, random_state=5)
    cells = rows * SHAPE[1] + cols
    assert np.all(np.diff(cells) > 0)
    again = model.sample(Y, random_state=5)
    assert_array_equal(again, (rows, cols))
    if model.share < 1:
        assert any(not np.array_equal(model.sample(Y, seed), (rows, cols)) for seed in range(5))


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_observe_shows_the_sampled_labels_whatever_their_form(model):
    rows, cols = model.sample(Y, random_state=2)
    shown = model.observe(Y, random_state=2)
    assert_array_equal(shown.rows, rows)
    assert_array_equal(shown.cols, cols)
    assert_array_equal(shown.values, Y[rows, cols])
    assert shown == model.observe(sparse.csr_array(Y), random_state=2)
    assert shown == model.observe(ObservedLabels.from_sparse(sparse.csr_array(Y), "negative"), random_state=2)
    frame = pd.DataFrame(Y, columns=list("abcdefg"))
    named = model.observe(frame, random_state=2)
    assert named.label_names == tuple("abcdefg")
    assert_array_equal(named.values, shown.values)


@pytest.mark.parametrize("shape", [(300, 20), (20, 300), (40, 40)])
@pytest.mark.parametrize(
    "parameters", [(0.2, 1, 1), (0.2, 0, 0.5), (0.01, 1.5, 0.3), (0.9, 2, 2), (1.0, 1, 1), (0.999, 0.1, 0.1)]
)
def test_popular_is_the_capped_power_law_of_the_given_share(shape, parameters):
    assert_allclose(Popular(*parameters).probabilities(shape), dense_popular(shape, *parameters), rtol=1e-7)


def test_popular_at_extreme_shares_keeps_every_probability_positive_and_the_mean_right():
    P = Popular(1e-6, row_skew=3, label_skew=3).probabilities((500, 300))
    assert P.min() > 0
    assert_allclose(P.mean(), 1e-6, rtol=1e-9)


@pytest.mark.parametrize("shape", [(50, 8), (8, 50), (30, 30), (2, 9), (1000, 200)])
@pytest.mark.parametrize(("mu", "nu"), [(1, 1), (2, 1.2), (4, 1.5), (10, 1.7), (50, 1.02), (1.5, 1.3)])
def test_bounded_attains_mu_and_nu_exactly(shape, mu, nu):
    largest = min(shape) - (min(shape) - 1) / mu
    if nu > largest:
        with pytest.raises(InvalidParameterError, match="is impossible"):
            Bounded(0.1, mu, nu).mu_nu(shape)
        return
    lowest = min(shape) - (min(shape) - 1) * nu
    if shape[0] == shape[1] and max(lowest, 0) ** 2 > 1 / mu:
        with pytest.raises(InvalidParameterError, match="no popularity model"):
            Bounded(0.1, mu, nu).mu_nu(shape)
        return
    P = Bounded(0.1, mu, nu).probabilities(shape)
    assert_allclose(dense_mu_nu(P), (mu, nu), rtol=1e-9)
    assert_allclose(P.mean(), 0.1, rtol=1e-9)


@pytest.mark.parametrize("shape", [(6, 20), (9, 4)])
def test_bounded_attains_the_largest_nu_and_the_largest_share(shape):
    mu = 3.0
    nu = min(shape) - (min(shape) - 1) / mu
    assert_allclose(Bounded(1 / nu, mu, nu).mu_nu(shape), (mu, nu), rtol=1e-9)


def test_bounded_says_why_a_pair_cannot_be():
    with pytest.raises(InvalidParameterError, match=r"at most 0\.5"):
        Bounded(0.6, mu=4, nu=2)
    with pytest.raises(InvalidParameterError, match=r"busier than nu=1;"):
        Bounded(0.1, mu=1, nu=1.5).sample((10, 10))
    # Even margins of a square matrix leave a product no freedom at all.
    with pytest.raises(InvalidParameterError, match="no popularity model"):
        Bounded(0.1, mu=2, nu=1).sample((10, 10))
    assert_allclose(Bounded(0.1, mu=2, nu=1).mu_nu((10, 11)), (2, 1), rtol=1e-9)


def test_shuffling_permutes_the_probabilities():
    plain, shuffled = Popular(0.2).probabilities(SHAPE), Popular(0.2, shuffle=0).probabilities(SHAPE)
    assert not np.allclose(plain, shuffled)
    assert_allclose(np.sort(plain.ravel()), np.sort(shuffled.ravel()))
    assert_array_equal(shuffled, Popular(0.2, shuffle=0).probabilities(SHAPE))


def test_positive_biased_shows_a_yes_odds_times_as_often():
    P = PositiveBiased(0.3, odds=3).probabilities(Y)
    assert_allclose(P[Y == 1], 3 * P[Y == 0][0])
    with pytest.raises(InvalidParameterError, match="largest possible share"):
        PositiveBiased(0.9, odds=10).sample(Y)
    with pytest.raises(InvalidInputError, match="pass Y"):
        PositiveBiased(0.3, odds=3).sample((4, 5))
    with pytest.raises(InvalidLabelsError, match="Only 2 of the 4 labels are known"):
        PositiveBiased(0.3, odds=3).observe([[1, np.nan], [np.nan, 0]])
    assert_allclose(PositiveBiased(1.0, odds=1).probabilities(Y), 1)
    assert_allclose(PositiveBiased(0.5, odds=7).mu_nu(np.ones((3, 2))), (1, 1))


def test_what_is_not_known_stays_hidden():
    partial = Y.astype(float)
    partial[rng.random(SHAPE) < 0.5] = np.nan
    shown = Uniform(0.6).observe(partial, random_state=0)
    drawn = mask_of(*Uniform(0.6).sample(SHAPE, random_state=0), SHAPE)
    expected = np.where(drawn, partial, np.nan)
    assert_array_equal(shown.to_dense(), expected)
    assert 0 < shown.n_observed < drawn.sum()
    assert shown.unobserved == "missing"


def test_weights_of_the_labels_are_kept():
    labels = ObservedLabels.from_dense(Y, weights=1 + np.arange(Y.size).reshape(SHAPE))
    shown = Uniform(0.4).observe(labels, random_state=0)
    assert_array_equal(shown.weights, 1 + shown.rows * SHAPE[1] + shown.cols)


@pytest.mark.parametrize(
    "model",
    [Uniform(1e-3), Popular(1e-3, 1, 1), Bounded(1e-3, mu=10, nu=30)],
    ids=["uniform", "popular", "bounded"],
)
def test_a_million_of_a_thousand_million_entries_take_little_memory(model):
    shape = (50_000, 20_000)
    tracemalloc.start()
    rows, cols = model.sample(shape, random_state=0)
    model.mu_nu(shape)
    p = model.propensities_at(rows[:1000], cols[:1000], shape)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert abs(len(rows) - 1e6) < 5e3
    assert np.all((p > 0) & (p <= 1))
    # A mask alone would take 1000 MB.
    assert peak < 100e6


def test_positive_biased_on_a_large_sparse_matrix_takes_little_memory():
    shape, n_ones = (50_000, 20_000), 500_000
    generator = np.random.default_rng(1)
    ones = np.unique(generator.integers(shape[0] * shape[1], size=n_ones))
    truth = sparse.csr_array((np.ones(len(ones), np.int8), np.divmod(ones, shape[1])), shape=shape)
    tracemalloc.start()
    shown = PositiveBiased(1e-3, odds=50).observe(truth, random_state=0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 250e6
    share = len(ones) / (shape[0] * shape[1])
    expected = 1e6 * 50 * share / (50 * share + 1 - share)
    assert abs(shown.values.sum() - expected) < 5 * np.sqrt(expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Uniform(0),
        lambda: Uniform(1.1),
        lambda: Uniform(float("nan")),
        lambda: Popular(0.1, row_skew=-1),
        lambda: Popular(0.1, label_skew=float("inf")),
        lambda: Popular(0.1, row_skew=60).sample((100, 2)),
        lambda: Popular(0.1, shuffle=-1),
        lambda: Bounded(0.1, mu=2, nu=1.5, shuffle=0.5),
        lambda: Bounded(0.1, mu=0.5, nu=2),
        lambda: Bounded(0.1, mu=2, nu=float("nan")),
        lambda: PositiveBiased(0.1, odds=0),
    ],
)
def test_parameters_outside_their_range_are_refused(make):
    with pytest.raises(InvalidParameterError):
        make()


def test_bad_targets_and_entries_are_refused():
    with pytest.raises(InvalidInputError, match="has no entry"):
        Uniform(0.1).sample((0, 4))
    with pytest.raises(InvalidInputError, match="rows 0 to 1"):
        Uniform(0.1).propensities_at([2], [0], (2, 3))
    with pytest.raises(InvalidInputError, match="integers"):
        Uniform(0.1).propensities_at([0.5], [0], (2, 3))
    with pytest.raises(InvalidLabelsError, match="neither 0 nor 1"):
        Uniform(0.1).observe([[2, 0]])
    with pytest.raises(InvalidLabelsError, match="unlabelled"):
        Uniform(0.1).observe(ObservedLabels.from_any(Y, unobserved="unlabelled"))
    real = ObservedLabels.from_dense([[0.5, 2.0]], binary=False)
    assert Uniform(1.0).observe(real) == real
    with pytest.raises(InvalidLabelsError, match="not 0 and 1"):
        PositiveBiased(0.1, odds=2).observe(real)
