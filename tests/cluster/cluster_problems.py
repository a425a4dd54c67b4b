"""Small problems in partitions, as a user would hand them in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
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


def lines(n_users: int = 40, n_items: int = 12, seed: int = 0) -> pd.DataFrame:
    """Ratings with ids that are texts, of users in order."""
    rng = np.random.default_rng(seed)
    P, Q = rng.standard_normal((n_users, 2)), rng.standard_normal((n_items, 2))
    users, items = np.nonzero(rng.random((n_users, n_items)) < 0.6)
    score = np.sum(P[users] * Q[items], axis=1) + 0.5 * rng.standard_normal(len(users))
    return pd.DataFrame(
        {
            "user": [f"u{number:03d}" for number in users],
            "item": [f"film {number:02d}" for number in items],
            "value": np.where(score > 0, 5, 2),
        }
    )


def partitioned(frame: pd.DataFrame, n: int = 2) -> Any:
    """The ratings as a dask DataFrame, every user in one partition."""
    import dask.dataframe as dd

    cuts = np.array_split(np.array(sorted(frame.user.unique())), n)
    parts = [frame[frame.user.isin(users)].reset_index(drop=True) for users in cuts]
    return dd.from_delayed([_delayed(part) for part in parts])


def _delayed(part: Any) -> Any:
    import dask

    return dask.delayed(part)
