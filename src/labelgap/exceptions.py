"""The exceptions and warnings of labelgap.

::

    LabelgapError
    ├── ClusterError                the cluster lost too many workers, or went away (also a RuntimeError)
    ├── DeviceMemoryError           the work does not fit on a device (also a MemoryError)
    ├── MissingExtraError           a package of an extra is not installed (also an ImportError)
    └── InvalidInputError (also a ValueError)
        ├── InvalidLabelsError      labels: values, shape, duplicates, nothing observed
        ├── InvalidFeaturesError    features: NaN, infinity, shape
        ├── InvalidScoresError      scores: NaN, shape
        ├── InvalidMetricError      a metric that is no number for some decisions, or a formula of none
        ├── InvalidParameterError   a parameter outside its range
        │   └── InfeasibleConstraintError  bounds on metrics that no threshold keeps
        ├── UnknownNameError        a name that is in no registry (names the nearest one)
        ├── UnknownIdError          a user or an item that a recommender does not know (also a KeyError)
        ├── DataFileError           a data file: its format, a line, a column
        ├── ModelFileError          a saved model: truncated, changed, foreign, from a newer labelgap
        └── CheckpointError         a checkpoint of another fit, or damaged
    LabelgapWarning (a UserWarning)
    ├── ConvergenceWarning          also scikit-learn's; says which gap was reached
    ├── DriftWarning                a batch that is judged worse than the earlier ones lead to expect
    ├── InterruptedFitWarning       a fit that was stopped on request; says what the model is worth
    ├── KernelCacheWarning          compiled functions that cannot be kept for the next process
    ├── TrivialDecisionsWarning     decisions no better than saying yes, or no, to everything
    └── UninformativeLabelsWarning  labels without an observed entry, or with one class that moves the metric
"""

from sklearn.exceptions import ConvergenceWarning as _SklearnConvergenceWarning


class LabelgapError(Exception):
    """Base of every error that labelgap raises on purpose."""


class ClusterError(LabelgapError, RuntimeError):
    """A Dask cluster could not do the work: too many workers died in a task, or the cluster went away."""


class DeviceMemoryError(LabelgapError, MemoryError):
    """The work does not fit into the memory of a device; the message says how much it needs."""


class MissingExtraError(LabelgapError, ImportError):
    """A package that an extra brings is not installed; the message says how to install it."""


class InvalidInputError(LabelgapError, ValueError):
    """What was handed in cannot be used; the message says what, where and what to do."""


class InvalidLabelsError(InvalidInputError):
    """The labels cannot be used."""


class InvalidFeaturesError(InvalidInputError):
    """The features cannot be used."""


class InvalidScoresError(InvalidInputError):
    """The scores cannot be used."""


class InvalidMetricError(InvalidInputError):
    """The metric is not defined for every decision."""


class InvalidParameterError(InvalidInputError):
    """A parameter is outside its range."""


class InfeasibleConstraintError(InvalidParameterError):
    """No threshold keeps the bounds on metrics that were asked for; the message says what can be reached.

    ``threshold`` is the one that comes nearest, and ``shortfall`` how far it misses the bounds.
    """

    def __init__(
        self, message: str, threshold: float = float("nan"), shortfall: float = float("nan")
    ) -> None:
        super().__init__(message)
        self.threshold, self.shortfall = threshold, shortfall


class UnknownNameError(InvalidInputError):
    """A name that no registry holds."""


class UnknownIdError(InvalidInputError, KeyError):
    """A user or an item that a recommender was not fitted with; also a KeyError."""

    def __str__(self) -> str:
        # A KeyError would put quotes around it.
        return str(self.args[0])


class DataFileError(InvalidInputError):
    """A data file cannot be read; the message says where."""


class ModelFileError(InvalidInputError):
    """A file is not a saved model, or not a whole one."""


class CheckpointError(InvalidInputError):
    """A checkpoint cannot be gone on from."""


class LabelgapWarning(UserWarning):
    """Base of every warning of labelgap."""


class ConvergenceWarning(LabelgapWarning, _SklearnConvergenceWarning):  # type: ignore[misc]
    """A solver stopped before it reached its target: the duality gap, or a small gradient in a fold-in."""


class DriftWarning(LabelgapWarning):
    """A batch of data is judged clearly worse than the earlier ones, so that the data may have drifted."""


class InterruptedFitWarning(LabelgapWarning):
    """A fit was stopped before its end; the model can be used, and the message says what it is worth."""


class KernelCacheWarning(LabelgapWarning):
    """No folder for compiled functions can be written, so every process compiles them anew."""


class TrivialDecisionsWarning(LabelgapWarning):
    """Decisions are not clearly better than saying yes, or no, to everything; says what either is worth."""


class UninformativeLabelsWarning(LabelgapWarning):
    """Some labels have no observed entry at all, or one class only, which moves the metric."""
