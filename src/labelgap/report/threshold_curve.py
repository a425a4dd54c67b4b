"""A picture of the metric against the threshold, saved without a screen."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from labelgap.exceptions import InvalidParameterError
from labelgap.persistence.atomic import atomic_write
from labelgap.report.displays.style import BLUE, ORANGE, matplotlib
from labelgap.report.displays.threshold_curve import ThresholdCurveDisplay
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

    Notes
    -----
    Needs matplotlib (``pip install 'labelgap[plot]'``).
    """
    figure = matplotlib("figure").Figure(figsize=(4.6 * len(curves), 3.6), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(curves), sharey=True))
    for panel, (name, (curve, threshold)) in zip(panels, curves.items(), strict=True):
        display = ThresholdCurveDisplay(curve, threshold=threshold, metric_name=metric_name)
        display.plot(panel, color=BLUE, threshold_kwargs={"color": ORANGE})
        panel.set(title=name, xlabel=axis_name)
        panel.label_outer()
    figure.suptitle(title)
    path = Path(path)
    with atomic_write(path) as file:
        figure.savefig(file, format=picture_format(path), dpi=130)
    return path


def picture_format(path: str | Path) -> str:
    """The format that the ending of a name says, or an error: for asking before the work starts.

    Examples
    --------
    >>> picture_format("curves.SVG")
    'svg'
    """
    known = matplotlib("backend_bases").FigureCanvasBase.get_supported_filetypes()
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending not in known:
        listed = ", ".join(f".{one}" for one in sorted(known))
        what = f"are not saved in the format {ending!r}" if ending else "need a format, which the name says"
        raise InvalidParameterError(
            f"{path}: pictures {what}. Let the name end in .png, or another of {listed}."
        )
    return ending
