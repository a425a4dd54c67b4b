"""The data sets of the experiments: features are scaled, and a fraction of the training labels is observed.

Dense features are standardised on the training rows and divided by √d, so that a row has a length of about 1;
rows of sparse features are scaled to length 1. Every draw has its own observed labels Ω, uniform over the
entries of the training rows. A data set without a published split (cal500) has its own rows in every draw
too: 400 of cal500's 502 are for training, of others 80 %. A draw with another fraction observed has the same
rows.

Real data sets are files in the folder that LABELGAP_DATA names (see docs/data.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler, normalize

from experiments.stand_ins import SHAPES, make_stand_in
from labelgap import ObservedLabels
from labelgap.data import MultiLabelData, data_folder, load_multilabel, make_low_rank_labels
from labelgap.exceptions import InvalidParameterError

REAL = ("emotions", "scene", "yeast", "cal500", "corel5k", "bibtex")
# Two of the paper's that are used where the user has them.
OWN = ("autofood", "compphys")
STAND_INS = tuple(SHAPES)
SYNTHETIC = "synthetic"
OBSERVED = 0.2

_TRAINING_ROWS = {"cal500": 400}
_TRAINING_FRACTION = 0.8
# Entries that are drawn together when Ω is drawn.
_BLOCK_ENTRIES = 1 << 20


class Problem(NamedTuple):
    """The training data that every method gets, and the test rows."""

    X: Any
    labels: ObservedLabels
    X_test: Any
    Y_test: Any
    """Complete. Where it is sparse, absent means no: score it with ``unobserved="negative"``."""
    Y: Any = None
    """All labels of the training rows, which no method sees; in the form of ``Y_test``."""


def problem(name: str, seed: int, observed: float = OBSERVED) -> Problem:
    """The draw ``seed`` of a data set, with that fraction of the training labels observed.

    Parameters
    ----------
    name : str
        One of ``REAL``, ``OWN``, ``STAND_INS`` and "synthetic".
    seed : int
        Every draw has its own Ω. Those of cal500 have their own rows too, and those of stand-ins and
        "synthetic" everything.
    observed : float, default 0.2

    Examples
    --------
    >>> toy = problem("autofood-like", seed=0)
    >>> toy.X.shape, toy.labels.shape, toy.Y_test.shape
    ((155, 9382), (155, 162), (38, 162))
    """
    if name == SYNTHETIC:
        return synthetic_problem(seed, observed)
    if name in STAND_INS:
        # The generator has the seed too, and must not share its random numbers with Ω.
        return split_and_observe(make_stand_in(name, seed), np.random.RandomState([seed, 1]), observed)
    if name in REAL or name in OWN:
        return real_problem(name, seed, observed)
    known = ", ".join((*REAL, *OWN, *STAND_INS, SYNTHETIC))
    raise InvalidParameterError(f"There is no data set {name!r}; choose one of {known}.")


def real_problem(name: str, seed: int, observed: float = OBSERVED) -> Problem:
    """A data set of the user's folder with a fraction of its training labels."""
    return split_and_observe(load_multilabel(name), np.random.RandomState(seed), observed)


def synthetic_problem(seed: int, observed: float = OBSERVED, **sizes: Any) -> Problem:
    """The paper's synthetic problem, noise-free, of rank 5."""
    drawn = make_low_rank_labels(observed=observed, random_state=seed, **sizes)
    scale = np.sqrt(drawn.X.shape[1])
    labels = ObservedLabels.from_any(drawn.Y_observed)
    return Problem(drawn.X / scale, labels, drawn.X_test / scale, drawn.Y_test, drawn.Y)


def available(names: Sequence[str]) -> list[str]:
    """The data sets that are available; a line is printed for each that is left out."""
    folder = data_folder()
    there = []
    for name in names:
        if name not in REAL and name not in OWN:
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


def observe(Y: sp.csr_array, fraction: float, rng: np.random.RandomState) -> ObservedLabels:
    """A fraction of the labels, drawn independently for each entry."""
    n, n_labels = Y.shape
    step = max(1, _BLOCK_ENTRIES // n_labels)
    rows, columns, values = [], [], []
    for start in range(0, n, step):
        block = Y[start : start + step].toarray()
        seen = np.nonzero(rng.random_sample(block.shape) < fraction)
        rows.append(seen[0] + start)
        columns.append(seen[1])
        values.append(block[seen])
    parts: list[NDArray[Any]] = [np.concatenate(part) for part in (rows, columns, values)]
    return ObservedLabels.from_triplets(parts[0], parts[1], parts[2], shape=(n, n_labels))


def _scaled(X: Any, X_test: Any) -> tuple[Any, Any]:
    if sp.issparse(X):
        return normalize(X), normalize(X_test)
    scaler = StandardScaler().fit(X)
    root = np.sqrt(X.shape[1])
    return scaler.transform(X) / root, scaler.transform(X_test) / root
