"""Every objective, with every loss, kind of features and setting, answers as dense matrices do.

A loss that is new enters by its line in the registry. Problems are made by the constructor that estimators
use, in one part and in several, on the CPU and in torch's tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from labelgap.objective.parts import FeatureSettings
from labelgap.objective.protocol import Factors, Objective, Point, ScoreGradient
from oracles_objective import DenseTerm, balanced_by_shrinking, flat
from problem_settings import (
    OBSERVED,
    OBSERVED_LOSSES,
    OWN,
    SETTINGS,
    SQUARED,
    UNLABELLED,
    Own,
    Setting,
    label_features,
    random_model,
)

# Of the rows; some parts are empty.
CUTS = ((9,), (0, 5, 5, 17, 23))
SCALES = (0.0, 0.4, 1.0)


class Machine:
    """Where the arrays of an objective are."""

    backend: Any = None
    digits = 1e-10

    def put(self, factors: Factors) -> Factors:
        return factors

    def array(self, numbers: Any) -> Any:
        return numbers


class TorchMachine(Machine):
    def __init__(self, device: str) -> None:
        torch = pytest.importorskip("torch", reason="no torch here, so its tensors cannot be tried")
        from labelgap.objective.torch.part import TorchBackend

        torch.set_num_threads(1)
        self.backend, self._torch, self._device = TorchBackend(device), torch, device

    def put(self, factors: Factors) -> Factors:
        return Factors(*map(self.array, factors))

    def array(self, numbers: Any) -> Any:
        return self._torch.as_tensor(numbers, device=self._device)


CPU = Machine()


def numpy_of(numbers: Any) -> Any:
    if isinstance(numbers, tuple):
        return flat([numpy_of(part) for part in numbers])
    return np.asarray(numbers.cpu() if hasattr(numbers, "cpu") else numbers)


def require(case: str, answers: Iterator[tuple[str, Any, Any]], digits: float = 1e-10) -> None:
    """Each answer is the expected one, to so many digits of the largest number in it."""
    for question, found, expected in answers:
        found, expected = numpy_of(found), numpy_of(expected)
        assert found.shape == expected.shape, f"{case}: {question}"
        largest = float(np.abs(expected[np.isfinite(expected)]).max(initial=1e-2))
        told = f"{case}: {question}"
        assert_allclose(found, expected, rtol=digits, atol=0.1 * digits * largest, err_msg=told)


def basic_answers(point: Any, oracle: DenseTerm, at: Factors) -> Iterator[tuple[str, Any, Any]]:
    """What a point says of itself."""
    G = oracle.score_gradient(at)
    yield "value", point.value, oracle.value(at)
    yield "size", point.size, oracle.size(at)
    yield "gradient", point.gradient(), oracle.gradient(at)
    yield "diagonal of the Hessian", point.hessian_diagonal(), oracle.hessian_diagonal(at)
    yield "label curvature", point.label_curvature(), oracle.label_sums(oracle.loss_curvature(at))
    up, down = map(numpy_of, point.signed_label_sums())
    assert np.all(up >= 0)
    assert np.all(down <= 0)
    yield "label sums", up + down, oracle.label_sums(oracle.loss_gradient(at))
    yield "matrix of the gradient", point.score_gradient().matrix(), oracle.X.T @ G @ oracle.F


def model_of(factors: Factors) -> Factors:
    """The same with numpy's arrays."""
    return Factors(*map(numpy_of, factors))


