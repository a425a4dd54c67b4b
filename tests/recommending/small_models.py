"""Recommenders with factors that are simply set, for tests of what is done with them."""

from __future__ import annotations

import copy
import warnings
from functools import cache
from typing import Any

import numpy as np

from labelgap import ObservedLabels, Recommender
from labelgap.exceptions import LabelgapWarning


@cache
def _fitted(n: int, n_items: int, unobserved: str, rated: float, seed: int) -> Any:
    """A model without factors, from random ratings."""
    rng = np.random.default_rng(seed)
    seen = rng.uniform(size=(n, n_items)) < (rated or 0.5)
    Y = rng.integers(0, 2, size=seen.shape)
    if unobserved == "unlabelled":
        seen &= Y == 1
    names: dict[str, Any] = {"row_names": tuple(f"u{i}" for i in range(n))}
    names["label_names"] = tuple(range(n_items))
    labels = ObservedLabels.from_triplets(*np.nonzero(seen), Y[seen], shape=seen.shape, **names)
    more = {"flip_rate": 0.2} if unobserved == "unlabelled" else {}
    model = Recommender(unobserved=unobserved, loss="logistic", trace_penalty=10.0, threshold="train", **more)
    if unobserved == "negative":
        model.set_params(loss="squared")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelgapWarning)
        model.fit(labels)
    if not rated:
        model.answers_ = model.answers_.select(np.zeros(model.answers_.n_observed, dtype=bool))
    return model


def with_factors(
    n: int = 9,
    n_items: int = 14,
    k: int = 3,
    *,
    unobserved: str = "missing",
    rated: float = 0.4,
    seed: int = 0,
    digits: int = 16,
) -> Any:
    """Users "u0", "u1", ... and items 0, 1, ...; few digits make ties."""
    model = copy.copy(_fitted(n, n_items, unobserved, rated, seed))
    rng = np.random.default_rng(seed + 1)
    model.user_factors_ = rng.normal(size=(n, k)).round(digits)
    model.item_factors_ = rng.normal(size=(n_items, k)).round(digits)
    model.item_intercept_ = rng.normal(size=n_items).round(digits)
    model.shared_item_factor_, model.threshold_ = np.zeros(k), 0.0
    return model


def scores_of(model: Any) -> Any:
    """All scores, users x items."""
    return np.array([model.decision_function(user, list(model.item_ids_)) for user in model.user_ids_])


def rated_by(model: Any) -> Any:
    """Which pairs were rated, users x items."""
    rated = np.zeros(model.answers_.shape, dtype=bool)
    rated[model.answers_.rows, model.answers_.cols] = True
    return rated
