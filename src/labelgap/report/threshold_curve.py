"""A picture of the metric against the threshold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from labelgap.exceptions import LabelgapError
from labelgap.thresholds import ThresholdCurve


def save_threshold_curves(
    curves: dict[str, tuple[ThresholdCurve, float]],
    path: str | Path,
    *,
    metric_name: str,
    axis_name: str,
    title: str,
) -> Path:
    """Draw one panel per named curve, each with its chosen threshold marked, and save the picture.

    Parameters
    ----------
    curves : dict from a name to (ThresholdCurve, chosen threshold)
    path : where to save; the ending says the format
    metric_name, axis_name, title : text for the two axes and the whole

    Needs matplotlib (``pip install 'labelgap[plot]'``).
    """
    figure_class, canvas_class = _matplotlib()
    figure = figure_class(figsize=(4.6 * len(curves), 3.6), layout="constrained")
    canvas_class(figure)
    axes = np.atleast_1d(figure.subplots(1, len(curves), sharey=True))
    for axis, (name, (curve, threshold)) in zip(axes, curves.items(), strict=True):
        inside = np.isfinite(curve.thresholds)
        axis.plot(curve.thresholds[inside], curve.values[inside], color="#1f5f8b", linewidth=1.8)
        if np.isfinite(threshold):
            axis.axvline(threshold, color="#c8553d", linestyle="--", linewidth=1.4)
            axis.annotate(
                f"chosen θ = {threshold:.3g}",
                (threshold, 0.3),
                xycoords=("data", "axes fraction"),
                xytext=(6, 0),
                textcoords="offset points",
                color="#c8553d",
            )
        axis.set(title=name, xlabel=axis_name)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel(metric_name)
    figure.suptitle(title)
    path = Path(path)
    figure.savefig(path, dpi=130)
    return path


def _matplotlib() -> tuple[Any, Any]:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise LabelgapError("Plots need matplotlib: pip install 'labelgap[plot]'.") from error
    return Figure, FigureCanvasAgg