def all_answers(machine: Machine, objective: Any, oracle: DenseTerm) -> Iterator[tuple[str, Any, Any]]:
    rng = np.random.default_rng(3)
    here, there, far = (random_model(objective, seed, rank) for seed, rank in ((0, 2), (1, 1), (2, 0)))
    point, other, empty = (objective.at(machine.put(model)) for model in (here, there, far))
    yield from basic_answers(point, oracle, here)
    yield from (
        ("without factors, " + question, *pair) for question, *pair in basic_answers(empty, oracle, far)
    )
    known = objective.at(machine.put(here), machine.array(here.left @ here.right.T))
    yield "gradient by a product that was made", known.gradient(), oracle.gradient(here)

    moved = point.with_intercept(machine.array(there.intercept))
    ahead = point.beyond(other, 0.6)
    again = ahead.with_intercept(machine.array(here.intercept))
    W = 1.6 * here.left @ here.right.T - 0.6 * there.left @ there.right.T
    yield "beyond", ahead.factors.left @ ahead.factors.right.T, W
    yield "its intercept", ahead.factors.intercept, 1.6 * here.intercept - 0.6 * there.intercept
    for name, one in (("with intercept", moved), ("beyond", ahead), ("beyond with intercept", again)):
        own = basic_answers(one, oracle, model_of(one.factors))
        yield from ((f"{name}, {question}", *pair) for question, *pair in own)

    direction = random_model(objective, 4)
    hessian = oracle.hessian_product(here, direction)
    yield "Hessian product", point.hessian_product(machine.put(direction)), hessian
    U, V = (rng.standard_normal((size, 3)) for size in objective.shape)
    along = point.curvature_along(machine.array(U), machine.array(V))
    yield "curvature along", along, oracle.curvature_along(here, U, V)
    XtGF = oracle.X.T @ oracle.score_gradient(here) @ oracle.F
    difference = there.left @ there.right.T - here.left @ here.right.T
    yield "slope towards", point.slope_towards(other), np.sum(XtGF * difference)

    gradient = point.score_gradient()
    yield "left product", gradient.left_product(machine.array(V)), XtGF @ V
    yield "right product", gradient.right_product(machine.array(U)), XtGF.T @ U


def exact_duals(setting: Setting, objective: Any, oracle: DenseTerm) -> Iterator[tuple[str, Any, Any]]:
    """The conjugate where it has a closed form, and what a balanced gradient is, in numpy's arrays."""
    here, has_intercept = random_model(objective, 0), objective.has_intercept
    point, G = objective.at(here), oracle.score_gradient(here)
    if not setting.unlabelled or setting.loss.name == "squared":
        for scale in SCALES:
            yield (
                f"conjugate at {scale}",
                point.score_gradient().conjugate(scale),
                oracle.conjugate(scale * G),
            )
    if setting.unlabelled and setting.loss.name != "squared":
        if not has_intercept:
            yield from _nearest_duals(setting, point, oracle, G)
        # Fenchel's equality at the gradient itself, which closes the gap at the optimum.
        inner = np.sum(G * oracle.scores(here)) - oracle.value(here)
        yield "conjugate at the gradient", point.score_gradient().conjugate(1.0), inner
        return
    # As where these entries are one part of several, whose sums are other ones.
    rng = np.random.default_rng(8)
    inside = np.any(~np.isnan(oracle.Y), axis=0)
    given = (rng.random(setting.n_labels) * inside, -rng.random(setting.n_labels) * inside)
    for sums in (None, given) if has_intercept else (None,):
        up, down = sums or (oracle.label_sums(np.maximum(G, 0)), oracle.label_sums(np.minimum(G, 0)))
        balanced = G
        if has_intercept and setting.unlabelled:
            balanced = G - np.where(np.isnan(oracle.Y), 0.0, (up + down) / setting.counted)
        elif has_intercept:
            balanced = balanced_by_shrinking(G, up, down)
        if has_intercept and sums is None and setting.free_intercept:
            assert_allclose(balanced.sum(axis=0), 0, atol=1e-14)
        found = point.score_gradient(sums, balanced=True)
        yield "balanced gradient", found.matrix(), oracle.X.T @ balanced @ oracle.F
        if sums is None or not setting.unlabelled:
            yield "its conjugate", found.conjugate(0.7), oracle.conjugate(0.7 * balanced)


def _nearest_duals(setting: Setting, point: Any, oracle: DenseTerm, G: Any) -> Iterator[tuple[str, Any, Any]]:
    """Entry by entry f* at the nearest slope that it is finite at, and γ for each unit of the way there."""
    weight = oracle.weights[0, 0]
    for scale in SCALES:
        total = 0.0
        for j, loss in enumerate(oracle.losses):
            seen = ~np.isnan(oracle.Y[:, j])
            slope, y = scale * G[seen, j] / weight, oracle.Y[seen, j]
            nearest = np.clip(slope, *loss.slope_range(y))
            total += np.sum(loss.conjugate(nearest, y) + setting.bound * np.abs(slope - nearest))
        yield f"conjugate at {scale}", point.score_gradient().conjugate(scale), total * weight


