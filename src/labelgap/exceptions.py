"""The exceptions and warnings of labelgap.

::

    LabelgapError
    └── InvalidInputError (also a ValueError)
        ├── InvalidLabelsError      labels: values, shape, duplicates, nothing observed
        ├── InvalidFeaturesError    features: NaN, infinity, shape
        ├── InvalidScoresError      scores: NaN, shape
        ├── InvalidMetricError      a metric that is no number for some decisions
        ├── InvalidParameterError   a parameter outside its range
        └── UnknownNameError        a name that is in no registry (names the nearest one)
    LabelgapWarning (a UserWarning)
    ├── ConvergenceWarning          also scikit-learn's; says which gap was reached
    └── UninformativeLabelsWarning  labels without a single observed entry
"""

from sklearn.exceptions import ConvergenceWarning as _SklearnConvergenceWarning


class LabelgapError(Exception):
    """Base of every error that labelgap raises on purpose."""


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


class UnknownNameError(InvalidInputError):
    """A name that no registry holds."""


class UnknownIdError(InvalidInputError, KeyError):
    """A user or an item that a recommender was not fitted with; also a KeyError."""

    def __str__(self) -> str:
        # A KeyError would put quotes around it.
        return str(self.args[0])


class LabelgapWarning(UserWarning):
    """Base of every warning of labelgap."""


class ConvergenceWarning(LabelgapWarning, _SklearnConvergenceWarning):  # type: ignore[misc]
    """A solver stopped before it reached its target: the duality gap, or a small gradient in a fold-in."""


class UninformativeLabelsWarning(LabelgapWarning):
    """Some labels have no observed entry at all."""
