"""Any split of the rows into parts is the same problem as the whole: every answer, and every fit.

Problems are made by the constructor that estimators use. Parts may be empty, and a label may have one class
only in a part, in all of them, or no entry at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from labelgap.labels import ObservedLabels
from labelgap.losses import FAMILIES, LOSSES, UNLABELLED_LOSSES, Bernoulli, Gaussian, Poisson, get_loss
from labelgap.objective.parts import FeatureSettings, ProblemSettings, RowBlock
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Factors
from labelgap.solvers import Penalties, solve_bounded, solve_factored, solve_proximal
from labelgap.solvers.certificate import certify

N_ROWS, N_LABELS, N_FEATURES, RANK = 24, 5, 4, 2
RELATIVE = 1e-12


@dataclass(frozen=True)
class Setting:
    """One kind of problem."""

    features: FeatureSettings = field(default_factory=FeatureSettings)
    kind: str = "dense"
    loss: Any = field(default_factory=lambda: get_loss("logistic"))
    fit_intercept: bool = True
    free_intercept: bool = True
    weighted: bool = False
    offsets: bool = False
    bound: float | None = None
    unlabelled: bool = False
    held_out: bool = False
    thinned: bool = False
    silence: float | None = None
    kept: bool = False

    def rows(self) -> Any:
        """The features of all rows."""
        rng = np.random.default_rng(1)
        if self.kind == "none":
            return None
        d = 6 * N_ROWS if self.kind == "wide" else N_FEATURES
        X = rng.standard_normal((N_ROWS, d)) * np.geomspace(0.2, 5.0, d) + 1.0
        if self.kind == "dense":
            return X
        return sp.csr_array(np.where(rng.random(X.shape) < 0.5, X, 0.0))

    def labels(self) -> ObservedLabels:
        """Labels of which the last but one has one class, and the last no entry."""
        rng = np.random.default_rng(2)
        observed = rng.random((N_ROWS, N_LABELS)) < 0.7
        observed[:, -1] = False
        if isinstance(self.loss, Gaussian):
            Y = rng.standard_normal(observed.shape)
        elif isinstance(self.loss, Poisson):
            Y = rng.poisson(1.5, observed.shape).astype(float)
            Y[:, -2] = 0.0
        else:
            Y = (rng.random(observed.shape) < 0.45).astype(float)
            Y[:, -2] = 1.0
            if isinstance(self.loss, Bernoulli):
                Y[:, 0] = rng.random(N_ROWS)
        Y[~observed] = np.nan
        binary = not (isinstance(self.loss, (Gaussian, Poisson, Bernoulli)))
        labels = ObservedLabels.from_dense(Y, binary=binary)
        if self.weighted:
            labels = labels.with_weights(rng.uniform(0.3, 3.0, labels.n_observed))
        if self.offsets:
            labels = labels.with_offsets(rng.uniform(-1.0, 1.0, labels.n_observed))
        return labels

    def problem(self, cuts: list[int]) -> tuple[Problem, ObservedLabels]:
        """The problem cut before these rows, and the labels that objectives are over."""
        rng = np.random.default_rng(3)
        X, labels, judged = self.rows(), self.labels(), None
        used = labels
        flip_rate = None
        if self.unlabelled:
            judged = ObservedLabels.from_dense(np.where(rng.random((N_ROWS, N_LABELS)) < 0.35, 1.0, 0.0))
            labels = judged.select(judged.values == 1)
            flip_rate = np.linspace(0.1, 0.4, N_LABELS)
            used = judged.select(rng.random(judged.n_observed) < 0.7) if self.held_out else judged
        if self.features.label_features is not None:
            assert self.features.label_features.shape[0] == N_LABELS
        options = ProblemSettings(
            self.loss,
            self.features,
            fit_intercept=self.fit_intercept,
            score_bound=self.bound,
            flip_rate=flip_rate,
            silence_weight=self.silence,
            block_entries=11,
            kept_entries=N_ROWS * N_LABELS if self.kept else 0,
        )
        edges = [0, *sorted(cuts), N_ROWS]
        blocks = [
            RowBlock(
                None if X is None else X[start:stop],
                labels.take_rows(np.arange(start, stop)),
                None if judged is None else judged.take_rows(np.arange(start, stop)),
            )
            for start, stop in pairwise(edges)
        ]
        return Problem(blocks, options), used

    def objective(self, problem: Problem, labels: ObservedLabels) -> Any:
        return problem.objective(labels, free_intercept=self.free_intercept, thinned=self.thinned)

    @property
    def penalties(self) -> Penalties:
        return Penalties(0.02, 0.01, 0.0 if self.free_intercept else 0.05, 0.3)


F = sp.csr_array(np.random.default_rng(7).standard_normal((N_LABELS, 2)))
OWN = FeatureSettings(own_rows=True)

SETTINGS = {
    "dense": Setting(),
    "dense, centred and scaled": Setting(FeatureSettings(centre=True, scaling="standard")),
    "CSR": Setting(kind="csr"),
    "CSR, scaled": Setting(FeatureSettings(scaling="root"), kind="csr"),
    "fewer rows than features": Setting(FeatureSettings(centre=True), kind="wide"),
    "X = I": Setting(OWN, kind="none"),
    "X = I, weighted by counts": Setting(FeatureSettings(own_rows=True, count_weighting=0.75), kind="none"),
    "X = I beside features": Setting(OWN, kind="csr"),
    "label features": Setting(FeatureSettings(label_features=F)),
    "label features alone": Setting(FeatureSettings(label_features=F, own_labels=False), kind="csr"),
    "X = I, features of both, by counts": Setting(
        FeatureSettings(own_rows=True, label_features=F, count_weighting=1.0), kind="csr"
    ),
    "penalty on the scores": Setting(FeatureSettings(penalty="scores")),
    "penalty on the scores, CSR": Setting(FeatureSettings(penalty="scores"), kind="csr"),
    "weights": Setting(weighted=True),
    "offsets": Setting(offsets=True, weighted=True),
    "intercept penalty": Setting(free_intercept=False),
    "no intercept": Setting(fit_intercept=False),
    "score bound": Setting(bound=0.6),
    "score bound, X = I": Setting(OWN, kind="none", bound=0.6),
    "silence as a no": Setting(loss=get_loss("squared"), silence=0.2),
    "silence as a no, X = I, weights": Setting(
        FeatureSettings(own_rows=True, label_features=F, count_weighting=0.75),
        kind="csr",
        loss=get_loss("squared"),
        weighted=True,
        silence=0.1,
    ),
    "silence as a no, intercept penalty": Setting(
        OWN, kind="none", loss=get_loss("squared"), free_intercept=False, silence=1.0
    ),
    **{f"loss {name}": Setting(loss=loss()) for name, loss in LOSSES.items()},
    **{f"family {name}": Setting(loss=family(), offsets=True) for name, family in FAMILIES.items()},
    **{
        f"unlabelled {name}{what}": Setting(
            kind=kind, features=features, loss=get_loss(name), unlabelled=True, bound=bound, **more
        )
        for name in UNLABELLED_LOSSES
        for what, kind, features, more in (
            ("", "dense", FeatureSettings(), {}),
            (", held out", "dense", FeatureSettings(), {"held_out": True}),
            (", thinned", "csr", FeatureSettings(), {"held_out": True, "thinned": True}),
            (", X = I", "none", OWN, {}),
            (", intercept penalty", "dense", FeatureSettings(), {"free_intercept": False}),
        )
        for bound in [None if name == "squared" else 2.0]
    },
    **{
        f"unlabelled logistic, scores kept{what}": Setting(
            kind=kind, features=features, unlabelled=True, bound=2.0, kept=True, **more
        )
        for what, kind, features, more in (
            (", held out", "dense", FeatureSettings(), {"held_out": True}),
            (", X = I, intercept penalty", "none", OWN, {"free_intercept": False}),
        )
    },
}

KEPT = "unlabelled logistic, scores kept, held out"
# Fits of one kind each; those of the other settings run the same code and are marked slow.
FITTED = (
    "dense, centred and scaled",
    "CSR, scaled",
    "fewer rows than features",
    "X = I, features of both, by counts",
    "penalty on the scores",
    "intercept penalty",
    "score bound",
    "family poisson",
    "silence as a no, X = I, weights",
    "unlabelled squared",
    "unlabelled logistic",
    KEPT,
)

splits = st.lists(st.integers(0, N_ROWS), min_size=0, max_size=7)


every_setting = pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS.keys())


def close(mine: Any, theirs: Any, size: float | None = None) -> None:
    """Equal to 1e-12 of the largest number, or of ``size`` where terms cancel."""
    mine, theirs = np.asarray(mine), np.asarray(theirs)
    largest = float(np.abs(theirs).max(initial=0.0)) if size is None else size
    assert_allclose(mine, theirs, rtol=RELATIVE, atol=RELATIVE * max(largest, 1e-3))


def factors_close(mine: Factors, theirs: Factors) -> None:
    for one, other in zip(mine, theirs, strict=True):
        close(one, other)


def random_model(problem: Problem, objective: Any, seed: int = 5) -> Factors:
    """A model in the features that were handed in, within what the rows can see."""
    rng = np.random.default_rng(seed)
    rows, columns = objective.shape
    return problem.to_original(
        Factors(
            0.4 * rng.standard_normal((rows, RANK)),
            0.4 * rng.standard_normal((columns, RANK)),
            0.4 * rng.standard_normal(objective.n_labels),
        )
    )


@given(cuts=splits)
@settings(max_examples=4, deadline=None, derandomize=True)
@every_setting
def test_parts_with_their_own_frame_are_the_whole(setting: Setting, cuts: list[int]) -> None:
    whole, labels = setting.problem([])
    parts, _ = setting.problem(cuts)
    one, many = setting.objective(whole, labels), setting.objective(parts, labels)
    assert many.shape == one.shape
    close(many.starting_intercept(), one.starting_intercept())
    model = random_model(whole, one)
    here, there = one.at(whole.from_original(model)), many.at(parts.from_original(model))
    close(there.value, here.value, here.size)
    close(there.size, here.size)
    close(parts.mean_square_length, whole.mean_square_length)
    close(parts.scores(parts.from_original(model), labels), whole.scores(whole.from_original(model), labels))
    mine, theirs = (certify(o, p, setting.penalties) for o, p in ((many, there), (one, here)))
    close(mine.objective, theirs.objective, theirs.scale)
    close(mine.dual, theirs.dual, theirs.scale)


@given(cuts=splits)
@settings(max_examples=4, deadline=None, derandomize=True)
@every_setting
def test_every_answer_of_the_parts_adds_up(setting: Setting, cuts: list[int]) -> None:
    whole, labels = setting.problem([])
    parts, _ = setting.problem(cuts)
    # One frame for both: axes of equal length may be rotated otherwise in a frame of its own.
    whole.features = parts.features
    one, many = setting.objective(whole, labels), setting.objective(parts, labels)
    first, second = (whole.from_original(random_model(whole, one, seed)) for seed in (5, 6))
    here, there = one.at(first), many.at(first)
    factors_close(there.gradient(), here.gradient())
    factors_close(there.hessian_product(second), here.hessian_product(second))
    factors_close(there.hessian_diagonal(), here.hessian_diagonal())
    close(there.label_curvature(), here.label_curvature())
    for mine, theirs in zip(there.signed_label_sums(), here.signed_label_sums(), strict=True):
        close(mine, theirs)
    close(there.curvature_along(second.left, second.right), here.curvature_along(second.left, second.right))
    for balanced in (False, True) if setting.free_intercept else (False,):
        mine, theirs = (p.score_gradient(p.signed_label_sums(), balanced=balanced) for p in (there, here))
        close(mine.matrix(), theirs.matrix())
        close(mine.left_product(second.right), theirs.left_product(second.right))
        close(mine.right_product(second.left), theirs.right_product(second.left))
        for scale in (0.0, 0.5, 1.0):
            close(mine.conjugate(scale), theirs.conjugate(scale), here.size)
    other_here, other_there = one.at(second), many.at(second)
    close(there.slope_towards(other_there), here.slope_towards(other_here), here.size)
    close(there.beyond(other_there, 0.3).value, here.beyond(other_here, 0.3).value, here.size)
    moved = here.with_intercept(second.intercept), there.with_intercept(second.intercept)
    close(moved[1].value, moved[0].value, here.size)


@pytest.mark.parametrize("cuts", [pytest.param([9], marks=pytest.mark.slow), [0, 5, 5, 17, 24]])
@pytest.mark.parametrize(
    "setting",
    [
        pytest.param(setting, id=name, marks=() if name in FITTED else pytest.mark.slow)
        for name, setting in SETTINGS.items()
    ],
)
def test_a_fit_over_parts_ends_at_the_same_objective(setting: Setting, cuts: list[int]) -> None:
    def fit(where: list[int], solver: Any) -> Any:
        problem, labels = setting.problem(where)
        objective = setting.objective(problem, labels)
        if objective.bounds is None:
            return solver(objective, setting.penalties, tol=1e-5)
        return solve_bounded(solver, objective, setting.penalties, objective.bounds, tol=1e-3)

    whole, parts = fit([], solve_factored), fit(cuts, solve_factored)
    assert whole.converged
    assert parts.converged
    # Where W = 0 is the optimum the gaps are 0, and the sums differ in their last digit.
    rounding = 1e-12 * abs(whole.objective)
    assert abs(whole.objective - parts.objective) <= max(whole.gap, parts.gap) + rounding


def test_proximal_steps_over_parts_end_at_the_same_objective() -> None:
    setting = SETTINGS["dense, centred and scaled"]
    fits = []
    for cuts in ([], [3, 11]):
        problem, labels = setting.problem(cuts)
        fits.append(solve_proximal(setting.objective(problem, labels), setting.penalties, tol=1e-6))
    assert abs(fits[0].objective - fits[1].objective) <= max(fit.gap for fit in fits)


@given(cuts=splits)
@settings(max_examples=4, deadline=None, derandomize=True)
@pytest.mark.parametrize("name", ["score bound", "score bound, X = I", "unlabelled logistic", KEPT])
def test_the_term_of_a_bound_adds_up(name: str, cuts: list[int]) -> None:
    setting = SETTINGS[name]
    whole, labels = setting.problem([])
    parts, _ = setting.problem(cuts)
    whole.features = parts.features
    one, many = setting.objective(whole, labels), setting.objective(parts, labels)
    model = whole.from_original(random_model(whole, one))
    model = replace_left(model, 8.0)
    values = []
    for objective in (one, many):
        bounds = objective.bounds
        assert bounds is not None
        entries = bounds.start()
        largest, beyond = bounds.scan(model)
        entries = bounds.next(entries, bounds.with_term(objective, entries, 0.1).at(model), beyond)
        for _ in range(2):
            # The second time with multipliers.
            point = bounds.with_term(objective, entries, 0.1).at(model)
            entries = bounds.next(entries, point, beyond)
        gradient = point.score_gradient()
        values.append((largest, point.value, point.size, bounds.conjugate(gradient, 0.7), *point.gradient()))
        assert largest > bounds.bound
    for mine, theirs in zip(values[1], values[0], strict=True):
        close(mine, theirs)


def replace_left(factors: Factors, scale: float) -> Factors:
    return factors._replace(left=scale * factors.left)


@every_setting
def test_a_model_comes_back_from_the_features_that_were_handed_in(setting: Setting) -> None:
    problem, labels = setting.problem([10])
    objective = setting.objective(problem, labels)
    rng = np.random.default_rng(0)
    rows, columns = objective.shape
    model = Factors(
        rng.standard_normal((rows, RANK)), rng.standard_normal((columns, RANK)), rng.standard_normal(N_LABELS)
    )
    factors_close(problem.from_original(problem.to_original(model)), model)


def test_settings_of_a_problem_change_without_reading_the_features_again() -> None:
    problem, labels = SETTINGS["unlabelled squared"].problem([8])
    other = problem.with_settings(flip_rate=np.zeros(N_LABELS))
    assert other.features is problem.features
    assert other.objective(labels).at(random_model(other, other.objective(labels))).value > 0
    scored = problem.with_settings(features=replace(problem.settings.features, penalty="scores"))
    assert scored.features is not problem.features
