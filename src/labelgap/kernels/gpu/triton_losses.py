"""Losses inside Triton's kernels: value, slope and curvature of a block of entries.

They are those of :mod:`labelgap.kernels.gpu.losses`, without what depends on the targets alone.
"""

from __future__ import annotations

import triton
import triton.language as tl

from labelgap.kernels.losses import EXPONENTIAL, GAUSSIAN, LOGISTIC, POISSON, SQUARED, SQUARED_HINGE

# What kernels may know of the world outside is marked as constant.
_LOGISTIC = tl.constexpr(LOGISTIC)
_SQUARED = tl.constexpr(SQUARED)
_GAUSSIAN = tl.constexpr(GAUSSIAN)
_POISSON = tl.constexpr(POISSON)
_EXPONENTIAL = tl.constexpr(EXPONENTIAL)
_SQUARED_HINGE = tl.constexpr(SQUARED_HINGE)
# Half the logarithm of the largest number of each type: from there exponentials go on along their tangent.
_CAP_SINGLE = tl.constexpr(44.3614195558365)
_CAP_DOUBLE = tl.constexpr(354.89135644669205)
# Terms of log(1 + x) = 2 artanh(s), s = x/(2 + x) ≤ 1/3, for digits that log(1 + x) itself would lose.
_TERMS_SINGLE = tl.constexpr(8)
_TERMS_DOUBLE = tl.constexpr(16)


@triton.jit
def log1p(x, double: tl.constexpr):
    """log(1 + x) for 0 ≤ x ≤ 1, by its series."""
    s = x / (2.0 + x)
    t = s * s
    total = tl.zeros_like(x)
    terms: tl.constexpr = _TERMS_DOUBLE if double else _TERMS_SINGLE
    for i in tl.static_range(terms - 1, 0, -1):
        total = t * (2.0 / (2 * i + 1) + total)
    return s * (2.0 + total)


@triton.jit
def capped_exponential(x, double: tl.constexpr):
    """e^min(x, c), and by how much x exceeds c."""
    cap: tl.constexpr = _CAP_DOUBLE if double else _CAP_SINGLE
    return tl.exp(tl.minimum(x, cap)), tl.maximum(x - cap, 0.0)


@triton.jit
def derivatives(z, y, code: tl.constexpr, double: tl.constexpr):
    """Value, slope and curvature; y in the type of z."""
    if code == _LOGISTIC:
        decay = tl.exp(-tl.abs(z))
        rest = 1.0 / (1.0 + decay)
        tail = decay * rest
        right = z > 0
        side = tl.where(right, 1.0 - y, -y)
        value = side * z + log1p(decay, double)
        slope = side + tl.where(right, -tail, tail)
        curvature = tail * rest
    elif code == _SQUARED:
        error = z - (2.0 * y - 1.0)
        value = error * error
        slope = 2.0 * error
        curvature = tl.zeros_like(z) + 2.0
    elif code == _GAUSSIAN:
        error = z - y
        value = 0.5 * error * error
        slope = error
        curvature = tl.zeros_like(z) + 1.0
    elif code == _POISSON:
        power, excess = capped_exponential(z, double)
        value = power * (1.0 + excess) - y * z
        slope = power - y
        curvature = power
    elif code == _EXPONENTIAL:
        sign = 2.0 * y - 1.0
        power, excess = capped_exponential(-sign * z, double)
        value = power * (1.0 + excess)
        slope = -sign * power
        curvature = power
    else:
        tl.static_assert(code == _SQUARED_HINGE, "there is no loss of that code")
        sign = 2.0 * y - 1.0
        short = 1.0 - sign * z
        left = tl.maximum(short, 0.0)
        value = left * left
        slope = -2.0 * sign * left
        curvature = tl.where(short >= 0, 2.0, 0.0).to(z.dtype)
    return value, slope, curvature
