"""Decompositions of matrices that are small, or tall and thin; and what arrays need beside the array API.

Each array's own namespace does the work. Fits of several folds run side by side in threads, and numpy's
routines let the others go on meanwhile, which scipy's do not: two threads that call scipy.linalg take longer
than one that does the work of both. scipy's are left where numpy has none, and for matrices that are tiny.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import array_api_compat.numpy
import numpy as np
import scipy.linalg
from array_api_compat import array_namespace, device, is_numpy_array, to_device
from numpy.typing import NDArray

from labelgap.kernels.threads import map_in_order

# A Gram matrix whose pivots stay above this fraction of its diagonal loses too few digits to matter twice; in
# units of rounding where that is more.
_SAFE, _SAFE_ROUNDING = 1e-6, 1e3
# Rows for each column from which on the Gram matrix is the faster way.
_TALL = 8
# Rows of a symmetric matrix from which on some of its eigenvectors cost less than all, and which fraction.
_LARGE, _FEW = 256, 8
# Rows and columns of a product whose singular values are found sooner than those of its factors.
_SMALL = 16
# Rows that are worked on at a time.
_BLOCK = 1 << 13
# Singular values below so many units of rounding of the largest are rounding themselves.
_NOISE = 8
# Rows of a product that one thread makes at a time, and multiply-adds that are worth more threads than one.
_THREAD_ROWS, _WORTH_THREADS = 256, 1 << 22


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
    if M.shape[1] and M.shape[0] >= _TALL * M.shape[1]:
        by_gram = _by_cholesky if is_numpy_array(M) else _by_eigenvectors
        once = by_gram(M)
        # The first Q is of no further use.
        twice = None if once is None else by_gram(once[0], overwrite=True)
        if once is not None and twice is not None:
            return twice[0], twice[1] @ once[1]
    Q, R = namespace(M).linalg.qr(M, mode="reduced")
    return Q, R


def thin_r(M: Array) -> Array:
    """The R of :func:`thin_qr` alone; Q, which may be as large as the data, is made some rows at a time."""
    if is_numpy_array(M) and M.shape[1] and M.shape[0] >= _TALL * M.shape[1]:
        once = _cholesky(M.T @ M)
        if once is not None:
            inverse = np.linalg.inv(once)
            blocks = (M[start : start + _BLOCK] @ inverse for start in range(0, len(M), _BLOCK))
            twice = _cholesky(sum(Q.T @ Q for Q in blocks))
            if twice is not None:
                return twice @ once
    return thin_qr(M)[1]


def _safe(M: Array) -> float:
    return max(_SAFE, _SAFE_ROUNDING * rounding(M))


def _by_cholesky(M: Array, *, overwrite: bool = False) -> tuple[Array, Array] | None:
    R = _cholesky(M.T @ M)
    if R is None:
        return None
    inverse = np.linalg.inv(R)
    return rotated(M, inverse) if overwrite else M @ inverse, R


def _cholesky(gram: Array) -> Array | None:
    """The triangle R with ``RᵀR = gram``; None unless it is so far from singular that it loses few digits."""
    largest = gram.diagonal().max(initial=0.0)
    if not smallest(gram) < largest < np.inf:
        return None
    try:
        R = np.linalg.cholesky(gram).T
    except np.linalg.LinAlgError:
        return None
    return R if R.diagonal().min() ** 2 > _safe(gram) * largest else None


def _by_eigenvectors(M: Array, *, overwrite: bool = False) -> tuple[Array, Array] | None:
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
    if not is_numpy_array(gram) or size < _LARGE or count > size // _FEW:
        values, vectors = xp.linalg.eigh(gram)
    else:
        some = [size - count, size - 1]
        values, vectors = scipy.linalg.eigh(gram, subset_by_index=some, overwrite_a=True, check_finite=False)
    return xp.flip(values), xp.flip(vectors, axis=1)


def eigenvectors_in_single(gram: NDArray[np.float32]) -> tuple[Array, Array]:
    """All eigenvalues, descending, of a symmetric matrix in single precision, and their vectors in columns.

    numpy's routine would convert the matrix to double precision, which takes twice the time.
    """
    # The compiler behind it takes long to import, and is not needed before a fit.
    from labelgap.kernels import lapack

    values, vectors = lapack.eigenvectors_in_single(gram)
    return np.flip(values), np.flip(vectors, axis=1)


def balanced(left: Array, right: Array, cutoff: float = 1e-10) -> tuple[Array, Array, Array]:
    """The singular values of ``left @ right.T`` and factors ``U√Σ, V√Σ`` of it.

    At this split ``½(‖A‖² + ‖B‖²)`` equals the trace norm. Directions below ``cutoff`` times the largest
    singular value are dropped. Unless ``cutoff`` is 0, so are those that the precision does not tell from 0.
    """
    xp = namespace(left)
    if left.shape[1] == 0:
        return xp.sum(left, axis=0), left, right
    if max(left.shape[0], right.shape[0]) <= _SMALL:
        U, values, Vt = small_svd(left @ right.T)
        rank = min(left.shape[1], _alive(values, cutoff))
        roots = xp.sqrt(values[:rank])
        return values[:rank], U[:, :rank] * roots, Vt[:rank, :].T * roots
    Ql, Rl = thin_qr(left)
    Qr, Rr = thin_qr(right)
    U, values, Vt = xp.linalg.svd(Rl @ Rr.T, full_matrices=False)
    values = values[: _alive(values, cutoff)]
    roots, keep = xp.sqrt(values), values.shape[0]
    return values, rotated(Ql, U[:, :keep] * roots), rotated(Qr, Vt[:keep, :].T * roots)


def small_svd(M: Array) -> tuple[Array, Array, Array]:
    """The thin singular value decomposition of a matrix so small that a search for the routine counts."""
    if isinstance(M, np.ndarray) and M.dtype == np.float64 and M.size:
        U, values, Vt, failed = scipy.linalg.lapack.dgesdd(M, full_matrices=0)
        if not failed:
            return U, values, Vt
    U, values, Vt = namespace(M).linalg.svd(M, full_matrices=False)
    return U, values, Vt


def rotated(Q: Array, rotation: Array) -> Array:
    """``Q @ rotation``; in place where that is possible, since Q may be as large as the data."""
    if not is_numpy_array(Q) or rotation.shape[0] != rotation.shape[1] or len(Q) <= _BLOCK:
        return Q @ rotation
    for start in range(0, len(Q), _BLOCK):
        rows = slice(start, start + _BLOCK)
        Q[rows] = Q[rows] @ rotation
    return Q


def wide_product(A: Array, B: Array) -> Array:
    """``A B`` by all threads: numpy's BLAS has one during a fit, whose sums then do not depend on threads."""
    if not is_numpy_array(A) or A.shape[0] * A.shape[1] * B.shape[1] < _WORTH_THREADS:
        return A @ B
    out = np.empty((A.shape[0], B.shape[1]), dtype=np.result_type(A, B))

    def work(start: int) -> None:
        rows = slice(start, start + _THREAD_ROWS)
        np.matmul(A[rows], B, out=out[rows])

    map_in_order(work, range(0, len(A), _THREAD_ROWS))
    return out


