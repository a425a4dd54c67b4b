"""Newton steps row by row, against one dense system per row."""

from dataclasses import replace

import numpy as np
import pytest

from labelgap._arrays import binary_and_real, read_only
from labelgap.kernels.entries import padded_width
from labelgap.kernels.losses import COMPILED
from labelgap.kernels.newton_rows import Workspace, newton_rows
from labelgap.losses import LOSSES, Logistic, Squared
from solver_problems import random_values

pytestmark = pytest.mark.pairwise

NONE = np.empty(0)


class Rows:
    """Rows with entries out of a table, some of them empty, and everything that a step can know of."""

    def __init__(self, kind, k, dtype, *, has_shift, weighted=False, n=25, n_table=90, size=1.0):
        rng = np.random.default_rng(k)
        self.loss, self.form = kind(), COMPILED[kind]
        self.k, self.dtype, self.has_shift = k, dtype, has_shift
        # Of 0, 1, a few and more entries than a buffer holds.
        lengths = np.r_[0, 1, 70, 64, rng.integers(1, 90, n - 4)]
        picked = [np.sort(rng.choice(n_table, length, replace=False)) for length in lengths]
        self.indptr = np.r_[0, np.cumsum(lengths)].astype(np.int64)
        self.indices = np.concatenate(picked).astype(np.int32)
        # As labels hold them, for which the step is compiled anyway.
        kept = np.int8 if kind in LOSSES.values() else np.float64
        self.targets = random_values(rng, kind, len(self.indices)).astype(kept)
        self.weights = (rng.random(len(self.indices)) if weighted else NONE).astype(dtype)
        width = padded_width(k, dtype)

        def padded(rows, scale):
            table = np.zeros((rows, width), dtype)
            table[:, :k] = scale * rng.standard_normal((rows, k))
            return table

        self.table, self.factor, self.prior = padded(n_table, 0.4), padded(n, size), padded(n, 0.1)
        self.shifts = (0.3 * rng.standard_normal(n_table)).astype(dtype)
        self.own = rng.standard_normal(n).astype(dtype)
        self.sizes = rng.uniform(0.5, 2.0, n).astype(dtype)
        root = rng.standard_normal((k, k))
        self.penalty = np.zeros((width, width), dtype)
        self.penalty[:k, :k] = 2 * np.eye(k) + root @ root.T / k
        self.shift_penalty, self.centre = 0.7, 0.2

    def step(self, start=0, stop=None):
        factor, own = self.factor.copy(), self.own.copy()
        kind = self.dtype
        reach = kind(np.sqrt(np.max(np.sum(self.table**2, axis=1))))
        newton_rows(
            read_only(self.indptr, np.int64), read_only(self.indices, np.int32),
            *binary_and_real(self.targets, kind), read_only(self.weights, kind),
            self.table, self.shifts, reach,
            self.penalty, self.sizes, self.prior, self.k, self.form.code,
            not self.form.bounds_curvature, kind(1), self.has_shift, kind(self.shift_penalty),
            kind(self.centre), factor, own, np.empty(len(factor)),
            *Workspace.of(self.table.shape[1], kind), start, len(factor) if stop is None else stop,
        )  # fmt: skip
        return factor, own

    def row(self, i):
        """Features, offsets, targets, weights, penalty, centre and start of one row's small rows."""
        entries = slice(self.indptr[i], self.indptr[i + 1])
        q = self.table[self.indices[entries], : self.k].astype(float)
        M = np.zeros((self.k + 1, self.k + 1))
        M[:-1, :-1] = self.sizes[i] * self.penalty[: self.k, : self.k].astype(float)
        M[-1, -1] = self.shift_penalty
        centre = np.append(self.prior[i, : self.k], self.centre).astype(float)
        start = np.append(self.factor[i, : self.k], self.own[i] if self.has_shift else 0.0).astype(float)
        features = np.column_stack([q, np.ones(len(q))])
        weights = self.weights[entries].astype(float) if len(self.weights) else np.ones(len(q))
        keep = self.k + self.has_shift
        return (
            features[:, :keep], self.shifts[self.indices[entries]].astype(float),
            self.targets[entries].astype(float), weights, M[:keep, :keep], centre[:keep], start[:keep],
        )  # fmt: skip

    def expected(self, i):
        x, offset, y, weights, M, centre, start = self.row(i)
        if not len(x):
            return np.append(centre[: self.k], start[self.k :])
        loss = self.loss
        z = x @ start + offset
        curvature = np.full(len(z), 2.0) if loss.name == "squared_hinge" else loss.curvature(z, y)
        slope = x.T @ (weights * loss.gradient(z, y)) + M @ (start - centre)
        step = -np.linalg.solve(x.T @ ((weights * curvature)[:, None] * x) + M, slope)
        change = np.abs(x @ step).max()
        safe = self.form.bounds_curvature or change < 1.79
        return start + (1.0 if safe else np.log1p(change) / change) * step

    def value(self, i, at):
        x, offset, y, weights, M, centre, _ = self.row(i)
        away = at - centre
        return np.sum(weights * self.loss.value(x @ at + offset, y)) + 0.5 * away @ M @ away


def parameters(rows, factor, own):
    shift = [own[:, None]] if rows.has_shift else []
    return np.hstack([factor[:, : rows.k], *shift]).astype(float)


@pytest.mark.parametrize("has_shift", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 5, 16, 20, 33])
def test_a_step_solves_each_row_s_newton_system(k, dtype, has_shift):
    rows = Rows(Logistic, k, dtype, has_shift=has_shift, weighted=k == 5)
    factor, own = rows.step()
    expected = np.array([rows.expected(i) for i in range(len(factor))])
    tolerance = 2e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(parameters(rows, factor, own), expected, rtol=tolerance, atol=tolerance)
    assert not factor[:, k:].any()


@pytest.mark.parametrize("kind", COMPILED, ids=lambda kind: kind.__name__)
def test_every_loss_steps_as_it_should_and_never_up(kind):
    # Far from the minimum, where a full step of some of them would overshoot.
    rows = Rows(kind, 6, np.float64, has_shift=True, size=2.0)
    factor, own = rows.step()
    after = parameters(rows, factor, own)
    expected = np.array([rows.expected(i) for i in range(len(factor))])
    np.testing.assert_allclose(after, expected, rtol=1e-9, atol=1e-9)
    for i in range(len(factor)):
        before = rows.row(i)[-1]
        assert rows.value(i, after[i]) <= rows.value(i, before) * (1 + 1e-12)


def test_rows_outside_the_range_stay():
    rows = Rows(Logistic, 5, np.float64, has_shift=True)
    whole, shifts = rows.step()
    part, part_shifts = rows.step(3, 9)
    np.testing.assert_array_equal(part[3:9], whole[3:9])
    np.testing.assert_array_equal(part_shifts[3:9], shifts[3:9])
    np.testing.assert_array_equal(np.delete(part, np.s_[3:9], 0), np.delete(rows.factor, np.s_[3:9], 0))


def test_a_direction_without_curvature_does_not_blow_up():
    rows = Rows(Squared, 5, np.float64, has_shift=False)
    rows.penalty[:] = 0
    rows.table[:, 2] = 0
    factor, _ = rows.step()
    assert np.isfinite(factor).all()


def test_an_unknown_code_is_refused():
    rows = Rows(Logistic, 5, np.float64, has_shift=True)
    rows.form = replace(rows.form, code=99)
    with pytest.raises(ValueError, match="no compiled loss"):
        rows.step()
