"""From the error of scores to the regret in the metric: constants, the lemma, the chain, and measured regret.

All of it on finite distributions small enough for brute force.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import scipy.sparse as sp
from finite_worlds import World, every_decision, random_world
from scipy.optimize import minimize_scalar
from scipy.special import expit

from labelgap import LowRankClassifier
from labelgap.data import make_low_rank_labels
from labelgap.exceptions import (
    InvalidInputError,
    InvalidMetricError,
    InvalidParameterError,
    InvalidScoresError,
    UnknownNameError,
)
from labelgap.losses import CustomFamily, Logistic, Squared, Unlabelled, get_family, get_loss, loss_names
from labelgap.metrics import LinearFractional, get_metric
from labelgap.theory import (
    best_probability_threshold,
    curvature_range,
    loss_constants,
    loss_regret_bound,
    metric_regret_bound,
    model_regret,
    regret,
    threshold_constant,
    weighted_risk,
)
from labelgap.thresholds import bayes_alpha, bayes_threshold, best_threshold

ETA = np.linspace(0.001, 0.999, 333)[:, None]


def conditional_regret(loss, eta, z):
    def risk(scores):
        return eta * loss.value(scores, 1) + (1 - eta) * loss.value(scores, 0)

    return risk(z) - risk(loss.link(eta))


# -- constants of losses and families ------------------------------------------------------------------


@pytest.mark.parametrize("name", loss_names())
def test_constants_of_losses_are_the_best_ones(name):
    loss = get_loss(name)
    z = np.linspace(-6, 6, 1201)[None, :]
    excess, distance = conditional_regret(loss, ETA, z), (ETA - loss.inverse_link(z)) ** 2
    constant = loss_constants(name).strong_properness
    assert (excess >= constant / 2 * distance - 1e-12).all()
    far = distance > 1e-5
    assert (excess[far] / distance[far]).min() <= 1.02 * constant / 2
    for gamma in (0.3, 1.0, 4.0):
        constants, z = loss_constants(name, gamma), np.linspace(-gamma, gamma, 2001)
        for y in (0, 1):
            assert np.abs(loss.gradient(z, y)).max() <= constants.lipschitz + 1e-12, gamma
            assert loss.curvature(z, y).max() <= constants.curvature + 1e-12, gamma
        assert np.abs(loss.gradient(z, 1)).max() == pytest.approx(constants.lipschitz)
        assert loss.curvature(z, 1).max() == pytest.approx(constants.curvature)


@pytest.mark.parametrize("base", [Logistic(), Squared()])
def test_the_unlabelled_loss_has_its_base_s_constants_about_the_true_label(base):
    loss = Unlabelled(base, flip_rate=0.4)
    assert loss_constants(loss) == loss_constants(base)
    z = np.linspace(-3, 3, 601)[None, :]
    recorded = 0.6 * ETA
    risk = recorded * loss.value(z, 1) + (1 - recorded) * loss.value(z, 0)
    best = loss.link(ETA)
    least = recorded * loss.value(best, 1) + (1 - recorded) * loss.value(best, 0)
    np.testing.assert_allclose(risk - least, conditional_regret(base, ETA, z), atol=1e-10)


def test_curvatures_of_families_have_closed_forms():
    for gamma in (0.1, 0.5, 1.0, 2.5, 8.0):
        found = curvature_range("bernoulli", gamma)
        assert found.lower == pytest.approx(math.exp(gamma) / (1 + math.exp(gamma)) ** 2)
        assert found.upper == 0.25
        assert found.conditioning == pytest.approx(1 + math.cosh(gamma))
        # The theorem's factor, with e^−γ where e^γ is printed.
        assert found.conditioning <= (1 + math.exp(gamma)) ** 2 * math.exp(-gamma)
    poisson = curvature_range("poisson", 2.0)
    assert (poisson.lower, poisson.upper) == pytest.approx((math.exp(-2), math.exp(2)))
    cubic = CustomFamily(lambda z: z**2 + z**4, lambda z: 2 * z + 4 * z**3, lambda z: 2 + 12 * z**2)
    found = curvature_range(cubic, 0.5)
    assert (found.lower, found.upper) == pytest.approx((2.0, 5.0))
    assert loss_constants("logistic").lipschitz == 1
    assert math.isinf(loss_constants("squared").lipschitz)
    assert math.isinf(loss_constants("exponential").curvature)


# -- the weighted-risk lemma ---------------------------------------------------------------------------

METRICS = ["f1", "f2", "f0.5", "jaccard", "accuracy", "balanced-accuracy", "balanced-f1"]


CUSTOM = LinearFractional({"const": 1, "tp": 1, "fp": -0.3}, {"const": 2, "fn": 1, "fp": 0.5})


@pytest.mark.parametrize("name", [*(f"micro-{base}" for base in METRICS), CUSTOM], ids=str)
def test_the_lemma_holds_for_every_decision(name):
    rng = np.random.default_rng(5)
    metric = get_metric(name)
    tightest = 0.0
    for _ in range(12):
        world = random_world(rng)
        best = world.best(metric)
        risk = weighted_risk(metric, best, world.positive_rate)
        assert risk.alpha == pytest.approx(bayes_alpha(metric, best, world.positive_rate))
        # The best decisions of the metric are those of the weighted errors.
        assert world.value(metric, world.eta >= risk.alpha) == pytest.approx(best)
        for decision in every_decision(len(world.eta)):
            yes = np.array(decision)
            lost = best - world.value(metric, yes)
            bound = risk.constant * world.weighted_regret(risk.alpha, yes)
            assert lost <= bound + 1e-12
            tightest = max(tightest, lost / bound if bound > 1e-9 else 0.0)
    assert tightest > 0.3
    if name == "micro-f1":
        # The floor is the smallest denominator.
        assert risk.denominator_floor == pytest.approx(world.positive_rate)
        assert risk.constant == pytest.approx(2 / world.positive_rate)


def test_rows_that_are_alike_keep_the_bound_for_the_instance_average():
    # Every row has the same expected confusion shares, as for rows drawn from one distribution.
    rng = np.random.default_rng(8)
    world = random_world(rng)
    micro, instance = get_metric("micro-f1"), get_metric("instance-f1")
    risk = weighted_risk(instance, world.best(micro), world.positive_rate)
    assert risk == weighted_risk(micro, world.best(micro), world.positive_rate)
    yes = rng.integers(0, 2, len(world.eta))
    fp, fn = world.errors(yes)
    shares = [np.full(3, x) for x in (world.positive_rate - fn, fp, fn, 1 - world.positive_rate - fp)]
    assert instance.from_counts(*shares) == pytest.approx(world.value(micro, yes))


def test_labels_that_are_not_alike_break_one_alpha_but_not_one_for_each():
    metric, macro = get_metric("micro-f1"), get_metric("macro-f1")
    labels = [
        World(np.array([0.9, 0.8]), np.array([0.5, 0.5])),
        World(np.array([0.3, 0.02]), np.array([0.5, 0.5])),
    ]
    best = float(np.mean([world.best(metric) for world in labels]))
    rate = float(np.mean([world.positive_rate for world in labels]))
    shared = weighted_risk(macro, best, rate)
    # Cut at the shared α, the weighted errors are the least possible, so the paper's bound is 0.
    lost = best - np.mean([world.value(metric, world.eta >= shared.alpha) for world in labels])
    assert lost > 0.1
    for first in every_decision(2):
        for second in every_decision(2):
            decided = [np.array(first), np.array(second)]
            values, bounds = [], []
            for world, yes in zip(labels, decided, strict=True):
                own = weighted_risk(metric, world.best(metric), world.positive_rate)
                values.append(world.value(metric, yes))
                bounds.append(own.constant * world.weighted_regret(own.alpha, yes))
            assert best - np.mean(values) <= np.mean(bounds) + 1e-12


# -- from losses to the metric -------------------------------------------------------------------------


def mean_regret(loss, world, z):
    def risk(scores):
        return world.eta * loss.value(scores, 1) + (1 - world.eta) * loss.value(scores, 0)

    return float(world.mass @ (risk(z) - risk(loss.link(world.eta))))


@pytest.mark.slow
@pytest.mark.parametrize("metric_name", ["micro-f1", "micro-jaccard", "micro-accuracy", "micro-balanced-f1"])
@pytest.mark.parametrize("name", loss_names())
def test_the_theorem_holds_at_the_closed_form_threshold(name, metric_name):
    rng = np.random.default_rng(1)
    loss, metric = get_loss(name), get_metric(metric_name)
    for noise in (0.01, 0.1, 0.5, 2.0):
        for _ in range(8):
            world = random_world(rng)
            z = loss.link(world.eta) + noise * rng.standard_normal(len(world.eta))
            best = world.best(metric)
            bound = metric_regret_bound(
                mean_regret(loss, world, z),
                metric=metric,
                best_value=best,
                positive_rate=world.positive_rate,
                loss=loss,
            )
            theta = bayes_threshold(metric, best, loss, world.positive_rate)
            lost = best - world.value(metric, z >= theta)
            assert lost <= bound.value + 1e-9
            assert best - max(world.value(metric, z >= t) for t in [*z, np.inf]) <= bound.value + 1e-9


@pytest.mark.parametrize("name", loss_names())
def test_the_regret_of_scores_near_the_true_ones(name):
    rng = np.random.default_rng(2)
    loss = get_loss(name)
    for scale in (0.01, 0.3, 1.0):
        for _ in range(20):
            world = random_world(rng)
            true = loss.link(world.eta)
            z = true + scale * rng.standard_normal(len(true))
            gamma = float(np.abs(np.concatenate([true, z])).max())
            error, lost = float(world.mass @ (z - true) ** 2), mean_regret(loss, world, z)
            for step in ("smaller", "curvature", "lipschitz"):
                assert lost <= loss_regret_bound(error, loss, gamma, step) + 1e-12, (scale, step)


def test_the_bounds_of_regrets_by_hand():
    small, smaller = loss_regret_bound(1e-4), loss_regret_bound(1e-6)
    assert small / smaller == pytest.approx(100)
    # The paper's step is not quadratic.
    ratio = loss_regret_bound(1e-4, step="lipschitz") / loss_regret_bound(1e-6, step="lipschitz")
    assert ratio == pytest.approx(10)
    assert loss_regret_bound(0.0, "exponential") == 0
    assert loss_regret_bound(0.1, "squared") == pytest.approx(0.1)
    bound = metric_regret_bound(0.0, metric="micro-f1", best_value=0.7, positive_rate=0.2)
    assert bound.value == bound.regret_term == bound.estimation_term == 0
    arguments = {"metric": "micro-f1", "best_value": 0.8, "positive_rate": 0.1, "loss": "squared"}
    bound = metric_regret_bound(0.01, n_observed=400, estimation_constant=5.0, **arguments)
    assert bound.regret_term == pytest.approx(20 * np.sqrt(2 / 8) * 0.1)
    assert bound.estimation_term == pytest.approx(0.25)
    assert bound.value == bound.regret_term + bound.estimation_term
    assert bound.alpha == pytest.approx(0.4)


@pytest.mark.parametrize("name", ["micro-f1", "micro-jaccard", "micro-accuracy"])
def test_a_threshold_from_fresh_entries_loses_no_more_than_promised(name):
    rng = np.random.default_rng(3)
    metric, m, misses = get_metric(name), 200, 0
    for _ in range(60):
        world = random_world(rng)
        scores = rng.standard_normal(len(world.eta))
        cells = rng.choice(len(world.eta), size=m, p=world.mass)
        labels = (rng.random(m) < world.eta[cells]).astype(float)
        theta = best_threshold(scores[cells][:, None], labels[:, None], metric).threshold
        best = max(world.value(metric, scores >= t) for t in [*scores, np.inf])
        allowed = threshold_constant(metric, world.positive_rate, confidence=0.9) / np.sqrt(m)
        misses += best - world.value(metric, scores >= theta) > allowed
    assert misses <= 6


# -- measured regret -----------------------------------------------------------------------------------

BASES = ["f1", "f2", "jaccard", "accuracy", "precision", "recall", "balanced-accuracy", "balanced-f1"]


def slow_value(metric, eta, weights, yes):
    """Ψ of expected counts, one cell at a time."""
    n, n_labels = eta.shape
    names = {"micro": lambda i, j: 0, "instance": lambda i, j: i, "macro": lambda i, j: j}
    sums: dict[int, list[float]] = {}
    for i in range(n):
        for j in range(n_labels):
            counts = sums.setdefault(names[metric.average](i, j), [0.0, 0.0, 0.0, 0.0])
            p, w = eta[i, j], weights[i, j]
            counts[0 if yes[i, j] else 2] += w * p
            counts[1 if yes[i, j] else 3] += w * (1 - p)
    kept = [c for c in sums.values() if sum(c) > 0]
    return metric.from_counts(*np.array(kept).T)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("average", ["micro", "instance", "macro"])
@pytest.mark.slow
def test_against_every_decision(average, base):
    rng = np.random.default_rng(1)
    metric = get_metric(f"{average}-{base}")
    for trial in range(6):
        eta = rng.random((2, 4)) if trial % 2 else rng.integers(0, 5, (2, 4)) / 4
        weights = rng.random((2, 4)) if trial % 3 else np.ones((2, 4))
        weights[0, trial % 4] = 0 if trial == 4 else weights[0, trial % 4]
        yes = rng.integers(0, 2, (2, 4))
        found = regret(yes, eta, metric, weights=weights)
        assert found.value == pytest.approx(slow_value(metric, eta, weights, yes))
        everything = max(slow_value(metric, eta, weights, np.reshape(d, (2, 4))) for d in every_decision(8))
        cuts = max(slow_value(metric, eta, weights, eta >= t) for t in [*eta.ravel(), np.inf])
        assert found.best_value == pytest.approx(cuts)
        assert found.metric_regret == pytest.approx(cuts - found.value)
        assert slow_value(metric, eta, weights, eta >= found.best_threshold) == pytest.approx(cuts)
        free = regret(yes, eta, metric, weights=weights, against="any-decisions")
        assert free.best_value == pytest.approx(everything)
        if average == "micro":
            assert free.best_value == found.best_value
        else:
            assert math.isnan(free.best_threshold)


@pytest.mark.parametrize("base", ["f1", "f2", "jaccard", "accuracy", "balanced-f1"])
def test_the_best_value_is_a_fixed_point_of_the_closed_form(base):
    rng = np.random.default_rng(2)
    eta = rng.random((30, 20)) ** 2
    best = best_probability_threshold(eta, f"micro-{base}")
    alpha = bayes_alpha(f"micro-{base}", best.value, float(eta.mean()))
    metric = get_metric(f"micro-{base}")
    assert slow_value(metric, eta, np.ones_like(eta), eta >= alpha) == pytest.approx(best.value)
    assert regret(eta >= alpha, eta, metric).metric_regret == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("name", loss_names())
def test_the_loss_regret_against_a_numerical_minimum(name):
    rng = np.random.default_rng(3)
    loss, eta = get_loss(name), rng.uniform(0.05, 0.95, (3, 2))
    scores, weights = rng.standard_normal((3, 2)), rng.random((3, 2))

    def risk(z, p):
        return float(p * loss.value(z, 1) + (1 - p) * loss.value(z, 0))

    excess = [
        risk(z, p) - minimize_scalar(risk, args=(p,), bounds=(-10, 10), method="bounded").fun
        for z, p in zip(scores.ravel(), eta.ravel(), strict=True)
    ]
    found = regret(scores >= 0, eta, "micro-f1", scores=scores, loss=name, weights=weights)
    assert found.loss_regret == pytest.approx(np.average(excess, weights=weights.ravel()), abs=1e-8)
    # The least loss of a certain label is 0, at an infinite score where need be.
    certain, scores = np.array([[0.0, 1.0, 1.0]]), np.array([[-2.0, 0.5, 0.9]])
    found = regret(scores >= 0, certain, "micro-f1", scores=scores, loss=name)
    assert found.loss_regret == pytest.approx(float(loss.value(scores, certain).mean()))
    assert (found.value, found.best_value, found.metric_regret) == (1.0, 1.0, 0.0)
    # The true scores have none.
    found = regret(eta > 0.5, eta, "micro-accuracy", scores=loss.link(eta), loss=name)
    assert found.loss_regret == pytest.approx(0, abs=1e-14)
    assert found.metric_regret == pytest.approx(0, abs=1e-14)


def test_a_fitted_model_and_a_better_one():
    problem = make_low_rank_labels(n=200, n_labels=15, n_test=200, observed=0.5, noise=True, random_state=0)
    eta = expit(problem.X_test @ problem.W)
    model = LowRankClassifier(trace_penalty=0.005, ridge_penalty=0.0, random_state=0)
    model.fit(problem.X, problem.Y_observed)
    found = model_regret(model, problem.X_test, eta)
    assert found == regret(
        model.predict(problem.X_test), eta, "micro-f1", scores=model.decision_function(problem.X_test)
    )
    flat = LowRankClassifier(trace_penalty=1.0, ridge_penalty=0.0, random_state=0)
    flat.fit(problem.X, problem.Y_observed)
    worse = model_regret(flat, problem.X_test, eta, "micro-f1", loss="logistic")
    assert found.metric_regret < worse.metric_regret
    assert found.loss_regret < worse.loss_regret


def test_models_with_decisions_only_and_sparse_decisions():
    class Constant:
        def predict(self, X):
            return np.ones((len(X), 2), dtype=int)

    eta, decisions = np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([[1, 0], [0, 1]])
    found = model_regret(Constant(), np.zeros((2, 1)), eta, "micro-f1")
    assert found == regret(np.ones((2, 2)), eta)
    assert found.loss_regret is None
    with pytest.raises(InvalidParameterError, match="metric"):
        model_regret(Constant(), np.zeros((2, 1)), eta)
    assert regret(sp.csr_matrix(decisions), eta) == regret(decisions, eta)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.value = 1.0


def test_bad_input_is_named():
    given = {"decisions": [[1, 0]], "probabilities": [[0.5, 0.5]]}
    for change, error, match in (
        ({"probabilities": [[0.5, 1.5]]}, InvalidInputError, "row 0, column 1 is 1.5"),
        ({"probabilities": [[0.5, np.nan]]}, InvalidInputError, "row 0, column 1 is nan"),
        ({"probabilities": [0.5, 0.5]}, InvalidInputError, "n x L"),
        ({"decisions": [[1, 0, 1]]}, InvalidInputError, "decisions have the shape"),
        ({"decisions": [[0.3, 1]]}, InvalidInputError, "0 or 1"),
        ({"weights": [[-1.0, 1.0]]}, InvalidInputError, "weights"),
        ({"weights": [[0.0, 0.0]]}, InvalidInputError, "weights"),
        ({"scores": [[np.inf, 0.0]]}, InvalidScoresError, "finite"),
        ({"against": "nobody"}, InvalidInputError, "against"),
    ):
        with pytest.raises(error, match=match):
            regret(**given | change)
    arguments = {"metric": "micro-f1", "best_value": 0.8, "positive_rate": 0.1}
    bad = InvalidParameterError
    for error, match, ask in (
        *(
            (bad, "score_bound", lambda g=g: curvature_range("gaussian", g))
            for g in (0.0, -1.0, np.nan, np.inf)
        ),
        *(
            (bad, "score_bound", lambda g=g: loss_constants("logistic", g))
            for g in (0.0, -1.0, np.nan, np.inf)
        ),
        (bad, "family", lambda: loss_constants(get_family("poisson"))),
        (bad, "score_bound", lambda: loss_regret_bound(0.1, "exponential")),
        (bad, "score_bound", lambda: loss_regret_bound(0.1, "squared", step="lipschitz")),
        (bad, "loss_regret", lambda: metric_regret_bound(-0.1, **arguments)),
        (bad, "n_observed", lambda: metric_regret_bound(0.1, estimation_constant=1.0, **arguments)),
        (UnknownNameError, "step", lambda: loss_regret_bound(0.1, step="cubic")),
        (InvalidMetricError, "micro", lambda: threshold_constant("macro-f1", 0.2)),
        (InvalidMetricError, "smallest denominator", lambda: weighted_risk("micro-precision", 0.9, 0.3)),
        (InvalidMetricError, "a yes never hurts", lambda: weighted_risk("micro-recall", 0.9, 0.3)),
        *(
            (bad, "positive_rate", lambda r=rate: weighted_risk("micro-f1", 0.9, r))
            for rate in (0.0, 1.0, -0.1, np.nan)
        ),
    ):
        with pytest.raises(error, match=match):
            ask()
