"""The data of the experiments: data sets of which a fraction of the labels is observed, and known truths.

Dense features are standardised on the training rows and divided by √d, so that a row has a length of about 1;
rows of sparse features are scaled to length 1. Every draw has its own observed labels Ω, uniform over the
entries of the training rows. A data set without a published split (cal500) has its own rows in every draw
too: 400 of cal500's 502 are for training. A draw with another fraction observed has the same rows.

Real data sets are files in the folder that LABELGAP_DATA names (see docs/data.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler, normalize

from labelgap import ObservedLabels
from labelgap.data import MultiLabelData, data_folder, load_multilabel, make_low_rank_labels
from labelgap.exceptions import InvalidParameterError
from labelgap.losses import get_family

REAL = ("emotions", "scene", "yeast", "cal500", "corel5k", "bibtex")
RATINGS = ("jester5k", "coat", "anime", "citeulike")
SYNTHETIC = "synthetic"
OBSERVED = 0.2

_TRAINING_ROWS = {"cal500": 400}
_TRAINING_FRACTION = 0.8
# Entries that are drawn together when Ω is drawn.
BLOCK_ENTRIES = 1 << 20


class Problem(NamedTuple):
    """The training data that every method gets, and the test rows."""

    X: Any
    labels: ObservedLabels
    X_test: Any
    Y_test: Any
    """Complete. Where it is sparse, absent means no: score it with ``unobserved="negative"``."""
    Y: Any = None
    """All labels of the training rows, which no method sees; in the form of ``Y_test``."""


Source = Callable[[str, int, float], Problem]
"""From a data set, a draw and the fraction observed to the problem."""


def problem(name: str, seed: int, observed: float = OBSERVED) -> Problem:
    """The draw ``seed`` of one of ``REAL`` or "synthetic", with that fraction of its training labels."""
    if name == SYNTHETIC:
        return synthetic_problem(seed, observed)
    if name not in REAL:
        raise InvalidParameterError(f"There is no data set {name!r}; choose one of {', '.join(REAL)}.")
    return split_and_observe(load_multilabel(name), np.random.RandomState(seed), observed)


def synthetic_problem(seed: int, observed: float = OBSERVED, **sizes: Any) -> Problem:
    """The paper's synthetic problem, noise-free, of rank 5."""
    drawn = make_low_rank_labels(observed=observed, random_state=seed, **sizes)
    scale = np.sqrt(drawn.X.shape[1])
    labels = ObservedLabels.from_any(drawn.Y_observed)
    return Problem(drawn.X / scale, labels, drawn.X_test / scale, drawn.Y_test, drawn.Y)


def available(names: Sequence[str]) -> list[str]:
    """The data sets that are there; a line is printed for each that is left out."""
    folder = data_folder()
    there = []
    for name in names:
        if name not in REAL and name not in RATINGS:
            there.append(name)
        elif folder is None:
            print(f"{name} is left out: LABELGAP_DATA names no folder with the data sets (see docs/data.md)")
        elif not (folder / f"{name}.npz").is_file():
            print(f"{name} is left out: there is no {name}.npz in the folder that LABELGAP_DATA names")
        else:
            there.append(name)
    return there


def split_and_observe(data: MultiLabelData, rng: np.random.RandomState, observed: float) -> Problem:
    """Rows for training and test, scaled, and an Ω of that fraction of the training labels."""
    train, test = data.train, data.test
    if train is None or test is None:
        order = rng.permutation(data.X.shape[0])
        count = _TRAINING_ROWS.get(data.name, round(_TRAINING_FRACTION * len(order)))
        train, test = order[:count], order[count:]
    X, X_test = _scaled(data.X[train], data.X[test])
    return Problem(X, observe(data.Y[train], observed, rng), X_test, data.Y[test], data.Y[train])


def observe(
    Y: sp.csr_array, fraction: float, rng: np.random.RandomState, block: int = BLOCK_ENTRIES
) -> ObservedLabels:
    """A fraction of the labels, drawn independently for each entry."""
    n, n_labels = Y.shape
    step = max(1, block // n_labels)
    rows, columns, values = [], [], []
    for start in range(0, n, step):
        some = Y[start : start + step].toarray()
        seen = np.nonzero(rng.random_sample(some.shape) < fraction)
        rows.append(seen[0] + start)
        columns.append(seen[1])
        values.append(some[seen])
    parts: list[NDArray[Any]] = [np.concatenate(part) for part in (rows, columns, values)]
    return ObservedLabels.from_triplets(*parts, shape=(n, n_labels))


def _scaled(X: Any, X_test: Any) -> tuple[Any, Any]:
    if sp.issparse(X):
        return normalize(X), normalize(X_test)
    scaler, root = StandardScaler().fit(X), np.sqrt(X.shape[1])
    return scaler.transform(X) / root, scaler.transform(X_test) / root


# -- known truths ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Truth:
    """A draw: features, complete values, and the W* of low rank that made them; ``x·w*`` is a score."""

    X: Any
    Y: Any
    W: Any
    noise: float
    """σ, the root of the mean variance of a value given its row."""


def draw_truth(
    family: str,
    rng: np.random.RandomState,
    *,
    n: int,
    n_labels: int,
    n_features: int,
    rank: int,
    exact: bool = False,
) -> Truth:
    """Standard normal features, and a W* that gives scores of variance 1, whatever its rank.

    That holds on average over draws, and with ``exact`` in every one.
    """
    factors = rng.standard_normal((n_features, rank)), rng.standard_normal((rank, n_labels))
    W = factors[0] @ factors[1] / np.sqrt(n_features * rank)
    if exact:
        W *= np.sqrt(n_labels) / np.linalg.norm(W)
    X = rng.standard_normal((n, n_features))
    Z = X @ W
    mean = get_family(family).inverse_link(Z)
    values: dict[str, Callable[[], Any]] = {
        "gaussian": lambda: Z + rng.standard_normal(Z.shape),
        "poisson": lambda: rng.poisson(mean),
        "bernoulli": lambda: rng.random_sample(Z.shape) < mean,
    }
    Y = np.asarray(values[family](), dtype=np.float64)
    return Truth(X, Y, W, float(np.sqrt(get_family(family).curvature(Z, Y).mean())))


def observe_some(
    truth: Truth, count: int, rng: np.random.RandomState, *, binary: bool = False
) -> ObservedLabels:
    """That many values, chosen uniformly."""
    n, n_labels = truth.Y.shape
    rows, columns = np.divmod(rng.choice(n * n_labels, size=count, replace=False), n_labels)
    values = truth.Y[rows, columns]
    return ObservedLabels.from_triplets(rows, columns, values, shape=truth.Y.shape, binary=binary)


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The exponent of x in y: the slope of the least-squares line through the logarithms."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
