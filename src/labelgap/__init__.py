"""Yes/no decisions from incomplete labels."""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from labelgap._public import HOMES
from labelgap._version import __version__ as __version__

if TYPE_CHECKING:
    from labelgap.decisions import Budget
    from labelgap.estimators.low_rank import LowRankClassifier
    from labelgap.estimators.metric_threshold import MetricThreshold
    from labelgap.estimators.plug_in import PlugInClassifier
    from labelgap.estimators.recommender import Recommender
    from labelgap.estimators.regressor import LowRankRegressor
    from labelgap.flip_rates.label_errors import find_label_errors
    from labelgap.flip_rates.sensitivity import estimate_flip_rate, sensitivity
    from labelgap.labels import ObservedLabels
    from labelgap.labels.stratified import StratifiedEntrySplit, StratifiedRowSplit
    from labelgap.metrics import LinearFractional, get_metric
    from labelgap.persistence import load, save
    from labelgap.recommending.splitting import split_ratings
    from labelgap.thresholds import best_threshold

__all__ = [
    "Budget",
    "LinearFractional",
    "LowRankClassifier",
    "LowRankRegressor",
    "MetricThreshold",
    "ObservedLabels",
    "PlugInClassifier",
    "Recommender",
    "StratifiedEntrySplit",
    "StratifiedRowSplit",
    "best_threshold",
    "estimate_flip_rate",
    "find_label_errors",
    "get_metric",
    "load",
    "save",
    "sensitivity",
    "split_ratings",
]


def __getattr__(name: str) -> Any:
    """A public name is imported when it is first asked for, so that ``import labelgap`` takes no time."""
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    # Neither what this module uses itself nor private modules are for the reader of a list of names.
    modules = (name for name, found in globals().items() if isinstance(found, ModuleType) and name[0] != "_")
    special = (name for name in globals() if name.startswith("__"))
    return sorted({*special, *modules, *__all__})
