"""libmf: logistic matrix factorisation by parallel stochastic gradients (``fun = 5``), without intercepts.

Called through the C functions that the package's library exports. The package's own wrapper copies the
ratings into memory that it never frees, and sends the ids through float32.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.generated_ratings import Ratings, dot_scores
from benchmarks.rivals import why_missing

NAME = "libmf (logistic)"
CALIBRATED = True
_LOGISTIC = 5
_NODE = np.dtype([("user", np.int32), ("item", np.int32), ("value", np.float32)])


class _Problem(ctypes.Structure):
    _fields_ = (
        ("m", ctypes.c_int),
        ("n", ctypes.c_int),
        ("nnz", ctypes.c_longlong),
        ("entries", ctypes.c_void_p),
    )


@dataclass(frozen=True)
class Factors:
    """The score is ``users @ items.T``."""

    users: NDArray[np.float32]
    items: NDArray[np.float32]


@cache
def _wrapper() -> Any:
    # It prints where it was found when it is imported, and compares a string by identity.
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        import libmf.mf as wrapper
    library = wrapper.mf
    library.mf_train.restype = ctypes.POINTER(wrapper.MFModel)
    library.mf_train.argtypes = (ctypes.POINTER(_Problem), wrapper.MFParam)
    library.mf_destroy_model.argtypes = (ctypes.POINTER(ctypes.POINTER(wrapper.MFModel)),)
    return wrapper


def unavailable() -> str | None:
    """Why it cannot run here."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        return why_missing(NAME, "libmf.mf")


def prepare(train: Ratings) -> tuple[NDArray[Any], tuple[int, int]]:
    """libmf's entries."""
    entries = np.empty(len(train), dtype=_NODE)
    entries["user"], entries["item"], entries["value"] = train.users, train.items, 2.0 * train.values - 1
    return entries, train.shape


def fit(
    data: tuple[NDArray[Any], tuple[int, int]],
    *,
    rank: int,
    epochs: int,
    threads: int,
    ridge: float,
    rate: float,
) -> Factors:
    """``epochs`` passes with the L2 penalty ``ridge`` per rating and the learning rate ``rate``."""
    wrapper = _wrapper()
    entries, (n_users, n_items) = data
    options = wrapper.MFParam(
        fun=_LOGISTIC,
        k=rank,
        nr_threads=threads,
        nr_bins=max(20, 2 * threads + 1),
        nr_iters=epochs,
        lambda_p2=ridge,
        lambda_q2=ridge,
        eta=rate,
        quiet=True,
        # As its command line does: the entries change their order, no more.
        copy_data=False,
    )
    problem = _Problem(n_users, n_items, len(entries), entries.ctypes.data)
    model = wrapper.mf.mf_train(ctypes.byref(problem), options)
    try:
        return Factors(*(_copied(model.contents, side, n) for side, n in (("P", n_users), ("Q", n_items))))
    finally:
        wrapper.mf.mf_destroy_model(ctypes.byref(model))


def scores(model: Factors, ratings: Ratings) -> NDArray[np.float64]:
    """Log-odds of a yes."""
    return dot_scores(model.users, model.items, ratings)


def _copied(model: Any, side: str, count: int) -> NDArray[np.float32]:
    # Those without ratings are NaN there.
    return np.nan_to_num(np.ctypeslib.as_array(getattr(model, side), (count, model.k)))
