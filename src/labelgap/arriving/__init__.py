"""Data that arrives in batches: the union of what was seen, the record of each batch, and drift."""

from labelgap.arriving.batches import Batch
from labelgap.arriving.drift import DRIFT_LEVEL, expected_interval, forget_weights
from labelgap.arriving.kept import RowIds
from labelgap.arriving.union import JoinedLabels, join_labels, place_labels

__all__ = [
    "DRIFT_LEVEL",
    "Batch",
    "JoinedLabels",
    "RowIds",
    "expected_interval",
    "forget_weights",
    "join_labels",
    "place_labels",
]
