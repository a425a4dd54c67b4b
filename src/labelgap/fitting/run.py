"""One call of ``fit``: who is told about it, where its progress is kept, and when it is to stop."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from labelgap._types import Floats
from labelgap._version import __version__
from labelgap._warn import warn
from labelgap.exceptions import InterruptedFitWarning
from labelgap.fitting.checkpoint import described, open_checkpoint
from labelgap.fitting.notebook import NotebookBar, bar_for
from labelgap.fitting.progress import LOGGER, report
from labelgap.kernels.gpu.device import memory_error
from labelgap.labels import ObservedLabels
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Factors
from labelgap.solvers import Callback, FitListener, Progress
from labelgap.solvers.loop import Candidate, Checkpoint, Stopped
from labelgap.thresholds.cross_fit import HeldOutScores

# Settings that say how the work is done, and do not change the fitted model.
_WITHOUT_EFFECT = ("client", "n_jobs", "verbose")


@dataclass
class FitRun:
    """The circumstances of one call of ``fit``, which do not change the problem that is solved."""

    callback: Callback | None = None
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    random_state: Any = None
    """What to draw from: the estimator's own random state, or where that is None the checkpoint's."""
    n_jobs: int | None = None
    verbose: int = 0
    name: str = ""
    """The name of the estimator, which messages begin with."""
    to_user_units: Callable[[Progress], Progress] | None = None
    """Converts a report of the solver to the units of the user's labels, where the fit uses others."""
    at: str = "fitting"
    """The stage that the work is in."""
    bar: NotebookBar | None = None
    """What a notebook shows in place of printed lines."""
    began: float = field(default_factory=time.perf_counter)
    """When the call began, by :func:`time.perf_counter`."""
    start: Callable[[Problem, ObservedLabels, Floats], Factors | None] | None = None
    """Where the last fit starts, as ``PenaltyChoice`` takes it; None where the search says it."""
    goes_on: bool = False
    """Whether an earlier fit goes on at its settings, so that nothing is held out to judge them."""
    keeps_threshold: bool = False
    """Whether it keeps its threshold too, so that none need be found."""
    held_out: HeldOutScores | None = None
    """What keeps the held-out scores that choose the threshold; None where they are not wanted."""

    def stage(self, what: str) -> None:
        """Begin another stage of the work."""
        self.at = what
        report(self.name, what, printed=False)
        for listener in (self.callback, self.bar):
            if isinstance(listener, FitListener):
                listener.stage(what)

    def candidate(self, candidate: Candidate) -> None:
        """Report a choice of penalties that was judged on held-out entries."""
        for listener in (self.callback, self.bar):
            if isinstance(listener, FitListener):
                listener.candidate(candidate)
        penalties = candidate.penalties
        chosen_with = {
            "count weighting": candidate.count_weighting,
            "label weighting": candidate.label_weighting,
        }
        others = "".join(f", {name} {value:g}" for name, value in chosen_with.items() if value is not None)
        if candidate.lists is not None:
            others += f", {candidate.lists}"
        if candidate.feature_map is not None:
            others += f", {candidate.feature_map}"
        self.say(
            f"trace {penalties.trace:.3g}, ridge {penalties.ridge:.3g}, intercept {penalties.intercept:.3g}"
            f"{others}: "
            f"held-out metric {candidate.metric_value:.4f}, loss {candidate.loss:.5g}, rank "
            f"{candidate.rank:.1f}, folds {candidate.n_folds}"
        )

    def say(self, message: str) -> None:
        """Log a message, and print it if the estimator is verbose and no bar is shown."""
        report(self.name, message, printed=bool(self.verbose) and self.bar is None)

    def reporter(self) -> Callback | None:
        """What the solver of the last fit calls after each round; None if there is nothing to report to."""
        printed, logged = self.verbose >= 2 and self.bar is None, LOGGER.isEnabledFor(logging.DEBUG)
        if self.callback is None and self.bar is None and not (printed or logged):
            return None

        def tell(progress: Progress) -> None:
            if self.to_user_units is not None:
                progress = self.to_user_units(progress)
            if printed or logged:
                said = (
                    f"step {progress.iteration}: objective {progress.objective:.6g}, "
                    f"gap {progress.gap:.1e}, rank {progress.rank}, {progress.seconds:.1f} s"
                )
                report(self.name, said, level=logging.DEBUG, printed=printed)
            for listener in (self.callback, self.bar):
                if listener is not None:
                    listener(progress)

        return tell


