"""How a fit came to its end: the duality gap, the objective and the rank, round by round."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from labelgap._names import check_choice
from labelgap.estimators.inputs import tolerance_of
from labelgap.exceptions import InvalidInputError
from labelgap.report.displays.entries import is_model, records_of
from labelgap.report.displays.style import REFERENCE, axes_for, draw_line, show_names, tidy
from labelgap.report.innermost import innermost
from labelgap.solvers import Progress

_HEIGHTS = {"gap": "relative duality gap", "objective": "objective", "rank": "rank of W"}
_WIDTHS = {"iteration": "iteration", "seconds": "seconds"}
# So few rounds are shown one by one.
_FEW = 60


class ConvergenceDisplay:
    """The course of a fit, from the reports that ``history_`` keeps.

    Make one with :meth:`from_estimator` or :meth:`from_history`.

    Parameters
    ----------
    history : sequence of Progress
    tol : float or None, default None
        The relative gap at which the fit was to stop; a dotted line shows it.
    name : str or None, default None
        What the legend calls the fit.

    Attributes
    ----------
    line_ : matplotlib line of the course
    tol_line_ : matplotlib line at ``tol``, or None
    ax_, figure_ : matplotlib axes and figure

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from labelgap.report import ConvergenceDisplay
    >>> from labelgap.solvers import Progress
    >>> rounds = [Progress(1, 0.60, 0.1, 2, 0.01), Progress(2, 0.55, 0.0005, 3, 0.02)]
    >>> display = ConvergenceDisplay.from_history(rounds, tol=1e-3, ax=Figure().subplots())
    >>> display.line_.get_ydata().tolist()
    [0.1, 0.0005]
    """

    def __init__(
        self, history: Iterable[Progress], *, tol: float | None = None, name: str | None = None
    ) -> None:
        self.history = records_of(Progress, history, "history_")
        self.tol = tol
        self.name = name

    def plot(
        self, ax: Any = None, *, name: str | None = None, x: str = "iteration", y: str = "gap", **kwargs: Any
    ) -> Self:
        """Draw the course.

        Parameters
        ----------
        ax : matplotlib axes or None, default None
            Where to draw; None makes a figure.
        name : str or None, default None
            What the legend calls the fit; None: as the display was made.
        x : {"iteration", "seconds"}, default "iteration"
        y : {"gap", "objective", "rank"}, default "gap"
            The gap is relative, and on a logarithmic scale.
        **kwargs : settings of the line, for ``ax.plot``
        """
        check_choice("x", x, tuple(_WIDTHS))
        check_choice("y", y, tuple(_HEIGHTS))
        self.ax_ = axes_for(ax)
        self.figure_ = self.ax_.figure
        across = np.array([getattr(report, x) for report in self.history], dtype=np.float64)
        up = np.array([getattr(report, y) for report in self.history], dtype=np.float64)
        looks: dict[str, Any] = {"marker": "o", "markersize": 4} if len(up) <= _FEW else {}
        if y == "rank":
            looks["drawstyle"] = "steps-post"
        self.line_ = draw_line(self.ax_, across, up, name or self.name, {**looks, **kwargs})
        self.tol_line_: Any = None
        if y == "gap":
            if np.any(up > 0):
                self.ax_.set_yscale("log")
            if self.tol is not None:
                self._mark(self.tol)
        else:
            self.ax_.yaxis.get_major_locator().set_params(integer=y == "rank")
            if y == "rank":
                # Not below 0, and still open for the next line above.
                self.ax_.set_ylim(0, max(self.ax_.get_ylim()[1], 1.05 * float(up.max())))
        if x == "iteration":
            self.ax_.xaxis.get_major_locator().set_params(integer=True)
        self.ax_.set(xlabel=_WIDTHS[x], ylabel=_HEIGHTS[y])
        tidy(self.ax_)
        show_names(self.ax_)
        return self

    def _mark(self, tol: float) -> None:
        label = f"tol = {tol:g}"
        named = self.ax_.get_legend_handles_labels()[1]
        self.tol_line_ = self.ax_.axhline(
            tol, color=REFERENCE, linestyle=":", linewidth=1.4, label=None if label in named else label
        )

    @classmethod
    def from_estimator(cls, model: Any, *, name: str | None = None, ax: Any = None, **kwargs: Any) -> Self:
        """The course of the last fit of a model.

        Parameters
        ----------
        model : fitted LowRankClassifier, Recommender or LowRankRegressor
            Alone, at the end of a pipeline, or found by a search.
        name : str or None, default None
            None: the name of the model's class.
        ax : matplotlib axes or None, default None
        **kwargs : as for :meth:`plot`
        """
        inner = innermost(model).model
        check_is_fitted(inner)
        if not hasattr(inner, "history_"):
            raise InvalidInputError(
                f"{type(inner).__name__} keeps no history of its fit (history_); LowRankClassifier, "
                "Recommender and LowRankRegressor do."
            )
        called = type(inner).__name__ if name is None else name
        return cls.from_history(inner.history_, tol=tolerance_of(inner), name=called, ax=ax, **kwargs)

    @classmethod
    def from_history(
        cls,
        history: Iterable[Progress],
        *,
        tol: float | None = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """The course of a fit whose reports you have, from ``history_`` or a callback.

        Parameters
        ----------
        history : Progress, one per round; at least one
        tol : float or None, default None
        name : str or None, default None
        ax : matplotlib axes or None, default None
        **kwargs : as for :meth:`plot`
        """
        display = cls(history, tol=tol, name=name)
        if not display.history:
            raise InvalidInputError(
                "The history is empty: the fit reported no round, so nothing can be drawn."
            )
        return display.plot(ax, **kwargs)


def plot_convergence(model_or_history: Any, **kwargs: Any) -> ConvergenceDisplay:
    """Draw how a fit closed its duality gap.

    Parameters
    ----------
    model_or_history : fitted model, or its ``history_``, or the reports that a callback kept
    **kwargs : as for ``from_estimator`` and ``from_history`` of :class:`ConvergenceDisplay`
        ``x``, ``y``, ``name``, ``ax``, settings of the line, ...

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from labelgap.report import plot_convergence
    >>> from labelgap.solvers import Progress
    >>> display = plot_convergence([Progress(1, 0.60, 0.1, 2, 0.01)], y="rank", ax=Figure().subplots())
    >>> display.ax_.get_ylabel()
    'rank of W'
    """
    if is_model(model_or_history):
        return ConvergenceDisplay.from_estimator(model_or_history, **kwargs)
    return ConvergenceDisplay.from_history(model_or_history, **kwargs)
