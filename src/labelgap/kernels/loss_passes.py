"""One pass over the entries for all that a data term is asked at a point.

From the scores without the intercept come the value, the slope at each entry, and per label the sums of the
positive slopes, of the negative ones and of the curvatures. Entries are met once, a block of them at a time.
:data:`labelgap.kernels.entry_losses.CODES` says which losses are here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from labelgap._types import Floats, Ints
from labelgap.kernels.entry_losses import EXPONENTIAL, GAUSSIAN, LOGISTIC, POISSON, SQUARED, exp_of
from labelgap.kernels.options import OPTIONS
from labelgap.kernels.threads import run_over_rows

# Entries whose losses are computed in one go; their arrays stay in the nearest cache.
_BLOCK = 512
# Entries of a chunk, which is summed by itself: of one size whatever the threads, so that sums are too.
_CHUNK = 1 << 14
# Entries of a chunk for each label, so that the chunks' sums take less room than their entries.
_PER_LABEL = 8
# Multiply-adds that an entry's loss is worth.
_WORK = 32
# Beyond this e^−|z| stays as it is: its square is still an ordinary number, and the next ones would be slow.
_FAR = 350.0
# Where e^z goes on along its tangent, as the losses of numpy have it.
_CAP = math.log(np.finfo(np.float64).max) / 2
# log(1 + x) = 2 artanh(s) with s = x/(2 + x) ≤ 1/3: so many terms of its series in s².
_T1, _T2, _T3, _T4, _T5, _T6, _T7, _T8, _T9, _T10, _T11, _T12, _T13, _T14, _T15 = (
    2.0 / (2 * i + 1) for i in range(1, 16)
)


@njit(**OPTIONS)
def _logistic(z, y, values, slopes, bends, count):  # type: ignore[no-untyped-def]
    # Two loops: in one, the constants of both series would not fit into the registers.
    for e in range(count):
        decay = exp_of(-min(abs(z[e]), _FAR))
        rest = 1.0 / (1.0 + decay)
        tail = decay * rest
        right = z[e] > 0
        side = 1.0 - y[e] if right else -y[e]
        values[e] = decay
        slopes[e] = side - tail if right else side + tail
        bends[e] = tail * rest
    for e in range(count):
        s = values[e] / (2.0 + values[e])
        t = s * s
        high = _T8 + t * (_T9 + t * (_T10 + t * (_T11 + t * (_T12 + t * (_T13 + t * (_T14 + t * _T15))))))
        low = _T1 + t * (_T2 + t * (_T3 + t * (_T4 + t * (_T5 + t * (_T6 + t * (_T7 + t * high))))))
        # max(z, 0) − y z, written so that a score of the right sign loses no digits; y may be a share.
        side = 1.0 - y[e] if z[e] > 0 else -y[e]
        values[e] = side * z[e] + s * (2.0 + t * low)


@njit(**OPTIONS)
def _squared(z, y, values, slopes, bends, count):  # type: ignore[no-untyped-def]
    for e in range(count):
        error = z[e] - (2.0 * y[e] - 1.0)
        values[e] = error * error
        slopes[e] = 2.0 * error
        bends[e] = 2.0


@njit(**OPTIONS)
def _gaussian(z, y, values, slopes, bends, count):  # type: ignore[no-untyped-def]
    for e in range(count):
        error = z[e] - y[e]
        values[e] = 0.5 * error * error
        slopes[e] = error
        bends[e] = 1.0


@njit(**OPTIONS)
def _poisson(z, y, values, slopes, bends, count):  # type: ignore[no-untyped-def]
    for e in range(count):
        mean = exp_of(min(max(z[e], -_FAR), _CAP))
        values[e] = mean * (1.0 + max(z[e] - _CAP, 0.0)) - y[e] * z[e]
        slopes[e] = mean - y[e]
        bends[e] = mean


@njit(**OPTIONS)
def _exponential(z, y, values, slopes, bends, count):  # type: ignore[no-untyped-def]
    for e in range(count):
        sign = 2.0 * y[e] - 1.0
        exponent = -sign * z[e]
        power = exp_of(min(max(exponent, -_FAR), _CAP))
        values[e] = power * (1.0 + max(exponent - _CAP, 0.0))
        slopes[e] = -sign * power
        bends[e] = power


@njit(**OPTIONS)
def _squared_hinge(z, y, values, slopes, bends, count):  # type: ignore[no-untyped-def]
    for e in range(count):
        sign = 2.0 * y[e] - 1.0
        short = 1.0 - sign * z[e]
        left = max(short, 0.0)
        values[e] = left * left
        slopes[e] = -2.0 * sign * left
        bends[e] = 2.0 if short >= 0.0 else 0.0


@njit(**OPTIONS)
def _losses(code, z, y, values, slopes, bends, count):  # type: ignore[no-untyped-def]
    if code == LOGISTIC:
        _logistic(z, y, values, slopes, bends, count)
    elif code == SQUARED:
        _squared(z, y, values, slopes, bends, count)
    elif code == GAUSSIAN:
        _gaussian(z, y, values, slopes, bends, count)
    elif code == POISSON:
        _poisson(z, y, values, slopes, bends, count)
    elif code == EXPONENTIAL:
        _exponential(z, y, values, slopes, bends, count)
    else:
        _squared_hinge(z, y, values, slopes, bends, count)


@njit(**OPTIONS)
def _gather(low_rank, intercept, indices, offsets, answers, z, y):  # type: ignore[no-untyped-def]
    """The scores and answers of a block; an intercept or offsets of length 0 are none."""
    count = len(low_rank)
    for e in range(count):
        z[e] = low_rank[e]
    if len(intercept):
        for e in range(count):
            z[e] += intercept[indices[e]]
    if len(offsets):
        for e in range(count):
            z[e] += offsets[e]
    for e in range(count):
        y[e] = answers[e]


@njit(**OPTIONS)
def _times(numbers, shares, share):  # type: ignore[no-untyped-def]
    """Multiply by the entries' shares, or where there are none by the one share."""
    if len(shares):
        for e in range(len(numbers)):
            numbers[e] *= shares[e]
    else:
        for e in range(len(numbers)):
            numbers[e] *= share


