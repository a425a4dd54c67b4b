"""The data term over observed entries, against dense formulas."""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from labelgap.kernels.entry_pattern import EntryPattern
from labelgap.kernels.threads import limit_threads
from labelgap.labels import ObservedLabels
from labelgap.losses import get_loss, loss_names
from labelgap.objective.cpu import entries as weighted_loss
from labelgap.objective.cpu.design import Design
from labelgap.objective.cpu.entries import EntryTerm, WeightedLoss
from labelgap.objective.cpu.features import IdentityFeatures, SparseFeatures
from labelgap.objective.moments import smoothed_rates
from labelgap.objective.protocol import Factors, Objective, Point, ScoreGradient, zero_sum_factors
from labelgap.objective.sum import SumObjective
from oracles_objective import DenseTerm
from solver_problems import (
    dense_coordinates,
    make_problem,
    random_factors,
    random_features,
    random_labels,
)

pytestmark = pytest.mark.pairwise

N, D, N_LABELS = 9, 4, 6
CLOSE = {"rtol": 1e-10, "atol": 1e-13}


@dataclass
class Setup:
    objective: Any
    oracle: DenseTerm
    labels: ObservedLabels
    X: Any
    loss: Any

    def factors(self, rank=2, seed=0, size=0.7):
        rng = np.random.default_rng(seed)
        return random_factors(rng, self.objective.shape[0], N_LABELS, rank, size)


def flat(factors):
    return np.concatenate([part.ravel() for part in factors])


def unflat(x, like):
    cuts = np.cumsum([like.left.size, like.right.size])
    parts = np.split(x, cuts)
    return Factors(*(part.reshape(shape.shape) for part, shape in zip(parts, like, strict=True)))


def make_setup(loss, weighted, intercept, kind):
    rng = np.random.default_rng(5)
    X = random_features(rng, kind, N, D)
    Y = random_labels(rng, N, N_LABELS, observed=0.5)
    # A row and a label without entries; every other label has both classes.
    Y[3, :], Y[:, 2] = np.nan, np.nan
    labels = ObservedLabels.from_dense(Y)
    weights = rng.uniform(0.2, 2.0, Y.shape) if weighted else np.ones(Y.shape)
    if weighted:
        labels = labels.with_weights(weights)
    problem = make_problem(X, labels, loss, features={"centre": intercept}, fit_intercept=intercept)
    objective = problem.objective(labels)
    # That the coordinates are fair is the business of test_frame.
    dense_X = dense_coordinates(problem, objective)
    weights = weights / weights[~np.isnan(Y)].sum()
    return Setup(
        objective, DenseTerm(dense_X, Y, weights, get_loss(loss), intercept), labels, X, get_loss(loss)
    )


CASES = list(product(loss_names(), [False, True], [False, True], ["dense", "csr", "identity"]))


@pytest.fixture(
    params=CASES,
    ids=[
        f"{loss}-{kind}{'-weights' * weighted}{'-intercept' * intercept}"
        for loss, weighted, intercept, kind in CASES
    ],
)
def setup(request):
    return make_setup(*request.param)


def test_the_classes_keep_the_protocols(setup):
    point = setup.objective.at(setup.factors())
    assert isinstance(setup.objective, Objective)
    assert isinstance(point, Point)
    assert isinstance(point.score_gradient(), ScoreGradient)


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_value_and_gradient_equal_the_dense_formulas(setup, rank):
    factors = setup.factors(rank)
    point = setup.objective.at(factors)
    assert_allclose(point.value, setup.oracle.value(factors), **CLOSE)
    assert_allclose(flat(point.gradient()), setup.oracle.gradient(factors), **CLOSE)


@pytest.mark.parametrize("rank", [0, 2])
def test_hessian_product_equals_the_explicit_hessian(setup, rank):
    factors, direction = setup.factors(rank), setup.factors(rank, seed=1)
    answer = flat(setup.objective.at(factors).hessian_product(direction))
    assert_allclose(answer, setup.oracle.hessian(factors) @ flat(direction), **CLOSE)


