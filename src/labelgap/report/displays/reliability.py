"""Whether probabilities keep what they promise."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from labelgap._names import check_choice
from labelgap._types import Floats
from labelgap.exceptions import InvalidParameterError, InvalidScoresError
from labelgap.labels import ObservedLabels
from labelgap.report.displays.entries import (
    entry_probabilities,
    is_model,
    labels_and_scores,
    require_both_classes,
)
from labelgap.report.displays.style import REFERENCE, axes_for, draw_line, margin, show_names, tidy

STRATEGIES = ("uniform", "quantile")
# Of the normal distribution: 95 % of it lies within so many standard deviations.
_Z = 1.959963984540054


class ReliabilityDisplay:
    """The fraction of yes against the predicted probability, in bins of the observed entries.

    Points on the diagonal: of what was called 70 %, 70 % are yes. Vertical lines are 95 % intervals (Wilson)
    of the fraction, for entries that are independent; those with weights ω count as (Σω)²/Σω². Make one with
    :meth:`from_estimator` or :meth:`from_probabilities`.

    Parameters
    ----------
    mean_predicted, yes_share : arrays, one number per bin that is not empty
        The (weighted) mean probability and fraction of yes.
    counts : integer array, one number per bin that is not empty
        Observed entries.
    edges : array with one number more than there are bins, empty ones included
    bins : integer array
        Which bin each of the above is.
    name : str or None, default None
        What the legend calls the probabilities.
    effective_counts : array, one number per bin that is not empty, or None, default None
        How many entries of one weight would tell as much, for the intervals; None: ``counts``.

    Attributes
    ----------
    line_ : matplotlib line through the points
    interval_lines_ : matplotlib collection of the intervals, or None
    reference_line_ : matplotlib line of the diagonal, or None
    counts_ : matplotlib steps of the counts in the margin, or None
    ax_, ax_counts_, figure_ : matplotlib axes and figure

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from labelgap.report import ReliabilityDisplay
    >>> probabilities, y = [0.1, 0.3, 0.7, 0.9], [0, 1, 0, 1]
    >>> display = ReliabilityDisplay.from_probabilities(probabilities, y, n_bins=2, ax=Figure().subplots())
    >>> display.mean_predicted.round(2).tolist(), display.yes_share.tolist()
    ([0.2, 0.8], [0.5, 0.5])
    """

    def __init__(
        self,
        mean_predicted: Floats,
        yes_share: Floats,
        counts: NDArray[np.int64],
        edges: Floats,
        bins: NDArray[np.int64],
        *,
        name: str | None = None,
        effective_counts: Floats | None = None,
    ) -> None:
        self.mean_predicted = mean_predicted
        self.yes_share = yes_share
        self.counts = counts
        self.edges = edges
        self.bins = bins
        self.name = name
        self.effective_counts = effective_counts

    def plot(
        self,
        ax: Any = None,
        *,
        name: str | None = None,
        ref_line: bool = True,
        intervals: bool = True,
        margin_counts: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Draw the points, the diagonal, and how many entries each bin has.

        Parameters
        ----------
        ax : matplotlib axes or None, default None
            Where to draw; None makes a figure.
        name : str or None, default None
            What the legend calls the probabilities; None: as the display was made.
        ref_line : bool, default True
            Whether the diagonal is drawn.
        intervals : bool, default True
            Whether the 95 % intervals are drawn.
        margin_counts : bool, default True
            Whether a margin above shows the number of entries in each bin.
        **kwargs : settings of the line, for ``ax.plot``
        """
        self.ax_ = axes_for(ax)
        self.figure_ = self.ax_.figure
        self.reference_line_ = self._reference() if ref_line else None
        looks = {"marker": "o", "markersize": 5, **kwargs}
        self.line_ = draw_line(self.ax_, self.mean_predicted, self.yes_share, name or self.name, looks)
        colour = self.line_.get_color()
        self.interval_lines_: Any = None
        if intervals:
            sizes = self.counts if self.effective_counts is None else self.effective_counts
            low, high = wilson_interval(self.yes_share, sizes)
            self.interval_lines_ = self.ax_.vlines(self.mean_predicted, low, high, color=colour, alpha=0.5)
        self.ax_counts_: Any = None
        self.counts_: Any = None
        if margin_counts:
            self._draw_counts(colour)
        self.ax_.set(xlabel="predicted probability of yes", ylabel="fraction of yes", ylim=(-0.03, 1.03))
        self.ax_.set(xlim=(-0.03, 1.03))
        tidy(self.ax_)
        show_names(self.ax_)
        return self

    def _reference(self) -> Any:
        label = "kept promises"
        named = self.ax_.get_legend_handles_labels()[1]
        (line,) = self.ax_.plot(
            [0, 1], [0, 1], linestyle=":", color=REFERENCE, label=None if label in named else label
        )
        return line

    def _draw_counts(self, colour: Any) -> None:
        self.ax_counts_ = margin(self.ax_, "top", 0.16)
        heights = np.zeros(len(self.edges) - 1)
        heights[self.bins] = self.counts
        self.counts_ = self.ax_counts_.stairs(heights, self.edges, color=colour, linewidth=1.4)
        self.ax_counts_.set_ylabel("entries")

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any = None,
        *,
        n_bins: int = 10,
        strategy: str = "uniform",
        unobserved: str | None = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """The probabilities of a fitted model against these labels.

        Parameters
        ----------
        model : fitted LowRankClassifier, PlugInClassifier, MetricThreshold or Recommender
            With ``predict_proba``; alone, at the end of a pipeline, or found by a search.
        X : features, as for ``predict``; for a Recommender the ratings
        y : labels, as for ``score``; None for a Recommender
            Labels that the fit has not seen, or the picture is too good.
        n_bins : int, default 10
        strategy : {"uniform", "quantile"}, default "uniform"
            Bins of one width, or with about as many entries each.
        unobserved : {"missing", "negative", "unlabelled"} or None, default None
            What an absent label means; None: as in the fit. Known negatives are needed, so after a fit to
            recorded positives say "missing", with labels that have some.
        name : str or None, default None
            None: the name of the model's class.
        ax : matplotlib axes or None, default None
        **kwargs : as for :meth:`plot`
        """
        entries = entry_probabilities(model, X, y, unobserved=unobserved)
        if entries.flip_rates is not None:
            raise InvalidParameterError(
                "Recorded positives alone do not say how often a no was right. Give labels with known "
                "negatives and unobserved='missing'."
            )
        called = type(model).__name__ if name is None else name
        return cls.from_probabilities(
            entries.scores, entries.labels, n_bins=n_bins, strategy=strategy, name=called, ax=ax, **kwargs
        )

    @classmethod
    def from_probabilities(
        cls,
        probabilities: Any,
        y: Any,
        *,
        n_bins: int = 10,
        strategy: str = "uniform",
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Probabilities that you have against labels.

        Parameters
        ----------
        probabilities : n x L array or sparse matrix, or 1-d array with one number per observed entry
            In [0, 1] at every observed entry.
        y : labels in any form that ``ObservedLabels.from_any`` takes; 1-d for a single label
        n_bins : int, default 10
        strategy : {"uniform", "quantile"}, default "uniform"
        name : str or None, default None
        ax : matplotlib axes or None, default None
        **kwargs : as for :meth:`plot`
        """
        labels, probabilities = labels_and_scores(y, probabilities)
        require_both_classes(labels, "a reliability diagram")
        aligned = np.asarray(labels.align(probabilities, "probabilities"), dtype=np.float64)
        _check_probabilities(aligned, labels)
        edges = _edges(aligned, n_bins, strategy)
        # As scikit-learn does: a probability on an edge belongs to the bin below it.
        bin_of = np.searchsorted(edges[1:-1], aligned)
        weights = np.ones(len(aligned)) if labels.weights is None else labels.weights
        counts = np.bincount(bin_of, minlength=len(edges) - 1)
        bins = np.flatnonzero(counts)

        def total_of(values: Floats) -> Floats:
            return np.asarray(np.bincount(bin_of, values, len(edges) - 1)[bins])

        total = total_of(weights)
        display = cls(
            total_of(weights * aligned) / total,
            total_of(weights * labels.values) / total,
            counts[bins],
            edges,
            bins,
            name=name,
            effective_counts=None if labels.weights is None else total**2 / total_of(weights**2),
        )
        return display.plot(ax, **kwargs)


def plot_reliability(
    model_or_probabilities: Any, X_or_y: Any, y: Any = None, **kwargs: Any
) -> ReliabilityDisplay:
    """Draw the fraction of yes against the predicted probability.

    Parameters
    ----------
    model_or_probabilities : fitted model, or probabilities
        ``plot_reliability(model, X, y)``; ``plot_reliability(model, ratings)`` for a Recommender;
        ``plot_reliability(probabilities, y)``.
    X_or_y : features or ratings for a model, labels for probabilities
    y : labels for a model that takes them
    **kwargs : as for ``from_estimator`` and ``from_probabilities`` of :class:`ReliabilityDisplay`
        ``n_bins``, ``strategy``, ``name``, ``ax``, settings of the line, ...

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from labelgap.report import plot_reliability
    >>> display = plot_reliability([0.1, 0.3, 0.7, 0.9], [0, 0, 1, 1], n_bins=2, ax=Figure().subplots())
    >>> display.yes_share.tolist()
    [0.0, 1.0]
    """
    if is_model(model_or_probabilities):
        return ReliabilityDisplay.from_estimator(model_or_probabilities, X_or_y, y, **kwargs)
    return ReliabilityDisplay.from_probabilities(model_or_probabilities, X_or_y, **kwargs)


def wilson_interval(fraction: Floats, counts: NDArray[Any]) -> tuple[Floats, Floats]:
    """The 95 % interval of a fraction p found among m (Wilson).

    ``(p + z²/2m ± z √(p(1 − p)/m + z²/4m²)) / (1 + z²/m)`` with z = 1.96.

    Examples
    --------
    >>> low, high = wilson_interval(np.array([0.5]), np.array([100]))
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.404], [0.596])
    """
    square = _Z**2 / counts
    middle = (fraction + square / 2) / (1 + square)
    half = _Z * np.sqrt(fraction * (1 - fraction) / counts + square / (4 * counts)) / (1 + square)
    return middle - half, middle + half


def _edges(probabilities: Floats, n_bins: int, strategy: str) -> Floats:
    check_choice("strategy", strategy, STRATEGIES)
    if isinstance(n_bins, bool) or not isinstance(n_bins, int | np.integer) or n_bins < 1:
        raise InvalidParameterError(f"n_bins must be a whole number, 1 or more; got {n_bins!r}.")
    if strategy == "uniform":
        return np.linspace(0.0, 1.0, n_bins + 1)
    inner = np.quantile(probabilities, np.linspace(0.0, 1.0, n_bins + 1)[1:-1])
    # Many equal probabilities make edges fall together; an empty bin between them says nothing.
    return np.unique(np.concatenate([[0.0], inner, [1.0]]))


def _check_probabilities(values: Floats, labels: ObservedLabels) -> None:
    outside = ~((values >= 0) & (values <= 1))
    if outside.any():
        first = int(np.argmax(outside))
        raise InvalidScoresError(
            f"The probability at row {labels.rows[first]}, label {labels.cols[first]} is {values[first]}; "
            "probabilities lie in [0, 1]. For other scores use plot_threshold_curve."
        )
