"""The loop that all solvers share (certify, report, stop, take snapshots, resume), and what a run returns.

A :class:`Method` is a state and a step. The loop asks it for the duality gap where that is due, tells the
callback, and ends the run when the gap is within the tolerance, when the method makes no progress any more,
or when iterations or patience run out. Between two steps it keeps a snapshot wherever the method offers one.
A method takes a snapshot at places where it restarts from that snapshot itself, so a run that resumes from a
:class:`Checkpoint` makes the same steps, to the last bit, as one that was never interrupted.
"""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.exceptions import InvalidParameterError
from labelgap.objective.protocol import Factors, Objective
from labelgap.solvers.certificate import Certificate, Penalties, with_best_intercept
from labelgap.solvers.linalg import Array, balanced, contiguous, host, like


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

    def at_zero(self) -> tuple[Factors, float, float]:
        """The model with W = 0 and its best intercepts, its objective and the size of its data term."""
        objective, penalties = self._objective, self._penalties
        start = objective.at(starting_factors(objective, None))
        point = with_best_intercept(objective, start, penalties)
        b = point.factors.intercept
        return point.factors, float(point.value) + penalties.of_intercept(b), float(point.size)

    def close(self) -> None:  # noqa: B027 - most methods hold nothing of the kind
        """Give up what is large and only further steps would need."""

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
    """Iterate until the relative duality gap is ``tol`` or no progress is made.

    Raises InvalidParameterError if nothing but infinity is reached.
    """
    # A trial step may overflow. It is not taken then, so there is nothing to warn of.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        try:
            fit = _iterate(method, tol, warm_start, callback, checkpoint or Checkpoint())
        except np.linalg.LinAlgError as error:
            raise InvalidParameterError(_overflow(str(error))) from error
    if not math.isfinite(fit.objective):
        raise InvalidParameterError(_overflow(f"the objective is {fit.objective}"))
    return fit


def _overflow(problem: str) -> str:
    return (
        f"The fit left the range of floating point ({problem}). Scale the features to sizes near 1, raise "
        "the "
        "penalties, or lower score_bound."
    )