def bound_answers(
    machine: Machine, setting: Setting, objective: Any, oracle: DenseTerm
) -> Iterator[tuple[str, Any, Any]]:
    """The term that holds the scores to the bound, with the multipliers of two steps."""
    bounds, bound, stiffness = objective.bounds, setting.bound, 0.1
    assert bound is not None
    model = random_model(objective, 0, size=1.0)
    model = model._replace(left=model.left * 3 * bound / np.abs(oracle.low_rank(model)).max())
    largest, beyond = bounds.scan(machine.put(model))
    yield "largest score", largest, np.abs(oracle.low_rank(model)).max()
    entries = bounds.start()
    # From the beginning only recorded positives are held, or all entries where all scores are kept.
    held = np.ones(setting.Y.shape) if setting.kept else (oracle.Y == 1) * float(setting.unlabelled)
    u = held * replace_hold(oracle, bound, stiffness, 0.0 * oracle.weights).next_multipliers(model)
    entries = bounds.next(
        entries, bounds.with_term(objective, entries, stiffness).at(machine.put(model)), beyond
    )
    for step in range(2):
        here = model._replace(left=model.left * (1.0 - 0.2 * step))
        term, expected = (
            bounds.with_term(objective, entries, stiffness),
            replace_hold(oracle, bound, stiffness, u),
        )
        point = term.at(machine.put(here))
        for question, *pair in basic_answers(point, expected, here):
            if step == 0 or setting.kept:
                yield f"term of the bound, {question}", *pair
        if step == 0:
            direction = random_model(objective, 4)
            hessian = expected.hessian_product(here, direction)
            yield "term of the bound, Hessian", point.hessian_product(machine.put(direction)), hessian
            a = expected.next_multipliers(here)
            data = objective.at(machine.put(here)).score_gradient().conjugate(1.0)
            whole = bounds.conjugate(point.score_gradient(), 1.0)
            yield "conjugate with the bound", whole, data + bound * np.abs(a).sum()
            u, entries = a, bounds.next(entries, point, beyond)


def replace_hold(oracle: DenseTerm, bound: float, stiffness: float, u: Any) -> DenseTerm:
    return replace(oracle, hold=(bound, stiffness, u))


def every_answer(
    machine: Machine, setting: Setting, cuts: Any = (), *, with_duals: bool = True
) -> Iterator[tuple[str, Any, Any]]:
    """What is asked, what one objective answers, and what it ought to."""
    problem, labels = setting.problem(cuts, machine.backend)
    objective = setting.objective(problem, labels)
    d, r = objective.shape
    X, F = (numpy_of(each(machine.array(np.eye(k)))) for each, k in ((problem.left, d), (problem.right, r)))
    oracle, start = setting.oracle(X, F)
    point = objective.at(machine.put(random_model(objective, 0)))
    for kind, one in ((Objective, objective), (Point, point), (ScoreGradient, point.score_gradient())):
        yield kind.__name__, isinstance(one, kind), True
    yield "labels", objective.n_labels, setting.n_labels
    yield "whether there is an intercept", objective.has_intercept, setting.fit_intercept
    yield "starting intercept", objective.starting_intercept(), start
    yield from all_answers(machine, objective, oracle)
    if with_duals and machine is CPU and not cuts:
        yield from exact_duals(setting, objective, oracle)
    yield "whether there is a bound", objective.bounds is not None, setting.bound is not None
    if objective.bounds is not None:
        yield from bound_answers(machine, setting, objective, oracle)
    # A model in the features that were handed in has the same scores, there and back.
    model = random_model(objective, 0)
    original, (rows, columns) = problem.to_original(model), setting.design()
    scores = rows @ original.left @ (columns @ original.right).T + original.intercept + setting.shifts
    yield "scores", problem.scores(model, labels), scores[labels.rows, labels.cols]
    yield "there and back", problem.from_original(original), model
    yield "mean square length", problem.mean_square_length, np.mean(np.sum(X**2, axis=1))


