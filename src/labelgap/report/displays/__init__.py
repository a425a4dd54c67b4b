"""Pictures after scikit-learn's fashion: a Display holds the numbers, ``plot`` draws them."""

from labelgap.report.displays.batches import BatchesDisplay, plot_batches
from labelgap.report.displays.convergence import ConvergenceDisplay, plot_convergence
from labelgap.report.displays.observed import ObservedDisplay, plot_observed
from labelgap.report.displays.reliability import ReliabilityDisplay, plot_reliability
from labelgap.report.displays.threshold_curve import ThresholdCurveDisplay, plot_threshold_curve

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
]
