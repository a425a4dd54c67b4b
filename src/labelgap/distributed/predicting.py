"""Predictions on a cluster: lazy ones chunk by chunk, and the metric by sums of counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap.distributed.inputs import is_array, is_frame, read_parquet_folder
from labelgap.distributed.partitions import Own, Partition
from labelgap.distributed.rounds import Rounds
from labelgap.metrics import LinearFractional, confusion_counts


def lazily(model: Any, method: str, X: Any, dtype: Any) -> Any:
    """``model.method`` of every chunk of a dask array or DataFrame; at once for anything else."""
    if isinstance(X, str):
        X = read_parquet_folder(X)
    if is_array(X):
        return _of_array(model, method, X, dtype)
    if is_frame(X):
        return _of_frame(model, method, X, dtype)
    return getattr(model, method)(X)


def _of_array(model: Any, method: str, X: Any, dtype: Any) -> Any:
    from dask.delayed import delayed

    rows = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
    # One task holds the model, and every chunk refers to it.
    held = delayed(model, pure=True, traverse=False)
    return rows.map_blocks(
        _predicted,
        held,
        method,
        dtype=dtype,
        chunks=(rows.chunks[0], (model.n_labels_,)),
        meta=np.empty((0, 0), dtype=dtype),
    )


def _of_frame(model: Any, method: str, X: Any, dtype: Any) -> Any:
    import pandas
    from dask.delayed import delayed

    names = range(model.n_labels_) if model.label_names_ is None else model.label_names_.tolist()
    meta = pandas.DataFrame({name: np.empty(0, dtype) for name in names})
    wanted = getattr(model, "feature_names_in_", None)
    rows = X if wanted is None else X[list(wanted)]
    held = delayed(model, pure=True, traverse=False)
    return rows.map_partitions(_predicted_frame, held, method, list(names), dtype, meta=meta)


def _predicted(X: Any, model: Any, method: str) -> NDArray[Any]:
    if X.shape[0] == 0:
        return np.empty((0, model.n_labels_))
    options = {"output": "dense"} if method == "predict" else {}
    return np.asarray(getattr(model, method)(X, **options))


def _predicted_frame(X: Any, model: Any, method: str, names: list[Any], dtype: Any) -> Any:
    import pandas

    if len(X) == 0:
        found = np.empty((0, len(names)), dtype)
    else:
        # The model may have been fitted to an array of the same columns.
        named = hasattr(model, "feature_names_in_")
        found = _predicted(X if named else X.to_numpy(), model, method)
    return pandas.DataFrame(found, index=X.index, columns=names)


def score_of(model: Any, rounds: Rounds) -> float:
    """The metric of the model's decisions over all observed entries."""
    metric: LinearFractional = model.metric_
    if metric.average == "instance":
        total, rows = rounds.sum(_sum_over_rows, model)
        return float(total / rows)
    counts: NDArray[np.float64] = rounds.sum(_counts, model)
    return float(metric.from_counts(*counts))


def _counts(part: Partition, own: Own, model: Any) -> NDArray[np.float64]:
    metric: LinearFractional = model.metric_
    if part.labels.n_observed == 0:
        return np.zeros((4, part.labels.shape[1] if metric.average == "macro" else 1))
    return np.stack(confusion_counts(part.labels, _decisions(model, part), metric.average))


def _sum_over_rows(part: Partition, own: Own, model: Any) -> tuple[float, int]:
    used = int(np.count_nonzero(part.labels.row_counts()))
    return (model.metric_(part.labels, _decisions(model, part)) * used, used) if used else (0.0, 0)


def _decisions(model: Any, part: Partition) -> NDArray[np.bool_]:
    yes: NDArray[np.bool_] = model._score_entries(part.X, part.labels) >= model.threshold_
    return yes
