"""Real multi-label data sets, read from the folder that ``LABELGAP_DATA`` names. None ships with labelgap."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labelgap.exceptions import InvalidInputError


@dataclass(frozen=True)
class MultiLabelData:
    """Features (dense array or CSR), complete labels (CSR of ones) and the rows of the published split."""

    name: str
    X: Any
    Y: sp.csr_array
    train: NDArray[Any] | None
    test: NDArray[Any] | None


def data_folder() -> Path | None:
    """The folder named by ``LABELGAP_DATA``, or None where it is not set."""
    named = os.environ.get("LABELGAP_DATA")
    return Path(named) if named else None


def data_file(name: str) -> Path:
    """``NAME.npz`` in the data folder, or an error that says what is missing."""
    folder = data_folder()
    if folder is None:
        raise InvalidInputError(
            f"To read {name!r}, set the environment variable LABELGAP_DATA to the folder of {name}.npz."
        )
    path = folder / f"{name}.npz"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in folder.glob("*.npz"))) or "no .npz file at all"
        raise InvalidInputError(
            f"There is no {name}.npz in the folder LABELGAP_DATA names; it holds {known}."
        )
    return path


def load_multilabel(name: str) -> MultiLabelData:
    """Read ``NAME.npz`` (see ``docs/data.md`` for its arrays) from the data folder."""
    with np.load(data_file(name), allow_pickle=False) as arrays:
        X = arrays["X"].astype(np.float64) if "X" in arrays else _csr(arrays, "X").astype(np.float64)
        Y = _csr(arrays, "Y")
        train, test = arrays.get("train"), arrays.get("test")
    return MultiLabelData(name, X, Y, train, test)


def _csr(arrays: Any, key: str) -> sp.csr_array:
    parts = (arrays[f"{key}_data"], arrays[f"{key}_indices"], arrays[f"{key}_indptr"])
    return sp.csr_array(parts, shape=tuple(arrays[f"{key}_shape"]))