@njit(**OPTIONS)
def _add_by_label(indices, slopes, bends, sums):  # type: ignore[no-untyped-def]
    for e in range(len(indices)):
        row = sums[indices[e]]
        row[0] += max(slopes[e], 0.0)
        row[1] += min(slopes[e], 0.0)
        row[2] += bends[e]


@njit(**OPTIONS)
def _pass(  # type: ignore[no-untyped-def]
    code,
    cuts,
    low_rank,
    intercept,
    indices,
    offsets,
    answers,
    shares,
    share,
    gradient,
    values,
    sums,
    start,
    stop,
):
    z, y = np.empty(_BLOCK), np.empty(_BLOCK)
    value, bend = np.empty(_BLOCK), np.empty(_BLOCK)
    for c in range(start, stop):
        total = 0.0
        for first in range(cuts[c], cuts[c + 1], _BLOCK):
            last = min(first + _BLOCK, cuts[c + 1])
            count = last - first
            # A block's own arrays, counted from 0: only those loops become vector instructions.
            labels, slope, some = indices[first:last], gradient[first:last], shares[first:last]
            _gather(low_rank[first:last], intercept, labels, offsets[first:last], answers[first:last], z, y)
            _losses(code, z, y, value, slope, bend, count)
            _times(value[:count], some, share)
            _times(slope, some, share)
            part = 0.0
            for e in range(count):
                part += value[e]
            total += part
            if sums.shape[1]:
                _times(bend[:count], some, share)
                _add_by_label(labels, slope, bend, sums[c])
        values[c] = total


@njit(**OPTIONS)
def _bends(  # type: ignore[no-untyped-def]
    code, cuts, low_rank, intercept, indices, offsets, answers, shares, share, out, start, stop
):
    z, y = np.empty(_BLOCK), np.empty(_BLOCK)
    value, slope = np.empty(_BLOCK), np.empty(_BLOCK)
    for first in range(cuts[start], cuts[stop], _BLOCK):
        last = min(first + _BLOCK, cuts[stop])
        _gather(
            low_rank[first:last],
            intercept,
            indices[first:last],
            offsets[first:last],
            answers[first:last],
            z,
            y,
        )
        _losses(code, z, y, value, slope, out[first:last], last - first)
        _times(out[first:last], shares[first:last], share)


class LossPasses:
    """``Σ ω_e ℓ(z_e + b_j + o_e, y_e)`` over fixed entries, as a function of the scores z and intercepts b.

    Parameters
    ----------
    code : int
        Which loss.
    indices : array of int
        The label j of each entry.
    n_labels : int
        How many labels there are.
    answers : array
        y.
    shares : array or float
        ω, one for each entry or one for all.
    offsets : array or None
        o.
    constant : float, default 0
        What is added to the value.
    """

    def __init__(
        self,
        code: int,
        indices: Ints,
        n_labels: int,
        answers: Any,
        shares: Floats | float,
        offsets: Floats | None,
        constant: float = 0.0,
    ) -> None:
        none = np.empty(0)
        per_entry = isinstance(shares, np.ndarray)
        self._n_labels = n_labels
        chunk = max(_CHUNK, _PER_LABEL * n_labels)
        self._cuts = np.append(np.arange(0, len(indices), chunk), len(indices)).astype(np.int64)
        self._entries = (
            np.ascontiguousarray(indices),
            none if offsets is None else np.ascontiguousarray(offsets, dtype=np.float64),
            np.ascontiguousarray(answers),
            np.ascontiguousarray(shares, dtype=np.float64) if per_entry else none,
            1.0 if per_entry else float(shares),
        )
        self._code, self._constant = code, constant

    def _run(self, kernel: Any, low_rank: Floats, intercept: Floats | None, *out: Floats) -> None:
        b = np.empty(0) if intercept is None else np.ascontiguousarray(intercept)
        args = (self._code, self._cuts, np.ascontiguousarray(low_rank), b, *self._entries, *out)
        run_over_rows(kernel, self._cuts, _WORK, *args)

    def value_and_gradient(self, low_rank: Floats, intercept: Floats | None) -> tuple[float, Floats]:
        """The value, and the slope at each entry."""
        value, gradient, _ = self._pass(low_rank, intercept, 0)
        return value, gradient

    def with_label_sums(self, low_rank: Floats, intercept: Floats) -> tuple[float, Floats, Floats]:
        """The same, and per label (3 x L) the sums of positive slopes, negative slopes and curvatures."""
        value, gradient, sums = self._pass(low_rank, intercept, self._n_labels)
        return value, gradient, sums.sum(axis=0).T[:3]

    def _pass(
        self, low_rank: Floats, intercept: Floats | None, n_summed: int
    ) -> tuple[float, Floats, Floats]:
        chunks = len(self._cuts) - 1
        gradient, values = np.empty(len(low_rank)), np.empty(chunks)
        # A fourth number makes a label's sums half a line of the cache.
        sums = np.zeros((chunks, n_summed, 4))
        self._run(_pass, low_rank, intercept, gradient, values, sums)
        return float(values.sum()) + self._constant, gradient, sums

    def curvature(self, low_rank: Floats, intercept: Floats | None) -> Floats:
        """The curvature at each entry."""
        out = np.empty(len(low_rank))
        self._run(_bends, low_rank, intercept, out)
        return out