def check(settings: dict[str, Setting], cuts: Any = (), machine: Machine = CPU) -> None:
    for name, setting in settings.items():
        case = f"{name}, cut before rows {list(cuts)}" if cuts else name
        require(case, every_answer(machine, setting, cuts), machine.digits)


def test_observed_entries() -> None:
    check(OBSERVED)


def test_recorded_positives_alone() -> None:
    check(UNLABELLED)


def test_any_parts_add_up() -> None:
    cases = list(SETTINGS.items())
    check(dict(cases[::5]), CUTS[0])
    check(dict(cases[2::5]), CUTS[1])


@pytest.mark.torch
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_tensors_of_torch(device: str) -> None:
    machine = TorchMachine(device)
    from labelgap.kernels.gpu.losses import torch_loss

    # Somebody's own losses run in numpy alone, and scores are kept on the CPU alone.
    known = {name: one for name, one in SETTINGS.items() if not one.kept and torch_loss(one.loss) is not None}
    assert len(known) > 100
    check(dict(list(known.items())[::2]), machine=machine)
    check(dict(list(known.items())[1::9]), CUTS[0], machine)


# -- sizes beyond every block, and threads -------------------------------------------------------------------

LARGE = {
    "most entries": Setting(weighted=True, n=701, n_labels=131, density=0.7),
    "sparse features of both": Setting(
        FeatureSettings(label_features=label_features(131)), "csr", n=701, n_labels=131, density=0.3
    ),
    "few labels": Setting(loss=SQUARED, offsets=True, n=9001, n_labels=5),
    "many labels": Setting(
        FeatureSettings(own_rows=True, own_labels=False, label_features=label_features(11_003)),
        "none",
        n=37,
        n_labels=11_003,
        density=0.1,
    ),
    "more entries than a block": Setting(FeatureSettings(centre=True), "csr", n=2100, n_labels=257),
    "somebody's own loss": Setting(OWN, "none", Own(), n=701, n_labels=67),
    "recorded positives": Setting(unlabelled=True, bound=2.0, n=701, n_labels=67, block_entries=1000),
    "scores kept": Setting(unlabelled=True, bound=2.0, n=701, n_labels=67, kept=True, held_out=True),
    "recorded positives, squared": Setting(OWN, "none", SQUARED, unlabelled=True, n=701, n_labels=67),
}


def large_answers(setting: Setting) -> Iterator[tuple[str, Any, Any]]:
    problem, labels = setting.problem()
    objective = setting.objective(problem, labels)
    d, r = objective.shape
    oracle, _ = setting.oracle(problem.left(np.eye(d)), problem.right(np.eye(r)))
    for rank in (5, 17):
        here, direction = (random_model(objective, seed, rank, 0.2) for seed in (0, 1))
        point = objective.at(here)
        yield from basic_answers(point, oracle, here)
        yield "Hessian product", point.hessian_product(direction), oracle.hessian_product(here, direction)
        U, V = direction.left[:, :3], direction.right[:, :3]
        yield "curvature along", point.curvature_along(U, V), oracle.curvature_along(here, U, V)
        gradient, XtGF = point.score_gradient(), oracle.X.T @ oracle.score_gradient(here) @ oracle.F
        yield "left product", gradient.left_product(direction.right), XtGF @ direction.right
        yield "right product", gradient.right_product(direction.left), XtGF.T @ direction.left
        inner = np.sum(oracle.score_gradient(here) * oracle.scores(here)) - oracle.value(here)
        yield "conjugate", gradient.conjugate(1.0), inner
        # Products have the precision of what is multiplied.
        for name, multiply, M, expected in (
            ("left", gradient.left_product, direction.right, XtGF @ direction.right),
            ("right", gradient.right_product, direction.left, XtGF.T @ direction.left),
        ):
            if not (setting.unlabelled or setting.kind == "dense"):
                found = multiply(M.astype(np.float32))
                assert found.dtype == np.float32
                close = 1e-5 * np.abs(expected).max()
                assert_allclose(found, expected, rtol=1e-4, atol=close, err_msg=f"{name} in single precision")


