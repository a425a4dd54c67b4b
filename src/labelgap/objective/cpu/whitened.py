"""Features in the coordinates of the scores: the penalty ``‖XW‖_*`` as an ordinary trace norm.

With the thin singular value decomposition ``X = U S Vᵀ`` and ``M = S VᵀW`` the scores are ``XW = UM``. U has
orthonormal columns, so ``‖XW‖_* = ‖M‖_*`` and ``‖XW‖_F = ‖M‖_F``. A penalty on the scores (Lafond, 2015) is
thus a penalty on M for the features U, and solvers and duality gap need not know of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from labelgap._types import Floats
from labelgap.exceptions import InvalidFeaturesError
from labelgap.objective.cpu.features import DenseFeatures

# Numbers in the largest sparse X that is made dense (1 GiB of them).
_LARGEST_DENSE = 1 << 27
# Scores come back from W with a relative error of the machine's precision over this.
_CUTOFF = 1e-10


class WhitenedFeatures(DenseFeatures):
    """The left singular vectors U of X, as features.

    They are not centred: the penalty is about the scores of X as given. Directions of X whose singular value
    is below 1e-10 of the largest (1e-6 for single precision) are dropped, since rounding alone can make them
    that large. With dependent features many W have the same scores; :meth:`to_original` gives
    ``W = V S⁻¹ M``, the one of smallest norm.

    Parameters
    ----------
    X : array or sparse matrix, shape (n, d)
        U is dense whatever X is, n x min(n, d) numbers, and so is V. A sparse X is made dense on the way and
        may have up to 2²⁷ (134 million) cells.

    Examples
    --------
    >>> import numpy as np
    >>> from labelgap.objective.protocol import Factors
    >>> features = WhitenedFeatures(np.array([[3.0, 3.0], [4.0, 4.0]]))
    >>> features.n_features
    1
    >>> M = Factors(np.array([[10.0]]), np.array([[1.0]]), np.zeros(1))
    >>> np.abs(features.product(M.left)).round(6).ravel().tolist()
    [6.0, 8.0]
    >>> np.abs(features.to_original(M).left).round(6).ravel().tolist()
    [1.0, 1.0]
    """

    def __init__(self, X: Any) -> None:
        U, values, Vt = scipy.linalg.svd(_dense(X), full_matrices=False, overwrite_a=sp.issparse(X))
        # Without any signal in X one direction stays, with features and W of 0.
        rank = max(1, int(np.sum(values > _cutoff(X.dtype) * values[0])))
        inverse = 1.0 / values[:rank] if values[0] > 0 else np.zeros(1)
        self._X: Floats = np.ascontiguousarray(U[:, :rank] * (values[:rank] > 0))
        self._basis: Floats | None = np.ascontiguousarray(Vt[:rank].T * inverse)
        self._mean: Floats = np.zeros(X.shape[1])
        self._scales = None
        self.n_rows, self.n_features = self._X.shape
        self.n_stored = self._X.size


def _cutoff(dtype: np.dtype[Any]) -> float:
    """The relative size below which a singular value may be rounding of the numbers as they came."""
    if not np.issubdtype(dtype, np.floating):
        return _CUTOFF
    return max(_CUTOFF, 8.0 * float(np.finfo(dtype).eps))


def _dense(X: Any) -> Floats:
    """X as a dense array, if that is not too large."""
    if not sp.issparse(X):
        return np.asarray(X, dtype=np.float64)
    n, d = X.shape
    if n * d > _LARGEST_DENSE:
        raise InvalidFeaturesError(
            f"A penalty on the scores works with a dense basis of X, and X is sparse with {n} x {d} = "
            f"{n * d:.1e} cells (at most {_LARGEST_DENSE:.1e} are possible). Reduce the features first, for "
            "instance with sklearn.decomposition.TruncatedSVD, or put the penalty on W."
        )
    return np.asarray(X.toarray(), dtype=np.float64)
