"""Losses in compiled form, a few entries at a time, and the one table that says which losses have one.

A loss without a compiled form is left to the slower ways; that is all that its author has to know. To give it
one, write its two functions here (derivatives in either precision for Newton steps row by row; value and
derivatives in double precision for passes over all entries), a code with a branch in :func:`derivatives` and
:func:`losses`, and a line in :data:`COMPILED`. The registry-wide tests check every line of the table. The
conjugate of the logistic loss is here too, which every certificate of yes/no labels needs; those of other
losses are left to numpy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from labelgap.kernels.options import INLINED, OPTIONS, compiled
from labelgap.losses import Bernoulli, Exponential, Gaussian, Logistic, Poisson, Squared, SquaredHinge

LOGISTIC, SQUARED, GAUSSIAN, POISSON, EXPONENTIAL, SQUARED_HINGE = range(6)


@dataclass(frozen=True)
class CompiledLoss:
    """How compiled code knows a loss."""

    code: int
    bounds_curvature: bool = False
    """Whether the curvature given here is nowhere too small: then a full Newton step cannot overshoot."""
    value_at_zero: float | None = None
    """The compiled value at a score of 0, for a loss whose compiled form leaves out what depends on the
    values of the labels alone; None where nothing is left out."""


COMPILED: dict[type, CompiledLoss] = {
    Logistic: CompiledLoss(LOGISTIC),
    Bernoulli: CompiledLoss(LOGISTIC, value_at_zero=math.log(2.0)),
    Squared: CompiledLoss(SQUARED, bounds_curvature=True),
    Gaussian: CompiledLoss(GAUSSIAN, bounds_curvature=True),
    Poisson: CompiledLoss(POISSON, value_at_zero=1.0),
    Exponential: CompiledLoss(EXPONENTIAL),
    SquaredHinge: CompiledLoss(SQUARED_HINGE, bounds_curvature=True),
}
"""Every loss that has a compiled form, by its class: a loss of somebody else's may have any name."""


def compiled_loss(loss: Any) -> CompiledLoss | None:
    """The compiled form of a loss; None for one that has none."""
    return COMPILED.get(type(loss))


_LOG2, _ROOT2 = math.log(2.0), math.sqrt(2.0)
_TINY = float(np.finfo(np.float64).tiny)
# How far outside of [0, 1] a probability may be by rounding, as the losses of numpy have it.
_OUTSIDE = 8 * float(np.finfo(np.float64).eps)
# (e^x − 1 − x)/x² on |x| ≤ log(2)/2: its Taylor coefficients for single precision, and for double precision
# those of the polynomial through its Chebyshev points, which needs fewer. That one is within 2e-17 of e^x.
_EXP_SINGLE = tuple(1 / math.factorial(i) for i in range(2, 7))
_EXP_DOUBLE = (
    0.5000000000000001, 0.16666666666666669, 0.041666666666623824, 0.008333333333330039,
    0.0013888888917367081, 0.00019841269863171557, 2.4801521057868204e-05, 2.7557268276905696e-06,
    2.7620201591031547e-07, 2.5100472505694996e-08,
)  # fmt: skip
# For derivatives alone: scores beyond which e^−|z| counts as 0, and beyond which e^z continues as a constant.
# Both are within the range of both types.
_FAR, _CAP = 80.0, 40.0


# Added to a number that is not large, these leave its nearest whole number in the last digits. Not every
# processor has vector instructions that round, or that make whole numbers of floating-point ones.
_SHIFT_SINGLE, _SHIFT_DOUBLE = 1.5 * 2.0**23, 1.5 * 2.0**52


@intrinsic
def _last_digits(typingctx, shifted):  # type: ignore[no-untyped-def]
    """The whole number that the last digits hold.

    By its bits: if the shift were taken away again as a number, the compiler would reassociate the two sums.
    """
    single = shifted == types.float32

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        if single:
            first = int(np.float32(_SHIFT_SINGLE).view(np.int32))
            whole = builder.sub(builder.bitcast(args[0], ir.IntType(32)), ir.Constant(ir.IntType(32), first))
        else:
            whole = builder.trunc(builder.bitcast(args[0], ir.IntType(64)), ir.IntType(32))
        return builder.sitofp(whole, args[0].type)

    return shifted(shifted), generate


