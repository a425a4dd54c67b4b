"""Small problems of every loss and setting, and their optima by methods that share nothing with the solvers.

``python -m tests.stored_problems`` finds the optima again and stores them. CVXPY is asked where it can be
told the loss; elsewhere, and for larger problems, L-BFGS minimises the same function over ``W = ABᵀ`` of full
rank. A loss enters by its line in the registry: what is not stored is found when it is asked for. Under a
bound that binds it needs a line in ``CVXPY``, too.
"""

from __future__ import annotations

import json
import sys
import warnings
import zlib
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from scipy import optimize

from labelgap.fitting.penalty_grid import largest_trace_penalty
from labelgap.losses import FAMILIES, LOSSES, UNLABELLED_LOSSES, get_loss
from labelgap.objective.parts import FeatureSettings
from labelgap.objective.protocol import Factors
from labelgap.solvers import Penalties
from oracles_objective import DenseTerm
from problem_settings import OWN, Setting, label_features

STORED = Path(__file__).with_name("optima.json")
ORACLE = 2e-8
"""The error of an optimum, relative to the size of the data term."""
MOST_FOR_CVXPY = 300
FAR = 20.0
"""A bound that does not bind."""
CENTRED = FeatureSettings(centre=True)


@dataclass(frozen=True)
class StoredProblem:
    """A problem and its penalties: λ and λ₂ as fractions of the λ from which on W = 0."""

    name: str
    setting: Setting
    trace: float = 0.15
    ridge: float = 0.0

    @cached_property
    def objective(self) -> Any:
        return self.setting.objective(*self.setting.problem())

    @cached_property
    def penalties(self) -> Penalties:
        free, largest = self.setting.free_intercept, largest_trace_penalty(self.objective)
        on_intercept = (0.0, 0.0) if free else (0.05, -0.4)
        return Penalties(self.trace * largest, self.ridge * largest, *on_intercept)

    @cached_property
    def dense(self) -> DenseTerm:
        """The data term by dense formulas, in the coordinates that the objective works in."""
        problem = self.setting.problem()[0]
        d, r = self.objective.shape
        return self.setting.oracle(problem.left(np.eye(d)), problem.right(np.eye(r)))[0]

    def value(self, factors: Factors) -> float:
        """What is minimised, at any model."""
        values = np.linalg.svd(factors.left @ factors.right.T, compute_uv=False)
        return self.dense.value(factors) + self.penalties.of(values, factors.intercept)

    def scale(self, factors: Factors) -> float:
        """What errors are relative to: the loss of unlabelled entries has parts of both signs."""
        return max(abs(self.value(factors)), self.dense.size(factors))

    @cached_property
    def optimum(self) -> float:
        stored = stored_optima()
        return stored[self.name] if self.name in stored else self.found_again()

    def found_again(self) -> float:
        """The optimum by the slow way."""
        known = UNBIASED_SLOPE if self.setting.unlabelled else CVXPY
        small = self.dense.Y.size <= MOST_FOR_CVXPY
        return cvxpy_optimum(self) if self.setting.loss.name in known and small else plain_optimum(self)


@cache
def stored_optima() -> dict[str, float]:
    return json.loads(STORED.read_text()) if STORED.exists() else {}


def _entropy(y: Any) -> Any:
    return y * np.log(np.maximum(y, np.finfo(float).tiny))


def _margin(cp: Any, z: Any, y: Any) -> Any:
    return cp.multiply(2 * y - 1, z)


# The loss of entries with scores z and values y, in CVXPY's terms.
CVXPY = {
    "logistic": lambda cp, z, y: cp.logistic(-_margin(cp, z, y)),
    "squared": lambda cp, z, y: cp.square(1 - _margin(cp, z, y)),
    "squared_hinge": lambda cp, z, y: cp.square(cp.pos(1 - _margin(cp, z, y))),
    "exponential": lambda cp, z, y: cp.exp(-_margin(cp, z, y)),
    "gaussian": lambda cp, z, y: cp.square(z - y) / 2,
    "poisson": lambda cp, z, y: cp.exp(z) - cp.multiply(y, z) + _entropy(y) - y,
    "bernoulli": lambda cp, z, y: cp.logistic(z) - cp.multiply(y, z) + _entropy(y) + _entropy(1 - y),
}
# At a recorded positive the unbiased loss is the loss of a no less t z/(1 − ρ).
UNBIASED_SLOPE = {"logistic": 1.0, "squared": 4.0}


