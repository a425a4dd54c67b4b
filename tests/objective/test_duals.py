"""What the dual proves, and what only recorded positives mean."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize

from labelgap.labels import ObservedLabels
from labelgap.losses import FAMILIES, LOSSES, UNLABELLED_LOSSES, get_loss
from labelgap.objective.protocol import Factors, zero_sum_factors
from labelgap.solvers import Penalties
from labelgap.solvers.certificate import certify, with_best_intercept
from problem_settings import OWN, SETTINGS, Setting, random_model
from solver_problems import make_problem, random_factors

BOUND = 2.0
SCALES = (0.0, 0.2, 0.7, 0.95, 1.0)


def penalised(objective, factors, penalties):
    values = np.linalg.svd(factors.left @ factors.right.T, compute_uv=False)
    point = with_best_intercept(objective, objective.at(factors), penalties)
    return point.value + penalties.of(values, point.factors.intercept)


def test_the_dual_at_any_point_bounds_the_objective_of_every_model():
    """Of all models, or where the scores have a bound of those that obey it."""
    for name, setting in list(SETTINGS.items())[::5]:
        if setting.unlabelled and setting.loss.name != "squared":
            # Without a bound there is no dual; a tight one, and a loose one.
            setting = replace(setting, bound=0.5 if len(name) % 2 else 4.0)
        problem, labels = setting.problem()
        objective = setting.objective(problem, labels)
        d, r = objective.shape
        X, F = problem.left(np.eye(d)), problem.right(np.eye(r))
        # The dual of the smooth term is the method of multipliers' own; here the bound is the constraint.
        bound = setting.bound if setting.unlabelled else None
        for penalties in (Penalties(0.02), Penalties(0.05, 0.02), Penalties(0.0, 0.05)):
            if setting.fit_intercept and not setting.free_intercept:
                penalties = Penalties(penalties.trace, penalties.ridge, 0.1, -0.5)
            points = [objective.at(random_model(objective, seed, 2, 0.7)) for seed in range(2)]
            duals = [certify(objective, point, penalties).dual for point in points]
            least = np.inf
            for seed in range(12, 18):
                model = random_model(objective, seed, 1 + seed % 3, 0.1 * (seed - 9))
                largest = np.abs(X @ model.left @ model.right.T @ F.T).max()
                if bound is not None:
                    model = model._replace(left=model.left * min(1.0, bound / largest))
                least = min(least, penalised(objective, model, penalties))
            assert max(duals) <= least + 1e-12 * abs(least), name
            assert np.isfinite(max(duals)), name


def test_the_dual_with_the_term_of_a_bound():
    """The smooth problem's for every model, the constrained one's for those within the bound."""
    for name, setting in list(SETTINGS.items())[::3]:
        if not (setting.bound and setting.kind in ("dense", "none")):
            continue
        problem, labels = setting.problem()
        objective = setting.objective(problem, labels)
        d, r = objective.shape
        X, F = problem.left(np.eye(d)), problem.right(np.eye(r))
        penalties = Penalties(0.05, 0.02)
        if setting.fit_intercept and not setting.free_intercept:
            penalties = Penalties(0.05, 0.02, 0.1, -0.5)
        bounds, model = objective.bounds, random_model(objective, 0, size=1.5)
        entries = bounds.start()
        for _ in range(2):
            point, beyond = bounds.with_term(objective, entries, 0.05).at(model), bounds.scan(model)[1]
            entries = bounds.next(entries, point, beyond)
        term = bounds.with_term(objective, entries, 0.05)
        points = [term.at(random_model(objective, seed, 2, 0.7)) for seed in range(3)]
        smooth = max(certify(term, point, penalties).dual for point in points)
        exact = max(certify(term, point, penalties, conjugate=bounds.conjugate).dual for point in points)
        assert np.isfinite([smooth, exact]).all(), name
        for seed in range(12, 18):
            model = random_model(objective, seed, 1 + seed % 3, 0.1 * (seed - 9))
            assert smooth <= penalised(term, model, penalties) + 1e-12, name
            largest = np.abs(X @ model.left @ model.right.T @ F.T).max()
            inside = model._replace(left=model.left * min(1.0, setting.bound / largest))
            assert exact <= penalised(objective, inside, penalties) + 1e-12, name


def restricted_conjugate(oracle, G, sums):
    """``sup ⟨G, Z₀⟩ + s·b − f(Z₀ + 1bᵀ)`` over ``|Z₀| ≤ γ`` and b, by L-BFGS-B; ``sums`` None: no b."""
    (n, n_labels), size = oracle.Y.shape, oracle.Y.size

    def negative(x):
        Z = x[:size].reshape(n, n_labels) + (0.0 if sums is None else x[size:])
        value = np.sum(oracle.on_entries("value", Z)) - np.sum(G * x[:size].reshape(n, n_labels))
        slope = oracle.on_entries("gradient", Z)
        if sums is None:
            return value, (slope - G).ravel()
        return value - sums @ x[size:], np.append((slope - G).ravel(), slope.sum(axis=0) - sums)

    free = 0 if sums is None else n_labels
    best = optimize.minimize(
        negative,
        np.zeros(size + free),
        jac=True,
        bounds=[(-BOUND, BOUND)] * size + [(-30.0, 30.0)] * free,
        method="L-BFGS-B",
        options={"ftol": 1e-13},
    )
    return -float(best.fun)


UNLABELLED = Setting(OWN, "none", unlabelled=True, bound=BOUND, n=8)


def test_the_conjugate_is_never_below_the_true_one_under_the_bound():
    for loss, change in (
        ("logistic", {"fit_intercept": False}),
        ("logistic", {"held_out": True}),
        ("logistic", {"free_intercept": False, "kept": True}),
        ("logistic", {"held_out": True, "kept": True}),
        ("exponential", {"held_out": True}),
        ("exponential", {"free_intercept": False}),
        ("squared", {"held_out": True}),
    ):
        setting = replace(UNLABELLED, loss=get_loss(loss), **change)
        objective = setting.objective(*setting.problem())
        oracle, _ = setting.oracle(np.eye(8), np.eye(6))
        free = setting.fit_intercept and setting.free_intercept
        for seed in range(2):
            point = objective.at(random_model(objective, seed, size=0.6))
            gradient = point.score_gradient(balanced=free)
            # X = I: the map's matrix is G itself, with the changes that the term made to it.
            G, sums = gradient.matrix(), None
            if setting.fit_intercept:
                sums = np.zeros(6) if free else np.add(*point.signed_label_sums())
            for scale in SCALES:
                true = restricted_conjugate(oracle, scale * G, None if sums is None else scale * sums)
                assert gradient.conjugate(scale) >= true - 1e-9, (loss, change, scale)
            if loss == "squared":
                continue
            # At the best intercept the gradient itself is in the domain, and the gap can close.
            best = with_best_intercept(objective, point, Penalties(1.0)) if free else point
            at = best.factors
            dual = best.score_gradient(balanced=free).conjugate(1.0)
            inner = np.sum(oracle.score_gradient(at) * oracle.scores(at))
            assert_allclose(best.value + dual, inner, rtol=1e-8, atol=1e-8, err_msg=str((loss, change)))


def test_without_a_bound_only_the_squared_loss_has_a_dual():
    for loss in UNLABELLED_LOSSES:
        setting = replace(UNLABELLED, loss=get_loss(loss), fit_intercept=False, bound=None)
        objective = setting.objective(*setting.problem())
        gradient = objective.at(random_model(objective, 0)).score_gradient()
        # A gradient that is shrunk leaves the domain where the loss falls without limit.
        assert np.isfinite(gradient.conjugate(0.05)) == (loss == "squared")


# -- one-class labels, and what is on average ----------------------------------------------------------------


def test_labels_of_one_class_are_left_out_only_where_their_intercept_is_free():
    Y = np.array([[1.0, 1.0, np.nan], [0.0, 1.0, np.nan], [1.0, np.nan, np.nan]])
    zero = Factors.zero((3, 3), np.zeros(3))
    for loss in LOSSES.values():
        labels = ObservedLabels.from_dense(Y)
        problem, each = make_problem(None, labels, loss()), float(loss().value(0.0, 1))
        found = [problem.objective(labels, free_intercept=free).at(zero).value for free in (True, False)]
        # The mean stays one over all five entries, so that penalties keep their meaning.
        assert_allclose(found, [3 / 5 * each, each], err_msg=loss.__name__)
    # Counts that are all 0 say that the intercept is −∞; those that are all 1, or numbers, where it is.
    Y = np.array([[0.0, 1.0, 2.0], [0.0, 1.0, 0.0]])
    labels, zero = ObservedLabels.from_dense(Y, binary=False), Factors.zero((2, 3), np.zeros(3))
    for name, kept in (("poisson", slice(1, None)), ("gaussian", slice(None))):
        family = FAMILIES[name]()
        value = make_problem(None, labels, family).objective(labels).at(zero).value
        assert_allclose(value, family.value(0.0, Y)[:, kept].sum() / 6, rtol=1e-10, err_msg=name)
    # And offsets go with their entries.
    Y, offsets = np.array([[1.0, 1.0], [1.0, 0.0], [np.nan, 1.0]]), np.array([[5, 0.1], [5, 0.2], [5, 0.3]])
    labels, loss = ObservedLabels.from_dense(Y).with_offsets(offsets), get_loss("logistic")
    value = make_problem(None, labels).objective(labels).at(Factors.zero((3, 2), np.zeros(2))).value
    assert_allclose(value, np.sum(loss.value(offsets[:, 1], Y[:, 1])) / 5, rtol=1e-10)


def test_the_start_is_the_best_intercept_at_zero_and_newton_finds_it_elsewhere():
    for name, setting in list(SETTINGS.items())[::7]:
        if not (setting.fit_intercept and setting.free_intercept):
            continue
        objective = setting.objective(*setting.problem())
        start = objective.starting_intercept()
        point = objective.at(Factors.zero(objective.shape, start))
        # The unbiased exponential loss is right on average only below its turn, and offsets move the best.
        if not setting.offsets and not (setting.unlabelled and setting.loss.name == "exponential"):
            assert_allclose(np.add(*point.signed_label_sums()), 0, atol=1e-13, err_msg=name)
        best = with_best_intercept(objective, point, Penalties(1.0))
        assert_allclose(np.add(*best.signed_label_sums()), 0, atol=1e-10, err_msg=name)
        # Handed out as a copy: what a solver does to it stays there.
        start[:] = 99
        assert not np.any(objective.starting_intercept() == 99), name


def test_what_is_recorded_gives_the_loss_of_the_truth_on_average():
    rng = np.random.default_rng(1)
    n, rho = 40, np.array([0.3, 0.6])
    truth = rng.random((n, 2)) < 0.4
    # Scores below any turn.
    factors = Factors(0.2 * rng.standard_normal((n, 1)), rng.standard_normal((2, 1)), np.array([-0.3, -0.5]))
    Z = factors.left @ factors.right.T + factors.intercept
    for name in UNLABELLED_LOSSES:
        values = []
        for _ in range(150):
            recorded = truth & (rng.random((n, 2)) >= rho)
            labels = ObservedLabels.from_any(recorded.astype(float), unobserved="unlabelled")
            problem = make_problem(None, labels, name, flip_rate=rho, score_bound=BOUND)
            values.append(problem.objective(labels).at(factors).value)
        error = np.std(values) / np.sqrt(len(values))
        assert abs(np.mean(values) - get_loss(name).value(Z, truth).mean()) <= 4 * error, name


def test_nothing_recorded_leaves_an_empty_term():
    # A fold may hold the only recorded positive.
    for name in UNLABELLED_LOSSES:
        positives = ObservedLabels.from_any(np.zeros((4, 3)), unobserved="unlabelled")
        problem = make_problem(None, positives, name, flip_rate=np.ones(3), score_bound=BOUND)
        objective = problem.objective(positives)
        assert np.all(np.isfinite(objective.starting_intercept()))
        point = objective.at(random_factors(np.random.default_rng(0), 4, 3, 2))
        assert point.value == 0
        for part in (*point.gradient(), point.score_gradient().matrix()):
            assert_array_equal(part, 0)
        assert certify(objective, point, Penalties(1.0)).dual == 0


def test_factors_of_balance_are_one_where_there_is_nothing_to_shrink():
    up, down = zero_sum_factors(
        np, np.array([3.0, 1.0, 0.0, 2.0, 0.0]), np.array([-1.0, -4.0, -2.0, 0.0, 0.0])
    )
    assert_allclose(up, [1 / 3, 1, 1, 0, 1])
    assert_allclose(down, [1, 1 / 4, 0, 1, 1])
