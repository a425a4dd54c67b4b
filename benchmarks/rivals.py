"""The libraries that labelgap is compared with. Each is imported inside its functions only.

So a benchmark can name those that are not installed (``missing``); ``python -m benchmarks.install_rivals``
installs them. Preparing the data for a rival is not counted in its time.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from benchmarks.data import Ratings, dot_scores
from benchmarks.ranking import Scores
from labelgap.labels import ObservedLabels

Floats = NDArray[np.float64]

MODULES = {
    "implicit": ("implicit.als", "implicit.bpr"),
    "lightfm": ("lightfm",),
    "xcolumns": ("xcolumns.frank_wolfe", "xcolumns.block_coordinate"),
}


def missing(name: str) -> str | None:
    """None when the rival can be imported; else the reason, in one line."""
    for module in MODULES[name]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                import_module(module)
        # A package built for another numpy or without its library fails in many ways.
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            return f"{name} cannot run: {reason}. Install it with `python -m benchmarks.install_rivals`."
    return None


# -- features ----------------------------------------------------------------------------------------------


def rows_by_label(X: Any, labels: ObservedLabels) -> list[tuple[Any, NDArray[Any]]]:
    """For each label the features and values of the rows in which it is observed."""
    columns = labels.to_sparse().tocsc()
    parts = [slice(*columns.indptr[j : j + 2]) for j in range(labels.shape[1])]
    return [(X[columns.indices[part]], columns.data[part]) for part in parts]


def one_by_one(data: Sequence[tuple[Any, Any]]) -> list[LogisticRegression]:
    """liblinear: one LogisticRegression per label, C = 1, one after the other."""
    return [LogisticRegression(solver="liblinear", C=1.0).fit(X, y) for X, y in data]


# -- ratings and lists -------------------------------------------------------------------------------------


def lightfm(train: Ratings, *, rank: int, epochs: int, rate: float = 0.05, threads: int = 1) -> Any:
    """LightFM with the logistic loss: stochastic gradients (Adagrad), with biases of users and items."""
    from lightfm import LightFM

    values = (2 * train.values - 1).astype(np.float32)
    data = sp.coo_matrix((values, (train.users, train.items)), shape=train.shape)
    model = LightFM(no_components=rank, loss="logistic", learning_rate=rate, random_state=0)
    return model.fit(data, epochs=epochs, num_threads=threads)


def lightfm_scores(model: Any, ratings: Ratings) -> Floats:
    """Log-odds of a yes."""
    products = dot_scores(model.user_embeddings, model.item_embeddings, ratings)
    return products + model.user_biases[ratings.users] + model.item_biases[ratings.items]


def _factors(model: Any) -> Scores:
    return Scores(model.user_factors, model.item_factors, np.zeros(len(model.item_factors)))


def als(likes: Any, seed: int, *, threads: int = 0, **settings: Any) -> Scores:
    """implicit: alternating least squares over all pairs."""
    from implicit.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(iterations=15, random_state=seed, num_threads=threads, **settings)
    with threadpool_limits(1, user_api="blas"):
        model.fit(sp.csr_matrix(likes, dtype=np.float32), show_progress=False)
    return _factors(model)


def bpr(likes: Any, seed: int, **settings: Any) -> Scores:
    """implicit: Bayesian personalised ranking."""
    from implicit.bpr import BayesianPersonalizedRanking

    model = BayesianPersonalizedRanking(iterations=100, random_state=seed, num_threads=1, **settings)
    model.fit(sp.csr_matrix(likes, dtype=np.float32), show_progress=False)
    return _factors(model)


def warp(likes: Any, seed: int, *, epochs: int, **settings: Any) -> Scores:
    """LightFM with the WARP loss."""
    from lightfm import LightFM

    model = LightFM(loss="warp", random_state=seed, **settings)
    model.fit(sp.csr_matrix(likes, dtype=np.float32), epochs=epochs)
    intercepts, items = model.get_item_representations()
    return Scores(model.get_user_representations()[1], items, intercepts)


# -- thresholds --------------------------------------------------------------------------------------------


def curve_f1(values: NDArray[Any], scores: Floats) -> float:
    """The best F1 of all thresholds, from scikit-learn's ``precision_recall_curve``."""
    from sklearn.metrics import precision_recall_curve

    precision, recall, _ = precision_recall_curve(values, scores)
    # The curve ends with a point of its own, which has no threshold.
    total = precision[:-1] + recall[:-1]
    f1 = np.divide(2 * precision[:-1] * recall[:-1], total, out=np.zeros_like(total), where=total > 0)
    return float(f1.max())


def frank_wolfe(labels: NDArray[np.float32], probabilities: NDArray[np.float32]) -> Any:
    """xCOLUMNs: a mixture of classifiers "a·p + b > 0" for macro-F1, from known labels.

    By its defaults but for the start, which is p > 1/2 and not random.
    """
    # Its ready-made search for macro-F1 hands over a function of other arguments (version 0.0.2).
    from xcolumns.frank_wolfe import find_classifier_using_fw
    from xcolumns.metrics import macro_f1_score_on_conf_matrix

    options = {"k": 0, "init_classifier": "top", "skip_tn": True, "seed": 0}
    return find_classifier_using_fw(labels, probabilities, macro_f1_score_on_conf_matrix, **options)


def block_coordinate_ascent(probabilities: NDArray[np.float32]) -> NDArray[np.float32]:
    """xCOLUMNs: decisions by block coordinate ascent on the expected macro-F1 of these rows."""
    from xcolumns.block_coordinate import predict_optimizing_macro_f1_score_using_bc as predict

    return np.asarray(predict(probabilities, k=0, seed=0))
