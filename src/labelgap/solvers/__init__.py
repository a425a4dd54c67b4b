"""Solvers of the trace-norm problem; each returns a :class:`Fit` with its duality gap."""

from labelgap.solvers.alternating import solve_alternating
from labelgap.solvers.bounded import Solver, solve_bounded
from labelgap.solvers.certificate import Penalties
from labelgap.solvers.factored import solve_auto, solve_factored, solve_proximal
from labelgap.solvers.loop import Callback, Candidate, Fit, FitListener, Progress

SOLVERS: dict[str, Solver] = {
    "auto": solve_auto,
    "factored": solve_factored,
    "proximal": solve_proximal,
}
"""Solvers that prove how good their answer is, and stop when it is good."""

RIVALS: dict[str, Solver] = {
    "alternating": solve_alternating,
}
"""Methods of others for comparison, at a fixed rank; they report a gap but do not work on it."""


__all__ = [
    "RIVALS",
    "SOLVERS",
    "Callback",
    "Candidate",
    "Fit",
    "FitListener",
    "Penalties",
    "Progress",
    "Solver",
    "solve_alternating",
    "solve_auto",
    "solve_bounded",
    "solve_factored",
    "solve_proximal",
]
