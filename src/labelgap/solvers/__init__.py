"""Solvers of the trace-norm problem; each returns a :class:`Fit` with its duality gap."""

import inspect

from labelgap.solvers.bounded import Solver, solve_bounded
from labelgap.solvers.factored import solve_factored
from labelgap.solvers.penalties import Penalties
from labelgap.solvers.proximal import solve_proximal
from labelgap.solvers.result import Callback, Fit, Progress

SOLVERS: dict[str, Solver] = {
    "factored": solve_factored,
    "proximal": solve_proximal,
}


def default_max_iter(name: str) -> int:
    """The limit on iterations that a registered solver sets itself."""
    return int(inspect.signature(SOLVERS[name]).parameters["max_iter"].default)


__all__ = [
    "SOLVERS",
    "Callback",
    "Fit",
    "Penalties",
    "Progress",
    "Solver",
    "default_max_iter",
    "solve_bounded",
    "solve_factored",
    "solve_proximal",
]