def test_hessian_product_is_the_change_of_the_gradient(setup):
    # The squared hinge has a kink in its gradient, which a short enough difference does not meet.
    factors, direction, h = setup.factors(), setup.factors(seed=1), 1e-6
    ahead, behind = (unflat(flat(factors) + s * h * flat(direction), factors) for s in (1, -1))
    change = flat(setup.objective.at(ahead).gradient()) - flat(setup.objective.at(behind).gradient())
    answer = flat(setup.objective.at(factors).hessian_product(direction))
    assert_allclose(answer, change / (2 * h), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("rank", [0, 2])
def test_hessian_diagonal_is_that_of_the_explicit_hessian(setup, rank):
    factors = setup.factors(rank)
    answer = flat(setup.objective.at(factors).hessian_diagonal())
    assert_allclose(answer, np.diag(setup.oracle.gauss_newton_hessian(factors)), **CLOSE)
    assert_allclose(answer, np.diag(setup.oracle.hessian(factors)), **CLOSE)


def test_curvature_along_rank_one_directions(setup):
    rng, factors = np.random.default_rng(7), setup.factors()
    U = rng.standard_normal((setup.objective.shape[0], 3))
    V = rng.standard_normal((N_LABELS, 3))
    curvature = setup.oracle.score_curvature(factors)
    expected = [
        np.sum(curvature * np.outer(setup.oracle.X @ u, v) ** 2) for u, v in zip(U.T, V.T, strict=True)
    ]
    assert_allclose(setup.objective.at(factors).curvature_along(U, V), expected, **CLOSE)


def test_label_curvature_and_signed_sums(setup):
    factors = setup.factors()
    point = setup.objective.at(factors)
    G, D = setup.oracle.score_gradient(factors), setup.oracle.score_curvature(factors)
    # Without an intercept there is nothing to differentiate by.
    on = float(setup.oracle.intercept)
    assert_allclose(point.label_curvature(), on * D.sum(axis=0), **CLOSE)
    for answer, dense in zip(point.signed_label_sums(), (np.maximum(G, 0), np.minimum(G, 0)), strict=True):
        assert_allclose(answer, on * dense.sum(axis=0), **CLOSE)


def shrunk(G, up, down):
    """G with the heavier sign of each label shrunk, as sums of ``up`` and ``down`` say."""
    lighter = np.minimum(up, -down)
    return np.where(G > 0, G * lighter / up, G * lighter / -down)


@pytest.mark.parametrize("balanced", [False, True])
def test_score_gradient_as_a_linear_map(setup, balanced, monkeypatch):
    rng, factors = np.random.default_rng(8), setup.factors()
    G = setup.oracle.score_gradient(factors)
    # Of all parts together, of which these entries are one.
    sums = rng.random(N_LABELS), -rng.random(N_LABELS)
    if balanced and setup.oracle.intercept:
        G = shrunk(G, *sums)
    gradient = setup.objective.at(factors).score_gradient(sums, balanced=balanced)
    XtG = setup.oracle.X.T @ G
    U, V = rng.standard_normal((len(XtG), 3)), rng.standard_normal((N_LABELS, 2))
    assert_allclose(gradient.matrix(), XtG, **CLOSE)
    for few_rows in (weighted_loss._FEW_ROWS, 0):
        monkeypatch.setattr(weighted_loss, "_FEW_ROWS", few_rows)
        if hasattr(gradient, "matrix_in_single"):
            rounded = gradient.matrix_in_single(1e-3)
            assert rounded.dtype == np.float32
            assert_allclose(1e-3 * rounded, XtG, rtol=1e-4, atol=1e-6)
    assert_allclose(gradient.left_product(V), XtG @ V, **CLOSE)
    assert_allclose(gradient.right_product(U), XtG.T @ U, **CLOSE)
    for scale in (0.0, 0.4, 1.0):
        assert_allclose(gradient.conjugate(scale), setup.oracle.conjugate(scale * G), **CLOSE)


def test_balanced_gradients_sum_to_zero_in_every_label(setup):
    factors = setup.factors()
    point = setup.objective.at(factors)
    gradient = point.score_gradient(balanced=True)
    if not setup.oracle.intercept:
        assert_array_equal(gradient.entries, point.entry_gradient)
        return
    sums = np.bincount(setup.labels.indices, gradient.entries, N_LABELS)
    assert_allclose(sums, 0, atol=1e-15)
    # No entry grows or changes its sign.
    assert np.all(np.abs(gradient.entries) <= np.abs(point.entry_gradient))
    assert np.all(gradient.entries * point.entry_gradient >= 0)


def test_factors_of_balance_are_one_where_there_is_nothing_to_shrink():
    up, down = zero_sum_factors(
        np, np.array([3.0, 1.0, 0.0, 2.0, 0.0]), np.array([-1.0, -4.0, -2.0, 0.0, 0.0])
    )
    assert_allclose(up, [1 / 3, 1, 1, 0, 1])
    assert_allclose(down, [1, 1 / 4, 0, 1, 1])


def test_fenchel_equality_holds_at_the_gradient(setup):
    factors = setup.factors()
    point = setup.objective.at(factors)
    G = setup.oracle.score_gradient(factors)
    inner = np.sum(G * setup.oracle.scores(factors))
    assert_allclose(point.value + point.score_gradient().conjugate(1.0), inner, rtol=1e-9, atol=1e-12)


def test_scores_and_entry_gradient_come_in_the_order_of_the_labels(setup):
    factors = setup.factors()
    point = setup.objective.at(factors)
    rows, columns = setup.labels.rows, setup.labels.indices
    assert_allclose(point.scores, setup.oracle.scores(factors)[rows, columns], **CLOSE)
    assert_allclose(point.entry_gradient, setup.oracle.score_gradient(factors)[rows, columns], **CLOSE)


def same_point(point, fresh):
    """Every answer of a derived point is that of one computed from scratch."""
    assert_allclose(point.value, fresh.value, **CLOSE)
    assert_allclose(point.scores, fresh.scores, **CLOSE)
    assert_allclose(point.label_curvature(), fresh.label_curvature(), **CLOSE)
    for mine, other in zip(point.signed_label_sums(), fresh.signed_label_sums(), strict=True):
        assert_allclose(mine, other, **CLOSE)
    assert_allclose(point.score_gradient().matrix(), fresh.score_gradient().matrix(), **CLOSE)
    assert_allclose(flat(point.gradient()), flat(fresh.gradient()), **CLOSE)
    assert_allclose(flat(point.hessian_diagonal()), flat(fresh.hessian_diagonal()), **CLOSE)


def test_with_intercept_equals_a_fresh_point(setup):
    factors, other = setup.factors(), setup.factors(seed=1)
    moved = setup.objective.at(factors).with_intercept(other.intercept)
    same_point(moved, setup.objective.at(factors._replace(intercept=other.intercept)))


@pytest.mark.parametrize("ranks", [(2, 1), (1, 0), (0, 2)])
def test_beyond_goes_on_in_a_straight_line(setup, ranks):
    here, before = setup.factors(ranks[0]), setup.factors(ranks[1], seed=1)
    step = 0.6
    ahead = setup.objective.at(here).beyond(setup.objective.at(before), step)
    W = (1 + step) * here.left @ here.right.T - step * before.left @ before.right.T
    assert_allclose(ahead.factors.left @ ahead.factors.right.T, W, **CLOSE)
    assert_allclose(ahead.factors.intercept, (1 + step) * here.intercept - step * before.intercept, **CLOSE)
    same_point(ahead, setup.objective.at(ahead.factors))
    # A derived point can be derived from again.
    again = ahead.with_intercept(here.intercept)
    same_point(again, setup.objective.at(ahead.factors._replace(intercept=here.intercept)))


def test_slope_towards_is_the_inner_product_with_the_gradient_in_W(setup):
    here, there = setup.factors(2), setup.factors(1, seed=1)
    difference = there.left @ there.right.T - here.left @ here.right.T
    XtG = setup.oracle.X.T @ setup.oracle.score_gradient(here)
    slope = setup.objective.at(here).slope_towards(setup.objective.at(there))
    assert_allclose(slope, np.sum(XtG * difference), **CLOSE)


def test_starting_intercept_is_the_best_one_at_zero(setup):
    start = setup.objective.starting_intercept()
    if not setup.oracle.intercept:
        assert_allclose(start, np.zeros(N_LABELS))
        return
    zero = Factors.zero(setup.objective.shape, start)
    assert_allclose(np.add(*setup.objective.at(zero).signed_label_sums()), 0, atol=1e-14)
    # The label without entries has no slope either: it gets the overall rate.
    assert_allclose(start[2], setup.loss.link(smoothed_rates(setup.labels).rate)[2])
    # Handed out as a copy: what a solver does to it stays there.
    start[:] = 99
    assert not np.any(setup.objective.starting_intercept() == 99)


def split_by_rows(setup, weighted, kind, cut=4):
    """Two terms over rows below and above the cut, with the total of the whole."""
    labels, whole = setup.labels, setup.objective
    total = labels.n_observed if labels.weights is None else labels.weights.sum()
    terms = []
    for rows in (np.arange(cut), np.arange(cut, N)):
        if kind == "csr":
            # Partitions with features of their own, as on a cluster.
            part, features = labels.take_rows(rows), SparseFeatures(setup.X[rows])
        else:
            part, features = labels.select(np.isin(labels.rows, rows)), whole.design.rows
        pattern = EntryPattern(part.indptr, part.indices, N_LABELS)
        function = WeightedLoss(setup.loss, part.values, part.weights, float(total))
        design = Design(features, IdentityFeatures(N_LABELS))
        terms.append(EntryTerm(design, pattern, function, has_intercept=whole.has_intercept))
    return SumObjective(terms)


@pytest.mark.parametrize(("loss", "weighted", "intercept", "kind"), CASES)
def test_a_sum_over_row_partitions_equals_the_whole(loss, weighted, intercept, kind):
    setup = make_setup(loss, weighted, intercept, kind)
    whole, parts = setup.objective, split_by_rows(setup, weighted, kind)
    assert (parts.shape, parts.n_labels, parts.has_intercept) == (
        whole.shape,
        whole.n_labels,
        whole.has_intercept,
    )
    assert isinstance(parts, Objective)
    rng = np.random.default_rng(9)
    here, there = setup.factors(2), setup.factors(1, seed=1)
    U, V = rng.standard_normal((whole.shape[0], 2)), rng.standard_normal((N_LABELS, 2))
    sums = rng.random(N_LABELS), -rng.random(N_LABELS)

    def answers(objective):
        point, other = objective.at(here), objective.at(there)
        derived = point.beyond(other, 0.3).with_intercept(there.intercept)
        for p in (point, derived):
            yield p.value
            yield flat(p.factors)
            yield flat(p.gradient())
            yield flat(p.hessian_product(p.factors))
            yield flat(p.hessian_diagonal())
            yield p.curvature_along(U, V)
            yield p.label_curvature()
            yield from p.signed_label_sums()
            yield p.slope_towards(other)
            for G in (
                p.score_gradient(),
                p.score_gradient(balanced=True),
                p.score_gradient(sums, balanced=True),
            ):
                yield G.matrix()
                yield G.left_product(V)
                yield G.right_product(U)
                yield G.conjugate(0.7)

    for mine, other in zip(answers(parts), answers(whole), strict=True):
        assert_allclose(mine, other, **CLOSE)


@pytest.mark.parametrize("loss", loss_names())
def test_labels_of_one_class_are_left_out_only_where_their_intercept_is_free(loss):
    Y = np.array([[1.0, 1.0, np.nan], [0.0, 1.0, np.nan], [1.0, np.nan, np.nan]])
    labels = ObservedLabels.from_dense(Y)

    def value(free):
        term = make_problem(None, labels, loss).objective(labels, free_intercept=free)
        return term.at(Factors.zero((3, 3), np.zeros(3))).value

    at_zero = float(get_loss(loss).value(0.0, 1))
    # The mean stays one over all five entries, so that penalties keep their meaning.
    assert_allclose([value(True), value(False)], [3 / 5 * at_zero, at_zero])


@pytest.mark.parametrize("rank", [0, 1, 5])
def test_a_product_that_the_caller_has_made_changes_nothing(setup, rank):
    factors = setup.factors(rank)
    same_point(setup.objective.at(factors, factors.left @ factors.right.T), setup.objective.at(factors))


def weighted_losses(n_entries, loss="logistic"):
    """With every combination of weights and offsets."""
    rng = np.random.default_rng(3)
    y = (rng.random(n_entries) < 0.4).astype(np.int8)
    weights, offsets = rng.uniform(0.2, 2.0, n_entries), rng.standard_normal(n_entries)
    return rng.standard_normal(n_entries), [
        WeightedLoss(get_loss(loss), y, w, total=7.0, offsets=o)
        for w, o in product((None, weights), (None, offsets))
    ]


@pytest.mark.parametrize("loss", loss_names())
@pytest.mark.parametrize("block", [1, 4, 11, 100])
def test_blocks_of_entries_change_nothing(loss, block, monkeypatch):
    z, functions = weighted_losses(11, loss)
    whole = [(*f.value_and_gradient(z), f.curvature(z)) for f in functions]
    monkeypatch.setattr(weighted_loss, "_BLOCK", block)
    for function, (value, gradient, curvature) in zip(functions, whole, strict=True):
        answer = function.value_and_gradient(z)
        assert answer[0] == pytest.approx(value, rel=1e-13)
        assert_array_equal(answer[1], gradient)
        assert_array_equal(function.curvature(z), curvature)


def test_losses_do_not_depend_on_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(weighted_loss, "_BLOCK", 4)
    z, functions = weighted_losses(30)
    for function in functions:
        answers = []
        for count in (1, 2, 3, 50):
            with limit_threads(count):
                answers.append((*function.value_and_gradient(z), function.curvature(z)))
        for value, gradient, curvature in answers[1:]:
            assert value == answers[0][0]
            assert_array_equal(gradient, answers[0][1])
            assert_array_equal(curvature, answers[0][2])


def test_a_loss_over_no_entries_is_nothing():
    z, functions = weighted_losses(0)
    for function in functions:
        value, gradient = function.value_and_gradient(z)
        assert value == 0.0
        assert gradient.shape == function.curvature(z).shape == (0,)
