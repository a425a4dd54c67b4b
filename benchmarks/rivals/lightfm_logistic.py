"""LightFM with the logistic loss: stochastic gradients (Adagrad), with biases of users and items."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from benchmarks.generated_ratings import Ratings, dot_scores
from benchmarks.rivals import why_missing

NAME = "lightfm (logistic)"
CALIBRATED = True


def unavailable() -> str | None:
    """Why it cannot run here."""
    return why_missing(NAME, "lightfm")


def prepare(train: Ratings) -> sp.coo_matrix:
    """A yes is 1, a no is -1."""
    values = (2 * train.values - 1).astype(np.float32)
    return sp.coo_matrix((values, (train.users, train.items)), shape=train.shape)


def fit(data: sp.coo_matrix, *, rank: int, epochs: int, threads: int, ridge: float, rate: float) -> Any:
    """``epochs`` passes with the L2 penalty ``ridge`` and the learning rate ``rate``."""
    from lightfm import LightFM

    model = LightFM(
        no_components=rank,
        loss="logistic",
        learning_rate=rate,
        item_alpha=ridge,
        user_alpha=ridge,
        random_state=0,
    )
    return model.fit(data, epochs=epochs, num_threads=threads)


def scores(model: Any, ratings: Ratings) -> NDArray[np.float64]:
    """Log-odds of a yes."""
    products = dot_scores(model.user_embeddings, model.item_embeddings, ratings)
    return products + model.user_biases[ratings.users] + model.item_biases[ratings.items]
