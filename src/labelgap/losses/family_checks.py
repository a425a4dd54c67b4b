"""What the functions of a custom family must satisfy, and how they behave far out."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelgap._types import Floats
from labelgap.exceptions import InvalidParameterError
from labelgap.losses.inversion import Function

# Spaced so that no inner point is a round number, where a piecewise G would have its kinks.
_PROBES = np.linspace(-8, 8, 42)
_SPAN = 1e-4
_EPS = float(np.finfo(np.float64).eps)
# How far out a range of means is followed, in powers of two.
_FAR = 60


def check_functions(G: Function, mean: Function, variance: Function) -> None:
    """Raise unless mean is the slope of G, variance that of mean, and variance ≥ 0, at the probes."""
    values = {"G": _probe("G", G), "mean": _probe("mean", mean), "variance": _probe("variance", variance)}
    size = np.abs(values["mean"]) + np.abs(values["variance"])
    _check_slope("G", G, "mean", values["mean"], size)
    _check_slope("mean", mean, "variance", values["variance"], size)
    negative = values["variance"] < 0
    if negative.any():
        raise InvalidParameterError(
            "variance must not be negative, for G must be convex, but at z = "
            f"{_PROBES[negative][0]:.4g} it is {values['variance'][negative][0]:.4g}."
        )


def check_range(mean: Function, low: float, high: float) -> None:
    """Raise unless the means lie between low and high and come near to both."""
    if not low < high:
        raise InvalidParameterError(f"low must be less than high, but they are {low} and {high}.")
    means = _probe("mean", mean)
    outside = ~((means >= low) & (means <= high))
    if outside.any():
        raise InvalidParameterError(
            f"low and high must enclose every mean, but at z = {_PROBES[outside][0]:.4g} the mean is "
            f"{means[outside][0]:.6g}, outside [{low:g}, {high:g}]."
        )
    for end, name, side in ((low, "low", -1.0), (high, "high", 1.0)):
        far = _far_values(mean, side)
        last, before = far[-1], far[len(far) // 2]
        slack = 1e-6 * (1 + abs(last))
        if np.isinf(end) and abs(last - before) <= slack:
            raise InvalidParameterError(
                f"mean levels off at {last:.6g} as z goes to {side * np.inf}: give {name}={last:.6g}, or "
                "whatever the exact end of its range is."
            )
        if np.isfinite(end) and abs(last - end) > slack:
            raise InvalidParameterError(
                f"{name} must be the end of the range of mean, but as z goes to {side * np.inf} the mean "
                f"goes to {last:.6g}, not to {end:g}."
            )


def check_inverses(
    G: Function,
    mean: Function,
    variance: Function,
    link: Function | None,
    conjugate: Function | None,
    low: float,
    high: float,
) -> None:
    """Raise unless a link that was given inverts mean, and a conjugate is ``m z − G(z)``, at the probes."""
    z, m, v = _PROBES, _probe("mean", mean), _probe("variance", variance)
    inside = (m > low) & (m < high) & (v > 0)
    z, m, v = z[inside], m[inside], v[inside]
    if link is not None:
        # A rounding error of a mean is a large one of z where the mean hardly changes.
        slack = 1e-6 * (1 + np.abs(z)) + 16 * _EPS * np.abs(m) / v
        _check_equal("link", "mean", m, _evaluate("link", "mean", link, m), z, slack)
    if conjugate is not None:
        cumulant = _evaluate("G", "z", G, z)
        size = np.abs(m * z) + np.abs(cumulant)
        right = m * z - cumulant
        _check_equal("conjugate", "mean", m, _evaluate("conjugate", "mean", conjugate, m), right, 1e-6 * size)


def edge_limit(G: Function, edge: float, side: float) -> float:
    """G*(edge): the limit of ``edge z − G(z)`` as z goes to −inf (side −1) or inf (side 1); maybe inf.

    It rises all the way, so it has converged once it stops rising. One that grows like log z never does.
    """
    if np.isinf(edge):
        return np.inf
    z = side * 2.0 ** np.arange(41)
    with np.errstate(all="ignore"):
        heights = edge * z - np.asarray(G(z), dtype=np.float64)
        rise = np.diff(heights)
        slack = np.maximum(1e-10 * (1 + np.abs(heights[1:])), 8 * _EPS * np.abs(edge * z[1:]))
    settled = np.flatnonzero(~(rise > slack))
    if not settled.size:
        return np.inf
    return float(np.fmax(heights[settled[0]], heights[settled[0] + 1]))


def reach(functions: tuple[Function, ...], dtype: type[np.floating[Any]], side: float) -> float:
    """The farthest score on one side at which the functions stay below the root of the largest number."""
    z = (side * 2.0 ** np.arange(3, _FAR)).astype(dtype)
    limit = np.sqrt(np.finfo(dtype).max)
    with np.errstate(all="ignore"):
        fine = np.logical_and.reduce([np.abs(np.asarray(function(z))) <= limit for function in functions])
    # The probes have shown that the first one is fine, in float64 at least.
    return float(z[max(int(fine.cumprod().sum()) - 1, 0)])


def _far_values(mean: Function, side: float) -> Floats:
    """The means at z = ±1, ±2, ±4, ..., up to the last that is finite."""
    with np.errstate(all="ignore"):
        means = np.asarray(mean(side * 2.0 ** np.arange(_FAR + 1)), dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(means))
    return means[: bad[0]] if bad.size else means


def _probe(name: str, function: Function) -> Floats:
    return _evaluate(name, "z", function, _PROBES)


def _evaluate(name: str, argument: str, function: Function, at: Floats) -> Floats:
    values = np.asarray(function(at.copy()), dtype=np.float64)
    if values.shape != at.shape:
        raise InvalidParameterError(
            f"{name} must give one number for each entry of its array, but for shape {at.shape} it gave "
            f"shape {values.shape}."
        )
    bad = ~np.isfinite(values)
    if bad.any():
        raise InvalidParameterError(
            f"{name} must be finite, but at {argument} = {at[bad][0]:.4g} it gave {values[bad][0]}."
        )
    return values


def _check_slope(name: str, function: Function, slope_name: str, slope: Floats, size: Floats) -> None:
    above = _evaluate(name, "z", function, _PROBES + _SPAN)
    below = _evaluate(name, "z", function, _PROBES - _SPAN)
    measured = (above - below) / (2 * _SPAN)
    rounding = 16 * _EPS * np.maximum(np.abs(above), np.abs(below)) / _SPAN
    slack = 1e-5 * np.abs(measured) + 1e-6 * size + rounding
    wrong = ~(np.abs(measured - slope) <= slack)
    if wrong.any():
        raise InvalidParameterError(
            f"{slope_name} must be the slope of {name}, but at z = {_PROBES[wrong][0]:.4g} {name} rises by "
            f"{measured[wrong][0]:.6g} per unit and {slope_name} gives {slope[wrong][0]:.6g}."
        )


def _check_equal(name: str, argument: str, at: Floats, given: Floats, right: Floats, slack: Floats) -> None:
    wrong = ~(np.abs(given - right) <= slack)
    if wrong.any():
        raise InvalidParameterError(
            f"{name} does not fit to G and mean: at {argument} = {at[wrong][0]:.6g} it gives "
            f"{given[wrong][0]:.6g}, but G and mean give {right[wrong][0]:.6g}. Correct it or leave it out."
        )
