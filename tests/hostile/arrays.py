"""Arrays, frames and parameters of any kind, handed to labels, metrics, thresholds and estimators."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from labelgap import (
    LowRankClassifier,
    LowRankRegressor,
    MetricThreshold,
    ObservedLabels,
    Recommender,
    best_threshold,
    get_metric,
)
from labelgap.exceptions import LabelgapError
from labelgap.metrics import metric_names

from .cases import Draw, case, pick

SCALES = (1.0, 1.0, 1e-300, 1e-8, 1e8, 1e99)


def any_scores(draw: Draw, n: int, L: int) -> Any:
    """Scores, with ties, of any size, and sometimes of a kind that must be refused."""
    Z = np.round(draw.normal(size=(n, L)), int(draw.integers(0, 3))) * pick(draw, *SCALES)
    kind = pick(
        draw, "plain", "plain", "plain", "masked", "complex", "nan", "inf", "sparse", "frame", "text", "3-d"
    )
    if kind == "masked":
        return np.ma.masked_array(Z, mask=draw.random((n, L)) < 0.2)
    if kind == "complex":
        return Z + 1j
    if kind in ("nan", "inf"):
        Z[tuple(draw.integers(0, side) for side in Z.shape)] = float(kind)
    if kind == "sparse":
        return sp.csr_array(Z)
    if kind == "frame":
        return pd.DataFrame(Z)[::-1]
    return Z.astype(str) if kind == "text" else Z[None] if kind == "3-d" else Z


def any_labels(draw: Draw, n: int, L: int) -> Any:
    Y = draw.choice([0.0, 1.0, np.nan], size=(n, L))
    return pick(
        draw,
        Y,
        Y,
        Y,
        np.nan_to_num(Y).astype(bool),
        Y - 1,
        Y * 2,
        Y.astype(complex),
        Y.tolist(),
        Y[0],
        sp.csr_array(np.nan_to_num(Y)),
    )


@case("threshold")
def _threshold(draw: Draw, folder: Path) -> None:
    n, L = (int(side) for side in draw.integers(1, 6, size=2))
    Z, Y = any_scores(draw, n, L), any_labels(draw, n, L)
    metric = get_metric(pick(draw, *metric_names()))
    found = best_threshold(Z, Y, metric)
    labels = ObservedLabels.from_any(Y)
    scores = labels.align(Z).astype(float)
    # A threshold at each score, and above all of them: none is better.
    tried = [metric(labels, scores >= cut) for cut in [*np.unique(scores), np.inf]]
    assert np.isclose(found.value, max(tried), rtol=1e-9, atol=1e-12)
    assert np.isclose(metric(labels, scores >= found.threshold), found.value, rtol=1e-9, atol=1e-12)


def damaged(draw: Draw, matrix: Any) -> Any:
    """A sparse matrix, perhaps with an entry outside its shape."""
    stored = matrix.asformat(pick(draw, "csr", "csc", "coo")).copy()
    if draw.random() < 0.4 and stored.nnz:
        name = pick(draw, "col", "row") if stored.format == "coo" else pick(draw, "indices", "indptr")
        places = getattr(stored, name)
        places[int(draw.integers(len(places)))] = pick(draw, -1, 10**6, 2**31 - 1, 0)
    return stored


@case("sparse")
def _sparse(draw: Draw, folder: Path) -> None:
    n, L = (int(side) for side in draw.integers(1, 6, size=2))
    matrix = damaged(draw, sp.csr_array(draw.choice([0.0, 1.0], size=(n, L))))
    use = pick(draw, "labels", "scores", "features", "ratings")
    if use == "labels":
        labels = ObservedLabels.from_sparse(matrix, pick(draw, "missing", "negative", "unlabelled"))
        assert labels.shape == (n, L)
        assert not len(labels.indices) or 0 <= labels.indices.min() <= labels.indices.max() < L
    elif use == "scores":
        best_threshold(matrix, draw.choice([0.0, 1.0], size=(n, L)), "micro-f1")
    elif use == "features":
        y = draw.choice([0.0, 1.0], size=(n, 2))
        model = LowRankClassifier(trace_penalty=0.5, ridge_penalty=0.1, threshold="train", max_iter=5)
        assert np.isfinite(model.fit(matrix, y).decision_function(matrix)).all()
    else:
        Recommender(trace_penalty=0.5, threshold="train", max_iter=5).fit(matrix)


PARAMETERS: dict[str, tuple[Any, ...]] = {
    "loss": ("logistic", "squared", "squared_hinge", "exponential", "no", 3),
    "trace_penalty": (0.0, 1e-3, 1.0, 1e9, -1.0, np.nan, "auto"),
    "ridge_penalty": (0.0, 1e-3, 1.0, 1e9, np.inf, True),
    "rank": (None, 1, 40, 0, 2.0),
    "score_bound": (None, "auto", 0.5, 1e6, 0.0, "x"),
    "unobserved": ("missing", "negative", "unlabelled", "maybe"),
    "solver": ("auto", "factored", "proximal", "alternating", "none"),
    "tol": (1e-3, 0.5, 0.0, 2.0),
    "threshold": ("train", "train", "holdout", "x"),
}


def any_parameters(draw: Draw) -> dict[str, Any]:
    """Mostly the first, good values; two of them anything."""
    chosen: dict[str, Any] = {
        "trace_penalty": 0.05,
        "ridge_penalty": 0.01,
        "threshold": "train",
        "max_iter": 30,
    }
    for name in draw.choice(list(PARAMETERS), size=int(draw.integers(0, 4)), replace=False):
        chosen[str(name)] = pick(draw, *PARAMETERS[str(name)])
    return chosen


def refused_by_scikit_learn(use: Callable[[], Any], *words: str) -> bool:
    """Whether scikit-learn refuses X in its own words, as its conventions ask for, some of which are "
    "given."""
    try:
        use()
    except LabelgapError:
        raise
    except (ValueError, TypeError) as error:
        if any(word in str(error) for word in words):
            return True
        raise
    return False


