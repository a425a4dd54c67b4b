"""Sampling that depends on the label value: a yes is observed more often than a no."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.exceptions import InvalidParameterError
from labelgap.sampling.draws import bernoulli_positions
from labelgap.sampling.model import SamplingModel, Spread, check_observed_share
from labelgap.sampling.target import Target


@dataclass(frozen=True)
class PositiveBiased(SamplingModel):
    """A yes is observed ``odds`` times as often as a no.

    ``p_ij = odds · q`` where y_ij = 1 and ``q`` where y_ij = 0, with q such that the mean of p is ``share``.
    Every method needs the complete labels Y, not only their shape.

    Parameters
    ----------
    share : float
        The expected fraction of entries that is observed, above 0 and at most 1.
    odds : float
        The ratio of the two probabilities; below 1 a no is observed more often.

    Examples
    --------
    >>> from labelgap.sampling import PositiveBiased
    >>> PositiveBiased(0.4, odds=3).probabilities([[1, 0], [0, 0]]).round(3).tolist()
    [[0.8, 0.267], [0.267, 0.267]]
    """

    share: float
    odds: float

    def __post_init__(self) -> None:
        check_observed_share(self.share)
        if not 0 < self.odds < np.inf:
            raise InvalidParameterError(f"odds is a positive finite number, not {self.odds!r}.")

    def _draw(self, target: Target, rng: np.random.RandomState) -> NDArray[np.int64]:
        no, yes = self._rates(target)
        ones = target.ones
        shown = ones[bernoulli_positions(len(ones), yes, rng)]
        # Drawn as if every entry were a no; those that are a yes have had their own draw.
        entries = bernoulli_positions(target.n_entries, no, rng)
        found = np.concatenate((shown, entries[~target.is_one(entries)]))
        found.sort()
        return found

    def _propensities(self, target: Target, entries: NDArray[np.int64]) -> Floats:
        no, yes = self._rates(target)
        return np.where(target.is_one(entries), yes, no)

    def _spread(self, target: Target) -> Spread:
        n, L = target.shape
        no, yes = self._rates(target)
        rows, cols = np.divmod(target.ones, L)
        busiest = max(
            float(np.max(no * length + (yes - no) * np.bincount(index, minlength=count)))
            for index, count, length in ((rows, n, L), (cols, L, n))
        )
        total = no * target.n_entries + (yes - no) * len(target.ones)
        present = [no] * (len(target.ones) < target.n_entries) + [yes] * (len(target.ones) > 0)
        return Spread(total / (target.n_entries * min(present)), min(n, L) * busiest / total)

    def _rates(self, target: Target) -> tuple[float, float]:
        """The probabilities with which a no and a yes are observed."""
        n_ones = len(target.ones)
        n_zeros = target.n_entries - n_ones
        no = self.share * target.n_entries / (self.odds * n_ones + n_zeros)
        yes = self.odds * no
        largest = max(no * (n_zeros > 0), yes * (n_ones > 0))
        # A share of 1 with odds of 1 may exceed 1 by rounding.
        if largest > 1 + 1e-12:
            raise InvalidParameterError(
                f"With {n_ones} yes and {n_zeros} no, a share of {self.share} and odds of {self.odds}, a "
                f"{'yes' if self.odds > 1 else 'no'} would have to be observed with probability "
                f"{largest:.4g}; the largest possible share is {self.share / largest:.4g}. Lower the share, "
                "or bring the odds nearer to 1."
            )
        return min(no, 1.0), min(yes, 1.0)