def product_values(left: Array, right: Array, cutoff: float = 1e-10) -> Array:
    """The singular values of ``left @ right.T`` alone, as :func:`balanced` has them."""
    if left.shape[1] == 0:
        return namespace(left).sum(left, axis=0)
    small = thin_r(left) @ thin_r(right).T
    values = namespace(left).linalg.svd(small, full_matrices=False)[1]
    return values[: _alive(values, cutoff)]


def _alive(values: Array, cutoff: float) -> int:
    """How many of the descending values lie above the cutoff, a fraction of the first."""
    if cutoff > 0:
        cutoff = max(cutoff, _NOISE * rounding(values))
    return int(namespace(values).count_nonzero(values > max(cutoff * float(values[0]), smallest(values))))


Array: TypeAlias = Any
"""An array of the objective's namespace and precision."""


def namespace(array: Array) -> Any:
    """The array's namespace. numpy's is found without a search, which small problems would notice."""
    return array_api_compat.numpy if isinstance(array, np.ndarray) else array_namespace(array)


def rounding(array: Array) -> float:
    """The distance from 1 to the next number in the array's precision."""
    return float(namespace(array).finfo(array.dtype).eps)


def smallest(array: Array) -> float:
    """The smallest positive number with all its digits, in the array's precision."""
    return float(namespace(array).finfo(array.dtype).smallest_normal)


def contiguous(array: Array) -> Array:
    """As it would be read from a file: how numbers lie in memory decides the last bit of products."""
    if is_numpy_array(array):
        return np.ascontiguousarray(array)
    return namespace(array).stack([array])[0, ...]


def host(array: Array) -> NDArray[Any]:
    """The array as one of numpy's, for a file."""
    return np.asarray(to_device(array, "cpu"))


def like(array: Array, example: Array) -> Array:
    """The array in the namespace, precision and device of another; itself if it is there already."""
    if isinstance(array, np.ndarray) and isinstance(example, np.ndarray) and array.dtype == example.dtype:
        return array
    xp = namespace(example)
    return xp.asarray(array, dtype=example.dtype, device=device(example))


def standard_normal(generator: Any, shape: tuple[int, int], example: Array) -> Array:
    """Random numbers of a generator of numpy's: the same ones whatever the namespace and the precision."""
    if not is_numpy_array(example) or example.dtype == np.float64:
        return like(generator.standard_normal(shape), example)
    numbers = np.empty(shape, example.dtype)
    # Some rows at a time: all of them in double precision would be a larger array than the result.
    for start in range(0, shape[0], _BLOCK):
        some = numbers[start : start + _BLOCK]
        some[:] = generator.standard_normal(some.shape)
    return numbers


def zeros_like(array: Array) -> Array:
    return namespace(array).zeros_like(array)


def dot(a: Array, b: Array) -> float:
    """``Σ a_ij b_ij``, for arrays of one shape."""
    return float(inner(a, b))


def inner(a: Array, b: Array) -> Array:
    """The same without waiting for the number to arrive."""
    if isinstance(a, np.ndarray):
        return np.vdot(a, b)
    xp = namespace(a)
    return xp.vecdot(xp.reshape(a, (-1,)), xp.reshape(b, (-1,)))


def norm(a: Array) -> float:
    """``√Σ a_ij²``."""
    return math.sqrt(dot(a, a))


def column_squares(M: Array) -> Array:
    """The squared length of every column."""
    return namespace(M).sum(M * M, axis=0)
