"""Small fitted models of every kind that can be saved, each with inputs to compare its answers on."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from labelgap import (
    LinearFractional,
    LowRankClassifier,
    LowRankRegressor,
    MetricThreshold,
    ObservedLabels,
    PlugInClassifier,
    Recommender,
)
from labelgap.exceptions import UninformativeLabelsWarning

RNG = np.random.RandomState(0)
X = RNG.standard_normal((40, 4))
TRUTH = (X @ RNG.standard_normal((4, 3)) + 0.3 * RNG.standard_normal((40, 3)) > 0.2).astype(float)
Y = np.where(RNG.uniform(size=TRUTH.shape) < 0.6, TRUTH, np.nan)
COUNTS = np.where(np.isnan(Y), np.nan, RNG.poisson(np.exp(0.5 * X[:, :3])).astype(float))
USERS = np.repeat(np.arange(10), 4)
ITEMS = np.concatenate([np.random.RandomState(i).permutation(6)[:4] for i in range(10)])
STARS = 1 + (USERS * ITEMS + USERS) % 5
NAMES = [f"üser {user}" for user in USERS]
ITEM_NAMES = [("film", int(item)) for item in ITEMS]
USER_FEATURES = {f"üser {user}": RNG.standard_normal(2) for user in range(11)}
ITEM_FEATURES = {("film", item): RNG.standard_normal(3) for item in range(6)}

FIXED: dict[str, Any] = {"trace_penalty": 0.01, "ridge_penalty": 0.001, "random_state": 0}


def classifier(**settings: Any) -> Any:
    return LowRankClassifier(**(FIXED | settings))


def regressor(family: str, answers: Any = COUNTS, features: Any = X, **settings: Any) -> Any:
    return LowRankRegressor(family=family, **(FIXED | settings)).fit(features, answers)


def recommender(**settings: Any) -> Any:
    return Recommender(positive=3, trace_penalty=0.02, random_state=0, **settings)


def with_names() -> ObservedLabels:
    return ObservedLabels.from_triplets(
        *np.nonzero(~np.isnan(Y)), Y[~np.isnan(Y)], shape=Y.shape, label_names=("red", "grün", "blue")
    )


COSTS = LinearFractional({"const": 1, "fn": -1, "fp": -0.25}, {"const": 1}, name="costs")

MODELS: dict[str, Callable[[], Any]] = {
    "classifier": lambda: classifier().fit(X, Y),
    "classifier, all chosen": lambda: LowRankClassifier(random_state=0).fit(X, Y),
    "classifier, sparse": lambda: classifier(unobserved="negative").fit(sp.csr_array(X), sp.csr_array(TRUTH)),
    "classifier, 1-d text": lambda: classifier().fit(X, np.where(TRUTH[:, 0], "yes", "nö")),
    "classifier, label names": lambda: classifier(metric=COSTS).fit(X, with_names()),
    "classifier, unlabelled": lambda: classifier(unobserved="unlabelled", flip_rate=[0.1, 0.2, 0.3]).fit(
        X, TRUTH
    ),
    "classifier, squared": lambda: classifier(loss="squared").fit(X, Y),
    "classifier, squared_hinge": lambda: classifier(loss="squared_hinge").fit(X, Y),
    "classifier, exponential": lambda: classifier(loss="exponential").fit(X, Y),
    "classifier, random state": lambda: classifier(random_state=np.random.RandomState(3)).fit(X, Y),
    "classifier, numpy numbers": lambda: classifier(trace_penalty=np.float32(0.01), rank=np.int64(2)).fit(
        X, Y
    ),
    "classifier, sigmoid": lambda: classifier(calibration="sigmoid").fit(X, Y),
    "regressor, gaussian": lambda: regressor("gaussian"),
    "regressor, all chosen": lambda: LowRankRegressor(random_state=0).fit(X, COUNTS),
    "regressor, poisson": lambda: regressor("poisson"),
    "regressor, bernoulli": lambda: regressor("bernoulli", Y),
    "regressor, 1-d": lambda: regressor("poisson", np.nan_to_num(COUNTS[:, 0])),
    "regressor, no features": lambda: regressor("gaussian", COUNTS, None),
    "plug-in": lambda: PlugInClassifier(random_state=0).fit(X, Y),
    "plug-in, given": lambda: PlugInClassifier(
        LogisticRegression(C=0.5, class_weight={0: 1.0, 1: 2.0}), random_state=0
    ).fit(X, Y),
    "plug-in, sigmoid": lambda: PlugInClassifier(calibration="sigmoid", random_state=0).fit(X, Y),
    "plug-in, constant label": lambda: PlugInClassifier(threshold="train").fit(
        X, np.column_stack([TRUTH[:, 0], np.ones(len(X))])
    ),
    "threshold of scores, isotonic": lambda: MetricThreshold(calibration="isotonic").fit(X[:, :3], Y),
    "threshold of scores": lambda: MetricThreshold().fit(X[:, :3], Y),
    "threshold, per label": lambda: MetricThreshold(LogisticRegression(), random_state=0).fit(X, Y),
    "threshold, 1-d": lambda: MetricThreshold(LogisticRegression(), random_state=0).fit(X, TRUTH[:, 0]),
    "threshold, of a classifier": lambda: MetricThreshold(classifier(), random_state=0).fit(X, Y),
    "recommender": lambda: recommender().fit((NAMES, ITEM_NAMES, STARS)),
    "recommender, whole numbers": lambda: recommender(weights="inverse-propensity").fit(
        (USERS, ITEMS, STARS)
    ),
    "recommender, features": lambda: recommender(ridge_penalty=0.01).fit(
        (NAMES, ITEM_NAMES, STARS), user_features=USER_FEATURES, item_features=ITEM_FEATURES
    ),
    "recommender, unlabelled": lambda: Recommender(
        unobserved="unlabelled", flip_rate=0.1, trace_penalty=0.02, random_state=0
    ).fit((NAMES, ITEM_NAMES)),
    "recommender, negative": lambda: Recommender(unobserved="negative", positive=3, random_state=0).fit(
        (NAMES, ITEM_NAMES, STARS), user_features=USER_FEATURES
    ),
    "recommender, folded in": lambda: (
        recommender().fit((NAMES, ITEM_NAMES, STARS)).fold_in((["eve"] * 2, ITEM_NAMES[:2], [5, 1]))
    ),
}


@functools.cache
def fitted(name: str) -> Any:
    """Each is fitted once; a test that changes one takes a copy."""
    with warnings.catch_warnings():
        # A label with one class is told, and is wanted here.
        warnings.simplefilter("ignore", UninformativeLabelsWarning)
        return MODELS[name]()


def answers(model: Any) -> dict[str, Any]:
    """What a model answers, as arrays or numbers by the name of the question."""
    if isinstance(model, Recommender):
        return _recommender_answers(model)
    if isinstance(model, LowRankRegressor):
        rows = X if model._has_features else None
        truth = COUNTS if model.family != "bernoulli" else Y
        judged = np.nan_to_num(truth[:, 0]) if model._single else truth
        return {
            "scores": model.decision_function(rows),
            "means": model.predict(rows),
            "entries": model.predict_entries(rows, judged.reshape(len(X), -1)),
            "score": model.score(rows, judged),
        }
    rows = X[:, :3] if isinstance(model, MetricThreshold) and model.estimator is None else X
    judged = model.classes_[TRUTH[:, 0].astype(int)] if model._single else TRUTH[:, : model.n_labels_]
    found = {
        "scores": model.decision_function(rows),
        "decisions": model.predict(rows) if model._single else model.predict(rows, output="dense"),
        "score": model.score(rows, judged, unobserved="missing"),
        "top": model.predict_topk(rows, k=1),
    }
    if model._conformal is not None:
        found["sets"] = model.predict_set(rows, coverage=0.6)
    if hasattr(model, "predict_proba"):
        found |= {"probabilities": model.predict_proba(rows), "threshold": model.threshold_probability_}
    return found


def _recommender_answers(model: Recommender) -> dict[str, Any]:
    users, items = model.user_ids_, model.item_ids_
    rows, columns = np.divmod(np.arange(len(users) * len(items)), len(items))
    pairs = [users[row] for row in rows], [items[column] for column in columns]
    new = ("new one",), (items[0],)
    # As earlier versions folded in, whose files and figures the tests keep.
    folded = model.fold_in((*new, [5]) if model.positive else new, prior="fit")
    best = model.recommend_batch(n=2)
    likes = list(zip(*pairs, strict=True))[:12]
    return {
        "scores": model.decision_function(*pairs),
        "probabilities": model.predict_proba(*pairs),
        "decisions": model.predict(*pairs),
        "decided": model.decide_matrix().toarray(),
        "best": best.scores,
        "best items": [[str(item) for item in row] for row in best.items],
        "folded in": folded.decision_function("new one", list(items)),
        "explained": [part.contribution for part in model.explain(users[0], items[0]).contributions],
        "similar items": model.similar_items(items[0], n=3).similarities,
        "score": model.score(tuple(zip(*likes, strict=True)), unobserved="negative"),
    }
