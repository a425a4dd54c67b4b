"""Sampling models that depend on the row and the label, not on the label value: uniform, popular, bounded."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.exceptions import InvalidParameterError
from labelgap.sampling.grades import bounded_grades
from labelgap.sampling.model import SamplingModel, Spread, check_observed_share
from labelgap.sampling.product import ProductForm, scale_to_total
from labelgap.sampling.target import Target


class ProductModel(SamplingModel):
    """A model with ``p_ij = min(1, a_i b_j)``; it never holds an n x L array."""

    @abstractmethod
    def _form(self, shape: tuple[int, int]) -> ProductForm:
        """The factors a and b for a matrix of this shape."""

    def _draw(self, target: Target, rng: np.random.RandomState) -> NDArray[np.int64]:
        return self._form(target.shape).draw(rng)

    def _propensities(self, target: Target, entries: NDArray[np.int64]) -> Floats:
        return self._form(target.shape).at(*np.divmod(entries, target.shape[1]))

    def _spread(self, target: Target) -> Spread:
        form = self._form(target.shape)
        row_sums, label_sums = form.row_sums(), form.label_sums()
        total = float(row_sums.sum())
        busiest = max(float(row_sums.max()), float(label_sums.max()))
        return Spread(total / (target.n_entries * form.smallest()), min(target.shape) * busiest / total)


@dataclass(frozen=True)
class Uniform(ProductModel):
    """Every entry is observed with the same probability: ``p_ij = share``, so μ = ν = 1.

    Parameters
    ----------
    share : float
        The expected fraction of entries that is observed, above 0 and at most 1.

    Examples
    --------
    >>> from labelgap.sampling import Uniform
    >>> Uniform(0.5).observe([[1, 0], [0, 1]], random_state=0)
    ObservedLabels(2 x 2, 2 observed (50.0 %), 1 positive)
    """

    share: float

    def __post_init__(self) -> None:
        check_observed_share(self.share)

    def _form(self, shape: tuple[int, int]) -> ProductForm:
        return ProductForm(np.full(shape[0], self.share), np.ones(shape[1]))


@dataclass(frozen=True)
class Popular(ProductModel):
    """Popular rows and popular labels are observed more often, by power laws.

    ``p_ij = min(1, c · r_i^(−row_skew) · s_j^(−label_skew))`` with the popularity ranks r_i = 1 … n of the
    rows and s_j = 1 … L of the labels, and c such that the mean of p is ``share``. The cap at 1 binds for
    popular entries when the share or the skew is large.

    Parameters
    ----------
    share : float
        The expected fraction of entries that is observed, above 0 and at most 1.
    row_skew, label_skew : float, default 0.5
        Exponents; 0 makes all rows, or all labels, alike, 1 is Zipf's law.
    shuffle : int or None, default None
        None: the first row and the first label are the most popular. An integer is the seed of a fixed
        random ranking.

    Examples
    --------
    >>> from labelgap.sampling import Popular
    >>> Popular(0.2, row_skew=0, label_skew=1).probabilities((2, 3)).round(3).tolist()
    [[0.327, 0.164, 0.109], [0.327, 0.164, 0.109]]
    """

    share: float
    row_skew: float = 0.5
    label_skew: float = 0.5
    shuffle: int | None = None

    def __post_init__(self) -> None:
        check_observed_share(self.share)
        _check_shuffle(self.shuffle)
        for name in ("row_skew", "label_skew"):
            if not 0 <= getattr(self, name) < np.inf:
                raise InvalidParameterError(f"{name} is a finite number from 0, not {getattr(self, name)!r}.")

    def _form(self, shape: tuple[int, int]) -> ProductForm:
        n, L = shape
        exponent = self.row_skew * np.log10(n) + self.label_skew * np.log10(L)
        if exponent > 100:
            raise InvalidParameterError(
                f"With row_skew={self.row_skew} and label_skew={self.label_skew} the rarest entry of a "
                f"{n} x {L} matrix is 1e{exponent:.0f} times as rare as the commonest; choose smaller skews."
            )
        a = np.arange(1, n + 1, dtype=np.float64) ** -self.row_skew
        b = np.arange(1, L + 1, dtype=np.float64) ** -self.label_skew
        scale = scale_to_total(a, b, self.share * n * L)
        return _ranked(ProductForm(scale * a, b), self.shuffle)


@dataclass(frozen=True)
class Bounded(ProductModel):
    """A popularity model whose μ and ν are exactly the given ones.

    ``p_ij = share · u_i · v_j`` with u and v of mean 1. Where it can be, one side is even and the other, the
    one with min(n, L) members, falls from ν to 1/μ along a power curve. A ν so close to 1 that this side
    cannot reach 1/μ is made up for on the longer side.

    Parameters
    ----------
    share : float
        The expected fraction of entries that is observed, above 0 and at most 1/ν.
    mu : float
        μ ≥ 1: the rarest entry has ``π = 1 / (μ n L)``.
    nu : float
        ν ≥ 1: the busiest row or label has the fraction ``ν / min(n, L)`` of all observations.
    shuffle : int or None, default None
        None: earlier rows and labels are observed more often. An integer is the seed of a fixed random
        ranking.

    Examples
    --------
    >>> from labelgap.sampling import Bounded
    >>> model = Bounded(0.1, mu=4, nu=2)
    >>> model.probabilities((30, 5))[0].round(3).tolist()
    [0.2, 0.139, 0.088, 0.048, 0.025]
    >>> [round(number, 9) for number in model.mu_nu((30, 5))]
    [4.0, 2.0]
    """

    share: float
    mu: float
    nu: float
    shuffle: int | None = None

    def __post_init__(self) -> None:
        check_observed_share(self.share)
        _check_shuffle(self.shuffle)
        for name in ("mu", "nu"):
            if not 1 <= getattr(self, name) < np.inf:
                raise InvalidParameterError(f"{name} is a finite number from 1, not {getattr(self, name)!r}.")
        if self.share * self.nu > 1:
            raise InvalidParameterError(
                f"With nu={self.nu} some entries are observed {self.nu} times as often as the average, so "
                f"the share is at most {1 / self.nu:.6g}, not {self.share}; lower one of them."
            )

    def _form(self, shape: tuple[int, int]) -> ProductForm:
        short, long = bounded_grades(min(shape), max(shape), self.mu, self.nu, 1 / self.share)
        rows, labels = (short, long) if shape[0] <= shape[1] else (long, short)
        return _ranked(ProductForm(self.share * rows, labels), self.shuffle)


def _check_shuffle(shuffle: int | None) -> None:
    seed = isinstance(shuffle, int | np.integer) and not isinstance(shuffle, bool)
    if shuffle is not None and not (seed and 0 <= shuffle < 2**32):
        raise InvalidParameterError(f"shuffle is None or an integer seed from 0, not {shuffle!r}.")


def _ranked(form: ProductForm, shuffle: int | None) -> ProductForm:
    """The factors in their order, or in a random one that depends on the seed alone."""
    if shuffle is None:
        return form
    rng = np.random.RandomState(shuffle)
    return ProductForm(rng.permutation(form.row_factors), rng.permutation(form.label_factors))
