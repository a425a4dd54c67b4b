"""Decompositions of matrices that are small, or tall and thin.

numpy's arrays go to the LAPACK routine that is fastest for the case; all others to their own namespace.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from array_api_compat import is_numpy_array

from labelgap.solvers.linalg.arrays import Array, namespace, rounding, smallest

# A Gram matrix whose pivots stay above this fraction of its diagonal loses too few digits to matter twice; in
# units of rounding where that is more.
_SAFE, _SAFE_ROUNDING = 1e-6, 1e3
# Rows for each column from which on the Gram matrix is the faster way.
_TALL = 8
# Rows of a symmetric matrix from which on some of its eigenvectors cost less than all, and which fraction.
_LARGE, _FEW = 256, 8
# Singular values below so many units of rounding of the largest are rounding themselves.
_NOISE = 8


def thin_qr(M: Array) -> tuple[Array, Array]:
    """Q with orthonormal columns and a square R with ``M = Q R``.

    Where the columns of a tall M are far from dependent, by factors of its Gram matrix, twice: a few matrix
    products instead of as many reflections as there are columns. R is triangular only if numpy's arrays, or
    reflections, have made it.

    Examples
    --------
    >>> Q, R = thin_qr(np.arange(40.0).reshape(20, 2) ** 2)
    >>> np.allclose(Q.T @ Q, np.eye(2)), np.allclose(Q @ R, np.arange(40.0).reshape(20, 2) ** 2)
    (True, True)
    """
    if M.shape[0] >= _TALL * M.shape[1]:
        by_gram = _by_cholesky if is_numpy_array(M) else _by_eigenvectors
        once = by_gram(M)
        twice = None if once is None else by_gram(once[0])
        if once is not None and twice is not None:
            return twice[0], twice[1] @ once[1]
    if is_numpy_array(M):
        Q, R = scipy.linalg.qr(M, mode="economic", check_finite=False)
        return Q, R
    Q, R = namespace(M).linalg.qr(M, mode="reduced")
    return Q, R


def _safe(M: Array) -> float:
    return max(_SAFE, _SAFE_ROUNDING * rounding(M))


def _by_cholesky(M: Array) -> tuple[Array, Array] | None:
    gram = M.T @ M
    largest = gram.diagonal().max(initial=0.0)
    if not smallest(M) < largest < np.inf:
        return None
    (factorise,) = scipy.linalg.get_lapack_funcs(("potrf",), (gram,))
    R, failed = factorise(gram)
    R = np.triu(R)
    if failed or R.diagonal().min() ** 2 <= _safe(M) * largest:
        return None
    (solve,) = scipy.linalg.get_blas_funcs(("trsm",), (R, M))
    return solve(1.0, R, M, side=1), R


def _by_eigenvectors(M: Array) -> tuple[Array, Array] | None:
    """As with Cholesky factors; no namespace has one that says that it failed instead of raising."""
    xp = namespace(M)
    gram = M.T @ M
    if not bool(xp.all(xp.isfinite(gram))):
        return None
    squares, vectors = xp.linalg.eigh(gram)
    least, largest = float(squares[0]), float(squares[-1])
    if largest <= smallest(M) or least <= _safe(M) * largest:
        return None
    roots = xp.sqrt(squares)
    return M @ (vectors / roots), xp.expand_dims(roots, axis=1) * vectors.T


def leading_eigenvectors(gram: Array, count: int) -> tuple[Array, Array]:
    """The ``count`` largest eigenvalues, descending, and their vectors in columns; more may come with them.

    ``gram`` may be overwritten.
    """
    xp = namespace(gram)
    size = gram.shape[0]
    if not is_numpy_array(gram):
        values, vectors = xp.linalg.eigh(gram)
    elif size < _LARGE or count > size // _FEW:
        values, vectors = scipy.linalg.eigh(gram, driver="evd", overwrite_a=True, check_finite=False)
    else:
        some = [size - count, size - 1]
        values, vectors = scipy.linalg.eigh(gram, subset_by_index=some, overwrite_a=True, check_finite=False)
    return xp.flip(values), xp.flip(vectors, axis=1)


def balanced(left: Array, right: Array, cutoff: float = 1e-10) -> tuple[Array, Array, Array]:
    """The singular values of ``left @ right.T`` and factors ``U√Σ, V√Σ`` of it.

    At this split ``½(‖A‖² + ‖B‖²)`` equals the trace norm. Directions below ``cutoff`` times the largest
    singular value are dropped. Unless ``cutoff`` is 0, so are those that the precision does not tell from 0.
    """
    xp = namespace(left)
    if left.shape[1] == 0:
        return xp.sum(left, axis=0), left, right
    Ql, Rl = thin_qr(left)
    Qr, Rr = thin_qr(right)
    U, values, Vt = xp.linalg.svd(Rl @ Rr.T, full_matrices=False)
    if cutoff > 0:
        cutoff = max(cutoff, _NOISE * rounding(left))
    keep = int(xp.count_nonzero(values > max(cutoff * float(values[0]), smallest(left))))
    values = values[:keep]
    roots = xp.sqrt(values)
    return values, (Ql @ U[:, :keep]) * roots, (Qr @ Vt[:keep, :].T) * roots
