"""Scales for the features: how much each may say for the same price.

A penalty on W treats all features alike, so their units matter. A feature that is multiplied by s needs a
weight smaller by s for the same effect on the scores, and pays that much less.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from labelgap._types import Floats

SCALINGS = ("none", "root", "standard")
# Scales this close to each other would change next to nothing.
_ALIKE = 2.0
# A spread below this share of the largest value of the column is rounding.
_ROUNDING = 1e-7


def feature_scales(X: Any, scaling: str) -> Floats | None:
    """What to multiply each column of X with, or None where that would change next to nothing.

    With spreads s_j of the columns and their quadratic mean s̄, it is ``s̄/s_j`` for "standard", which makes
    all spreads equal, and ``√(s̄/s_j)`` for "root", half the way there on a logarithmic scale. The spread is
    the standard deviation, for a sparse X the quadratic mean (its zeros are its centre). Columns without any
    spread keep their scale.

    Examples
    --------
    >>> import numpy as np
    >>> feature_scales(np.array([[-1.0, 10.0], [1.0, -10.0]]), "standard").round(3)
    array([7.106, 0.711])
    >>> feature_scales(np.array([[-1.0, 2.0], [1.0, -2.0]]), "root") is None
    True
    """
    spreads, sizes = _sparse_spreads(X) if sp.issparse(X) else _dense_spreads(np.asarray(X))
    informative = spreads > _ROUNDING * sizes
    if scaling == "none" or not informative.any():
        return None
    known = spreads[informative]
    scales = np.ones(len(spreads))
    largest = known.max()
    ratios = largest * np.sqrt(np.mean((known / largest) ** 2)) / known
    scales[informative] = ratios if scaling == "standard" else np.sqrt(ratios)
    used = scales[informative]
    return None if used.max() <= _ALIKE * used.min() else scales


def _dense_spreads(X: Floats) -> tuple[Floats, Floats]:
    sizes = np.abs(X).max(axis=0)
    # In units of the largest value, whose square might be too large for a number.
    units = np.where(sizes > 0, sizes, 1.0)
    return (X / units).std(axis=0) * units, sizes


def _sparse_spreads(X: Any) -> tuple[Floats, Floats]:
    columns = sp.csc_array(X)
    if not columns.has_canonical_format:
        columns = columns.copy()
        columns.sum_duplicates()
    counts = np.diff(columns.indptr)
    column_of = np.repeat(np.arange(columns.shape[1]), counts)
    squares = np.bincount(column_of, weights=np.square(columns.data), minlength=columns.shape[1])
    spreads = np.sqrt(squares / max(columns.shape[0], 1))
    # Exact zeros are the only rounding there is.
    return spreads, np.where(spreads > 0, spreads, np.inf)