@contextlib.contextmanager
def stop_on_interrupt() -> Iterator[threading.Event]:
    """Inside, the first Ctrl-C sets the event instead of raising KeyboardInterrupt; the second one raises.

    This holds in the main thread, the only one that may handle signals, and where no other handler is set.
    """
    stop = threading.Event()
    free = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not free or threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(number: int, frame: FrameType | None) -> None:
        stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, handle)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class fit_run(contextlib.AbstractContextManager[FitRun]):
    """A run that Ctrl-C ends early with a usable model, and that a checkpoint lets resume after a kill.

    ``data`` gives digests of what is fitted to, by names such as "the labels". Inside, BLAS has one thread:
    the products are thin, idle BLAS threads slow the kernels down, and sums must not depend on how many
    threads there are.
    """

    def __init__(
        self,
        model: Any,
        callback: Callback | None,
        checkpoint: str | os.PathLike[str] | None,
        data: Callable[[], Mapping[str, str]],
    ) -> None:
        self._model, self._callback, self._checkpoint, self._data = model, callback, checkpoint, data

    def __enter__(self) -> FitRun:
        model = self._model
        model.interrupted_ = False
        with contextlib.ExitStack() as stack:
            stop = stack.enter_context(stop_on_interrupt())
            run = FitRun(
                self._callback,
                Checkpoint(stop),
                model.random_state,
                n_jobs=model.n_jobs,
                verbose=model.verbose,
                name=type(model).__name__,
                bar=bar_for(model) if model.verbose == 1 else None,
            )
            if self._checkpoint is not None:
                about = {**_settings_of(model), **self._data()}
                run.checkpoint, seed = stack.enter_context(open_checkpoint(self._checkpoint, about, stop))
                if model.random_state is None or model.random_state is np.random:
                    run.random_state = seed
            stack.enter_context(threadpool_limits(limits=1, user_api="blas"))
            self._run, self._stop, self._stack = run, stop, stack.pop_all()
        return run

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        stopped = self._run.checkpoint.stopping()
        # Threads that are still at work after an error are to stop.
        self._stop.set()
        self._stack.__exit__(kind, error, traceback)
        if self._run.bar is not None and error is None:
            self._run.bar.end()
        if error is not None:
            _forget_fit(self._model)
        if error is not None and (too_large := memory_error(error)) is not None:
            raise too_large from error
        if isinstance(error, Stopped):
            raise KeyboardInterrupt(
                f"The fit was stopped while {self._run.at}, before there was a model to keep."
            ) from None
        if error is None and stopped:
            self._model.interrupted_ = True
            warn(_report(self._model, self._run, self._checkpoint), InterruptedFitWarning)


def _report(model: Any, run: FitRun, checkpoint: str | os.PathLike[str] | None) -> str:
    later = (
        "Give fit a checkpoint= folder to be able to resume it after a stop."
        if checkpoint is None
        else f"Fit again with checkpoint={os.fspath(checkpoint)!r} to resume it."
    )
    wanted = "" if model.tol is None else f" (asked for: {model.tol:.1e})"
    return (
        f"The fit was stopped on request while {run.at}. The model reached by then can be used: rank "
        f"{model.rank_}, trace_penalty {model.trace_penalty_:.3g}, relative duality gap "
        f"{model.relative_gap_:.1e}{wanted}. {later}"
    )


def _forget_fit(model: Any) -> None:
    """Remove the fitted attributes: half of one fit mixed with half of the one before it is no model."""
    for name in [name for name in vars(model) if name.endswith("_") and not name.startswith("_")]:
        delattr(model, name)


def _settings_of(model: Any) -> dict[str, str]:
    parameters = model.get_params(deep=False)
    return {
        "estimator": type(model).__name__,
        "labelgap": __version__,
        **{name: described(value) for name, value in parameters.items() if name not in _WITHOUT_EFFECT},
    }
