import numpy as np
import pytest
from numpy.testing import assert_allclose

from labelgap.solvers.newton import minimise


class Function:
    """A function given by its value, gradient and Hessian, at one place."""

    def __init__(self, x, value, gradient, hessian, diagonal=None):
        self._parts, self._diagonal = (value, gradient, hessian), diagonal
        self.place = np.asarray(x, dtype=float)
        self.value = float(value(self.place))
        self.resolution = 1e-14 * abs(self.value)

    @property
    def x(self):
        """In two arrays, as the variables of a solver are in several."""
        return cut(self.place)

    def gradient(self):
        return cut(self._parts[1](self.place))

    def hessian_product(self, direction):
        return cut(self._parts[2](self.place) @ np.concatenate(direction))

    def preconditioner(self):
        return cut(np.ones_like(self.place) if self._diagonal is None else self._diagonal)

    def moved_to(self, x):
        return Function(np.concatenate(x), *self._parts, diagonal=self._diagonal)

    def release(self):
        """Nothing here is large."""


def cut(v):
    return v[:1], v[1:]


def quadratic(size=12, condition=1e3, seed=0):
    """½ xᵀHx − gᵀx, its start and its minimiser."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((size, size)))[0]
    H, g = (Q * np.geomspace(1, condition, size)) @ Q.T, rng.standard_normal(size)
    start = Function(np.zeros(size), lambda x: x @ (0.5 * H @ x - g), lambda x: H @ x - g, lambda x: H)
    return start, np.linalg.solve(H, g)


def rosenbrock(x):
    return Function(
        x,
        lambda x: (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2,
        lambda x: np.array([-2 * (1 - x[0]) - 400 * x[0] * (x[1] - x[0] ** 2), 200 * (x[1] - x[0] ** 2)]),
        lambda x: np.array([[2 - 400 * x[1] + 1200 * x[0] ** 2, -400 * x[0]], [-400 * x[0], 200.0]]),
    )


def saddle(x):
    """x² − y² + y⁴/2: a saddle at 0, minima of −½ at y = ±1."""
    return Function(
        x,
        lambda x: x[0] ** 2 - x[1] ** 2 + 0.5 * x[1] ** 4,
        lambda x: np.array([2 * x[0], -2 * x[1] + 2 * x[1] ** 3]),
        lambda x: np.diag([2.0, -2 + 6 * x[1] ** 2]),
    )


def test_one_accurate_step_solves_a_convex_quadratic():
    start, solution = quadratic()
    report = minimise(start, enough=0, max_steps=1, radius=1e6, forcing=1e-12, max_products=200)
    assert report.steps == 1
    assert_allclose(report.state.place, solution, rtol=1e-7, atol=1e-9)
    assert report.decrease == pytest.approx(start.value - report.state.value)
    # Conjugate gradients need no more products than there are unknowns, but for rounding.
    assert report.hessian_products <= 2 * len(start.place)


def test_inexact_steps_reach_the_solution_of_a_convex_quadratic():
    start, solution = quadratic()
    report = minimise(start, enough=0, max_steps=60)
    assert_allclose(report.state.place, solution, rtol=1e-5, atol=1e-6)


def test_a_perfect_preconditioner_needs_one_product():
    scales = np.geomspace(1e-4, 1e4, 10)
    g = np.random.default_rng(1).standard_normal(10)
    start = Function(
        np.zeros(10),
        lambda x: x @ (0.5 * scales * x - g),
        lambda x: scales * x - g,
        lambda x: np.diag(scales),
        diagonal=scales,
    )
    report = minimise(start, enough=0, max_steps=1, radius=1e6)
    assert report.hessian_products == 1
    assert_allclose(report.state.place, g / scales, rtol=1e-10)


@pytest.mark.parametrize("x", [(-1.2, 1.0), (0.0, 0.0), (3.0, -2.0)])
def test_rosenbrock_is_minimised(x):
    start = rosenbrock(x)
    report = minimise(start, enough=0, max_steps=100)
    assert_allclose(report.state.place, [1, 1], atol=1e-5)
    assert report.steps < 100


def test_the_value_never_rises():
    start = rosenbrock((-1.2, 1.0))
    values, radius, state = [start.value], None, start
    for _ in range(30):
        report = minimise(state, enough=0, max_steps=1, radius=radius)
        state, radius = report.state, report.radius
        values.append(state.value)
    assert np.all(np.diff(values) <= 0)


@pytest.mark.parametrize("y", [1e-6, -1e-3])
def test_a_saddle_is_left_along_negative_curvature(y):
    start = saddle((1.0, y))
    report = minimise(start, enough=0, max_steps=200)
    assert_allclose(report.state.place, [0, np.sign(y)], atol=1e-5)
    assert report.state.value == pytest.approx(-0.5)


def test_a_radius_keeps_the_step_short():
    start, _ = quadratic(condition=1.0)
    report = minimise(start, enough=0, max_steps=1, radius=1e-3)
    assert np.linalg.norm(report.state.place - start.place) == pytest.approx(1e-3)
    # A good step at the border lets the next one go further.
    assert report.radius == pytest.approx(3e-3)


def test_a_step_that_the_radius_cut_short_is_not_the_last_one():
    start, solution = quadratic()
    report = minimise(start, enough=np.inf, max_steps=100, radius=1e-3, forcing=1e-9)
    assert report.steps > 3
    assert_allclose(report.state.place, solution, rtol=1e-6, atol=1e-7)


def test_steps_that_the_radius_cut_short_end_where_the_gradient_is_half_of_what_it_was():
    start, _ = quadratic(condition=1.0)
    report = minimise(start, enough=np.inf, max_steps=100, radius=1.8e-3, forcing=1e-9)
    left = np.linalg.norm(np.concatenate(report.state.gradient()))
    assert 0.01 < left / np.linalg.norm(np.concatenate(start.gradient())) <= 0.5


def test_a_stationary_start_takes_no_step():
    start, solution = quadratic()
    flat = Function(np.zeros(2), lambda x: 1.0, lambda x: np.zeros(2), lambda x: np.eye(2))
    report = minimise(flat, enough=0, max_steps=5)
    assert (report.steps, report.hessian_products, report.decrease) == (0, 0, 0.0)
    report = minimise(start.moved_to(cut(solution)), enough=0, max_steps=5)
    assert report.decrease == 0
    assert_allclose(report.state.place, solution, atol=1e-9)


def test_the_last_digits_come_from_the_gradient():
    # The values are large, so that differences of 1e-8 are all that they show: 1e-5 or so in x.
    start, solution = quadratic()
    value = start._parts[0]
    large = Function(start.place, lambda x: 1e6 + value(x), *start._parts[1:])
    report = minimise(large, enough=0, max_steps=60)
    assert report.steps < 60
    assert_allclose(report.state.place, solution, rtol=1e-8, atol=1e-10)


def test_steps_stop_when_they_gain_less_than_enough():
    start = rosenbrock((-1.2, 1.0))
    once = minimise(start, enough=np.inf, max_steps=100)
    assert 0 < once.decrease == pytest.approx(start.value - once.state.value)
    few = minimise(start, enough=1e-2, max_steps=100)
    many = minimise(start, enough=1e-12, max_steps=100)
    assert few.steps < many.steps


def test_a_step_into_infinity_is_taken_back():
    # −log x + x: a long step leaves the domain.
    def value(x):
        return x[0] - np.log(x[0]) if x[0] > 0 else np.inf

    start = Function([5.0], value, lambda x: 1 - 1 / x, lambda x: np.diag(1 / x**2))
    report = minimise(start, enough=0, max_steps=100, radius=1e3)
    assert_allclose(report.state.place, [1.0], atol=1e-6)
