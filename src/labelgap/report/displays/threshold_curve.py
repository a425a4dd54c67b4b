"""The metric against the threshold."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from labelgap.metrics import LinearFractional, get_metric
from labelgap.report.displays.entries import (
    ScoredEntries,
    is_model,
    labels_and_scores,
    require_both_classes,
    scored_entries,
)
from labelgap.report.displays.style import axes_for, draw_line, show_names, tidy
from labelgap.thresholds import ThresholdCurve, best_threshold, sweep_unlabelled


class ThresholdCurveDisplay:
    """A curve of the metric Ψ against the threshold θ, with one θ marked.

    Make one with :meth:`from_estimator` or :meth:`from_scores`. Thresholds of ±inf (no entry, or every one)
    belong to the curve and have no place in the picture.

    Parameters
    ----------
    curve : ThresholdCurve
        What ``best_threshold(..., return_curve=True).curve`` holds.
    threshold : float or None, default None
        The θ to mark: the model's own, or the best one for scores.
    metric_name : str or None, default None
        What stands at the vertical axis.
    score_name : str, default "score"
        What the threshold is on: "score" or "probability".
    name : str or None, default None
        What the legend calls the curve.

    Attributes
    ----------
    line_ : matplotlib line of the curve
    threshold_line_ : matplotlib line at θ, or None
    ax_, figure_ : matplotlib axes and figure

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from labelgap.report import ThresholdCurveDisplay
    >>> ax = Figure().subplots()
    >>> display = ThresholdCurveDisplay.from_scores([0.9, 0.6, 0.4, 0.1], [1, 1, 0, 0], ax=ax)
    >>> display.threshold, display.line_.get_ydata().round(3).tolist()
    (0.5, [0.667, 1.0, 0.8])
    """

    def __init__(
        self,
        curve: ThresholdCurve,
        *,
        threshold: float | None = None,
        metric_name: str | None = None,
        score_name: str = "score",
        name: str | None = None,
    ) -> None:
        self.curve = curve
        self.threshold = threshold
        self.metric_name = metric_name
        self.score_name = score_name
        self.name = name

    def plot(
        self,
        ax: Any = None,
        *,
        name: str | None = None,
        mark_threshold: bool = True,
        threshold_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib axes or None, default None
            Where to draw; None makes a figure.
        name : str or None, default None
            What the legend calls the curve; None: as the display was made.
        mark_threshold : bool, default True
            Whether θ is marked, where it is known and finite.
        threshold_kwargs : dict or None, default None
            Settings of the line at θ, for ``ax.axvline``.
        **kwargs : settings of the curve, for ``ax.plot``
        """
        self.ax_ = axes_for(ax)
        self.figure_ = self.ax_.figure
        inside = np.isfinite(self.curve.thresholds)
        x, y = self.curve.thresholds[inside], self.curve.values[inside]
        self.line_ = draw_line(self.ax_, x, y, name or self.name, kwargs)
        self.threshold_line_: Any = None
        if mark_threshold and self.threshold is not None and np.isfinite(self.threshold):
            self._mark(self.threshold, threshold_kwargs or {})
        self.ax_.set(xlabel=f"threshold θ on the {self.score_name}", ylabel=self.metric_name or "metric")
        tidy(self.ax_)
        show_names(self.ax_)
        return self

    def _mark(self, threshold: float, settings: dict[str, Any]) -> None:
        styled = {"color": self.line_.get_color(), "linestyle": "--", "linewidth": 1.2, **settings}
        self.threshold_line_ = self.ax_.axvline(threshold, **styled)
        # The marks of several curves stand one above the other.
        above = sum(text.get_gid() == "threshold" for text in self.ax_.texts)
        low, high = self.ax_.get_xlim()
        left = threshold > (low + high) / 2
        self.ax_.annotate(
            f"θ = {threshold:.3g}",
            (threshold, 0.06 + 0.08 * above),
            xycoords=("data", "axes fraction"),
            xytext=(-6 if left else 6, 0),
            textcoords="offset points",
            horizontalalignment="right" if left else "left",
            color=self.threshold_line_.get_color(),
            # Readable also where the line of another curve runs behind it.
            bbox={"facecolor": self.ax_.get_facecolor(), "edgecolor": "none", "alpha": 0.8, "pad": 1},
            gid="threshold",
        )

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any = None,
        *,
        metric: str | LinearFractional | None = None,
        response_method: str = "auto",
        unobserved: str | None = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """The curve of a fitted model on these rows and labels, with the model's own θ marked.

        Parameters
        ----------
        model : fitted LowRankClassifier, PlugInClassifier, MetricThreshold or Recommender
            Alone, at the end of a pipeline, or found by a search.
        X : features, as for ``predict``; for a Recommender the ratings
        y : labels, as for ``score``; None for a Recommender
            Best labels that the fit has not seen.
        metric : str, LinearFractional or None, default None
            None: the metric of the fit.
        response_method : {"auto", "predict_proba", "decision_function"}, default "auto"
            The scale of θ; "auto" is probabilities where the model has them. Where a loss gives all scores
            beyond some number the probability 0 or 1, and θ is one of those, it is scores.
        unobserved : {"missing", "negative", "unlabelled"} or None, default None
            What an absent label means; None: as in the fit. Under "unlabelled" the metric is corrected with
            the flip rate of the fit, over all entries or, beyond a million, a sample of them.
        name : str or None, default None
            None: the name of the model's class.
        ax : matplotlib axes or None, default None
        **kwargs : as for :meth:`plot`
        """
        entries = scored_entries(model, X, y, unobserved=unobserved, response=response_method)
        psi = entries.metric if metric is None else get_metric(metric)
        display = cls(
            _curve(entries, psi),
            threshold=entries.threshold,
            metric_name=psi.name,
            score_name="probability" if entries.are_probabilities else "score",
            name=type(model).__name__ if name is None else name,
        )
        return display.plot(ax, **kwargs)

    @classmethod
    def from_scores(
        cls,
        scores: Any,
        y: Any,
        *,
        metric: str | LinearFractional = "micro-f1",
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """The curve of scores that you have, with the best θ marked.

        Parameters
        ----------
        scores : n x L array or sparse matrix, or 1-d array with one score per observed entry
        y : labels in any form that ``ObservedLabels.from_any`` takes; 1-d for a single label
        metric : str or LinearFractional, default "micro-f1"
        name : str or None, default None
        ax : matplotlib axes or None, default None
        **kwargs : as for :meth:`plot`
        """
        psi = get_metric(metric)
        labels, scores = labels_and_scores(y, scores)
        require_both_classes(labels, "a threshold curve")
        best = best_threshold(scores, labels, psi, return_curve=True)
        assert best.curve is not None
        return cls(best.curve, threshold=best.threshold, metric_name=psi.name, name=name).plot(ax, **kwargs)


def plot_threshold_curve(
    model_or_scores: Any, X_or_y: Any, y: Any = None, **kwargs: Any
) -> ThresholdCurveDisplay:
    """Draw the metric against the threshold.

    Parameters
    ----------
    model_or_scores : fitted model, or scores
        ``plot_threshold_curve(model, X, y)`` marks the model's θ; ``plot_threshold_curve(model, ratings)`` is
        for a Recommender; ``plot_threshold_curve(scores, y)`` marks the best θ.
    X_or_y : features or ratings for a model, labels for scores
    y : labels for a model that takes them
    **kwargs : as for ``from_estimator`` and ``from_scores`` of :class:`ThresholdCurveDisplay`
        ``metric``, ``name``, ``ax``, settings of the line, ...

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from labelgap.report import plot_threshold_curve
    >>> scores, y = [0.9, 0.6, 0.4], [1, 1, 0]
    >>> plot_threshold_curve(scores, y, metric="micro-jaccard", ax=Figure().subplots()).threshold
    0.5
    """
    if is_model(model_or_scores):
        return ThresholdCurveDisplay.from_estimator(model_or_scores, X_or_y, y, **kwargs)
    return ThresholdCurveDisplay.from_scores(model_or_scores, X_or_y, **kwargs)


def _curve(entries: ScoredEntries, metric: LinearFractional) -> ThresholdCurve:
    if entries.flip_rates is None:
        require_both_classes(entries.labels, "a threshold curve")
        curve = best_threshold(entries.scores, entries.labels, metric, return_curve=True).curve
    else:
        groups, n_groups = (None, 1) if metric.average == "micro" else metric.groups(entries.labels)
        curve = sweep_unlabelled(
            entries.scores,
            entries.labels.values == 1,
            entries.flip_rates,
            metric,
            groups=groups,
            n_groups=n_groups,
            weights=entries.labels.weights,
            return_curve=True,
        ).curve
    assert curve is not None
    return curve