def check_fit(model: Any) -> None:
    assert np.isfinite(model.objective_)
    assert model.duality_gap_ >= -1e-9 * max(1.0, abs(model.objective_))


@case("classifier")
def _classifier(draw: Draw, folder: Path) -> None:
    n, d, L = (int(side) for side in draw.integers(1, 6, size=3))
    X: Any = draw.normal(size=(n, d)) * pick(draw, *SCALES)
    if draw.random() < 0.3:
        X = pick(
            draw,
            np.ma.masked_array(X, mask=X > 1),
            X + 1j,
            X[0],
            pd.DataFrame(X)[::-1],
            sp.csr_array(X),
            X.astype("f4" if np.abs(X).max() < 1e30 else "f8"),
            X[:, :0],
        )
    Y = any_labels(draw, n, L)
    if draw.random() < 0.1:
        Y = pd.DataFrame(draw.choice([0.0, 1.0], size=(n, L)))
    model = LowRankClassifier(random_state=0, **any_parameters(draw))
    if refused_by_scikit_learn(
        lambda: model.fit(X, Y), "Complex data", "Expected 2D", "feature(s)", "sample"
    ):
        return
    check_fit(model)
    decided = model.predict(X)
    assert set(np.unique(decided.data if sp.issparse(decided) else decided)) <= {0, 1}
    probabilities = model.predict_proba(X)
    assert ((probabilities >= 0) & (probabilities <= 1)).all()


@case("regressor")
def _regressor(draw: Draw, folder: Path) -> None:
    n, d, L = (int(side) for side in draw.integers(1, 5, size=3))
    X = draw.normal(size=(n, d))
    Y = draw.choice([0.0, 1.0, 3.0, np.nan, -2.0, 1e6], size=(n, L))
    family = pick(draw, "gaussian", "poisson", "bernoulli")
    model = LowRankRegressor(family, trace_penalty=0.1, ridge_penalty=0.1, max_iter=30, random_state=0)
    check_fit(model.fit(X, Y, offset=pick(draw, None, None, 0.5, np.nan, np.ones(n), 1j)))
    assert np.isfinite(model.predict(X)).all()


@case("events")
def _events(draw: Draw, folder: Path) -> None:
    size = int(draw.integers(1, 12))
    users, items = (draw.choice(["a", "b", "c"], size=size) for _ in range(2))
    values = draw.choice([0, 1, 2, np.nan, 1e300], size=size, p=[0.3, 0.3, 0.3, 0.05, 0.05])
    times: tuple[Any, ...] = (
        1,
        2.5,
        7,
        "2024-05-31",
        "soon",
        None,
        float("inf"),
        np.datetime64("NaT"),
        1e300,
    )
    kinds = int(pick(draw, 3, 3, 4, 9))
    events: Any = (users, items, values, [pick(draw, *times[:kinds]) for _ in range(size)])
    model = Recommender(
        aggregate=pick(draw, None, "sum", "mean", "max", "last", "median"),
        half_life=pick(draw, None, 1.0, 1e-300, 1e300, 0, "1"),
        positive=pick(draw, None, 1, 2),
        unobserved=pick(draw, "missing", "negative"),
        trace_penalty=0.1,
        threshold="train",
        max_iter=30,
    )
    check_fit(model.fit(events))
    model.partial_fit(events)
    assert np.isfinite(model.recommend_batch(n=2, exclude_seen=False).scores).any()


@case("recommender")
def _recommender(draw: Draw, folder: Path) -> None:
    size = int(draw.integers(1, 12))
    ids: tuple[Any, ...] = (1, 2, 3, "a", "b", 2**64, 1.5, None, (1, 2), "=1+1", float("nan"))
    users = [pick(draw, *ids[: int(pick(draw, 3, 3, 5, 11))]) for _ in range(size)]
    items = [pick(draw, 10, 20, "x", "y") for _ in range(size)]
    values = draw.choice([0, 1, 1, 0], size=size).astype(pick(draw, "i8", "f8", "?"))
    parameters = any_parameters(draw)
    ratings: Any = (users, items) if parameters.get("unobserved") == "unlabelled" else (users, items, values)
    model = Recommender(random_state=0, **parameters)
    check_fit(model.fit(ratings))
    best = model.recommend(model.user_ids_[0], n=2, exclude_seen=False)
    assert len(best.items) == min(2, len(model.item_ids_))


@case("threshold estimator")
def _metric_threshold(draw: Draw, folder: Path) -> None:
    n, L = (int(side) for side in draw.integers(1, 6, size=2))
    Z = any_scores(draw, n, L)
    model, Y = MetricThreshold(), any_labels(draw, n, L)
    words = ("Complex data", "dim 3", "could not convert", "dense data")
    if refused_by_scikit_learn(lambda: model.fit(Z, Y), *words):
        return
    assert model.predict(Z).shape[0] == n
