"""Losses ℓ(z, y) of a score and a label value; a new one is a new file and a line in a registry.

``LOSSES`` are those of yes/no labels, ``FAMILIES`` those of real values, counts and fractions.
"""

from __future__ import annotations

from labelgap._names import look_up
from labelgap.exceptions import InvalidParameterError
from labelgap.losses.base import LinearLinkLoss, Loss, MarginLoss, pull_to_edge
from labelgap.losses.bernoulli import Bernoulli
from labelgap.losses.exponential import Exponential
from labelgap.losses.family import CustomFamily, Family
from labelgap.losses.gaussian import Gaussian
from labelgap.losses.logistic import Logistic
from labelgap.losses.poisson import Poisson
from labelgap.losses.squared import Squared
from labelgap.losses.squared_hinge import SquaredHinge
from labelgap.losses.unlabelled import UNLABELLED_LOSSES, Unlabelled

__all__ = [
    "FAMILIES",
    "LOSSES",
    "UNLABELLED_LOSSES",
    "Bernoulli",
    "CustomFamily",
    "Exponential",
    "Family",
    "Gaussian",
    "LinearLinkLoss",
    "Logistic",
    "Loss",
    "MarginLoss",
    "Poisson",
    "Squared",
    "SquaredHinge",
    "Unlabelled",
    "family_names",
    "get_family",
    "get_loss",
    "loss_names",
    "pull_to_edge",
]

LOSSES: dict[str, type[Loss]] = {loss.name: loss for loss in (Exponential, Logistic, Squared, SquaredHinge)}
"""Every loss of yes/no labels by its name."""

FAMILIES: dict[str, type[Family]] = {family.name: family for family in (Bernoulli, Gaussian, Poisson)}
"""Every family of label values other than 0 and 1, by its name."""


def get_loss(loss: str | Loss) -> Loss:
    """The loss of that name, for yes/no labels; a loss is handed back as it is.

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
    if isinstance(loss, Family):
        raise InvalidParameterError(
            f"{loss!r} is a family for real values, counts or fractions, not a loss for yes/no labels. "
            f"Choose one of: {', '.join(loss_names())}."
        )
    if isinstance(loss, Loss):
        return loss
    return look_up("loss", _plain(loss), LOSSES)()


def loss_names() -> tuple[str, ...]:
    """The names that :func:`get_loss` knows, sorted.

    Examples
    --------
    >>> from labelgap.losses import loss_names
    >>> loss_names()
    ('exponential', 'logistic', 'squared', 'squared_hinge')
    """
    return tuple(sorted(LOSSES))


def get_family(family: str | Family) -> Family:
    """The family of that name, for real values, counts or fractions; a family is returned unchanged.

    Parameters
    ----------
    family : str or Family
        A name out of :func:`family_names`; case, spaces and hyphens do not matter.

    Examples
    --------
    >>> from labelgap.losses import get_family
    >>> get_family("Poisson")
    Poisson()
    """
    if isinstance(family, Family):
        return family
    return look_up("family", _plain(family), FAMILIES)()


def family_names() -> tuple[str, ...]:
    """The names that :func:`get_family` knows, sorted.

    Examples
    --------
    >>> from labelgap.losses import family_names
    >>> family_names()
    ('bernoulli', 'gaussian', 'poisson')
    """
    return tuple(sorted(FAMILIES))


def _plain(name: object) -> object:
    return name.lower().replace("-", "_").replace(" ", "_") if isinstance(name, str) else name
