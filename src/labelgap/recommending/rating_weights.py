"""Weights of ratings, one for each that was given."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from labelgap._arrays import frame_library, is_arrow_table, plain_array
from labelgap._types import Floats
from labelgap.exceptions import InvalidInputError, InvalidParameterError
from labelgap.labels import ObservedLabels
from labelgap.recommending.ids import number_ids


def weigh_ratings(
    labels: ObservedLabels, ratings: Any, sample_weight: Any, *, user: str, item: str
) -> ObservedLabels:
    """The labels that were read from ``ratings``, weighted, on top of the weights that they have.

    Parameters
    ----------
    labels : ObservedLabels
        What ``read_ratings`` made of the ratings.
    ratings : as in ``read_ratings``
    sample_weight : array with one weight per rating, or None
        In the order of the sequences, of the lines of a frame, or, row by row, of the entries of a matrix. A
        rating of weight 0 is left out. Of a pair that comes twice the last weight counts.
    user, item : names of columns
        They are read in a frame only.

    Examples
    --------
    >>> from labelgap.recommending.ratings import read_ratings
    >>> ratings = (["ann", "bob", "ann"], ["Ran", "Ran", "Jaws"], [1, 0, 1])
    >>> weighed = weigh_ratings(read_ratings(ratings), ratings, [1.0, 2.0, 0.0], user="user", item="item")
    >>> weighed.n_observed, weighed.weights.tolist()
    (2, [1.0, 2.0])
    """
    if sample_weight is None:
        return labels
    places, width = _places(labels, ratings, user, item), labels.shape[1]
    weights = _checked(sample_weight, len(places))
    entries = labels.rows * width + labels.indices
    at = np.minimum(np.searchsorted(entries, places), len(entries) - 1)
    # Lines without a rating have no entry.
    rated = entries[at] == places
    by_entry = np.zeros(len(entries))
    by_entry[at[rated]] = weights[rated]
    if not (by_entry > 0).any():
        raise InvalidParameterError("sample_weight is zero for every rating; make one of them positive.")
    combined = by_entry if labels.weights is None else by_entry * labels.weights
    return labels.select(by_entry > 0).with_weights(combined[by_entry > 0])


def _places(labels: ObservedLabels, ratings: Any, user: str, item: str) -> NDArray[np.int64]:
    """``row · L + column`` of each rating, in the order in which they were given."""
    if isinstance(ratings, ObservedLabels):
        rows, cols = ratings.rows, ratings.indices
    elif sparse.issparse(ratings):
        stored = sparse.coo_array(sparse.csr_array(ratings))
        rows, cols = stored.row, stored.col
    else:
        if is_arrow_table(ratings):
            users, items = ratings[user].to_pylist(), ratings[item].to_pylist()
        elif frame_library(ratings):
            users, items = ratings[user], ratings[item]
        else:
            users, items = ratings[:2]
        rows = _positions(users, "user", labels.row_names)
        cols = _positions(items, "item", labels.label_names)
    return np.asarray(rows.astype(np.int64) * labels.shape[1] + cols)


def _positions(ids: Any, what: str, known: Any) -> NDArray[np.int64]:
    codes, distinct = number_ids(ids, what)
    position = {name: at for at, name in enumerate(known)}
    return np.array([position[name] for name in distinct], dtype=np.int64)[codes]


def _checked(sample_weight: Any, count: int) -> Floats:
    try:
        weights = np.asarray(plain_array(sample_weight, "The sample_weight"), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"The sample_weight must be numbers: {error}.") from error
    if weights.shape != (count,):
        raise InvalidInputError(
            f"sample_weight has shape {weights.shape}; expected one weight for each of the {count} ratings."
        )
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        line = int(np.argmax(bad))
        raise InvalidInputError(
            f"sample_weight must be finite and not negative for every rating; at rating {line} it is "
            f"{weights[line]}."
        )
    return weights