@intrinsic
def _power_of_two(typingctx, shifted):  # type: ignore[no-untyped-def]
    """2 to the whole power that the last digits hold: the exponent put into its place."""
    bits, bias, shift = (32, 127, 23) if shifted == types.float32 else (64, 1023, 52)

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        integer = ir.IntType(bits)
        raised = builder.add(builder.bitcast(args[0], integer), ir.Constant(integer, bias))
        return builder.bitcast(builder.shl(raised, ir.Constant(integer, shift)), args[0].type)

    return shifted(shifted), generate


def exp_of(x: Any) -> Any:
    """e^x within a few roundings, for x that neither overflows nor underflows the type."""
    raise NotImplementedError("for compiled code")


def _make_exp(dtype: Any) -> Any:
    scale, one = dtype(1 / _LOG2), dtype(1)
    shift = dtype(_SHIFT_SINGLE if dtype is np.float32 else _SHIFT_DOUBLE)
    # log 2 in two parts, so that the reduced argument keeps its digits.
    high = dtype(np.float32(_LOG2)) if dtype is np.float64 else dtype(0.693359375)
    low = dtype(_LOG2 - float(high))
    if dtype is np.float32:
        c2, c3, c4, c5, c6 = (dtype(c) for c in _EXP_SINGLE)

        def single(x):  # type: ignore[no-untyped-def]
            shifted = x * scale + shift
            n = _last_digits(shifted)
            r = (x - n * high) - n * low
            p = one + r * (one + r * (c2 + r * (c3 + r * (c4 + r * (c5 + r * c6)))))
            return p * _power_of_two(shifted)

        return single
    d2, d3, d4, d5, d6, d7, d8, d9, d10, d11 = _EXP_DOUBLE

    def double(x):  # type: ignore[no-untyped-def]
        shifted = x * scale + shift
        n = _last_digits(shifted)
        r = (x - n * high) - n * low
        # Pairs of terms rather than one after the other: they need not wait for each other.
        square = r * r
        fourth = square * square
        first = (d2 + r * d3) + square * (d4 + r * d5)
        second = (d6 + r * d7) + square * (d8 + r * d9)
        p = (one + r) + square * (first + fourth * (second + fourth * (d10 + r * d11)))
        return p * _power_of_two(shifted)

    return double


@overload(exp_of, jit_options={"fastmath": OPTIONS["fastmath"]}, inline="always")
def _exp_of_type(x):  # type: ignore[no-untyped-def]
    return _make_exp(np.float32 if x == types.float32 else np.float64)


# Beyond this e^−|z| stays as it is: its square is still an ordinary number, and smaller ones may be slow.
_FAR_IN_DOUBLE = 350.0
# Where e^z goes on along its tangent, as the losses of numpy have it.
_CAP_IN_DOUBLE = math.log(np.finfo(np.float64).max) / 2
# log(1 + x) = 2 artanh(s) = 2s + s t g(t) with s = x/(2 + x) and t = s² ≤ 1/9: g by the polynomial through
# its Chebyshev points, which is within 1e-17 of the logarithm.
_G0, _G1, _G2, _G3, _G4, _G5, _G6, _G7, _G8, _G9 = (
    0.6666666666666666, 0.40000000000014585, 0.2857142856710876, 0.22222222717427864, 0.18181789436132859,
    0.15385570064958623, 0.13314144209654935, 0.12001072809590713, 0.08800738486144674, 0.1616404561194353,
)  # fmt: skip


# The bits of a double below its exponent, and those of 1.
_FRACTION_BITS, _ONE_BITS = (1 << 52) - 1, 1023 << 52


@intrinsic
def _parts_of(typingctx, x):  # type: ignore[no-untyped-def]
    """The exponent of a positive double, as a double, and what it multiplies, in [1, 2)."""

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        integer, narrow = ir.IntType(64), ir.IntType(32)
        bits = builder.bitcast(args[0], integer)
        raised = builder.trunc(builder.lshr(bits, ir.Constant(integer, 52)), narrow)
        exponent = builder.sitofp(builder.sub(raised, ir.Constant(narrow, 1023)), args[0].type)
        within = builder.and_(bits, ir.Constant(integer, _FRACTION_BITS))
        fraction = builder.bitcast(builder.or_(within, ir.Constant(integer, _ONE_BITS)), args[0].type)
        return context.make_tuple(builder, signature.return_type, [exponent, fraction])

    return types.UniTuple(types.float64, 2)(types.float64), generate


