"""How the batches that a model has learned from were judged before, and which of them had drifted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from labelgap.arriving import Batch
from labelgap.exceptions import InvalidInputError
from labelgap.report.displays.entries import is_model, records_of
from labelgap.report.displays.style import ORANGE, REFERENCE, axes_for, draw_line, show_names, tidy
from labelgap.report.innermost import innermost

# The half-width of a 95 % interval in standard errors.
_NORMAL = 1.96


class BatchesDisplay:
    """The metric of each batch before it was learned from, and where the earlier ones led to expect it.

    Make one with :meth:`from_estimator` or :meth:`from_batches`.

    Parameters
    ----------
    batches : sequence of Batch
    metric : str, default "metric"
        What the vertical axis is called.
    name : str or None, default None
        What the legend calls the model.

    Attributes
    ----------
    line_ : matplotlib line of the metric
    errors_ : matplotlib container of the 95 % intervals of the metric
    interval_ : matplotlib area of where it was expected, or None
    drift_ : matplotlib line of the batches that had drifted, or None
    ax_, figure_ : matplotlib axes and figure

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from labelgap.arriving import Batch
    >>> from labelgap.report import BatchesDisplay
    >>> batches = [Batch(1, metric=0.8), Batch(2, metric=0.6, interval=(0.7, 0.9), drift="worse")]
    >>> display = BatchesDisplay.from_batches(batches, ax=Figure().subplots())
    >>> display.drift_.get_xdata().tolist()
    [2]
    """

    def __init__(self, batches: Iterable[Batch], *, metric: str = "metric", name: str | None = None) -> None:
        self.batches = records_of(Batch, batches, "batches_")
        self.metric = metric
        self.name = name

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw the batches.

        Parameters
        ----------
        ax : matplotlib axes or None, default None
            Where to draw; None makes a figure.
        name : str or None, default None
            What the legend calls the model; None: as the display was made.
        **kwargs : settings of the line, for ``ax.plot``
        """
        self.ax_ = axes_for(ax)
        self.figure_ = self.ax_.figure
        judged = [batch for batch in self.batches if batch.metric is not None]
        numbers = np.array([batch.number for batch in judged])
        values = np.array([batch.metric for batch in judged], dtype=np.float64)
        self.line_ = draw_line(
            self.ax_, numbers, values, name or self.name, {"marker": "o", "markersize": 4, **kwargs}
        )
        colour = self.line_.get_color()
        errors = [_NORMAL * (batch.standard_error or 0.0) for batch in judged]
        self.errors_ = self.ax_.errorbar(
            numbers, values, yerr=errors, fmt="none", ecolor=colour, alpha=0.7, linewidth=1.2
        )
        self.interval_ = self._expected(judged)
        drifted = [batch for batch in judged if batch.drifted]
        self.drift_: Any = None
        if drifted:
            (self.drift_,) = self.ax_.plot(
                np.array([batch.number for batch in drifted]),
                np.array([batch.metric for batch in drifted]),
                linestyle="none",
                marker="v",
                markersize=9,
                color=ORANGE,
                label="drift",
            )
        self.ax_.xaxis.get_major_locator().set_params(integer=True)
        self.ax_.set(xlabel="batch", ylabel=f"{self.metric} before learning")
        tidy(self.ax_)
        show_names(self.ax_)
        return self

    def _expected(self, judged: list[Batch]) -> Any:
        known = [(batch.number, *batch.interval) for batch in judged if batch.interval is not None]
        if not known:
            return None
        numbers, low, high = (np.array(column, dtype=np.float64) for column in zip(*known, strict=True))
        # A step around each batch, since the interval is of that batch alone.
        edges = np.repeat(numbers, 2) + np.tile([-0.5, 0.5], len(numbers))
        return self.ax_.fill_between(
            edges, np.repeat(low, 2), np.repeat(high, 2), color=REFERENCE, alpha=0.15, label="expected", lw=0
        )

    @classmethod
    def from_estimator(cls, model: Any, *, name: str | None = None, ax: Any = None, **kwargs: Any) -> Self:
        """The batches of a model.

        Parameters
        ----------
        model : LowRankClassifier, LowRankRegressor or Recommender that has learned from batches
            Alone, or at the end of a pipeline.
        name : str or None, default None
            None: the name of the model's class.
        ax : matplotlib axes or None, default None
        **kwargs : as for :meth:`plot`
        """
        inner = innermost(model).model
        check_is_fitted(inner)
        metric = getattr(inner, "metric", None)
        called = type(inner).__name__ if name is None else name
        # Lists are judged by another metric than decisions.
        metric = getattr(inner, "batch_metric", metric)
        what = metric if isinstance(metric, str) else "metric"
        return cls.from_batches(getattr(inner, "batches_", ()), metric=what, name=called, ax=ax, **kwargs)

    @classmethod
    def from_batches(
        cls,
        batches: Iterable[Batch],
        *,
        metric: str = "metric",
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Batches that you have, from ``batches_`` of a model.

        Parameters
        ----------
        batches : Batch; at least one that was judged
        metric : str, default "metric"
        name : str or None, default None
        ax : matplotlib axes or None, default None
        **kwargs : as for :meth:`plot`
        """
        display = cls(batches, metric=metric, name=name)
        if all(batch.metric is None for batch in display.batches):
            raise InvalidInputError(
                "There is no batch that was judged, so nothing can be drawn: batches_ is filled by "
                "partial_fit, which judges each batch before it learns from it."
            )
        return display.plot(ax, **kwargs)


def plot_batches(model_or_batches: Any, **kwargs: Any) -> BatchesDisplay:
    """Draw how each batch was judged before it was learned from.

    Parameters
    ----------
    model_or_batches : fitted model, or its ``batches_``
    **kwargs : as for ``from_estimator`` and ``from_batches`` of :class:`BatchesDisplay`
        ``name``, ``ax``, settings of the line, ...

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from labelgap.arriving import Batch
    >>> from labelgap.report import plot_batches
    >>> display = plot_batches([Batch(1, metric=0.8), Batch(2, metric=0.9)], ax=Figure().subplots())
    >>> display.line_.get_ydata().tolist()
    [0.8, 0.9]
    """
    if is_model(model_or_batches):
        return BatchesDisplay.from_estimator(model_or_batches, **kwargs)
    return BatchesDisplay.from_batches(model_or_batches, **kwargs)
