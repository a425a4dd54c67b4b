"""Numbers that belong to users and items, brought into the order in which a fit numbers these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.exceptions import InvalidInputError, InvalidParameterError
from labelgap.labels import ObservedLabels
from labelgap.recommending.ids import Ids


def propensities_of(labels: ObservedLabels, propensities: Any) -> Any:
    """One propensity for each answer, in the order of the labels; None stays None.

    Parameters
    ----------
    labels : ObservedLabels
        With the ids as names.
    propensities : mapping from (user, item) to a number, or users x items array or sparse matrix
        An array has a row for each id, so the ids must be whole numbers from 0.
    """
    if propensities is None:
        return None
    users, items = labels.row_names or (), labels.label_names or ()
    if isinstance(propensities, Mapping):
        pairs = [
            (users[i], items[j]) for i, j in zip(labels.rows.tolist(), labels.cols.tolist(), strict=True)
        ]
        missing = next((pair for pair in pairs if pair not in propensities), None)
        if missing is not None:
            raise InvalidInputError(
                f"There is no propensity of the pair {missing!r}, which has an answer; give one for each."
            )
        return np.array([float(propensities[pair]) for pair in pairs])
    table = sp.csr_array(propensities) if sp.issparse(propensities) else np.asarray(propensities)
    if table.ndim != 2:
        raise InvalidInputError(
            "Propensities are a mapping from (user, item) to a number, or an array of users x items whose "
            "rows and columns are the ids, for ids that are whole numbers from 0; got "
            f"{table.ndim} dimension(s)."
        )
    rows = _places(users, table.shape[0], "propensities", "user")
    columns = _places(items, table.shape[1], "propensities", "item")
    return np.asarray(table[rows[labels.rows], columns[labels.cols]], dtype=np.float64).ravel()


def rates_of(items: Ids, flip_rate: Any) -> Any:
    """Flip rates in the order of the items: from a mapping, or from an array whose places are the ids."""
    if isinstance(flip_rate, Mapping):
        missing = next((item for item in items if item not in flip_rate), None)
        if missing is not None:
            raise InvalidParameterError(f"flip_rate has no rate for the item {missing!r}; give one for each.")
        return np.array([float(flip_rate[item]) for item in items])
    if isinstance(flip_rate, str) or np.ndim(flip_rate) != 1:
        return flip_rate
    given: Floats = np.asarray(flip_rate, dtype=np.float64)
    return given[_places(items, len(given), "flip_rate", "item")]


def _places(ids: Ids, length: int, name: str, what: str) -> NDArray[np.int64]:
    """Ids as places in an array of that length."""
    for one in ids:
        if not (isinstance(one, int) and not isinstance(one, bool) and 0 <= one < length):
            raise InvalidParameterError(
                f"{name} is an array with {length} places for {what}s, but {one!r} is no {what} id from 0 to "
                f"{length - 1}. Give a mapping from ids instead."
            )
    return np.array(ids, dtype=np.int64)