@compiled(inline="always", fastmath=OPTIONS["fastmath"], error_model="numpy")
def _log_of(x):  # type: ignore[no-untyped-def]
    """log x within a few roundings, for an ordinary positive number."""
    exponent, fraction = _parts_of(x)
    # In [1/√2, √2], where the logarithm is small and keeps its digits.
    upper = fraction > _ROOT2
    exponent = exponent + (1.0 if upper else 0.0)
    fraction = fraction * (0.5 if upper else 1.0)
    s = (fraction - 1.0) / (fraction + 1.0)
    t = s * s
    square = t * t
    # |s| ≤ 0.18 here, so that the last terms of the series do not count.
    last = (_G4 + t * _G5) + square * (_G6 + t * _G7)
    series = (_G0 + t * _G1) + square * ((_G2 + t * _G3) + square * last)
    return exponent * _LOG2 + s * (2.0 + t * series)


@compiled(**INLINED)
def logistic_conjugates(slopes, y, scale, out, count):  # type: ignore[no-untyped-def]
    """``p log p + (1 − p) log(1 − p)`` with p the ``scale`` times slope towards the wrong answer, y 0 or 1.

    Infinite where p is outside of [0, 1] by more than rounding.
    """
    for e in range(count):
        slope = scale * slopes[e]
        raw = -slope if y[e] == 1 else slope
        p = min(max(raw, 0.0), 1.0)
        rest = 1.0 - p
        entropy = p * _log_of(max(p, _TINY)) + rest * _log_of(max(rest, _TINY))
        out[e] = entropy if abs(raw - p) <= _OUTSIDE else np.inf


@compiled(**INLINED)
def _logistic_derivatives(z, y, slopes, curvatures, count):  # type: ignore[no-untyped-def]
    one, far = z.dtype.type(1), z.dtype.type(_FAR)
    for e in range(count):
        decay = exp_of(-min(abs(z[e]), far))
        rest = one / (one + decay)
        probability = rest if z[e] >= 0 else decay * rest
        slopes[e] = probability - y[e]
        curvatures[e] = decay * rest * rest


@compiled(**INLINED)
def _squared_derivatives(z, y, slopes, curvatures, count):  # type: ignore[no-untyped-def]
    one, two = z.dtype.type(1), z.dtype.type(2)
    for e in range(count):
        slopes[e] = two * (z[e] - (two * y[e] - one))
        curvatures[e] = two


@compiled(**INLINED)
def _gaussian_derivatives(z, y, slopes, curvatures, count):  # type: ignore[no-untyped-def]
    for e in range(count):
        slopes[e] = z[e] - y[e]
        curvatures[e] = z.dtype.type(1)


@compiled(**INLINED)
def _poisson_derivatives(z, y, slopes, curvatures, count):  # type: ignore[no-untyped-def]
    low, high = z.dtype.type(-_FAR), z.dtype.type(_CAP)
    for e in range(count):
        mean = exp_of(min(max(z[e], low), high))
        slopes[e] = mean - y[e]
        curvatures[e] = mean


@compiled(**INLINED)
def _exponential_derivatives(z, y, slopes, curvatures, count):  # type: ignore[no-untyped-def]
    one, two, low, high = z.dtype.type(1), z.dtype.type(2), z.dtype.type(-_FAR), z.dtype.type(_CAP)
    for e in range(count):
        sign = two * y[e] - one
        power = exp_of(min(max(-sign * z[e], low), high))
        slopes[e] = -sign * power
        curvatures[e] = power


@compiled(**INLINED)
def _squared_hinge_derivatives(z, y, slopes, curvatures, count):  # type: ignore[no-untyped-def]
    zero, one, two = z.dtype.type(0), z.dtype.type(1), z.dtype.type(2)
    for e in range(count):
        sign = two * y[e] - one
        slopes[e] = -two * sign * max(one - sign * z[e], zero)
        # 2 on both sides of the kink: what bounds the loss from above.
        curvatures[e] = two


@compiled(**INLINED)
def derivatives(code, z, y, slopes, curvatures, count):  # type: ignore[no-untyped-def]
    """ℓ' and ℓ'' at the first ``count`` entries, z and y of one floating-point type."""
    if code == LOGISTIC:
        _logistic_derivatives(z, y, slopes, curvatures, count)
    elif code == SQUARED:
        _squared_derivatives(z, y, slopes, curvatures, count)
    elif code == GAUSSIAN:
        _gaussian_derivatives(z, y, slopes, curvatures, count)
    elif code == POISSON:
        _poisson_derivatives(z, y, slopes, curvatures, count)
    elif code == EXPONENTIAL:
        _exponential_derivatives(z, y, slopes, curvatures, count)
    elif code == SQUARED_HINGE:
        _squared_hinge_derivatives(z, y, slopes, curvatures, count)
    else:
        raise ValueError("There is no compiled loss of that code.")


