"""What is chosen of lists, and what a rating counts as."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from labelgap._types import Floats
from labelgap.labels import ObservedLabels
from labelgap.persistence.registry import savable_record

POWERS = (0.0, 0.25, 0.5)
"""The powers of the counts of users, and of items, that are compared."""
DISLIKES = (0.0, 0.25, 0.5)
"""The values of a dislike that are compared. A disliked item was at least chosen to be rated."""
VALUE_POWERS = (0.0, 0.5, 1.0)
# Values whose standard deviation is less than this fraction of their mean are taken for equal.
_VARIED = 0.3


@savable_record("list_settings")
class ListSettings(NamedTuple):
    """The settings of a fit for lists, all of them chosen; λ is beside them."""

    user_power: float = 0.25
    """a."""
    item_power: float = 0.25
    """b."""
    leave_one_out: bool = False
    """Whether an item's scores are divided by ``1 − h_j``, where h_j is what a like of it adds to its own."""
    dislike_value: float = 0.0
    """The entry of X for a dislike."""
    value_power: float = 0.0
    """p: the entry for a like of value v is ``(v/v̄)^p``, where v̄ is the mean value of the likes."""

    def __str__(self) -> str:
        said = [f"powers {self.user_power:g} and {self.item_power:g}"]
        said += ["leave one out"] * self.leave_one_out
        others = {"a dislike": self.dislike_value, "value power": self.value_power}
        said += [f"{name} {value:g}" for name, value in others.items() if value]
        return ", ".join(said)


class Ratings(NamedTuple):
    """What lists are made from."""

    labels: ObservedLabels
    """Users x items; weights are the values of likes, None for 1."""
    decay: Floats | None = None
    """A factor on each entry, by its age; None for 1."""
    user_features: Any = None
    """Sparse, users x features; None without any."""
    item_features: Any = None

    def select(self, kept: Any) -> Ratings:
        """Those of the ratings for which the mask ``kept`` is true."""
        decay = None if self.decay is None else self.decay[kept]
        return self._replace(labels=self.labels.select(kept), decay=decay)

    def of_users(self, users: Any) -> Ratings:
        """The ratings of the users with these ascending numbers, who are numbered anew."""
        kept = np.isin(self.labels.rows, users)
        decay = None if self.decay is None else self.decay[kept]
        features = None if self.user_features is None else self.user_features[users]
        labels = replace(self.labels, row_names=None).take_rows(users)
        return self._replace(labels=labels, decay=decay, user_features=features)


def mean_value(labels: ObservedLabels) -> float:
    """v̄, the mean value of the likes."""
    values = _values_of_likes(labels)
    return float(values.mean()) if len(values) else 1.0


def values_vary(labels: ObservedLabels) -> bool:
    """Whether the values of the likes differ so much that their power matters."""
    values = _values_of_likes(labels)
    return len(values) > 0 and float(values.std()) > _VARIED * float(values.mean())


def entries_of(ratings: Ratings, settings: ListSettings, mean: float) -> Floats:
    """The entries of X, one for each rating.

    Examples
    --------
    >>> labels = ObservedLabels.from_dense([[1, 1, 0]]).with_weights([1.0, 3.0, 1.0])
    >>> entries_of(Ratings(labels), ListSettings(dislike_value=0.5, value_power=1.0), 2.0).tolist()
    [0.5, 1.5, 0.5]
    """
    labels = ratings.labels
    likes: Floats | float = 1.0
    if labels.weights is not None and settings.value_power > 0:
        likes = (labels.weights / mean) ** settings.value_power
    entries = np.where(labels.values == 1, likes, settings.dislike_value)
    return entries if ratings.decay is None else entries * ratings.decay


def _values_of_likes(labels: ObservedLabels) -> Floats:
    if labels.weights is None:
        return np.ones(int(np.sum(labels.values == 1)))
    return np.asarray(labels.weights[labels.values == 1], dtype=np.float64)
