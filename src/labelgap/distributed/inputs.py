"""What a user has on a cluster, as partitions of features and observed labels.

Reading is lazy and done by the workers. An error names the partition that it is about.
"""

from __future__ import annotations

import fnmatch
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from labelgap.distributed.clients import cluster_errors
from labelgap.distributed.partitions import Own, Partition
from labelgap.distributed.rounds import Rounds
from labelgap.exceptions import InvalidFeaturesError, InvalidLabelsError, LabelgapError
from labelgap.labels import ObservedLabels
from labelgap.labels.columns import refuse_dates
from labelgap.labels.constructors import meaning_of_silence
from labelgap.objective.moments import LabelSums

_FORMS = (
    "X and y are dask arrays or dask DataFrames with the same rows; or X is a dask DataFrame or the path of "
    "a Parquet folder and y names the columns of the labels; or X is a list of delayed pairs (X, "
    "ObservedLabels) and y is None"
)


class Facts(NamedTuple):
    """What the client must know of a partition."""

    n_rows: int
    n_features: int | None
    is_sparse: bool
    sums: LabelSums
    label_names: tuple[Any, ...] | None
    unobserved: str
    """What an absent entry means to its labels."""


@dataclass
class ClusterData:
    """The partitions of a data set on the cluster, and what is known of all of them."""

    rounds: Rounds
    """The partitions as they were read."""
    n_partitions: int
    n_rows: int
    n_features: int
    is_sparse: bool
    sums: LabelSums
    label_names: tuple[Any, ...] | None
    feature_names: tuple[str, ...] | None
    unobserved: str
    """What an absent entry means: as given, or as the labels of all partitions say themselves."""

    def facts(self) -> dict[str, int]:
        """How much there is."""
        return {
            "rows": self.n_rows,
            "cells": self.n_rows * self.n_labels,
            "observed": int(self.sums.count.sum()),
            "positive": int(self.sums.value.sum()),
        }

    def shape_like(self) -> Any:
        """Something with the shape and the kind of X, from which its use is decided."""
        shape = (self.n_rows, self.n_features)
        return sp.csr_array(shape) if self.is_sparse else np.broadcast_to(0.0, shape)

    @property
    def n_labels(self) -> int:
        return len(self.sums.count)

    def take_partitions(self) -> Rounds:
        """The partitions, which are given up here: they take memory or disk for as long as they are held."""
        rounds, self.rounds = self.rounds, Rounds(self.rounds.client, ())
        return rounds


@dataclass(frozen=True)
class _Sources:
    """Delayed pieces in pairs, not yet read."""

    pieces: list[Any]
    read: Callable[..., tuple[Any, ObservedLabels]]
    feature_names: tuple[str, ...] | None = None


def read_data(client: Any, X: Any, y: Any, unobserved: str) -> ClusterData:
    """The partitions of X and y on the cluster, read and checked there."""
    from dask.delayed import delayed as later

    sources = _sources(X, y, unobserved)
    if not sources.pieces:
        raise InvalidFeaturesError("There are no partitions: X is empty.")
    read = later(_read_partition, pure=False)
    delayed = [read(number, sources.read, piece) for number, piece in enumerate(sources.pieces)]
    with cluster_errors():
        parts = client.compute(delayed)
        facts = Rounds(client, parts, [Own(number, 0) for number in range(len(parts))]).each_of(_facts)
    starts = np.cumsum([0, *(one.n_rows for one in facts)]).tolist()
    each = [Own(number, start) for number, start in enumerate(starts[:-1])]
    widths, sums, names = _agreed(facts)
    return ClusterData(
        Rounds(client, parts, each),
        len(parts),
        starts[-1],
        widths,
        any(one.is_sparse for one in facts),
        sums,
        names,
        sources.feature_names,
        facts[0].unobserved if len({one.unobserved for one in facts}) == 1 else unobserved,
    )


