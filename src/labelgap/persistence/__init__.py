"""Reading saved models."""

from labelgap.persistence.loading import load

__all__ = ["load"]