def cvxpy_optimum(problem: StoredProblem) -> float:
    """By an interior-point method."""
    import cvxpy as cp

    dense, penalties, setting = problem.dense, problem.penalties, problem.setting
    n, n_labels = dense.Y.shape
    rows, cols = np.nonzero(~np.isnan(dense.Y))
    y, omega = dense.Y[rows, cols], dense.weights[rows, cols]
    W, b = cp.Variable((dense.X.shape[1], dense.F.shape[1])), cp.Variable((1, n_labels))
    low_rank = dense.X @ W @ dense.F.T
    Z = low_rank + np.ones((n, 1)) @ b if dense.intercept else low_rank
    pick = np.zeros((len(rows), n * n_labels))
    pick[np.arange(len(rows)), rows * n_labels + cols] = 1
    z = pick @ cp.vec(Z, order="C") + dense.offsets[rows, cols]
    loss = CVXPY[setting.loss.name]
    if setting.unlabelled:
        rho = np.array([one.flip_rate for one in dense.losses])[cols]
        losses = loss(cp, z, 0 * y) - cp.multiply(UNBIASED_SLOPE[setting.loss.name] * y / (1 - rho), z)
    else:
        losses = loss(cp, z, y)
    objective = omega @ losses + penalties.trace * cp.normNuc(W) + penalties.ridge / 2 * cp.sum_squares(W)
    if penalties.intercept and dense.intercept:
        objective = objective + penalties.intercept / 2 * cp.sum_squares(b - penalties.centre)
    constraints = [] if problem.objective.bounds is None else [cp.abs(low_rank) <= setting.bound]
    asked = cp.Problem(cp.Minimize(objective), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asked.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    assert asked.status in ("optimal", "optimal_inaccurate"), (problem.name, asked.status)
    return float(asked.value)


def plain_optimum(problem: StoredProblem) -> float:
    """By L-BFGS over factors of full rank, where ``λ/2 (‖A‖² + ‖B‖²)`` has the trace norm's minimum."""
    dense, penalties = problem.dense, problem.penalties
    d, r, n_labels = dense.X.shape[1], dense.F.shape[1], dense.Y.shape[1]
    k = min(d, r)
    ends = np.cumsum([d * k, r * k])

    def factors_of(x: Any) -> Factors:
        A, B, b = np.split(x, ends)
        return Factors(A.reshape(d, k), B.reshape(r, k), b)

    def objective(x: Any) -> tuple[float, Any]:
        A, B, b = at = factors_of(x)
        gA, gB, gb = dense.gradient(at)
        W, away = A @ B.T, (b - penalties.centre) * float(dense.intercept)
        value = dense.value(at) + penalties.trace / 2 * (np.sum(A * A) + np.sum(B * B))
        value += penalties.ridge / 2 * np.sum(W * W) + penalties.intercept / 2 * np.sum(away**2)
        gA, gB = gA + penalties.trace * A + penalties.ridge * W @ B, gB + penalties.trace * B
        gB = gB + penalties.ridge * W.T @ A
        return value, np.concatenate([gA.ravel(), gB.ravel(), gb + penalties.intercept * away])

    start = 0.3 * np.random.default_rng(0).standard_normal(ends[1] + n_labels)
    start[ends[1] :] = 0.0
    options = {"maxiter": 50_000, "maxfun": 200_000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 50}
    with np.errstate(over="ignore", invalid="ignore"):
        best = optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    largest = np.abs(dense.low_rank(factors_of(best.x))).max()
    bounded = problem.objective.bounds is not None
    assert not bounded or largest < problem.setting.bound, f"{problem.name}: L-BFGS knows no bound"
    return float(best.fun)


# -- the table -----------------------------------------------------------------------------------------------

_SCORES = {"features": FeatureSettings(penalty="scores")}
_I = {"kind": "none", "features": OWN}
SHAPES: dict[str, tuple[dict[str, Any], dict[str, float]]] = {
    "dense": ({"features": CENTRED}, {}),
    "dense, λ large": ({"features": CENTRED}, {"trace": 0.9}),
    "dense, λ small": ({"features": CENTRED}, {"trace": 0.02}),
    "dense, λ tiny": ({"fit_intercept": False, "weighted": True}, {"trace": 1.2e-3}),
    "dense, ridge alone and tiny": ({"features": CENTRED}, {"trace": 0.0, "ridge": 2e-4}),
    "dense, ridge alone": ({"features": CENTRED, "weighted": True}, {"trace": 0.0, "ridge": 0.2}),
    "dense, weighted, no intercept": ({"fit_intercept": False, "weighted": True}, {"ridge": 0.05}),
    "dense, offsets, penalised intercepts": ({"offsets": True, "free_intercept": False}, {}),
    "dense, bound": ({"bound": 0.3, "offsets": True}, {}),
    "dense, bound, no intercept": ({"bound": 0.3, "fit_intercept": False}, {"ridge": 0.05}),
    "dense, bound that does not bind": ({"bound": 100.0, "fit_intercept": False}, {}),
    "CSR, weighted": ({"kind": "csr", "weighted": True}, {"ridge": 0.05}),
    "more features than rows": ({"kind": "wide", "features": CENTRED}, {"trace": 0.3}),
    "X = I": (_I, {"trace": 0.3}),
    "X = I, weighted, offsets": ({**_I, "weighted": True, "offsets": True}, {"ridge": 0.05}),
    "X = I, no intercept": ({**_I, "fit_intercept": False}, {}),
    "X = I, bound, penalised intercepts": ({**_I, "bound": 0.3, "free_intercept": False}, {}),
    "X = I beside CSR": ({"kind": "csr", "features": OWN}, {"trace": 0.3}),
    "X = I, larger": ({**_I, "n": 60, "n_labels": 30}, {"trace": 0.1, "ridge": 0.01}),
    "label features": ({"features": FeatureSettings(label_features=label_features())}, {}),
    "penalty on the scores": (_SCORES, {"ridge": 0.05}),
    "penalty on the scores, CSR, no intercept": ({**_SCORES, "kind": "csr", "fit_intercept": False}, {}),
    "penalty on the scores, wide": ({**_SCORES, "kind": "wide"}, {"trace": 0.3}),
    "penalty on the scores, bound": ({**_SCORES, "bound": 0.3}, {}),
}
_BOUND = {"bound": 5.0}
SILENT_SHAPES: dict[str, tuple[dict[str, Any], dict[str, float]]] = {
    "dense": ({**_BOUND, "features": CENTRED}, {}),
    "dense, no intercept": ({**_BOUND, "fit_intercept": False}, {"ridge": 0.05}),
    "dense, bound binds": ({"bound": 0.4}, {}),
    "CSR, held out": ({**_BOUND, "kind": "csr", "held_out": True}, {"ridge": 0.05}),
    "X = I": ({**_BOUND, **_I}, {"trace": 0.4, "ridge": 0.05}),
    "X = I, held out, penalised intercepts": (
        {**_BOUND, **_I, "held_out": True, "free_intercept": False},
        {"trace": 0.4},
    ),
    "label features, penalised intercepts": (
        {**_BOUND, "features": FeatureSettings(label_features=label_features()), "free_intercept": False},
        {"trace": 0.3},
    ),
}


def _problems() -> dict[str, StoredProblem]:
    found = []
    for loss in (*LOSSES, *FAMILIES):
        # The same whichever losses there are besides.
        turn = zlib.crc32(loss.encode())
        for j, (shape, (given, penalties)) in enumerate(SHAPES.items()):
            # Neighbours in either direction take turns; one loss meets every shape.
            if (turn + j) % 3 and loss != "logistic":
                continue
            if given.get("bound", np.inf) < FAR and loss not in CVXPY:
                continue
            kind = (LOSSES | FAMILIES)[loss]()
            found.append(StoredProblem(f"{loss}, {shape}", Setting(loss=kind, **given), **penalties))
    for loss in UNLABELLED_LOSSES:
        for shape, (given, penalties) in SILENT_SHAPES.items():
            setting = Setting(loss=get_loss(loss), unlabelled=True, block_entries=1000, **given)
            if loss not in UNBIASED_SLOPE:
                # L-BFGS knows no bound; it is far away.
                if "binds" in shape or "held out, penalised" in shape:
                    continue
                setting = replace(setting, bound=FAR)
            found.append(StoredProblem(f"unlabelled {loss}, {shape}", setting, **penalties))
            if loss == "logistic":
                kept = replace(setting, kept=True)
                found.append(StoredProblem(f"unlabelled {loss}, scores kept, {shape}", kept, **penalties))
    return {one.name: one for one in found}


PROBLEMS = _problems()


if __name__ == "__main__":
    optima = {name: problem.found_again() for name, problem in PROBLEMS.items()}
    STORED.write_text(json.dumps(optima, indent=1, ensure_ascii=False) + "\n")
