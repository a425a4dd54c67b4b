"""Losses of a few entries at a time, for kernels that meet each entry once.

Only derivatives matter to a Newton step. :data:`CODES` says which losses are here, by name; others are left
to the slower ways.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, overload

from labelgap.kernels.options import OPTIONS

CODES = {
    "logistic": 0,
    "bernoulli": 0,
    "squared": 1,
    "gaussian": 2,
    "poisson": 3,
    "exponential": 4,
    "squared_hinge": 5,
}
"""The number of each loss, by its name."""
LOGISTIC, SQUARED, GAUSSIAN, POISSON, EXPONENTIAL = 0, 1, 2, 3, 4

QUADRATIC = (1, 2, 5)
"""Losses whose curvature, as given here, is nowhere too small: a full Newton step cannot overshoot."""

# Taylor coefficients of e^x, as many as the type has digits for on |x| ≤ log(2)/2.
_SINGLE_TERMS, _DOUBLE_TERMS = 7, 13
_LOG2 = math.log(2.0)
# Scores beyond which e^−|z| is 0 for our purposes, and beyond which e^z goes on as a constant: within both
# types' range.
_FAR, _CAP = 80.0, 40.0


@intrinsic
def _power_of_two(typingctx, exponent, like):  # type: ignore[no-untyped-def]
    """2 to a whole power, in the type of ``like``: the exponent put into its place."""
    single = like == types.float32
    number, whole = (types.float32, types.int32) if single else (types.float64, types.int64)
    bits, bias, shift = (32, 127, 23) if single else (64, 1023, 52)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        integer = ir.IntType(bits)
        raised = builder.add(args[0], ir.Constant(integer, bias))
        placed = builder.shl(raised, ir.Constant(integer, shift))
        return builder.bitcast(placed, ir.FloatType() if single else ir.DoubleType())

    return number(whole, number), generate


def exp_of(x: Any) -> Any:
    """e^x within a few roundings, for x that neither overflows nor underflows the type."""
    raise NotImplementedError("for compiled code")


def _make_exp(dtype: Any, terms: int) -> Any:
    scale, half, one = dtype(1 / _LOG2), dtype(0.5), dtype(1)
    # log 2 in two parts, so that the reduced argument keeps its digits.
    high = dtype(np.float32(_LOG2)) if dtype is np.float64 else dtype(0.693359375)
    low = dtype(_LOG2 - float(high))
    inverse = tuple(dtype(1 / math.factorial(i)) for i in range(terms))

    if dtype is np.float32:
        c2, c3, c4, c5, c6 = inverse[2:7]

        def single(x):  # type: ignore[no-untyped-def]
            n = np.int32(np.floor(x * scale + half))
            r = (x - dtype(n) * high) - dtype(n) * low
            p = one + r * (one + r * (c2 + r * (c3 + r * (c4 + r * (c5 + r * c6)))))
            return p * _power_of_two(n, x)

        return single
    d2, d3, d4, d5, d6, d7, d8, d9, d10, d11, d12 = inverse[2:13]

    def double(x):  # type: ignore[no-untyped-def]
        n = np.int64(np.floor(x * scale + half))
        r = (x - dtype(n) * high) - dtype(n) * low
        tail = d7 + r * (d8 + r * (d9 + r * (d10 + r * (d11 + r * d12))))
        p = one + r * (one + r * (d2 + r * (d3 + r * (d4 + r * (d5 + r * (d6 + r * tail))))))
        return p * _power_of_two(n, x)

    return double


@overload(exp_of, jit_options={"fastmath": OPTIONS["fastmath"]}, inline="always")
def _exp_of_type(x):  # type: ignore[no-untyped-def]
    if x == types.float32:
        return _make_exp(np.float32, _SINGLE_TERMS)
    return _make_exp(np.float64, _DOUBLE_TERMS)


@njit(**OPTIONS)
def _logistic(z, y, slopes, bends, count):  # type: ignore[no-untyped-def]
    one, far = z.dtype.type(1), z.dtype.type(_FAR)
    for e in range(count):
        decay = exp_of(-min(abs(z[e]), far))
        rest = one / (one + decay)
        probability = rest if z[e] >= 0 else decay * rest
        slopes[e] = probability - y[e]
        bends[e] = decay * rest * rest


@njit(**OPTIONS)
def _squared(z, y, slopes, bends, count):  # type: ignore[no-untyped-def]
    one, two = z.dtype.type(1), z.dtype.type(2)
    for e in range(count):
        slopes[e] = two * (z[e] - (two * y[e] - one))
        bends[e] = two


@njit(**OPTIONS)
def _gaussian(z, y, slopes, bends, count):  # type: ignore[no-untyped-def]
    for e in range(count):
        slopes[e] = z[e] - y[e]
        bends[e] = z.dtype.type(1)


@njit(**OPTIONS)
def _poisson(z, y, slopes, bends, count):  # type: ignore[no-untyped-def]
    low, high = z.dtype.type(-_FAR), z.dtype.type(_CAP)
    for e in range(count):
        mean = exp_of(min(max(z[e], low), high))
        slopes[e] = mean - y[e]
        bends[e] = mean


@njit(**OPTIONS)
def _exponential(z, y, slopes, bends, count):  # type: ignore[no-untyped-def]
    one, two, low, high = z.dtype.type(1), z.dtype.type(2), z.dtype.type(-_FAR), z.dtype.type(_CAP)
    for e in range(count):
        sign = two * y[e] - one
        power = exp_of(min(max(-sign * z[e], low), high))
        slopes[e] = -sign * power
        bends[e] = power


@njit(**OPTIONS)
def _squared_hinge(z, y, slopes, bends, count):  # type: ignore[no-untyped-def]
    zero, one, two = z.dtype.type(0), z.dtype.type(1), z.dtype.type(2)
    for e in range(count):
        sign = two * y[e] - one
        slopes[e] = -two * sign * max(one - sign * z[e], zero)
        # 2 on both sides of the kink: what bounds the loss from above.
        bends[e] = two


@njit(**OPTIONS)
def derivatives(code, z, y, slopes, bends, count):  # type: ignore[no-untyped-def]
    """ℓ' and ℓ'' at the first ``count`` entries, z and y of one floating-point type."""
    if code == LOGISTIC:
        _logistic(z, y, slopes, bends, count)
    elif code == SQUARED:
        _squared(z, y, slopes, bends, count)
    elif code == GAUSSIAN:
        _gaussian(z, y, slopes, bends, count)
    elif code == POISSON:
        _poisson(z, y, slopes, bends, count)
    elif code == EXPONENTIAL:
        _exponential(z, y, slopes, bends, count)
    else:
        _squared_hinge(z, y, slopes, bends, count)