def test_large_problems_whatever_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, setting in LARGE.items():
        found = []
        for threads in ("1", "3"):
            monkeypatch.setenv("LABELGAP_NUM_THREADS", threads)
            answers = list(large_answers(setting))
            require(f"{name}, {threads} threads", iter(answers))
            found.append([numpy_of(answer) for _, answer, _ in answers])
        for (question, *_), one, other in zip(answers, *found, strict=True):
            assert_array_equal(one, other, err_msg=f"{name}: {question}")


# -- what must not matter ------------------------------------------------------------------------------------


def changed(setting: Setting, **data: Any) -> Setting:
    """The same kind of problem about other data."""
    other = replace(setting, n=len(data.get("Y", setting.Y)))
    other.__dict__.update(data)
    return other


def data_of(setting: Setting) -> dict[str, Any]:
    return {name: getattr(setting, name) for name in ("X", "Y", "weights", "shifts", "held")}


def invariants(setting: Setting, B: Any) -> list[Any]:
    """Answers that know of no coordinates and no order of the rows: numbers, and arrays by label."""
    problem, labels = setting.problem()
    objective = setting.objective(problem, labels)
    A = np.random.default_rng(1).standard_normal((4, 2))
    point = objective.at(problem.from_original(Factors(A, B, B[:, 0])))
    gradient, dual = point.gradient(), point.score_gradient().conjugate(1.0)
    by_label = gradient.right, gradient.intercept, point.label_curvature(), objective.starting_intercept()
    return [*by_label, np.array([point.value, point.size, dual])]


PLAIN = {
    name: setting
    for name, setting in SETTINGS.items()
    if setting.kind in ("dense", "csr") and setting.features == FeatureSettings()
}
B = np.random.default_rng(0).standard_normal((6, 2))


def test_the_order_of_rows_and_labels_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    for name, setting in PLAIN.items():
        rows, columns = rng.permutation(setting.n), rng.permutation(setting.n_labels)
        wanted = invariants(setting, B)
        moved = changed(setting, **{key: array[rows] for key, array in data_of(setting).items()})
        for one, expected in zip(invariants(moved, B), wanted, strict=True):
            assert_allclose(one, expected, rtol=1e-10, atol=1e-13, err_msg=f"{name}: rows")
        if setting.unlabelled:
            # The labels have flip rates, which are given in their order.
            continue
        turned = {key: array[:, columns] for key, array in data_of(setting).items() if key != "X"}
        found = invariants(changed(setting, **turned), B[columns])
        for one, expected in zip(found, wanted, strict=True):
            expected = expected[columns] if len(expected) == setting.n_labels else expected
            assert_allclose(one, expected, rtol=1e-10, atol=1e-13, err_msg=f"{name}: labels")


def test_a_weight_of_two_is_an_entry_twice() -> None:
    for loss, kind in product(OBSERVED_LOSSES, ("dense", "csr")):
        setting = Setting(kind=kind, loss=loss, weighted=True)
        data, some = data_of(setting), np.arange(setting.n) < 9
        twice = {key: np.concatenate([array, array[some]]) for key, array in data.items()}
        heavier = setting.weights * np.where(some, 2.0, 1.0)[:, None]
        found = invariants(changed(setting, **twice), B)
        wanted = invariants(changed(setting, **(data | {"weights": heavier})), B)
        for one, expected in zip(found, wanted, strict=True):
            assert_allclose(one, expected, rtol=1e-10, atol=1e-13, err_msg=f"{loss!r}, {kind}")


def test_an_entry_that_is_left_out_was_never_there() -> None:
    for name, setting in list(OBSERVED.items())[::3]:
        problem, labels = setting.problem()
        keep = np.random.default_rng(0).random(labels.n_observed) < 0.7
        absent = setting.Y.copy()
        absent[labels.rows[~keep], labels.cols[~keep]] = np.nan
        objective = setting.objective(problem, labels.select(keep))
        d, r = objective.shape
        oracle, start = changed(setting, Y=absent).oracle(problem.left(np.eye(d)), problem.right(np.eye(r)))
        at = random_model(objective, 0)
        require(name, iter([("starting intercept", objective.starting_intercept(), start)]))
        require(name, basic_answers(objective.at(at), oracle, at))
