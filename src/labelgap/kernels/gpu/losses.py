"""Losses on torch tensors: value, slope, curvature and conjugate, entry by entry.

They are the losses of :mod:`labelgap.losses` with the same limits, for tensors of float32 or float64 on any
device. A loss without an entry in :data:`TORCH_LOSSES` runs on the CPU alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from labelgap.kernels.losses import (
    EXPONENTIAL,
    GAUSSIAN,
    LOGISTIC,
    POISSON,
    SQUARED,
    SQUARED_HINGE,
)
from labelgap.losses import Bernoulli, Exponential, Gaussian, Logistic, Poisson, Squared, SquaredHinge

Tensor: TypeAlias = Any
"""A torch tensor."""
Derivatives: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""Value, slope and curvature."""

# How many rounding errors beyond the edge of a conjugate's domain still count as lying on the edge.
_EDGE_ULPS = 8


@dataclass(frozen=True)
class TorchLoss:
    """One loss: functions of scores (or slopes) and values in the scores' floating-point type."""

    code: int
    """The number by which compiled code knows the loss."""
    derivatives: Callable[[Tensor, Tensor], Derivatives]
    conjugate: Callable[[Tensor, Tensor], Tensor]
    bounds_curvature: bool = False
    """Whether a full Newton step cannot overshoot."""
    of_targets: Callable[[Tensor], Tensor] | None = None
    """The part of the value that depends on the targets alone, which compiled code leaves out."""


def torch_loss(loss: Any) -> TorchLoss | None:
    """The form of a loss on tensors; None for one that has none."""
    return TORCH_LOSSES.get(type(loss))


# -- logistic ----------------------------------------------------------------------------------------------


def _logistic(z: Tensor, y: Tensor) -> Derivatives:
    decay = torch.exp(-torch.abs(z))
    rest = 1 / (1 + decay)
    tail = decay * rest
    right = z > 0
    # For z > 0 the z goes into 1 − y, so that a score of the right sign loses no digits; y may be a fraction.
    side = torch.where(right, 1 - y, -y)
    value = side * z + torch.log1p(decay)
    return value, side + torch.where(right, -tail, tail), tail * rest


def _bernoulli(z: Tensor, y: Tensor) -> Derivatives:
    value, slope, curvature = _logistic(z, y)
    return torch.clamp(value + _entropy(y), min=0), slope, curvature


def _logistic_conjugate(a: Tensor, y: Tensor) -> Tensor:
    # With m = a + y the probability that has this slope.
    m, outside = pull_to_edge(a + y, 0.0, 1.0)
    return torch.where(outside, math.inf, _entropy(m))


def _bernoulli_conjugate(a: Tensor, y: Tensor) -> Tensor:
    return _logistic_conjugate(a, y) - _entropy(y)


def _entropy(m: Tensor) -> Tensor:
    """``m log m + (1 − m) log(1 − m)``, with 0 log 0 = 0."""
    return torch.xlogy(m, m) + torch.xlogy(1 - m, 1 - m)


# -- squared kinds -----------------------------------------------------------------------------------------


def _squared(z: Tensor, y: Tensor) -> Derivatives:
    error = z - (2 * y - 1)
    return error * error, 2 * error, torch.full_like(z, 2.0)


def _squared_conjugate(a: Tensor, y: Tensor) -> Tensor:
    b = (2 * y - 1) * a
    return b + b * b / 4


def _gaussian(z: Tensor, y: Tensor) -> Derivatives:
    error = z - y
    return error * error / 2, error, torch.ones_like(z)


def _gaussian_conjugate(a: Tensor, y: Tensor) -> Tensor:
    return a * (a / 2 + y)


def _squared_hinge(z: Tensor, y: Tensor) -> Derivatives:
    sign = 2 * y - 1
    short = 1 - sign * z
    left = torch.clamp(short, min=0)
    return left * left, -2 * sign * left, torch.where(short >= 0, 2.0, 0.0).to(z.dtype)


def _squared_hinge_conjugate(a: Tensor, y: Tensor) -> Tensor:
    b, outside = pull_to_edge((2 * y - 1) * a, -math.inf, 0.0)
    return torch.where(outside, math.inf, b + b * b / 4)


# -- exponentials ------------------------------------------------------------------------------------------


def capped_exponential(exponent: Tensor) -> tuple[Tensor, Tensor]:
    """e^min(x, c), and by how much x exceeds c: from there the exponential goes on along its tangent."""
    cap = math.log(torch.finfo(exponent.dtype).max) / 2
    return torch.exp(torch.clamp(exponent, max=cap)), torch.clamp(exponent - cap, min=0)


def _exponential(z: Tensor, y: Tensor) -> Derivatives:
    sign = 2 * y - 1
    power, excess = capped_exponential(-sign * z)
    return power * (1 + excess), -sign * power, power


def _exponential_conjugate(a: Tensor, y: Tensor) -> Tensor:
    p, outside = pull_to_edge((1 - 2 * y) * a, 0.0, math.inf)
    return torch.where(outside, math.inf, torch.xlogy(p, p) - p)


def _poisson(z: Tensor, y: Tensor) -> Derivatives:
    power, excess = capped_exponential(z)
    value = power * (1 + excess) - y * z + _poisson_dual(y)
    return torch.clamp(value, min=0), power - y, power


def _poisson_conjugate(a: Tensor, y: Tensor) -> Tensor:
    m, outside = pull_to_edge(a + y, 0.0, math.inf, torch.clamp(torch.abs(y), min=1))
    return torch.where(outside, math.inf, _poisson_dual(m) - _poisson_dual(y))


def _poisson_dual(m: Tensor) -> Tensor:
    return torch.xlogy(m, m) - m


def pull_to_edge(
    values: Tensor, low: Tensor | float, high: Tensor | float, scale: Tensor | float = 1.0
) -> tuple[Tensor, Tensor]:
    """``values`` clipped to [low, high], and which of them were outside by more than rounding."""
    low, high = (torch.as_tensor(edge, dtype=values.dtype, device=values.device) for edge in (low, high))
    inside = torch.clamp(values, low, high)
    return inside, ~(torch.abs(values - inside) <= _EDGE_ULPS * torch.finfo(values.dtype).eps * scale)


TORCH_LOSSES: dict[type, TorchLoss] = {
    Logistic: TorchLoss(LOGISTIC, _logistic, _logistic_conjugate),
    Bernoulli: TorchLoss(LOGISTIC, _bernoulli, _bernoulli_conjugate, of_targets=_entropy),
    Squared: TorchLoss(SQUARED, _squared, _squared_conjugate, bounds_curvature=True),
    Gaussian: TorchLoss(GAUSSIAN, _gaussian, _gaussian_conjugate, bounds_curvature=True),
    Poisson: TorchLoss(POISSON, _poisson, _poisson_conjugate, of_targets=_poisson_dual),
    Exponential: TorchLoss(EXPONENTIAL, _exponential, _exponential_conjugate),
    SquaredHinge: TorchLoss(SQUARED_HINGE, _squared_hinge, _squared_hinge_conjugate, bounds_curvature=True),
}
"""Every loss that runs on tensors, by its class."""
