"""Real data sets, read from the folder that ``LABELGAP_DATA`` names. None ships with labelgap."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labelgap.data.files.npz_file import Archive, opened_archive
from labelgap.exceptions import InvalidInputError


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


# -- multi-label data --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MultiLabelData:
    """Features (dense array or CSR), complete labels (CSR of ones) and the rows of the published split."""

    name: str
    X: Any
    Y: sp.csr_array
    train: NDArray[Any] | None
    test: NDArray[Any] | None


def load_multilabel(name: str) -> MultiLabelData:
    """Read ``NAME.npz`` (see ``docs/data.md`` for its arrays) from the data folder."""
    with opened_archive(data_file(name)) as arrays:
        X = arrays.numbers("X") if "X" in arrays else arrays.csr("X").astype(np.float64)
        Y = arrays.csr("Y")
        train, test = (arrays.whole(part) if part in arrays else None for part in ("train", "test"))
    return MultiLabelData(name, X, Y, train, test)


# -- ratings of users --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answers:
    """Ratings as three vectors of one length; users and items are numbered from 0."""

    user: NDArray[np.int64]
    item: NDArray[np.int64]
    rating: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.user)

    def take(self, which: NDArray[Any]) -> Answers:
        """The ratings with these numbers, or those where a mask is true."""
        return Answers(self.user[which], self.item[which], self.rating[which])


@dataclass(frozen=True)
class AnswerData:
    """Ratings of items by users, with the features and propensities that the file has.

    Parameters
    ----------
    name : str
    answers : Answers
        All of them, or the training part where the file has a split of its own.
    test : Answers or None
    shape : (int, int)
        Users and items.
    user_features, item_features : array with a row for each user or item, or None
    propensities : array of users x items, or None
        The probability that each rating of the training part was given.
    """

    name: str
    answers: Answers
    test: Answers | None
    shape: tuple[int, int]
    user_features: NDArray[np.float64] | None = None
    item_features: NDArray[np.float64] | None = None
    propensities: NDArray[np.float64] | None = None


def load_answers(name: str) -> AnswerData:
    """Read ``NAME.npz`` (see ``docs/recommender.md`` for its arrays) from the data folder."""
    with opened_archive(data_file(name)) as arrays:
        if "user" not in arrays and "train_user" not in arrays:
            raise InvalidInputError(
                f"{name}.npz has no array 'user' or 'train_user', so it does not hold ratings of users; "
                f"it holds {arrays.listed()}. Multi-label data is read by load_multilabel."
            )
        split = "train_user" in arrays
        users, items = arrays.shape("shape")
        return AnswerData(
            name,
            _answers(arrays, "train_" if split else ""),
            _answers(arrays, "test_") if split else None,
            (users, items),
            **{key: _floats(arrays, key) for key in ("user_features", "item_features", "propensities")},
        )


def _answers(arrays: Archive, prefix: str) -> Answers:
    return Answers(
        arrays.whole(f"{prefix}user").astype(np.int64),
        arrays.whole(f"{prefix}item").astype(np.int64),
        arrays.numbers(f"{prefix}rating"),
    )


def _floats(arrays: Archive, key: str) -> NDArray[np.float64] | None:
    return arrays.numbers(key) if key in arrays else None
