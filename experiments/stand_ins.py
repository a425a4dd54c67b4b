"""Text-like data of the shapes of Autofood and Compphys, which are not available: few rows, many features.

Documents are bags of words. A word's frequency falls with its rank (Zipf's law) and differs by topic; a
document mixes a few topics. A label is a yes where its own mix of topics, with some noise, is strongest, so
the labels come from a W of the rank of the topics. Numbers on these data show that d much larger than n
works; they say nothing about the real data sets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from labelgap._types import Floats
from labelgap.data import MultiLabelData


@dataclass(frozen=True)
class Shape:
    """The sizes of a data set."""

    n_train: int
    n_test: int
    n_features: int
    n_labels: int
    positive: float
    """The fraction of the labels that are a yes, over all rows and labels."""
    n_topics: int = 12
    mean_length: float = 400.0
    """Words of a document."""


# The paper prints Bibtex's sizes for Autofood; these are the ones given elsewhere. Of Autofood's test labels
# less than 8.5 % are a yes. For Compphys no fraction is printed, but a best accuracy of 94.7 %.
SHAPES = {
    "autofood-like": Shape(155, 38, 9_382, 162, positive=0.083),
    "compphys-like": Shape(161, 40, 33_284, 208, positive=0.06),
}

# Small values: a document has few topics, and a word few topics that use it.
_TOPICS_PER_DOCUMENT = 0.2
_TOPICS_PER_WORD = 0.3
# The standard deviation of what the topics do not say about a label; what they do say has one of 1.
_NOISE = 0.5
# How much the labels differ in how often they are a yes (on the scale of logarithms), and the most there is.
_RATE_SPREAD, _LARGEST_RATE = 0.8, 0.5


def make_stand_in(name: str, seed: int, shape: Shape | None = None) -> MultiLabelData:
    """Word counts (logarithms of 1 + count) and complete labels; every seed has its own.

    Parameters
    ----------
    name : str
        "autofood-like" or "compphys-like"; any name where a shape is given.
    seed : int
    shape : Shape or None, default None
        None is that of the name.

    Examples
    --------
    >>> data = make_stand_in("autofood-like", seed=0)
    >>> data.X.shape, data.Y.shape, len(data.train), len(data.test)
    ((193, 9382), (193, 162), 155, 38)
    """
    shape = SHAPES[name] if shape is None else shape
    rng = np.random.RandomState(seed)
    n = shape.n_train + shape.n_test
    topics = rng.dirichlet(np.full(shape.n_topics, _TOPICS_PER_DOCUMENT), size=n)
    X = _documents(topics, shape, rng)
    Y = _labels(topics, shape, rng)
    rows = np.arange(n)
    return MultiLabelData(name, X, Y, rows[: shape.n_train], rows[shape.n_train :])


def _documents(topics: Floats, shape: Shape, rng: np.random.RandomState) -> sp.csr_array:
    """Words drawn from each document's mix of topics, as a CSR array."""
    zipf = 1.0 / (1.0 + np.arange(shape.n_features))
    words = zipf * rng.gamma(_TOPICS_PER_WORD, size=(shape.n_topics, shape.n_features))
    words /= words.sum(axis=1, keepdims=True)
    rows = []
    for mix in topics:
        length = 1 + rng.poisson(shape.mean_length)
        # One document at a time: no array of all documents and all words is made.
        frequencies = mix @ words
        rows.append(sp.csr_array(np.log1p(rng.multinomial(length, frequencies / frequencies.sum()))[None]))
    return sp.csr_array(sp.vstack(rows, format="csr"))


def _labels(topics: Floats, shape: Shape, rng: np.random.RandomState) -> sp.csr_array:
    """Yes for the rows where the score of a label is highest, as many as the label's rate says."""
    scores = (topics - topics.mean(axis=0)) @ rng.standard_normal((shape.n_topics, shape.n_labels))
    scores /= scores.std(axis=0)
    scores += _NOISE * rng.standard_normal(scores.shape)
    weight = np.exp(_RATE_SPREAD * rng.standard_normal(shape.n_labels))
    rate = np.minimum(shape.positive * weight / weight.mean(), _LARGEST_RATE)
    counts = np.maximum(1, np.round(rate * len(scores))).astype(np.int64)
    # The rank of each row by its score, best first.
    order = np.argsort(np.argsort(-scores, axis=0, kind="stable"), axis=0, kind="stable")
    return sp.csr_array((order < counts).astype(np.uint8))
