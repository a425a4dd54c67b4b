"""Saving and reading models."""

import labelgap.persistence.kinds
import labelgap.persistence.transformers  # noqa: F401  (both register what a model may hold)
from labelgap.persistence.loading import load
from labelgap.persistence.saving import save

__all__ = ["load", "save"]
