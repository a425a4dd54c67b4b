"""Pictures of what was fitted."""

from labelgap.report.threshold_curve import save_threshold_curves

__all__ = ["save_threshold_curves"]
