"""Small random problems for the tests of the objective and the solvers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from labelgap.labels import ObservedLabels
from labelgap.losses import get_loss
from labelgap.objective.parts import FeatureSettings, ProblemSettings, RowBlock
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Factors
from oracles_solver import cvxpy_optimum


def random_features(rng, kind, n, d):
    """Dense or CSR features of n rows, or None for the identity."""
    if kind == "identity":
        return None
    X = rng.standard_normal((n, d)) + 0.5
    return sp.csr_array(np.where(rng.random((n, d)) < 0.3, X, 0.0)) if kind == "csr" else X


def random_labels(rng, n, n_labels, observed=0.6):
    """NaN = not observed. Both classes are in every label, so that the optimum is attained."""
    Y = (rng.random((n, n_labels)) < 0.45).astype(float)
    Y[rng.random(Y.shape) > observed] = np.nan
    Y[0], Y[1] = 1.0, 0.0
    return Y


def random_values(rng, loss, count):
    """Values that the loss is made for; fractions too, where it takes them."""
    if loss.name == "gaussian":
        return rng.standard_normal(count)
    if loss.name == "poisson":
        return rng.poisson(1.0, count).astype(float)
    if loss.name == "bernoulli":
        return rng.random(count)
    return (rng.random(count) < 0.4).astype(float)


def make_problem(X, labels, loss="logistic", *, judged=None, features=None, **settings) -> Problem:
    """A problem in one block; X None means the identity, and a loss may be given by its name.

    ``features`` are settings of the features, the others those of the problem.
    """
    chosen = FeatureSettings(**{"own_rows": X is None, **(features or {})})
    loss = get_loss(loss) if isinstance(loss, str) else loss
    return Problem([RowBlock(X, labels, judged)], ProblemSettings(loss, chosen, **settings))


def dense_coordinates(problem, objective):
    """The features of all rows in the coordinates that the objective works in."""
    return problem.left(np.eye(objective.shape[0]))


@dataclass(frozen=True)
class Case:
    """One problem, as data and as labelgap sees it."""

    kind: str = "dense"
    loss: str = "logistic"
    intercept: bool = True
    weighted: bool = False
    bound: float | None = None
    centre: bool = True
    n: int = 14
    d: int = 4
    n_labels: int = 5
    seed: int = 3
    one_class: bool = False
    """Whether the first label has positives only and the second no entry."""

    @cached_property
    def data(self) -> tuple[Any, Any, Any]:
        """Features (None = identity), labels with NaN, and weights like the labels or None."""
        rng = np.random.default_rng(self.seed)
        X = random_features(rng, self.kind, self.n, self.d)
        Y = random_labels(rng, self.n, self.n_labels)
        if self.one_class:
            Y[Y[:, 0] == 0, 0], Y[:, 1] = np.nan, np.nan
        weights = rng.uniform(0.3, 3.0, Y.shape) if self.weighted else None
        return X, Y, weights

    @cached_property
    def labels(self) -> ObservedLabels:
        _, Y, weights = self.data
        labels = ObservedLabels.from_dense(Y)
        return labels if weights is None else labels.with_weights(weights)

    @cached_property
    def problem(self) -> Problem:
        # The bound is on the scores of X as given, so there the origin stays where it is.
        centre = self.centre and self.intercept and self.bound is None
        return make_problem(
            self.data[0],
            self.labels,
            self.loss,
            features={"centre": centre},
            fit_intercept=self.intercept,
            score_bound=self.bound,
        )

    def objective(self, free_intercept=True):
        return self.problem.objective(self.labels, free_intercept=free_intercept)

    def optimum(self, penalties) -> float:
        return _optimum(self, penalties)

    def scores(self, factors: Factors):
        """``XW`` of all rows, in the coordinates of the X that was handed in."""
        X = self.data[0]
        left, right, _ = self.problem.to_original(factors)
        return (left if X is None else X @ left) @ right.T


class Asked:
    """An objective that says otherwise on whether a d x L array may be formed."""

    def __init__(self, objective, may_form):
        self._objective, self.may_form = objective, may_form

    def __getattr__(self, name):
        return getattr(self._objective, name)


@cache
def _optimum(case, penalties):
    X, Y, weights = case.data
    return cvxpy_optimum(
        X,
        Y,
        case.loss,
        penalties.trace,
        ridge=penalties.ridge,
        weights=weights,
        intercept=case.intercept,
        bound=case.bound,
        intercept_penalty=penalties.intercept,
        centre=penalties.centre,
    )


def random_factors(rng, n_features, n_labels, rank, size=1.0) -> Factors:
    return Factors(
        size * rng.standard_normal((n_features, rank)),
        size * rng.standard_normal((n_labels, rank)),
        size * rng.standard_normal(n_labels),
    )
