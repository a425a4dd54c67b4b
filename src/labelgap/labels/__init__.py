"""Labels of which only some entries are known."""

from labelgap.labels.observed import ObservedLabels

__all__ = ["ObservedLabels"]
