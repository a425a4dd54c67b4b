"""Who wants to follow a whole fit, from the search for penalties to the last gap."""

from __future__ import annotations

from labelgap.solvers.selection import Candidate
from labelgap.solvers.states import Progress


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
