"""Who wants to follow a whole fit, from the search for penalties to the last gap."""

from __future__ import annotations

from dataclasses import dataclass, field

from labelgap._types import Floats
from labelgap.solvers.penalties import Penalties
from labelgap.solvers.states import Progress


@dataclass(frozen=True)
class Candidate:
    """One choice of penalties as judged on held-out entries."""

    penalties: Penalties
    metric_value: float
    """The metric at its best threshold over held-out entries."""
    threshold: float
    loss: float
    """Mean held-out loss."""
    rank: float
    """Mean rank over the folds."""
    n_folds: int = 1
    """The number of folds it was judged on."""
    leave_out: Floats | None = field(default=None, repr=False, compare=False)
    """The metric with one part of the rows left out at a time; None where that is not known."""


class FitListener:
    """Hears of every step of a fit; pass one as ``callback`` and override what is of interest.

    A plain function as ``callback`` hears of the last fit only, as :meth:`__call__` does here.
    """

    def stage(self, what: str) -> None:
        """A new part of the work begins: "choosing penalties", "fitting", ..."""

    def candidate(self, candidate: Candidate) -> None:
        """A choice of penalties was judged on held-out entries."""

    def __call__(self, progress: Progress) -> None:
        """A round of the last fit ended."""