def _agreed(facts: Sequence[Facts]) -> tuple[int, LabelSums, tuple[Any, ...] | None]:
    """The number of features, the sums over the labels and their names, alike in all partitions."""
    first = facts[0]
    for number, one in enumerate(facts):
        if one.n_features != first.n_features:
            raise InvalidFeaturesError(
                f"Partition {number} has {one.n_features} features, partition 0 has {first.n_features}; all "
                "must have the same."
            )
        if len(one.sums.count) != len(first.sums.count):
            raise InvalidLabelsError(
                f"Partition {number} has {len(one.sums.count)} labels, partition 0 has "
                f"{len(first.sums.count)}; all must have the same."
            )
        if one.label_names != first.label_names:
            raise InvalidLabelsError(
                f"The labels of partition {number} have other names than those of partition 0."
            )
        if one.is_sparse != first.is_sparse:
            raise InvalidFeaturesError(
                f"The features of partition {number} are {'sparse' if one.is_sparse else 'dense'}, those of "
                "partition 0 are not; make all of them one or the other."
            )
    sums = first.sums
    for one in facts[1:]:
        sums = sums + one.sums
    assert first.n_features is not None
    return first.n_features, sums, first.label_names


# -- forms -------------------------------------------------------------------------------------------------


def _sources(X: Any, y: Any, unobserved: str) -> _Sources:
    if isinstance(X, str | os.PathLike):
        X = read_parquet_folder(X)
    if is_frame(X) and _names_columns(y):
        return _from_table(X, y, unobserved)
    if isinstance(X, list | tuple) and y is None:
        return _Sources(list(X), _Pair(unobserved))
    if not (is_array(X) or is_frame(X)) or not (is_array(y) or is_frame(y)):
        raise InvalidFeaturesError(f"{_FORMS}; got {type(X).__name__} and {type(y).__name__}.")
    return _from_two(X, y, unobserved)


def _from_table(frame: Any, y: Any, unobserved: str) -> _Sources:
    columns = [str(name) for name in frame.columns]
    patterns = [y] if isinstance(y, str) else list(y)
    labels = [name for name in columns if any(fnmatch.fnmatchcase(name, str(p)) for p in patterns)]
    unmatched = [p for p in patterns if not fnmatch.filter(columns, str(p))]
    if unmatched:
        raise InvalidLabelsError(
            f"No column is named {unmatched[0]!r}; the columns are {', '.join(map(repr, columns[:10]))}"
            f"{' and more' if len(columns) > 10 else ''}."
        )
    features = [name for name in columns if name not in set(labels)]
    if not features:
        raise InvalidFeaturesError("Every column is a label; there is no feature left to predict them from.")
    frame.columns = columns
    read = _Columns(tuple(features), tuple(labels), unobserved)
    return _Sources(list(frame.to_delayed()), read, tuple(features))


def _from_two(X: Any, y: Any, unobserved: str) -> _Sources:
    names = tuple(map(str, X.columns)) if is_frame(X) else None
    if getattr(X, "ndim", 2) != 2 or getattr(y, "ndim", 2) != 2:
        raise InvalidLabelsError(
            "X and y must be two-dimensional, with a column for each feature and for each label; a single "
            "label is y.reshape(-1, 1)."
        )
    X, y = (_whole_rows(one) for one in (X, y))
    if is_array(X) and is_array(y) and X.chunks[0] != y.chunks[0] and X.numblocks[0] and _known(X, y):
        if X.shape[0] != y.shape[0]:
            raise InvalidLabelsError(f"X has {X.shape[0]} rows and y has {y.shape[0]}; they must match.")
        y = y.rechunk({0: X.chunks[0]})
    left, right = (list(np.ravel(one.to_delayed())) for one in (X, y))
    if len(left) != len(right):
        raise InvalidLabelsError(
            f"X has {len(left)} partitions and y has {len(right)}, and the sizes of some are not known, so "
            "they cannot be matched. Repartition both alike, or call compute_chunk_sizes() on the arrays."
        )
    return _Sources(list(zip(left, right, strict=True)), _Pair(unobserved), names)


def _whole_rows(array: Any) -> Any:
    """An array whose chunks hold whole rows."""
    return array.rechunk({1: -1}) if is_array(array) and array.numblocks[1] > 1 else array


def _known(*arrays: Any) -> bool:
    return not any(np.isnan(size) for array in arrays for size in array.chunks[0])


def _names_columns(y: Any) -> bool:
    return isinstance(y, str) or (isinstance(y, list | tuple) and all(isinstance(one, str) for one in y))


def is_array(value: Any) -> bool:
    """Whether it is a dask array."""
    import dask.array

    return isinstance(value, dask.array.Array)


