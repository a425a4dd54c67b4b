"""Reading saved models."""

import labelgap.persistence.kinds  # noqa: F401  (registers what a model may hold)
from labelgap.persistence.loading import load

__all__ = ["load"]
