"""The objective on a cluster is that of one machine: every answer, whatever the partitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from cluster_problems import chunked, small_problem
from numpy.testing import assert_allclose

from labelgap.distributed.cluster_labels import ClusterLabels
from labelgap.distributed.folds import FoldPlan
from labelgap.distributed.inputs import read_data
from labelgap.distributed.problem import ClusterProblem
from labelgap.labels import ObservedLabels
from labelgap.losses import Logistic
from labelgap.objective.parts import FeatureSettings, ProblemSettings, RowBlock
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Factors
from labelgap.solvers import Penalties
from labelgap.solvers.certificate import certify

CASES = {
    "dense, centred and scaled": (False, FeatureSettings(centre=True, scaling="standard"), "cpu"),
    "sparse": (True, FeatureSettings(scaling="root"), "cpu"),
    "penalty on the scores": (False, FeatureSettings(penalty="scores"), "cpu"),
    "on torch's tensors": (False, FeatureSettings(centre=True), "torch-cpu"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_every_answer_is_that_of_the_whole(client: Any, case: tuple[bool, FeatureSettings, str]) -> None:
    is_sparse, features, device = case
    if device == "torch-cpu":
        pytest.importorskip("torch", reason="no torch here")
    X, Y = small_problem()
    X = sp.csr_matrix(np.where(np.abs(X) > 0.4, X, 0.0)) if is_sparse else X
    labels = ObservedLabels.from_dense(Y)
    settings = ProblemSettings(Logistic(), features)
    cuts = [np.arange(40), np.arange(0), np.arange(40, 90)]
    # In the same parts, so that axes do not differ in sign; parts are the whole by tests/objective.
    whole = Problem([RowBlock(X[rows], labels.take_rows(rows)) for rows in cuts], settings)
    data = read_data(client, chunked(X, (40, 0, 50)), chunked(Y, (40, 0, 50)), "missing")
    parts = ClusterProblem(data.rounds, settings, device)
    seen = ClusterLabels(labels.shape, data.sums)
    assert_allclose(parts.mean_square_length, whole.mean_square_length)
    one, many = whole.objective(labels), parts.objective(seen)
    assert many.shape == one.shape
    assert_allclose(many.starting_intercept(), one.starting_intercept())
    rng = np.random.default_rng(0)
    first, second = (
        Factors(*(0.3 * rng.standard_normal((side, 2)) for side in one.shape), rng.standard_normal(8))
        for _ in range(2)
    )
    _same_point(many.at(first), one.at(first), second)
    elsewhere = [term.at(second).with_intercept(first.intercept) for term in (many, one)]
    _same_point(*elsewhere, second)
    beyond = [term.at(first).beyond(point, 0.5) for term, point in zip((many, one), elsewhere, strict=True)]
    assert_allclose(beyond[0].value, beyond[1].value)
    assert_allclose(beyond[0].score_gradient().matrix(), beyond[1].score_gradient().matrix(), atol=1e-12)
    slopes = [at.slope_towards(to) for at, to in zip(beyond, elsewhere, strict=True)]
    assert_allclose(slopes[0], slopes[1], rtol=1e-9)
    mine, theirs = (certify(o, o.at(first), Penalties(0.01, 0.001)) for o in (many, one))
    assert_allclose([mine.objective, mine.dual], [theirs.objective, theirs.dual])


def _same_point(mine: Any, theirs: Any, direction: Factors) -> None:
    assert_allclose([mine.value, mine.size], [theirs.value, theirs.size])
    for one, other in (
        (mine.gradient(), theirs.gradient()),
        (mine.hessian_diagonal(), theirs.hessian_diagonal()),
        (mine.hessian_product(direction), theirs.hessian_product(direction)),
        (mine.signed_label_sums(), theirs.signed_label_sums()),
    ):
        for left, right in zip(one, other, strict=True):
            assert_allclose(left, right, atol=1e-13)
    assert_allclose(mine.label_curvature(), theirs.label_curvature(), atol=1e-13)
    U, V = direction.left, direction.right
    assert_allclose(mine.curvature_along(U, V), theirs.curvature_along(U, V))
    G, H = mine.score_gradient(balanced=True), theirs.score_gradient(balanced=True)
    assert_allclose(G.left_product(V), H.left_product(V), atol=1e-13)
    assert_allclose(G.right_product(U), H.right_product(U), atol=1e-13)
    assert_allclose(G.conjugate(0.7), H.conjugate(0.7))


def test_folds_do_not_depend_on_the_partitions(client: Any) -> None:
    X, Y = small_problem()
    plan, sums = FoldPlan(5, seed=3), []
    for rows in (90, (1, 60, 29)):
        data = read_data(client, chunked(X, rows), chunked(Y, rows), "missing")
        problem = ClusterProblem(data.rounds, ProblemSettings(Logistic()))
        seen = ClusterLabels(Y.shape, data.sums, plan, without=2)
        start = Factors.zero(problem.objective(seen).shape, np.zeros(8))
        sums.append(problem.objective(seen).at(start).signed_label_sums())
    assert_allclose(sums[0], sums[1])


def test_hashed_folds_spread_entries_evenly() -> None:
    labels = ObservedLabels.from_dense(np.ones((200, 50)))
    plan = FoldPlan(5, seed=1)
    folds = plan.folds(labels, np.arange(200))
    assert np.all(np.abs(np.bincount(folds, minlength=5) - 2000) < 200)
    other = FoldPlan(5, seed=2).folds(labels, np.arange(200))
    assert 0.1 < np.mean(folds == other) < 0.3
    rows = FoldPlan(5, seed=1, by_row=True).folds(labels, np.arange(200)).reshape(200, 50)
    assert np.all(rows == rows[:, :1])
    once = FoldPlan(5, seed=1, only=1).folds(labels, np.arange(200))
    assert np.array_equal(once, np.where(folds == 0, 0, -1))
