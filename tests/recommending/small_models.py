"""Recommenders with factors that are simply set, for tests of what is done with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelgap import ObservedLabels, get_metric
from labelgap.losses import Logistic
from labelgap.recommending.serving import Recommending


def with_factors(
    n: int = 9,
    n_items: int = 14,
    k: int = 3,
    *,
    unobserved: str = "missing",
    rated: float = 0.4,
    seed: int = 0,
    digits: int | None = None,
) -> Any:
    """Users "u0", "u1", ... and items 0, 1, ...; few digits make ties."""
    rng = np.random.default_rng(seed)
    model = Recommending()
    model.user_ids_ = tuple(f"u{i}" for i in range(n))
    model.item_ids_ = tuple(range(n_items))
    parts = rng.normal(size=(n, k)), rng.normal(size=(n_items, k)), rng.normal(size=n_items)
    if digits is not None:
        parts = tuple(np.round(part, digits) for part in parts)  # type: ignore[assignment]
    model.user_factors_, model.item_factors_, model.item_intercept_ = parts
    model.user_prior_, model.threshold_ = np.zeros((n, k)), 0.0
    model.loss_, model.metric_ = Logistic(), get_metric("micro-f1")
    model.factor_penalty_, model.answer_weight_ = np.eye(k), 0.5
    Y = np.where(rng.uniform(size=(n, n_items)) < rated, rng.integers(0, 2, size=(n, n_items)), np.nan)
    names: dict[str, Any] = {"row_names": model.user_ids_, "label_names": model.item_ids_}
    labels = ObservedLabels.from_triplets(
        *np.nonzero(~np.isnan(Y)), Y[~np.isnan(Y)], shape=(n, n_items), **names
    )
    model.answers_ = labels
    if unobserved == "negative":
        model.silence_weight_ = 1.0
    else:
        model.answers_ = ObservedLabels.from_any(labels, unobserved)
    return model


def scores_of(model: Any) -> Any:
    """All scores, users x items."""
    return np.asarray(
        [model.decision_function(user, list(model.item_ids_)) for user in model.user_ids_], dtype=np.float64
    )