def is_frame(value: Any) -> bool:
    """Whether it is a dask DataFrame; dask.dataframe, which needs pandas, is imported only for one."""
    return type(value).__module__.startswith(("dask.dataframe", "dask_expr")) and hasattr(
        value, "npartitions"
    )


def read_parquet_folder(path: str | os.PathLike[str]) -> Any:
    """A Parquet file or folder as a dask DataFrame; a partition is a file or some rows of a large one.

    Whether files are large is decided by the first: to open thousands of them takes minutes.
    """
    import dask.dataframe

    if "://" not in os.fspath(path) and not os.path.exists(path):
        raise InvalidFeaturesError(f"There is no file or folder {os.fspath(path)!r}.")
    return dask.dataframe.read_parquet(os.fspath(path), split_row_groups="infer")


# -- on a worker -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pair:
    """Reads a pair (features, labels)."""

    unobserved: str

    def __call__(self, piece: Any) -> tuple[Any, ObservedLabels]:
        X, y = piece
        return X, as_labels(y, self.unobserved)


@dataclass(frozen=True)
class _Columns:
    """Reads a frame whose columns are features and labels."""

    features: tuple[str, ...]
    labels: tuple[str, ...]
    unobserved: str

    def __call__(self, piece: Any) -> tuple[Any, ObservedLabels]:
        return piece[list(self.features)], as_labels(piece[list(self.labels)], self.unobserved)


def as_labels(y: Any, unobserved: str) -> ObservedLabels:
    """The labels of one partition, also of an empty one, whose columns may have lost their type."""
    if hasattr(y, "columns") and len(y) == 0:
        names = tuple(y.columns)
        return ObservedLabels.from_dense(np.empty((0, len(names))), label_names=names)
    meant = meaning_of_silence(y, unobserved)
    if meant == "unlabelled":
        raise InvalidLabelsError(
            "the labels were made with unobserved='unlabelled'. Learning from recorded positives alone is "
            "offered by LowRankClassifier, on one machine."
        )
    return ObservedLabels.from_any(y, unobserved=meant)


def _read_partition(number: int, read: Callable[..., Any], piece: Any) -> Partition:
    try:
        X, labels = read(piece)
        features = as_features(X)
    except LabelgapError as error:
        raise type(error)(f"Partition {number}: {error}") from error
    except (TypeError, ValueError) as error:
        raise InvalidFeaturesError(
            f"Partition {number} cannot be read as features and labels: {error}"
        ) from error
    release_unused()
    if features.shape[0] != labels.shape[0]:
        raise InvalidLabelsError(
            f"Partition {number} has {features.shape[0]} rows of X and {labels.shape[0]} rows of y; chunks "
            "must match. Rechunk or repartition one like the other."
        )
    return Partition(number, features, labels)


def release_unused() -> None:
    """Give back the memory that a Parquet reader holds for its next file."""
    if (arrow := sys.modules.get("pyarrow")) is not None:
        arrow.default_memory_pool().release_unused()


def as_features(X: Any) -> Any:
    """Dense float64 (or float32) or CSR, finite."""
    if sp.issparse(X):
        features: Any = sp.csr_array(X).astype(np.float64)
        bad = np.flatnonzero(~np.isfinite(features.data))
        row = int(np.searchsorted(features.indptr, bad[0], side="right")) - 1 if len(bad) else -1
    else:
        refuse_dates(X, "the features")
        given = np.asarray(X)
        if given.ndim != 2:
            raise InvalidFeaturesError(f"the features have {given.ndim} dimension(s), not 2.")
        try:
            features = np.ascontiguousarray(given, np.float32 if given.dtype == np.float32 else np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidFeaturesError(
                f"the features are not all numbers ({error}). Encode text and categories first."
            ) from error
        rows = np.flatnonzero(~np.isfinite(features).all(axis=1))
        row = int(rows[0]) if len(rows) else -1
    if row >= 0:
        raise InvalidFeaturesError(
            f"the features of row {row} of the partition have NaN or infinity. Fill or drop them first; NaN "
            "is for labels only."
        )
    return features


def _facts(part: Partition, own: Own) -> Facts:
    names = part.labels.label_names
    return Facts(
        part.labels.shape[0],
        None if part.X is None else int(part.X.shape[1]),
        sp.issparse(part.X),
        LabelSums.of(part.labels),
        None if names is None else tuple(names),
        part.labels.unobserved,
    )
