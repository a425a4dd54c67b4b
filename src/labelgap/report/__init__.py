"""What was fitted, to look at: pictures, and :func:`write_report`, a fit on one HTML page.

The pictures follow scikit-learn's displays and need matplotlib (``pip install 'labelgap[plot]'``); the page
needs nothing.
"""

from labelgap.report.displays import (
    BatchesDisplay,
    ConvergenceDisplay,
    ObservedDisplay,
    ReliabilityDisplay,
    ThresholdCurveDisplay,
    plot_batches,
    plot_convergence,
    plot_observed,
    plot_reliability,
    plot_threshold_curve,
)
from labelgap.report.html import write_report
from labelgap.report.threshold_curve import save_threshold_curves

__all__ = [
    "BatchesDisplay",
    "ConvergenceDisplay",
    "ObservedDisplay",
    "ReliabilityDisplay",
    "ThresholdCurveDisplay",
    "plot_batches",
    "plot_convergence",
    "plot_observed",
    "plot_reliability",
    "plot_threshold_curve",
    "save_threshold_curves",
    "write_report",
]
