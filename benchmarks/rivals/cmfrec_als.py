"""cmfrec: alternating least squares on the ratings given, with biases; the squared loss on 0 and 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.generated_ratings import Ratings, dot_scores
from benchmarks.rivals import why_missing

NAME = "cmfrec (ALS)"
CALIBRATED = False


def unavailable() -> str | None:
    """Why it cannot run here."""
    return why_missing(NAME, "cmfrec")


def prepare(train: Ratings) -> sp.coo_matrix:
    """The ratings as numbers; a 0 is an entry too."""
    return sp.coo_matrix((train.values.astype(np.float32), (train.users, train.items)), shape=train.shape)


def fit(data: sp.coo_matrix, *, rank: int, epochs: int, threads: int, ridge: float) -> Any:
    """``epochs`` rounds of both sides, with the options that its documentation recommends for speed."""
    from cmfrec import CMF

    with threadpool_limits(1, user_api="blas"):
        model = CMF(
            k=rank,
            lambda_=ridge,
            method="als",
            use_cg=True,
            finalize_chol=False,
            precompute_for_predictions=False,
            produce_dicts=False,
            use_float=True,
            niter=epochs,
            nthreads=threads,
            random_state=0,
            verbose=False,
        )
        return model.fit(data)


def scores(model: Any, ratings: Ratings) -> NDArray[np.float64]:
    """Scores that are close to the rate of a yes, but are not probabilities."""
    products = dot_scores(model.A_, model.B_, ratings)
    biases = model.user_bias_[ratings.users] + model.item_bias_[ratings.items]
    return products + biases + model.glob_mean_
