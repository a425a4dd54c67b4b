"""What goes on beside a fit: who hears of it, where it keeps how far it has come, and when it is to stop."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from labelgap._version import __version__
from labelgap._warn import warn
from labelgap.exceptions import InterruptedFitWarning
from labelgap.fitting.checkpoint import StoppableCheckpoint, open_checkpoint
from labelgap.fitting.digests import described
from labelgap.fitting.interrupt import stop_on_interrupt
from labelgap.solvers import Callback, FitListener
from labelgap.solvers.checkpoint import Checkpoint, Stopped
from labelgap.solvers.result import Candidate

# Settings that say how the work is done and not what comes out.
_WITHOUT_EFFECT = ("n_jobs", "verbose")


@dataclass
class FitRun:
    """Of one call of ``fit``."""

    callback: Callback | None = None
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    random_state: Any = None
    """What is to be drawn from: the estimator's own, or what the checkpoint says if that is None."""
    at: str = "fitting"
    """The stage that the work is in."""

    def stage(self, what: str) -> None:
        """Begin another part of the work."""
        self.at = what
        if isinstance(self.callback, FitListener):
            self.callback.stage(what)

    def candidate(self, candidate: Candidate) -> None:
        if isinstance(self.callback, FitListener):
            self.callback.candidate(candidate)


class fit_run(contextlib.AbstractContextManager[FitRun]):
    """A run that Ctrl-C ends early with a usable model, and that a checkpoint lets go on after a kill.

    ``data`` gives digests of what is fitted to, by names such as "the labels".
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
            request = stack.enter_context(stop_on_interrupt())
            run = FitRun(self._callback, StoppableCheckpoint(request), model.random_state)
            if self._checkpoint is not None:
                about = {**_settings_of(model), **self._data()}
                run.checkpoint, seed = stack.enter_context(open_checkpoint(self._checkpoint, about, request))
                if model.random_state is None or model.random_state is np.random:
                    run.random_state = seed
            self._run, self._request, self._stack = run, request, stack.pop_all()
        return run

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        stopped = self._run.checkpoint.stopping()
        # Threads that are still at work after an error have nobody to work for.
        self._request.make()
        self._stack.__exit__(kind, error, traceback)
        if error is not None:
            _forget_fit(self._model)
        if isinstance(error, Stopped):
            raise KeyboardInterrupt(
                f"The fit was stopped while {self._run.at}, before there was a model to keep."
            ) from None
        if error is None and stopped:
            self._model.interrupted_ = True
            warn(_report(self._model, self._run, self._checkpoint), InterruptedFitWarning)


def _report(model: Any, run: FitRun, checkpoint: str | os.PathLike[str] | None) -> str:
    later = (
        "Give fit a checkpoint= folder to be able to go on from where it was stopped."
        if checkpoint is None
        else f"Fit again with checkpoint={os.fspath(checkpoint)!r} to go on from here."
    )
    return (
        f"The fit was stopped on request while {run.at}. The model is what there was by then, and can be "
        f"used: rank {model.rank_}, trace_penalty {model.trace_penalty_:.3g}, relative duality gap "
        f"{model.relative_gap_:.1e} (asked for: {model.tol:.1e}). {later}"
    )


def _forget_fit(model: Any) -> None:
    """Half of a fit mixed with half of the one before it is no model."""
    for name in [name for name in vars(model) if name.endswith("_") and not name.startswith("_")]:
        delattr(model, name)


def _settings_of(model: Any) -> dict[str, str]:
    parameters = model.get_params(deep=False)
    return {
        "estimator": type(model).__name__,
        "labelgap": __version__,
        **{name: described(value) for name, value in parameters.items() if name not in _WITHOUT_EFFECT},
    }
