"""The loop that all solvers share: certify, report, stop, take snapshots, resume.

A :class:`Method` is a state and a step. The loop asks it for the duality gap where that is due, tells the
callback, and ends the run when the gap is within the tolerance, when the method makes no progress any more,
or when iterations or patience run out. Between two steps it keeps a snapshot wherever the method offers one.
A method takes a snapshot at places where it restarts from that snapshot itself, so a run that resumes from a
:class:`Checkpoint` makes the same steps, to the last bit, as one that was never interrupted.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Self

from labelgap.objective.protocol import Factors, Objective
from labelgap.solvers.certificate import Certificate
from labelgap.solvers.linalg.dense import Array, balanced, contiguous, like
from labelgap.solvers.penalties import Penalties
from labelgap.solvers.result import Callback, Fit, Progress, Snapshot, State, history_from, history_state


class Method(ABC):
    """One way to minimise: where it stands, and how it continues from there.

    ``rank`` is a cap on the rank of W, None for none; ``max_iter`` bounds the iterations, whatever a method
    counts as one.
    """

    iteration = 0

    def __init__(
        self, objective: Objective, penalties: Penalties, *, rank: int | None, tol: float, max_iter: int
    ) -> None:
        self._objective, self._penalties = objective, penalties
        self._tol, self._max_iter = tol, max_iter
        self._full = min(objective.shape)
        self._cap = self._full if rank is None else min(self._full, rank)

    @abstractmethod
    def begin(self, start: Factors | None, kept: State | None) -> None:
        """Take the first place: that of the snapshot of an earlier run, a warm start, or W = 0."""

    @abstractmethod
    def step(self, stopping: Callable[[], bool]) -> None:
        """Make the iterations up to the next place where the loop may look; fewer if ``stopping``."""

    @abstractmethod
    def certify(self) -> Certificate:
        """The objective at this place, and how far the optimum can be."""

    @property
    @abstractmethod
    def factors(self) -> Factors:
        """The model at this place."""

    @property
    def rank(self) -> int:
        """The rank that is reported."""
        return self.factors.rank

    def snapshot(self) -> Mapping[str, Array] | None:
        """What :meth:`begin` needs to resume here, from where the method has just restarted; else None."""
        return None

    @property
    def due(self) -> bool:
        """Whether it is worth computing the gap here."""
        return True

    @property
    def exhausted(self) -> bool:
        """Whether it has made all the iterations that it may."""
        return self.iteration >= self._max_iter

    @property
    @abstractmethod
    def stalled(self) -> bool:
        """Whether more iterations would change nothing, as far as the last certificate tells."""

    @property
    @abstractmethod
    def capped(self) -> bool:
        """Whether the rank cap binds."""

    @property
    def settled(self) -> bool:
        """Whether the method has done all it can although the gap is open."""
        return self.stalled and self.capped


def run(
    method: Method,
    *,
    tol: float,
    warm_start: Factors | None,
    callback: Callback | None,
    checkpoint: Checkpoint | None,
) -> Fit:
    """Iterate until the relative duality gap is ``tol`` or no progress is made."""
    checkpoint = checkpoint or Checkpoint()
    kept = checkpoint.last()
    recorder = _Recorder(callback, kept)
    method.begin(warm_start, kept)
    while True:
        ending = method.exhausted or checkpoint.stopping()
        if ending or method.due:
            certificate = method.certify()
            recorder.report(method.iteration, certificate, method.rank)
            reached = certificate.relative_gap <= tol
            if reached or ending or method.stalled:
                break
        method.step(checkpoint.stopping)
        # A step that was cut short ends at a place where an uninterrupted run never is.
        if not checkpoint.stopping() and (state := method.snapshot()) is not None:
            checkpoint.snapshot(Snapshot({**state, "history": history_state(recorder.history)}))
    factors = method.factors
    values, left, right = balanced(factors.left, factors.right)
    return Fit(
        factors=contiguous_factors(Factors(left, right, factors.intercept)),
        singular_values=values,
        objective=certificate.objective,
        gap=certificate.gap,
        relative_gap=certificate.relative_gap,
        n_iter=method.iteration,
        converged=reached or method.settled,
        capped=not reached and method.capped,
        history=tuple(recorder.history),
    )


class _Recorder:
    """Keeps the history of a run, from that of the interrupted one on, and passes it to a callback."""

    def __init__(self, callback: Callback | None, state: State | None) -> None:
        self._callback = callback
        self.history = [] if state is None else history_from(state["history"])
        self._began = time.perf_counter() - (self.history[-1].seconds if self.history else 0.0)

    def report(self, iteration: int, certificate: Certificate, rank: int) -> None:
        seconds = time.perf_counter() - self._began
        progress = Progress(iteration, certificate.objective, certificate.relative_gap, rank, seconds)
        self.history.append(progress)
        if self._callback is not None:
            self._callback(progress)


# -- factors ---------------------------------------------------------------------------------------------


def starting_factors(objective: Objective, warm_start: Factors | None) -> Factors:
    """The warm start in the objective's arrays, or W = 0 with its best intercept."""
    intercept = objective.starting_intercept()
    if warm_start is None:
        return Factors.zero(objective.shape, intercept)
    return Factors(*(like(array, intercept) for array in warm_start))


def contiguous_factors(factors: Factors) -> Factors:
    """As they would be read from a file."""
    return Factors(*(contiguous(array) for array in factors))


def balanced_factors(factors: Factors, cap: int, cutoff: float = 1e-10) -> Factors:
    """The same W, cut to rank ``cap``, with ``½(‖A‖² + ‖B‖²) = ‖W‖_*``, the smallest value it can have.

    Directions below ``cutoff`` times the largest singular value are dropped.
    """
    _, left, right = balanced(factors.left, factors.right, cutoff)
    return Factors(contiguous(left[:, :cap]), contiguous(right[:, :cap]), factors.intercept)


class Stopped(Exception):
    """The work was asked to stop before it had an answer."""


class Checkpoint:
    """Snapshots of a run and of the runs that it is made of. This one keeps none and never asks to stop."""

    def stopping(self) -> bool:
        """Whether the run should end as soon as it can, with what it has."""
        return False

    def last(self) -> State | None:
        """The last snapshot of an earlier run; None where there was none."""
        return None

    def snapshot(self, state: State, *, at_once: bool = False) -> None:
        """Keep a state; not where the last one is fresh, unless ``at_once``."""

    def part(self, name: str) -> Self:
        """The checkpoint of a piece of the work."""
        return self

    def fit(self, solve: Callable[..., Fit]) -> Fit:
        """The fit that an earlier run finished, or else ``solve(checkpoint=...)`` with this checkpoint."""
        return solve(checkpoint=self)

    def forget(self) -> None:
        """Drop what was kept of this piece of the work."""