@compiled(**INLINED)
def logistic_losses(z, y, values, slopes, curvatures, count):  # type: ignore[no-untyped-def]
    """Those of the logistic loss, as :func:`losses` has them."""
    # Two loops: in one, the constants of both series would not fit into the registers.
    for e in range(count):
        decay = exp_of(-min(abs(z[e]), _FAR_IN_DOUBLE))
        # 1/(1 + decay) and decay/(2 + decay) by one division, which costs as much as ten products.
        one, two = 1.0 + decay, 2.0 + decay
        inverse = 1.0 / (one * two)
        rest = two * inverse
        tail = decay * rest
        right = z[e] > 0
        side = 1.0 - y[e] if right else -y[e]
        values[e] = decay * one * inverse
        slopes[e] = side - tail if right else side + tail
        curvatures[e] = tail * rest
    for e in range(count):
        s = values[e]
        t = s * s
        square = t * t
        fourth = square * square
        first = (_G0 + t * _G1) + square * (_G2 + t * _G3)
        second = (_G4 + t * _G5) + square * (_G6 + t * _G7)
        series = first + fourth * (second + fourth * (_G8 + t * _G9))
        # max(z, 0) − y z, written so that a score of the right sign loses no digits; y may be a fraction.
        side = 1.0 - y[e] if z[e] > 0 else -y[e]
        values[e] = side * z[e] + s * (2.0 + t * series)


@compiled(**INLINED)
def _squared_losses(z, y, values, slopes, curvatures, count):  # type: ignore[no-untyped-def]
    for e in range(count):
        error = z[e] - (2.0 * y[e] - 1.0)
        values[e] = error * error
        slopes[e] = 2.0 * error
        curvatures[e] = 2.0


@compiled(**INLINED)
def _gaussian_losses(z, y, values, slopes, curvatures, count):  # type: ignore[no-untyped-def]
    for e in range(count):
        error = z[e] - y[e]
        values[e] = 0.5 * error * error
        slopes[e] = error
        curvatures[e] = 1.0


@compiled(**INLINED)
def _poisson_losses(z, y, values, slopes, curvatures, count):  # type: ignore[no-untyped-def]
    for e in range(count):
        mean = exp_of(min(max(z[e], -_FAR_IN_DOUBLE), _CAP_IN_DOUBLE))
        values[e] = mean * (1.0 + max(z[e] - _CAP_IN_DOUBLE, 0.0)) - y[e] * z[e]
        slopes[e] = mean - y[e]
        curvatures[e] = mean


@compiled(**INLINED)
def _exponential_losses(z, y, values, slopes, curvatures, count):  # type: ignore[no-untyped-def]
    for e in range(count):
        sign = 2.0 * y[e] - 1.0
        exponent = -sign * z[e]
        power = exp_of(min(max(exponent, -_FAR_IN_DOUBLE), _CAP_IN_DOUBLE))
        values[e] = power * (1.0 + max(exponent - _CAP_IN_DOUBLE, 0.0))
        slopes[e] = -sign * power
        curvatures[e] = power


@compiled(**INLINED)
def _squared_hinge_losses(z, y, values, slopes, curvatures, count):  # type: ignore[no-untyped-def]
    for e in range(count):
        sign = 2.0 * y[e] - 1.0
        short = 1.0 - sign * z[e]
        left = max(short, 0.0)
        values[e] = left * left
        slopes[e] = -2.0 * sign * left
        curvatures[e] = 2.0 if short >= 0.0 else 0.0


@compiled(**INLINED)
def losses(code, z, y, values, slopes, curvatures, count):  # type: ignore[no-untyped-def]
    """ℓ, ℓ' and ℓ'' at the first ``count`` entries, in double precision."""
    if code == LOGISTIC:
        logistic_losses(z, y, values, slopes, curvatures, count)
    elif code == SQUARED:
        _squared_losses(z, y, values, slopes, curvatures, count)
    elif code == GAUSSIAN:
        _gaussian_losses(z, y, values, slopes, curvatures, count)
    elif code == POISSON:
        _poisson_losses(z, y, values, slopes, curvatures, count)
    elif code == EXPONENTIAL:
        _exponential_losses(z, y, values, slopes, curvatures, count)
    elif code == SQUARED_HINGE:
        _squared_hinge_losses(z, y, values, slopes, curvatures, count)
    else:
        raise ValueError("There is no compiled loss of that code.")
