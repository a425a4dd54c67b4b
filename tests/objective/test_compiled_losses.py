"""Every line of the table of compiled losses, against the losses of numpy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from labelgap.kernels.loss_passes import LossPasses
from labelgap.kernels.losses import COMPILED, compiled_loss, derivatives, losses
from labelgap.losses import FAMILIES, LOSSES, CustomFamily, Logistic, Poisson
from labelgap.objective.cpu.entries import WeightedLoss
from solver_problems import Case, make_problem, random_factors, random_values

EVERY = pytest.mark.parametrize("kind", COMPILED, ids=lambda kind: kind.__name__)
NO_CODE = 99


def entries_of(kind, dtype=np.float64):
    """Scores near and far, and values, as numbers of the type."""
    rng = np.random.default_rng(0)
    z = np.concatenate([3 * rng.standard_normal(50), [0.0, 1.0, -1.0, 30.0, -30.0]]).astype(dtype)
    return z, random_values(rng, kind, len(z)).astype(dtype)


def compiled_derivatives(kind, z, y):
    slopes, curvatures = np.empty_like(z), np.empty_like(z)
    derivatives(COMPILED[kind].code, z, y, slopes, curvatures, len(z))
    return slopes, curvatures


def compiled_values(kind, z, y):
    out = np.empty((3, len(z)))
    losses(COMPILED[kind].code, z, y, *out, len(z))
    return out


def test_the_losses_of_the_registries_are_those_in_the_table():
    assert set(COMPILED) == {*LOSSES.values(), *FAMILIES.values()}
    for kind, form in COMPILED.items():
        assert compiled_loss(kind()) is form


@EVERY
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_derivatives_are_those_of_the_loss(kind, dtype):
    z, y = entries_of(kind, dtype)
    slopes, curvatures = compiled_derivatives(kind, z, y)
    loss = kind()
    rounding = 20 * np.finfo(dtype).eps
    assert slopes.dtype == curvatures.dtype == dtype
    assert_allclose(slopes, loss.gradient(z.astype(float), y.astype(float)), rtol=rounding, atol=rounding)
    if kind.name == "squared_hinge":
        assert_array_equal(curvatures, 2)
    else:
        expected = loss.curvature(z.astype(float), y.astype(float))
        assert_allclose(curvatures, expected, rtol=rounding, atol=1e-300)


@EVERY
def test_values_slopes_and_curvatures_are_those_of_the_loss(kind):
    z, y = entries_of(kind)
    values, slopes, curvatures = compiled_values(kind, z, y)
    loss, at_zero = kind(), COMPILED[kind].value_at_zero
    expected = loss.value(z, y)
    if at_zero is not None:
        # Without what depends on the values of the labels alone.
        expected = expected - loss.value(np.zeros_like(z), y) + at_zero
    assert_allclose(values, expected, rtol=1e-13, atol=1e-13)
    assert_allclose(slopes, loss.gradient(z, y), rtol=1e-13, atol=1e-14)
    assert_allclose(curvatures, loss.curvature(z, y), rtol=1e-13, atol=1e-14)


@EVERY
def test_only_the_first_entries_are_written(kind):
    z, y = entries_of(kind)
    out = np.full((3, len(z)), 7.0)
    losses(COMPILED[kind].code, z, y, *out, 5)
    assert_array_equal(out[:, 5:], 7)
    assert_array_equal(out[:, :5], compiled_values(kind, z, y)[:, :5])
    derivatives(COMPILED[kind].code, z, y, out[1], out[2], 3)
    assert_array_equal(out[1:, 5:], 7)


@EVERY
@pytest.mark.parametrize("z", [-1e30, -700.0, 700.0, 1e30])
def test_far_scores_stay_finite(kind, z):
    for dtype in (np.float32, np.float64):
        for derivative in compiled_derivatives(kind, np.array([z], dtype), np.ones(1, dtype)):
            assert np.isfinite(derivative).all()


@EVERY
def test_a_curvature_that_bounds_the_loss_is_nowhere_too_small(kind):
    z, y = entries_of(kind)
    slopes, curvatures = compiled_derivatives(kind, z, y)
    loss = kind()
    steps = np.linspace(-6.0, 6.0, 41)[:, None]
    model = loss.value(z, y) + slopes * steps + 0.5 * curvatures * steps**2
    beyond = loss.value(z + steps, y) > model + 1e-9 * (1 + np.abs(model))
    assert COMPILED[kind].bounds_curvature == (not beyond.any())


def test_an_unknown_code_is_refused():
    z, out = np.zeros(3), np.zeros((3, 3))
    with pytest.raises(ValueError, match="no compiled loss"):
        losses(NO_CODE, z, z, *out, 3)
    for dtype in (np.float32, np.float64):
        z, out = np.zeros(3, dtype), np.zeros((2, 3), dtype)
        with pytest.raises(ValueError, match="no compiled loss"):
            derivatives(NO_CODE, z, z, *out, 3)
    passes = LossPasses(NO_CODE, np.zeros(3, np.int32), 1, np.zeros(3, np.int8), 1.0, None)
    for one in (passes.value_and_gradient, passes.with_label_sums, passes.curvature):
        with pytest.raises(ValueError, match="no compiled loss"):
            one(np.zeros(3), np.zeros(1))


# -- losses that are not in the table ------------------------------------------------------------------------


class Careful(Logistic):
    """Somebody else's loss: it has the name and the formulas of one in the table."""


@pytest.mark.parametrize("loss", [Careful(), CustomFamily(np.exp, np.exp, np.exp, name="poisson", low=0)])
def test_a_loss_of_somebody_else_has_no_compiled_form_whatever_its_name(loss):
    assert compiled_loss(loss) is None
    function = WeightedLoss(loss, np.array([1.0, 2.0]), None, 2.0)
    assert function.passes(np.zeros(2, dtype=np.int32), 1) is None
    known = WeightedLoss(Poisson(), np.array([1.0, 2.0]), None, 2.0)
    assert isinstance(known.passes(np.zeros(2, dtype=np.int32), 1), LossPasses)


@pytest.mark.parametrize("kind", ["identity", "dense", "csr"])
def test_a_loss_without_a_compiled_form_gives_the_same_objective(kind):
    case = Case(kind, weighted=True)
    mine, theirs = (
        make_problem(case.data[0], case.labels, loss, features={"centre": True}).objective(case.labels)
        for loss in (Careful(), Logistic())
    )
    assert mine.passes is None
    assert theirs.passes is not None
    # Steps row by row are compiled; the other solvers do without them.
    assert mine.rowwise(np.float64) is None
    assert (theirs.rowwise(np.float64) is not None) == (kind == "identity")
    factors = random_factors(np.random.default_rng(0), *mine.shape, 2)
    points = mine.at(factors), theirs.at(factors)
    for name in ("value", "size", "entry_gradient"):
        assert_allclose(*(getattr(point, name) for point in points), rtol=1e-12, atol=1e-15)
    for name in ("gradient", "hessian_diagonal", "signed_label_sums"):
        for one, other in zip(*(getattr(point, name)() for point in points), strict=True):
            assert_allclose(one, other, rtol=1e-12, atol=1e-15)
    assert_allclose(*(point.label_curvature() for point in points), rtol=1e-12)
    for scale in (0.0, 0.5, 1.0):
        conjugates = [point.score_gradient(balanced=True).conjugate(scale) for point in points]
        assert_allclose(*conjugates, rtol=1e-12, atol=1e-15)
