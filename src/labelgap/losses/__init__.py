"""Losses ℓ(z, y) of a score and a label; a new one is a new file and a line in ``LOSSES``."""

from __future__ import annotations

from labelgap._names import look_up
from labelgap.losses.base import Loss, MarginLoss
from labelgap.losses.exponential import Exponential
from labelgap.losses.logistic import Logistic
from labelgap.losses.squared import Squared
from labelgap.losses.squared_hinge import SquaredHinge

__all__ = [
    "LOSSES",
    "Exponential",
    "Logistic",
    "Loss",
    "MarginLoss",
    "Squared",
    "SquaredHinge",
    "get_loss",
    "loss_names",
]

LOSSES: dict[str, type[Loss]] = {loss.name: loss for loss in (Exponential, Logistic, Squared, SquaredHinge)}
"""Every loss by its name."""


def get_loss(loss: str | Loss) -> Loss:
    """The loss of that name; a loss is handed back as it is.

    Parameters
    ----------
    loss : str or Loss
        A name out of :func:`loss_names`; case, spaces and hyphens do not matter.

    Examples
    --------
    >>> from labelgap.losses import get_loss
    >>> get_loss("squared-hinge")
    SquaredHinge()
    """
    if isinstance(loss, Loss):
        return loss
    key = loss.lower().replace("-", "_").replace(" ", "_") if isinstance(loss, str) else loss
    return look_up("loss", key, LOSSES)()


def loss_names() -> tuple[str, ...]:
    """The names that :func:`get_loss` knows, sorted.

    Examples
    --------
    >>> from labelgap.losses import loss_names
    >>> loss_names()
    ('exponential', 'logistic', 'squared', 'squared_hinge')
    """
    return tuple(sorted(LOSSES))
