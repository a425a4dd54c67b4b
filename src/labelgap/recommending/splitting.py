"""Ratings for a fit and ratings to judge it by: at random, by time, or the last ones of each user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from labelgap._arrays import frame_library
from labelgap._names import check_choice
from labelgap.exceptions import InvalidInputError, InvalidParameterError
from labelgap.labels import ObservedLabels
from labelgap.recommending.factor_model import whole_number
from labelgap.recommending.ids import number_ids
from labelgap.recommending.times import read_times

SPLITS = ("random", "time", "leave-last-out")
_FRACTION, _LAST, _TIME = 0.2, 1, "timestamp"


class _Lines(NamedTuple):
    """Ratings in some form: one user per rating, and a way to take some of them in the same form."""

    users: NDArray[np.int64]
    take: Callable[[NDArray[np.bool_]], Any]


def split_ratings(
    ratings: Any,
    how: str = "random",
    *,
    fraction: float | None = None,
    n_last: int | None = None,
    time: Any = None,
    user: str = "user",
    random_state: Any = None,
) -> tuple[Any, Any]:
    """Split ratings into those of a fit and held-out ones, both in the form in which they were given.

    Parameters
    ----------
    ratings : three sequences (users, items, values), or four with times, two (users, items), a long frame, a
        sparse matrix, or ObservedLabels
    how : {"random", "time", "leave-last-out"}, default "random"
        - "random": a random fraction of all ratings is held out.
        - "time": the latest fraction is held out, so that a fit is judged by what came after it. Ratings of
          one time stay together.
        - "leave-last-out": the last ratings of each user are held out. Users with no others stay in the fit.
    fraction : float between 0 and 1, default None
        How much is held out, at random or by time; None is 0.2.
    n_last : int, default None
        How many ratings of each user are held out by "leave-last-out"; None is 1.
    time : name of a column of the frame, or a sequence with one time per rating, default None
        Numbers, dates, or texts of dates such as "2024-05-31". It is needed but for "random"; None is the
        column "timestamp" of a frame, or the fourth sequence. Of equal times, what stands later in the data
        is later.
    user : str, default "user"
        The column of users of a frame.
    random_state : int, RandomState or None, default None
        For "random".

    Returns
    -------
    training, held_out : as ``ratings``

    Examples
    --------
    >>> ratings = (["ann", "ann", "bob", "ann"], ["Ran", "Jaws", "Ran", "Ikiru"], [5, 1, 4, 5])
    >>> training, held_out = split_ratings(ratings, "leave-last-out", time=[3, 1, 1, 2])
    >>> held_out
    (['ann'], ['Ran'], [5])
    """
    check_choice("how", how, SPLITS)
    _refuse_unused(how, fraction, n_last, time)
    lines = _lines(ratings, user)
    count = len(lines.users)
    if count < 2:
        raise InvalidInputError(f"A split needs at least two ratings; there are {count}.")
    if how == "random":
        held = np.zeros(count, dtype=np.bool_)
        size = _size(fraction, count)
        held[check_random_state(random_state).permutation(count)[:size]] = True
    else:
        times = _times(ratings, time, count)
        if how == "time":
            held = _latest(times, _size(fraction, count))
        else:
            held = _last(lines.users, times, whole_number("n_last", _LAST if n_last is None else n_last))
    return lines.take(~held), lines.take(held)


def _refuse_unused(how: str, fraction: Any, n_last: Any, time: Any) -> None:
    unused = {
        "fraction": fraction is not None and how == "leave-last-out",
        "n_last": n_last is not None and how != "leave-last-out",
        "time": time is not None and how == "random",
    }
    for name, given in unused.items():
        if given:
            raise InvalidParameterError(f"{name} has no use with how={how!r}; leave it out.")


def _size(fraction: float | None, count: int) -> int:
    wanted = _FRACTION if fraction is None else fraction
    if isinstance(wanted, bool) or not 0 < wanted < 1:
        raise InvalidParameterError(f"fraction must lie strictly between 0 and 1, not {fraction!r}.")
    return min(max(round(wanted * count), 1), count - 1)


# -- who is held out -----------------------------------------------------------------------------------


def _latest(times: NDArray[Any], size: int) -> NDArray[np.bool_]:
    """About the ``size`` latest; those of one time stay together, on the side that comes nearer to it."""
    cut = np.partition(times, len(times) - size)[len(times) - size]
    options = [held for held in (times >= cut, times > cut) if 0 < held.sum() < len(times)]
    if not options:
        raise InvalidInputError("All ratings have the same time, so none of them is later than the others.")
    return min(options, key=lambda held: abs(int(held.sum()) - size))


def _last(users: NDArray[np.int64], times: NDArray[Any], n_last: int) -> NDArray[np.bool_]:
    order = np.lexsort((np.arange(len(users)), times, users))
    counts = np.bincount(users)
    ends = np.cumsum(counts)
    # How many ratings of the same user come after this one.
    after = np.repeat(ends, counts) - 1 - np.arange(len(users))
    held = np.zeros(len(users), dtype=np.bool_)
    held[order] = (after < n_last) & (np.repeat(counts, counts) > n_last)
    if not held.any():
        raise InvalidInputError(f"No user has more than {n_last} ratings, so none can be held out.")
    return held


# -- forms ---------------------------------------------------------------------------------------------


def _lines(ratings: Any, user: str) -> _Lines:
    if isinstance(ratings, ObservedLabels):
        return _Lines(ratings.rows, ratings.select)
    if sp.issparse(ratings):
        matrix = sp.csr_array(ratings)
        matrix.sum_duplicates()
        rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))

        def chosen(kept: NDArray[np.bool_]) -> Any:
            indptr = np.concatenate([[0], np.cumsum(kept)])[matrix.indptr]
            return sp.csr_array((matrix.data[kept], matrix.indices[kept], indptr), shape=matrix.shape)

        return _Lines(rows, chosen)
    library = frame_library(ratings)
    if library and type(ratings).__name__ == "DataFrame":
        if user not in list(ratings.columns):
            raise InvalidInputError(
                f"The frame has no column {user!r}; it has {', '.join(map(repr, ratings.columns))}. Say "
                "which of them holds the user ids: user=..."
            )
        users, _ = number_ids(ratings[user], "user")
        return _Lines(users, lambda kept: ratings.loc[kept] if library == "pandas" else ratings.filter(kept))
    if not isinstance(ratings, tuple | list) or len(ratings) not in (2, 3, 4):
        raise InvalidInputError(
            "Ratings are three sequences (users, items, values), or four with times, two sequences (users, "
            f"items), a long frame, a sparse matrix or ObservedLabels; got {type(ratings).__name__}."
        )
    users, _ = number_ids(ratings[0], "user")
    # Beside times there may be no values.
    lengths = [len(part) for part in ratings if part is not None]
    if len(set(lengths)) > 1:
        raise InvalidInputError(f"Ratings need sequences of one length, not of {lengths}.")
    return _Lines(users, lambda kept: tuple(None if part is None else _some(part, kept) for part in ratings))


def _some(part: Any, kept: NDArray[np.bool_]) -> Any:
    if isinstance(part, np.ndarray):
        return part[kept]
    library = frame_library(part)
    if library:
        return part[kept] if library == "pandas" else part.filter(kept)
    return [value for value, keep in zip(part, kept.tolist(), strict=True) if keep]


def _times(ratings: Any, time: Any, count: int) -> NDArray[Any]:
    is_frame = bool(frame_library(ratings))
    if time is None and not is_frame:
        if not isinstance(ratings, tuple | list) or len(ratings) < 4:
            raise InvalidParameterError(
                "A split by time needs the times: time= a sequence with one for each rating, or a fourth "
                "sequence of the ratings."
            )
        return read_times(ratings[3], count)
    name = _TIME if time is None else time
    if not isinstance(name, str):
        return read_times(name, count)
    columns = list(ratings.columns) if is_frame else []
    if name not in columns:
        raise InvalidInputError(
            f"The ratings have no column {name!r}; they have {', '.join(map(repr, columns)) or 'none'}. "
            "Say which of them holds the times: time=..."
        )
    return read_times(ratings[name], count)
