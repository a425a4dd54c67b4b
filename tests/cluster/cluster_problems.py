"""Small problems in partitions, as a user would hand them in."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from labelgap.data import make_low_rank_labels


def small_problem(n: int = 90, n_labels: int = 8, observed: float = 0.6, seed: int = 0) -> tuple[Any, Any]:
    """Features and labels with NaN, with a one-class label and one that only the first rows have."""
    problem = make_low_rank_labels(n=n, n_labels=n_labels, observed=observed, random_state=seed)
    X, Y = problem.X, problem.Y_observed.copy()
    Y[:, 0] = np.where(np.isnan(Y[:, 0]), np.nan, 1.0)
    # So few that nobody is warned of it.
    Y[12:, 0] = np.nan
    Y[n // 4 :, 1] = np.nan
    return X, Y


def chunked(array: Any, rows: Any) -> Any:
    """A dask array in chunks of rows, sparse where the array is."""
    import dask.array as da

    if not sp.issparse(array):
        return da.from_array(array, chunks=(rows, -1))
    return da.from_array(array.toarray(), chunks=(rows, -1)).map_blocks(sp.csr_matrix)
