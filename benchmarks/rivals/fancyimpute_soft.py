"""fancyimpute: SoftImpute, ``min_Z 1/2 Σ_Ω (z - y)² + λ‖Z‖_*`` on a dense matrix with gaps."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from benchmarks.rivals import why_missing

NAME = "fancyimpute (SoftImpute)"


def unavailable() -> str | None:
    """Why it cannot run here."""
    return why_missing(NAME, "fancyimpute")


def fit(
    Y: NDArray[np.float64],
    *,
    shrinkage: float,
    tol: float = 1e-3,
    max_iter: int = 100,
    max_rank: int | None = None,
) -> NDArray[np.float64]:
    """Y with its NaN filled; ``shrinkage`` is λ, ``tol`` the relative change at which it stops."""
    from fancyimpute import SoftImpute

    model = SoftImpute(
        shrinkage_value=shrinkage,
        convergence_threshold=tol,
        max_iters=max_iter,
        max_rank=max_rank,
        verbose=False,
    )
    with warnings.catch_warnings():
        # It names a parameter of scikit-learn by an older name.
        warnings.simplefilter("ignore", FutureWarning)
        return model.fit_transform(Y)


def low_rank_part(filled: NDArray[np.float64], shrinkage: float) -> NDArray[np.float64]:
    """Z: what it returns keeps the observed entries as they are, so their fit takes one more step."""
    U, s, Vt = np.linalg.svd(filled, full_matrices=False)
    return (U * np.maximum(s - shrinkage, 0)) @ Vt


def objective(Z: NDArray[np.float64], Y: NDArray[np.float64], shrinkage: float) -> float:
    """The objective that it minimises."""
    fit_part = 0.5 * np.nansum((Z - Y) ** 2)
    return float(fit_part + shrinkage * np.linalg.svd(Z, compute_uv=False).sum())
