"""Orthonormal columns for tall matrices."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from labelgap._types import Floats

# A Gram matrix whose pivots stay above this share of its diagonal loses too few digits to matter twice.
_SAFE = 1e-6
# Rows for each column from which on the Gram matrix is the faster way.
_TALL = 8


def thin_qr(M: Floats) -> tuple[Floats, Floats]:
    """Q with orthonormal columns and R with ``M = Q R``.

    Where the columns of a tall M are far from dependent, by Cholesky factors of its Gram matrix, twice: a few
    matrix products instead of as many reflections as there are columns.

    Examples
    --------
    >>> Q, R = thin_qr(np.arange(40.0).reshape(20, 2) ** 2)
    >>> np.allclose(Q.T @ Q, np.eye(2)), np.allclose(Q @ R, np.arange(40.0).reshape(20, 2) ** 2)
    (True, True)
    """
    if len(M) >= _TALL * M.shape[1]:
        once = _by_gram(M)
        twice = None if once is None else _by_gram(once[0])
        if once is not None and twice is not None:
            return twice[0], twice[1] @ once[1]
    Q, R = scipy.linalg.qr(M, mode="economic", check_finite=False)
    return Q, R


def _by_gram(M: Floats) -> tuple[Floats, Floats] | None:
    gram = M.T @ M
    largest = gram.diagonal().max(initial=0.0)
    if not np.finfo(float).tiny < largest < np.inf:
        return None
    R, failed = scipy.linalg.lapack.dpotrf(gram)
    R = np.triu(R)
    if failed or R.diagonal().min() ** 2 <= _SAFE * largest:
        return None
    return scipy.linalg.blas.dtrsm(1.0, R, M, side=1), R
