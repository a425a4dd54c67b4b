"""What "auto" chooses beside an exhaustive grid of given penalties, for every estimator that chooses.

An estimator with a ``trace_penalty`` must be in ``KINDS``, which a test asks for. The order in which a search
asks is tested in test_selection_loop.py.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from quick_estimators import QUICK, fit, problem, public_estimators

X, Y = problem()
POSITIVES = np.where(Y == 1, 1.0, np.nan)
PENALTIES = ("trace_penalty", "ridge_penalty", "intercept_penalty")
SELECTING = {
    name for name, kind in public_estimators().items() if "trace_penalty" in signature(kind).parameters
}
LIKES = {"unobserved": "unlabelled", "flip_rate": 0.3}
# What a search chooses besides the penalties is given, so that a fit can be repeated.
KINDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "LowRankClassifier": (X, Y, {"features": "linear"}),
    "LowRankClassifier, CSR": (sp.csr_array(np.where(X > -0.3, X, 0.0)), Y, {"features": "linear"}),
    "LowRankClassifier, other metric": (X, Y, {"features": "linear", "metric": "macro-f1"}),
    "LowRankClassifier, likes": (
        X,
        np.nan_to_num(Y),
        {"loss": "squared", **LIKES},
    ),
    "LowRankClassifier, silence": (X, np.nan_to_num(Y), {"features": "linear", "unobserved": "negative"}),
    "LowRankRegressor": (X, Y, {}),
    "LowRankRegressor, counts": (X, Y, {"family": "poisson"}),
    "Recommender": (X, Y, {"count_weighting": 0.0}),
    "Recommender, likes": (X, POSITIVES, {"count_weighting": 0.0, **LIKES}),
}
FOLD = np.random.default_rng(0).integers(0, 4, Y.shape)


def make(name: str, **settings: Any) -> Any:
    """An estimator with these penalties, "auto" if they are not given."""
    kind = QUICK[name.partition(",")[0]]
    known = signature(public_estimators()[name.partition(",")[0]]).parameters
    chosen = dict.fromkeys(PENALTIES, "auto") | settings
    return kind(**{key: value for key, value in chosen.items() if key in known})


def worth(name: str, X: Any, Y: Any, settings: dict[str, Any]) -> float:
    """The metric of held-out labels, by the folds of the fit; of values, by folds of our own."""
    if not name.startswith("LowRankRegressor"):
        return float(fit(make(name, **settings), X, Y).held_out_metric_)
    found = []
    for part in range(FOLD.max() + 1):
        model = fit(make(name, **settings), X, np.where(part == FOLD, np.nan, Y))
        found.append(model.score(X, np.where(part == FOLD, Y, np.nan)))
    return float(np.mean(found))


def grid_around(chosen: dict[str, float]) -> list[dict[str, float]]:
    """λ and λ₂ far below and far above what was chosen, in all combinations."""
    ways: dict[str, Callable[[float], tuple[float, ...]]] = {
        "trace_penalty": lambda at: (at / 16, at, 16 * at),
        "ridge_penalty": lambda at: (0.0, at, 16 * at + 0.01),
        "intercept_penalty": lambda at: (at,),
    }
    each = [[(name, value) for value in dict.fromkeys(ways[name](at))] for name, at in chosen.items()]
    return [dict(one) for one in product(*each)]


def test_every_estimator_that_selects_is_here() -> None:
    assert {name.partition(",")[0] for name in KINDS} == SELECTING


@pytest.mark.parametrize("name", KINDS)
def test_no_penalties_of_a_grid_are_better_by_more_than_luck(name: str) -> None:
    X, Y, settings = KINDS[name]
    found = fit(make(name, **settings), X, Y)
    chosen = {one: float(getattr(found, f"{one}_")) for one in PENALTIES if hasattr(found, f"{one}_")}
    assert "trace_penalty" in chosen
    # The penalties of the folds: all entries together are fitted with less.
    of_folds = chosen | {"trace_penalty": found.candidates_[-1].penalties.trace}
    given = worth(name, X, Y, settings | (chosen if name.startswith("LowRankRegressor") else of_folds))
    if not name.startswith("LowRankRegressor"):
        # What was chosen is what it was chosen for.
        assert given == pytest.approx(found.held_out_metric_, abs=1e-9)
    grid = {str(one): worth(name, X, Y, settings | one) for one in grid_around(chosen)}
    best = max(grid, key=grid.__getitem__)
    # The best of many is so by luck too.
    error = 2 * (found.held_out_error_ or 0.02)
    assert given >= grid[best] - error, f"{best} is better"
