"""implicit: alternating least squares over all pairs, by conjugate gradients (its default) or Cholesky."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from benchmarks.generated_ratings import Ratings
from benchmarks.rivals import why_missing

NAME = "implicit (ALS)"
REGULARISATION = 0.01


def unavailable() -> str | None:
    """Why it cannot run here."""
    return why_missing(NAME, "implicit.als")


def prepare(likes: Ratings) -> sp.csr_matrix:
    """The likes, each with a confidence that is larger by 1 than that of a missing pair."""
    ones = np.full(len(likes), 2.0, dtype=np.float32)
    return sp.csr_matrix((ones, (likes.users, likes.items)), shape=likes.shape)


def fit(data: sp.csr_matrix, *, rank: int, sweeps: int, threads: int, conjugate_gradients: bool) -> Any:
    """``sweeps`` times the users, then the items."""
    from implicit.als import AlternatingLeastSquares

    with threadpool_limits(1, user_api="blas"):
        model = AlternatingLeastSquares(
            factors=rank,
            regularization=REGULARISATION,
            iterations=sweeps,
            use_cg=conjugate_gradients,
            num_threads=threads,
            use_gpu=False,
            random_state=0,
        )
        model.fit(data, show_progress=False)
    return model
