"""Real answers of users about items, read from the folder that ``LABELGAP_DATA`` names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap.data.folder import data_file
from labelgap.exceptions import InvalidInputError


@dataclass(frozen=True)
class Answers:
    """Answers as three vectors of one length; users and items are numbered from 0."""

    user: NDArray[np.int64]
    item: NDArray[np.int64]
    rating: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.user)

    def take(self, which: NDArray[Any]) -> Answers:
        """The answers with these numbers, or those where a mask is true."""
        return Answers(self.user[which], self.item[which], self.rating[which])


@dataclass(frozen=True)
class AnswerData:
    """Ratings of users about items, with what else the file holds.

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
        How likely each answer of the training part was to be given.
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
    with np.load(data_file(name), allow_pickle=False) as arrays:
        if "user" not in arrays and "train_user" not in arrays:
            raise InvalidInputError(
                f"{name}.npz has no array 'user' or 'train_user', so it does not hold answers of users; "
                f"it holds {', '.join(arrays)}. Multi-label data is read by load_multilabel."
            )
        split = "train_user" in arrays
        users, items = (int(size) for size in arrays["shape"])
        return AnswerData(
            name,
            _answers(arrays, "train_" if split else ""),
            _answers(arrays, "test_") if split else None,
            (users, items),
            **{key: _floats(arrays, key) for key in ("user_features", "item_features", "propensities")},
        )


def _answers(arrays: Any, prefix: str) -> Answers:
    return Answers(
        arrays[f"{prefix}user"].astype(np.int64),
        arrays[f"{prefix}item"].astype(np.int64),
        arrays[f"{prefix}rating"].astype(np.float64),
    )


def _floats(arrays: Any, key: str) -> NDArray[np.float64] | None:
    return arrays[key].astype(np.float64) if key in arrays else None
