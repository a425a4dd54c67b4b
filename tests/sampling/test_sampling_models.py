"""The models of what is observed, and μ and ν, given and estimated, against dense definitions."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles_sampling import dense_mu_nu, dense_popular, mask_of
from scipy import sparse, stats

from labelgap.exceptions import InvalidInputError, InvalidLabelsError, InvalidParameterError
from labelgap.labels import ObservedLabels
from labelgap.sampling import Bounded, Popular, PositiveBiased, Uniform, estimate_mu_nu

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
def test_mu_nu_draws_and_what_is_shown(model):
    for truth in (Y, Y.T.copy(), Y[:1], Y[:, :1]):
        if isinstance(model, Bounded) and model.nu > min(truth.shape):
            with pytest.raises(InvalidParameterError, match="is impossible"):
                model.mu_nu(truth)
        else:
            assert_allclose(model.mu_nu(truth), dense_mu_nu(model.probabilities(truth)), rtol=1e-9)
    # A draw is sorted, distinct and repeatable.
    rows, cols = model.sample(Y, random_state=5)
    assert np.all(np.diff(rows * SHAPE[1] + cols) > 0)
    assert_array_equal(model.sample(Y, random_state=5), (rows, cols))
    if model.share < 1:
        assert any(not np.array_equal(model.sample(Y, seed), (rows, cols)) for seed in range(5))
    shown = model.observe(Y, random_state=5)
    assert_array_equal([shown.rows, shown.cols], [rows, cols])
    assert_array_equal(shown.values, Y[rows, cols])
    assert shown == model.observe(sparse.csr_array(Y), random_state=5)
    assert shown == model.observe(ObservedLabels.from_sparse(sparse.csr_array(Y), "negative"), random_state=5)
    named = model.observe(pd.DataFrame(Y, columns=list("abcdefg")), random_state=5)
    assert named.label_names == tuple("abcdefg")
    assert_array_equal(named.values, shown.values)


def test_popular_is_the_capped_power_law_of_the_given_share():
    for shape in ((300, 20), (20, 300), (40, 40)):
        for given in (
            (0.2, 1, 1),
            (0.2, 0, 0.5),
            (0.01, 1.5, 0.3),
            (0.9, 2, 2),
            (1.0, 1, 1),
            (0.999, 0.1, 0.1),
        ):
            assert_allclose(Popular(*given).probabilities(shape), dense_popular(shape, *given), rtol=1e-7)
    # At extreme shares every probability stays positive, and the mean right.
    P = Popular(1e-6, row_skew=3, label_skew=3).probabilities((500, 300))
    assert P.min() > 0
    assert_allclose(P.mean(), 1e-6, rtol=1e-9)
    # Shuffling permutes the probabilities.
    plain, shuffled = Popular(0.2).probabilities(SHAPE), Popular(0.2, shuffle=0).probabilities(SHAPE)
    assert not np.allclose(plain, shuffled)
    assert_allclose(np.sort(plain.ravel()), np.sort(shuffled.ravel()))
    assert_array_equal(shuffled, Popular(0.2, shuffle=0).probabilities(SHAPE))


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


def test_the_ends_of_what_bounded_can_be():
    for shape in ((6, 20), (9, 4)):
        nu = min(shape) - (min(shape) - 1) / 3.0
        assert_allclose(Bounded(1 / nu, 3.0, nu).mu_nu(shape), (3.0, nu), rtol=1e-9)
    with pytest.raises(InvalidParameterError, match=r"at most 0\.5"):
        Bounded(0.6, mu=4, nu=2)
    with pytest.raises(InvalidParameterError, match=r"busier than nu=1;"):
        Bounded(0.1, mu=1, nu=1.5).sample((10, 10))
    # Even margins of a square matrix leave a product no freedom at all.
    with pytest.raises(InvalidParameterError, match="no popularity model"):
        Bounded(0.1, mu=2, nu=1).sample((10, 10))
    assert_allclose(Bounded(0.1, mu=2, nu=1).mu_nu((10, 11)), (2, 1), rtol=1e-9)


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


def test_what_is_not_known_stays_hidden_and_weights_are_kept():
    partial = Y.astype(float)
    partial[rng.random(SHAPE) < 0.5] = np.nan
    shown = Uniform(0.6).observe(partial, random_state=0)
    drawn = mask_of(*Uniform(0.6).sample(SHAPE, random_state=0), SHAPE)
    assert_array_equal(shown.to_dense(), np.where(drawn, partial, np.nan))
    assert 0 < shown.n_observed < drawn.sum()
    assert shown.unobserved == "missing"
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


# -- μ and ν from a mask -------------------------------------------------------------------------------


def estimates(model, shape, n_draws=5, of=None):
    return [
        estimate_mu_nu(mask_of(*model.sample(shape if of is None else of, seed), shape))
        for seed in range(n_draws)
    ]


def log_errors(model, shape, n_draws=5):
    """|log(estimate / truth)| of μ and of ν, averaged over draws."""
    truth = model.mu_nu(shape)
    found = estimates(model, shape, n_draws)
    return np.array(
        [np.mean([abs(np.log(getattr(e, k) / getattr(truth, k))) for e in found]) for k in ("mu", "nu")]
    )


@pytest.mark.parametrize("shape", [(1000, 50), (50, 1000), (200, 200)])
@pytest.mark.parametrize("share", [0.02, 0.2, 0.8])
def test_uniform_sampling_has_mu_and_nu_near_one(shape, share):
    found = estimates(Uniform(share), shape)
    assert np.median([e.mu for e in found]) < 1.05
    assert np.median([e.nu for e in found]) < 1.02
    assert max(e.mu for e in found) < 1.2
    assert max(e.nu for e in found) < 1.1


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (Popular, {"row_skew": 0.5, "label_skew": 0.5}),
        (Popular, {"row_skew": 0, "label_skew": 1}),
        (Popular, {"row_skew": 1, "label_skew": 1}),
        (Bounded, {"mu": 5, "nu": 1.5}),
        (Bounded, {"mu": 10, "nu": 3}),
    ],
    ids=str,
)
def test_mu_and_nu_are_found_and_better_with_more_observations(kind, options):
    few, more, many = (log_errors(kind(share, **options), (3000, 100)) for share in (0.005, 0.03, 0.1))
    assert np.all(many <= few)
    assert few[1] < 0.25
    assert more[0] < 0.5 * few[0]
    assert many[0] < 0.4
    assert many[1] < 0.05


@pytest.mark.parametrize("model", [Uniform(0.1), Popular(0.1, 1, 1), Bounded(0.1, mu=4, nu=3)], ids=repr)
def test_nu_upper_holds_as_often_as_promised(model):
    shape = (120, 40)
    truth = model.mu_nu(shape).nu
    found = [estimate_mu_nu(mask_of(*model.sample(shape, seed), shape), confidence=0.8) for seed in range(40)]
    assert np.mean([e.nu_upper >= truth for e in found]) >= 0.8
    assert all(e.nu_upper >= e.nu for e in found)
    assert max(e.nu_upper for e in found) <= min(shape)


def test_noise_confidence_and_small_masks():
    # Smoothing corrects what noise does to the largest and the smallest count.
    mask = mask_of(*Uniform(0.05).sample((2000, 100), 0), (2000, 100))
    raw, smooth = estimate_mu_nu(mask, noise="keep"), estimate_mu_nu(mask)
    assert raw.mu > 100
    assert raw.nu > 1.2
    assert smooth.mu < 1.1
    assert smooth.nu < 1.1
    # The upper end tightens with less confidence, and with observations.
    mask, few = (mask_of(*Uniform(share).sample((500, 60), 0), (500, 60)) for share in (0.3, 0.03))
    assert estimate_mu_nu(mask, confidence=0.5).nu_upper < estimate_mu_nu(mask, confidence=0.99).nu_upper
    assert estimate_mu_nu(mask).nu_upper < estimate_mu_nu(few).nu_upper
    everything = estimate_mu_nu(np.ones((5, 3), dtype=bool))
    assert (everything.mu, everything.nu) == (1, 1)
    one = np.zeros((5, 3), dtype=bool)
    one[2, 1] = True
    alone = estimate_mu_nu(one)
    assert_allclose((alone.mu, alone.nu, alone.nu_upper), (1, 1, 3))


def test_a_bias_towards_yes_leaves_nu_but_hides_from_mu():
    Y = np.random.default_rng(0).random((1000, 60)) < 0.1
    model = PositiveBiased(0.1, odds=5)
    truth = model.mu_nu(Y)
    found = estimates(model, Y.shape, of=Y.astype(int))
    assert_allclose(np.mean([e.nu for e in found]), truth.nu, rtol=0.1)
    # What is documented: an even mask says nothing of the answers behind it.
    assert np.mean([e.mu for e in found]) < 1.1 < 1.3 < truth.mu


def test_what_is_refused():
    unlabelled = ObservedLabels.from_any(Y, unobserved="unlabelled")
    real = ObservedLabels.from_dense([[0.5, 2.0]], binary=False)
    assert Uniform(1.0).observe(real) == real
    for number, make in enumerate(
        (
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
            *(lambda c=c: estimate_mu_nu([[1, None]], confidence=c) for c in (0, 1, -1, float("nan"))),
        )
    ):
        with pytest.raises(InvalidParameterError, match="confidence" if number > 10 else None):
            make()
    for error, match, ask in (
        (InvalidInputError, "has no entry", lambda: Uniform(0.1).sample((0, 4))),
        (InvalidInputError, "rows 0 to 1", lambda: Uniform(0.1).propensities_at([2], [0], (2, 3))),
        (InvalidInputError, "integers", lambda: Uniform(0.1).propensities_at([0.5], [0], (2, 3))),
        (InvalidLabelsError, "neither 0 nor 1", lambda: Uniform(0.1).observe([[2, 0]])),
        (InvalidLabelsError, "unlabelled", lambda: Uniform(0.1).observe(unlabelled)),
        (InvalidLabelsError, "not 0 and 1", lambda: PositiveBiased(0.1, odds=2).observe(real)),
    ):
        with pytest.raises(error, match=match):
            ask()
