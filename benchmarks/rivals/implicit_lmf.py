"""implicit: logistic matrix factorisation of likes against items drawn at random.

It has no dislikes: it gets the likes, and its scores become probabilities by calibration.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.generated_ratings import Ratings, dot_scores
from benchmarks.rivals import why_missing

NAME = "implicit (LMF)"
CALIBRATED = False


def unavailable() -> str | None:
    """Why it cannot run here."""
    return why_missing(NAME, "implicit.lmf")


def prepare(train: Ratings) -> sp.csr_matrix:
    """The likes."""
    liked = train.values == 1
    ones = np.ones(int(liked.sum()), dtype=np.float32)
    return sp.csr_matrix((ones, (train.users[liked], train.items[liked])), shape=train.shape)


def fit(data: sp.csr_matrix, *, rank: int, epochs: int, threads: int, ridge: float, rate: float) -> Any:
    """``epochs`` rounds of both sides with its default number of negatives."""
    from implicit.lmf import LogisticMatrixFactorization

    # It warns when the threads of BLAS could get in the way of its own.
    with threadpool_limits(1, user_api="blas"):
        model = LogisticMatrixFactorization(
            factors=rank,
            learning_rate=rate,
            regularization=ridge,
            iterations=epochs,
            num_threads=threads,
            random_state=0,
        )
        model.fit(data, show_progress=False)
    return model


def scores(model: Any, ratings: Ratings) -> NDArray[np.float64]:
    """Log-odds of an interaction; the biases are among the factors."""
    return dot_scores(model.user_factors, model.item_factors, ratings)
