"""A progress bar in notebooks, in place of printed lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from html import escape
from importlib import import_module
from typing import Any

from labelgap.fitting.progress import FitProgress
from labelgap.solvers import Progress
from labelgap.solvers.loop import Candidate

# Seconds between two updates: a page that changes more often only takes time.
_EVERY = 0.2


def in_notebook() -> bool:
    """Whether this runs in the kernel of a notebook, and not on a terminal or in a program."""
    # IPython is never imported here: where it runs, it is imported already.
    shell = sys.modules.get("IPython")
    current = None if shell is None else shell.get_ipython()
    return current is not None and getattr(current, "kernel", None) is not None


class NotebookBar(FitProgress):
    """The progress of a fit as one output of a notebook cell, which is updated in place.

    Parameters
    ----------
    name : str
        What is fitted.
    metric : str
        The name of what candidates are compared by.
    tol : float
        The relative gap at which the fit stops.
    clock : function, default time.monotonic
    """

    def __init__(
        self, name: str, metric: str, tol: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(metric, tol, clock)
        # By its name: it is there in notebooks only, and no dependency.
        shown = import_module("IPython.display")
        self._name, self._html = name, shown.HTML
        self._drawn = -_EVERY
        self._output: Any = shown.display(shown.HTML(self.page()), display_id=True)

    def stage(self, what: str) -> None:
        super().stage(what)
        self._draw(at_once=True)

    def candidate(self, candidate: Candidate) -> None:
        super().candidate(candidate)
        self._draw()

    def __call__(self, progress: Progress) -> None:
        super().__call__(progress)
        self._draw()

    def end(self) -> None:
        """Draw the last state."""
        self.what = "done"
        self._draw(at_once=True)

    def page(self) -> str:
        """The state as HTML: a bar, which moves through the last fit, and what is known so far."""
        fraction = 1.0 if self.what == "done" else self.fraction()
        value = "" if fraction is None else f' value="{fraction:.3f}"'
        said = " · ".join(f"{name} {words}" for name, words in self.lines())
        return (
            f"<div><b>{escape(self._name)}</b>: {escape(self.what)}<br>"
            f'<progress max="1"{value} style="width: 20em"></progress> {escape(said)}</div>'
        )

    def _draw(self, *, at_once: bool = False) -> None:
        now = self._clock()
        if (at_once or now - self._drawn >= _EVERY) and self._output is not None:
            self._drawn = now
            self._output.update(self._html(self.page()))


def bar_for(model: Any) -> NotebookBar | None:
    """A bar for an estimator, in a notebook; None elsewhere, where lines are printed."""
    if not in_notebook():
        return None
    return NotebookBar(type(model).__name__, str(getattr(model, "metric", "D²")), getattr(model, "tol", 0.0))