def _iterate(
    method: Method,
    tol: float,
    warm_start: Factors | None,
    callback: Callback | None,
    checkpoint: Checkpoint,
) -> Fit:
    kept = checkpoint.last()
    recorder = _Recorder(callback, kept)
    method.begin(warm_start, kept)
    while True:
        ending = method.exhausted or checkpoint.stopping()
        if ending or method.due:
            certificate, zero = method.certify(), None
            reached = certificate.relative_gap <= tol
            over = reached or ending or method.stalled
            if over and not reached:
                # A fit that is cut short may not have come back from where it started or stepped to.
                model, value, size = method.at_zero()
                # What it has may be infinite, or not a number.
                if math.isfinite(value) and not certificate.objective <= value:
                    zero, certificate = model, replace(certificate, objective=value, size=size)
                    reached = certificate.relative_gap <= tol
            recorder.report(method.iteration, certificate, method.rank if zero is None else 0)
            if over:
                break
        method.step(checkpoint.stopping)
        # A step that was cut short ends at a place where an uninterrupted run never is.
        if not checkpoint.stopping() and (state := method.snapshot()) is not None:
            checkpoint.snapshot(Snapshot({**state, "history": history_state(recorder.history)}))
    capped, converged = not reached and method.capped, reached or (method.settled and zero is None)
    factors = method.factors if zero is None else zero
    method.close()
    values, left, right = balanced(factors.left, factors.right)
    return Fit(
        factors=contiguous_factors(Factors(left, right, factors.intercept)),
        singular_values=values,
        objective=certificate.objective,
        gap=certificate.gap,
        relative_gap=certificate.relative_gap,
        n_iter=method.iteration,
        converged=converged,
        capped=capped,
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
    """Snapshots of a run and of the runs that it is made of. This one keeps none.

    ``stop`` is set by whoever wants the run to end.
    """

    keeps: bool = False
    """Whether snapshots are kept."""

    def __init__(self, stop: threading.Event | None = None) -> None:
        self._stop = stop

    def stopping(self) -> bool:
        """Whether the run should end as soon as it can, with what it has."""
        return self._stop is not None and self._stop.is_set()

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


@dataclass(frozen=True)
class Progress:
    """One report to a callback."""

    iteration: int
    objective: float
    gap: float
    """Relative duality gap."""
    rank: int
    seconds: float


Callback: TypeAlias = Callable[[Progress], None]


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
    """The number of folds whose held-out entries judged it; the folds of a coarse search may be held out as
    one."""
    leave_out: Floats | None = field(default=None, repr=False, compare=False)
    """The metric with one part of the rows left out at a time; None where that is not known."""
    thresholds: Floats | None = field(default=None, repr=False, compare=False)
    """A threshold for each label, where they do not share one."""
    threshold_kind: str = "shared"
    """What the thresholds are: "shared", "per-label" or "shrunk"."""
    count_weighting: float | None = None
    """The count weighting that it was judged with; None where there is none to choose."""
    lists: Any = None
    """The settings of lists that it was judged with; None where it is not about lists."""
    label_weighting: float | None = None
    """The label weighting that it was judged with; None where there is none to choose."""
    feature_map: str | None = None
    """The features that it was judged with, in words; None where they are X itself."""


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


@dataclass(frozen=True)
class Fit:
    """A fitted ``W = left @ right.T`` with intercept, and the proof of how good it is."""

    factors: Factors
    singular_values: Array
    objective: float
    gap: float
    """Absolute duality gap."""
    relative_gap: float
    n_iter: int
    converged: bool
    """Whether the relative gap reached its target (or, with a binding rank cap, the steps died out)."""
    capped: bool = False
    """Whether the rank cap kept the fit from the optimum over all ranks."""
    history: tuple[Progress, ...] = field(default=(), repr=False)

    @property
    def rank(self) -> int:
        return int(self.singular_values.shape[0])


def on_host(fit: Fit) -> Fit:
    """The fit in numpy's arrays, wherever it was made; as it is where it has them."""
    if all(isinstance(array, np.ndarray) for array in fit.factors):
        return fit
    factors = Factors(*map(host, fit.factors))
    return replace(fit, factors=factors, singular_values=host(fit.singular_values))


# -- as arrays that a file can hold ----------------------------------------------------------------------

State: TypeAlias = Mapping[str, NDArray[Any]]


class Snapshot(Mapping[str, NDArray[Any]]):
    """Named arrays of the objective's namespace as a :data:`State`: they go to the host when they are read.

    Most snapshots are never written, because the last one is fresh.
    """

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = arrays

    def __getitem__(self, name: str) -> NDArray[Any]:
        return host(self._arrays[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


def scalars(**values: float) -> dict[str, NDArray[Any]]:
    """Numbers as a part of a state."""
    return {name: np.asarray(value) for name, value in values.items()}


def factors_state(factors: Factors, name: str = "") -> dict[str, Array]:
    """Factors as a part of a state."""
    return {f"{name}{field}": array for field, array in factors._asdict().items()}


def factors_from(state: State, name: str = "") -> Factors:
    """The factors that :func:`factors_state` wrote down, as numpy's arrays."""
    return Factors(*(np.asarray(state[f"{name}{field}"]) for field in Factors._fields))


def history_state(history: Sequence[Progress]) -> Floats:
    """The reports of a run as rows of numbers."""
    rows = [(p.iteration, p.objective, p.gap, p.rank, p.seconds) for p in history]
    return np.array(rows, dtype=np.float64).reshape(len(rows), 5)


def history_from(rows: NDArray[Any]) -> list[Progress]:
    """The reports that :func:`history_state` wrote down."""
    return [
        Progress(int(iteration), float(objective), float(gap), int(rank), float(seconds))
        for iteration, objective, gap, rank, seconds in rows
    ]


def fit_state(fit: Fit) -> dict[str, NDArray[Any]]:
    """A fit as arrays."""
    return {
        **{name: host(array) for name, array in factors_state(fit.factors).items()},
        "singular_values": host(fit.singular_values),
        "history": history_state(fit.history),
        **scalars(
            objective=fit.objective,
            gap=fit.gap,
            relative_gap=fit.relative_gap,
            n_iter=fit.n_iter,
            converged=fit.converged,
            capped=fit.capped,
        ),
    }


def fit_from(state: State) -> Fit:
    """The fit that :func:`fit_state` wrote down, in numpy's arrays."""
    return Fit(
        factors=factors_from(state),
        singular_values=np.asarray(state["singular_values"]),
        objective=float(state["objective"]),
        gap=float(state["gap"]),
        relative_gap=float(state["relative_gap"]),
        n_iter=int(state["n_iter"]),
        converged=bool(state["converged"]),
        capped=bool(state["capped"]),
        history=tuple(history_from(state["history"])),
    )
