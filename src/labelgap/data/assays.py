"""A made-up matrix of compounds and assays, of which most was never measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from labelgap._types import Floats
from labelgap.exceptions import InvalidParameterError

FAMILIES = ("kinase", "GPCR", "protease")
_GROUPS, _GROUPS_OF_A_COMPOUND = 24, 4
# How much of a series' bits each of its compounds has, and how strongly scores follow the bits.
_KEPT, _STEEPNESS = 0.85, 5.0


@dataclass(frozen=True)
class AssayMatrix:
    """Fingerprints of compounds, and in which assays they are active; new compounds are of new series."""

    X: sp.csr_array
    """Fingerprints, compounds x bits, 0.0 and 1.0."""
    Y_observed: Floats
    """Active (1.0), inactive (0.0), or NaN where the compound was not tested in the assay."""
    Y: Floats
    """The complete matrix, which nobody has, to judge by."""
    X_new: sp.csr_array
    Y_new: Floats
    """New compounds, of series that the others do not have, with complete activities."""
    compounds: list[str]
    assays: list[str]
    series: NDArray[np.int64]
    """The chemical series of each compound in X."""


def make_assay_matrix(
    n_compounds: int = 400,
    n_assays: int = 24,
    n_bits: int = 256,
    n_series: int = 40,
    observed: float = 0.15,
    n_new: int = 200,
    random_state: Any = None,
) -> AssayMatrix:
    """Draw compounds in series, assays in families, and which of the pairs were measured.

    A compound has most of the bits of its series and those of a few groups. Each family of assays responds to
    patterns of bits that its assays share: ``P(active) = 1/(1 + e^(−s (z − c_j)))``, where z is the
    standardised score of the bits, s the steepness and c_j makes the assay's rate of actives, from 5 % to
    30 %. Some assays are run often and some seldom, and some series are tested more than others; whether a
    pair was measured does not depend on its outcome.

    Parameters
    ----------
    n_compounds, n_assays, n_bits, n_series : int
        Compounds with measurements, assays, bits of a fingerprint, and series of the compounds.
    observed : float, default 0.15
        The fraction of the pairs that was measured, on average.
    n_new : int, default 200
        New compounds, of ``n_series // 4 + 1`` further series, with complete activities.
    random_state : int, RandomState or None, default None

    Examples
    --------
    >>> from labelgap.data import make_assay_matrix
    >>> matrix = make_assay_matrix(n_compounds=60, n_assays=8, n_bits=64, n_series=6, random_state=0)
    >>> matrix.X.shape, matrix.Y_observed.shape, matrix.assays[:2]
    ((60, 64), (60, 8), ['kinase 1', 'GPCR 1'])
    """
    if not 0 < observed <= 0.9:
        raise InvalidParameterError(f"observed is a fraction, above 0 and at most 0.9; got {observed!r}.")
    for name, value in {"n_compounds": n_compounds, "n_assays": n_assays, "n_series": n_series}.items():
        if value < 1:
            raise InvalidParameterError(f"{name} must be at least 1; got {value!r}.")
    if n_new < 0:
        raise InvalidParameterError(f"n_new must be at least 0; got {n_new!r}.")
    if n_bits < 16:
        raise InvalidParameterError(f"n_bits must be at least 16; got {n_bits!r}.")
    rng = check_random_state(random_state)
    old = rng.randint(n_series, size=n_compounds)
    new = n_series + rng.randint(n_series // 4 + 1, size=n_new)
    series = np.concatenate([old, new])
    bits = _fingerprints(rng, series, n_bits)
    Y = _activities(rng, bits, n_assays)
    chance = _chances(rng, n_series, n_assays, observed)[old]
    Y_observed = np.where(rng.uniform(size=chance.shape) < chance, Y[:n_compounds], np.nan)
    X = sp.csr_array(bits.astype(np.float64))
    return AssayMatrix(
        X[:n_compounds],
        Y_observed,
        Y[:n_compounds],
        X[n_compounds:],
        Y[n_compounds:],
        [f"C{number:04d}" for number in range(1, n_compounds + 1)],
        [f"{FAMILIES[j % len(FAMILIES)]} {j // len(FAMILIES) + 1}" for j in range(n_assays)],
        old,
    )


def _fingerprints(rng: np.random.RandomState, series: NDArray[np.int64], n_bits: int) -> NDArray[np.bool_]:
    scaffolds = rng.uniform(size=(int(series.max()) + 1, n_bits)) < 0.12
    groups = rng.uniform(size=(_GROUPS, n_bits)) < 0.04
    kept = scaffolds[series] & (rng.uniform(size=(len(series), n_bits)) < _KEPT)
    chosen = np.zeros((len(series), _GROUPS))
    for row in chosen:
        row[rng.choice(_GROUPS, _GROUPS_OF_A_COMPOUND, replace=False)] = 1.0
    return np.asarray(kept | (chosen @ groups > 0))


def _activities(rng: np.random.RandomState, bits: NDArray[np.bool_], n_assays: int) -> Floats:
    """Complete activities: a main and a lesser pattern of bits for each family, and some of each assay's."""
    n_bits, family = bits.shape[1], np.arange(n_assays) % len(FAMILIES)
    shared = rng.standard_normal((len(FAMILIES), 2, n_bits))
    mixed = np.column_stack([np.ones(n_assays), 0.6 * rng.standard_normal(n_assays)])
    weights = np.einsum("jk,jkb->jb", mixed, shared[family]) + 0.25 * rng.standard_normal((n_assays, n_bits))
    scores = bits.astype(np.float64) @ weights.T
    scores = (scores - scores.mean(axis=0)) / np.maximum(scores.std(axis=0), 1e-12)
    rates = rng.uniform(0.05, 0.3, size=n_assays)
    cuts = np.array([np.quantile(scores[:, j], 1 - rates[j]) for j in range(n_assays)])
    chance = 1 / (1 + np.exp(-_STEEPNESS * (scores - cuts)))
    return np.asarray((rng.uniform(size=chance.shape) < chance).astype(np.float64))


def _chances(rng: np.random.RandomState, n_series: int, n_assays: int, observed: float) -> Floats:
    """The chance that a compound of a series was tested in an assay; its mean is ``observed``."""
    busy = rng.lognormal(sigma=0.6, size=(n_series, 1)) * rng.lognormal(sigma=0.6, size=(1, n_assays))
    scale = 1.0
    # Chances end at 1, so what is cut off there is given to the others.
    for _ in range(50):
        scale *= observed / np.minimum(scale * busy, 1.0).mean()
    return np.asarray(np.minimum(scale * busy, 1.0))
