import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles_sampling import mask_of

from labelgap.exceptions import InvalidParameterError
from labelgap.sampling import Bounded, Popular, PositiveBiased, Uniform, estimate_mu_nu


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
    "make",
    [
        lambda share: Popular(share, row_skew=0.5, label_skew=0.5),
        lambda share: Popular(share, row_skew=0, label_skew=1),
        lambda share: Popular(share, row_skew=1, label_skew=1),
        lambda share: Bounded(share, mu=5, nu=1.5),
        lambda share: Bounded(share, mu=10, nu=3),
    ],
    ids=["popular ½", "popular labels", "popular 1", "bounded 5", "bounded 10"],
)
def test_mu_and_nu_are_found_and_better_with_more_observations(make):
    shape = (3000, 100)
    few, more, many = (log_errors(make(share), shape) for share in (0.005, 0.03, 0.1))
    assert np.all(many <= few)
    assert few[1] < 0.25
    assert more[0] < 0.5 * few[0]
    assert many[0] < 0.4
    assert many[1] < 0.05


def test_smoothing_corrects_what_noise_does_to_the_largest_and_the_smallest_count():
    mask = mask_of(*Uniform(0.05).sample((2000, 100), 0), (2000, 100))
    raw, smooth = estimate_mu_nu(mask, noise="keep"), estimate_mu_nu(mask)
    assert raw.mu > 100
    assert raw.nu > 1.2
    assert smooth.mu < 1.1
    assert smooth.nu < 1.1


@pytest.mark.parametrize("model", [Uniform(0.1), Popular(0.1, 1, 1), Bounded(0.1, mu=4, nu=3)], ids=repr)
def test_nu_upper_holds_as_often_as_promised(model):
    shape = (120, 40)
    truth = model.mu_nu(shape).nu
    found = [estimate_mu_nu(mask_of(*model.sample(shape, seed), shape), confidence=0.8) for seed in range(40)]
    assert np.mean([e.nu_upper >= truth for e in found]) >= 0.8
    assert all(e.nu_upper >= e.nu for e in found)
    assert max(e.nu_upper for e in found) <= min(shape)


def test_nu_upper_tightens_with_confidence_and_observations():
    mask = mask_of(*Uniform(0.3).sample((500, 60), 0), (500, 60))
    assert estimate_mu_nu(mask, confidence=0.5).nu_upper < estimate_mu_nu(mask, confidence=0.99).nu_upper
    few = mask_of(*Uniform(0.03).sample((500, 60), 0), (500, 60))
    assert estimate_mu_nu(mask).nu_upper < estimate_mu_nu(few).nu_upper


def test_a_bias_towards_yes_leaves_nu_but_hides_from_mu():
    Y = np.random.default_rng(0).random((1000, 60)) < 0.1
    model = PositiveBiased(0.1, odds=5)
    truth = model.mu_nu(Y)
    found = estimates(model, Y.shape, of=Y.astype(int))
    assert_allclose(np.mean([e.nu for e in found]), truth.nu, rtol=0.1)
    # What is documented: an even mask says nothing of the answers behind it.
    assert np.mean([e.mu for e in found]) < 1.1 < 1.3 < truth.mu


def test_everything_or_one_entry_observed():
    everything = estimate_mu_nu(np.ones((5, 3), dtype=bool))
    assert (everything.mu, everything.nu) == (1, 1)
    one = np.zeros((5, 3), dtype=bool)
    one[2, 1] = True
    alone = estimate_mu_nu(one)
    assert_allclose((alone.mu, alone.nu, alone.nu_upper), (1, 1, 3))


@pytest.mark.parametrize("confidence", [0, 1, -1, float("nan")])
def test_confidence_is_strictly_between_0_and_1(confidence):
    with pytest.raises(InvalidParameterError, match="confidence"):
        estimate_mu_nu([[1, None]], confidence=confidence)
