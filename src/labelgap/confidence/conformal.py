"""Conformal sets: for each entry yes, no or both, less what held-out scores rule out.

A yes is ruled out where the score is lower than that of nearly every held-out yes, a no where it is higher
than that of nearly every held-out no. With the scores z_i of held-out entries that are a yes, and their
weights w_i,

    ``yes is in the set  ⇔  z ≥ t₁``,   ``t₁ = max {t : Σ_{z_i ≥ t} w_i ≥ coverage · (Σ w_i + max w_i)}``,

and the same for no with the order of the scores reversed. The largest weight stands for that of the new
entry, so that one ``t₁`` serves all entries (Tibshirani, Barber, Candès, Ramdas: Conformal Prediction Under
Covariate Shift, NeurIPS 2019, with a bound on the weight in place of it). Without weights it is the usual
rank ``⌈coverage · (n + 1)⌉``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from labelgap._names import check_choice
from labelgap._types import Floats
from labelgap.exceptions import InvalidParameterError
from labelgap.labels import ObservedLabels
from labelgap.persistence.registry import savable_record

GUARANTEES = ("class", "entries")
"""What the coverage is promised for: yes and no each on its own, or all entries together."""

# Scores that are kept of each class; where there are more, the coverage may be higher than asked for by one
# part in that many. The ends are kept whole, for a coverage close to 1.
_MOST_KEPT, _KEPT_ENDS = 4096, 512
# A sum of weights may miss the target by rounding.
_ROUNDING = 1e-12


class SetCuts(NamedTuple):
    """Where the sets change: a yes is in the set from one score on, a no up to the other.

    Where ``no_up_to < yes_from``, an entry with a score between them has neither in its set; it is then given
    the decision of the threshold, which can only raise the coverage.
    """

    yes_from: float
    no_up_to: float


@dataclass(frozen=True)
class _Class:
    """The distinct scores of a class, ascending, and the weight of the entries up to and from each."""

    scores: Floats
    at_most: Floats
    at_least: Floats
    heaviest: float

    @property
    def total(self) -> float:
        return float(self.at_least[0]) if len(self.scores) else 0.0

    @classmethod
    def of(cls, scores: Floats, weights: Floats) -> Self:
        distinct, place = np.unique(scores, return_inverse=True)
        weight = np.bincount(place, weights=weights, minlength=len(distinct)).astype(np.float64)
        at_most, at_least = np.cumsum(weight), np.cumsum(weight[::-1])[::-1]
        kept = np.arange(len(distinct))
        if len(distinct) > _MOST_KEPT:
            even = np.searchsorted(at_most, np.linspace(0, at_most[-1], _MOST_KEPT))
            ends = (kept[:_KEPT_ENDS], kept[-_KEPT_ENDS:])
            kept = np.unique(np.concatenate([np.minimum(even, len(distinct) - 1), *ends]))
        return cls(distinct[kept], at_most[kept], at_least[kept], float(weights.max(initial=0.0)))

    def weight_from(self, scores: Floats) -> Floats:
        """The weight of entries with these scores or higher ones, or less where not every score is kept."""
        return np.append(self.at_least, 0.0)[np.searchsorted(self.scores, scores, side="left")]

    def weight_up_to(self, scores: Floats) -> Floats:
        """The weight of entries with these scores or lower ones, or less where not every score is kept."""
        return np.insert(self.at_most, 0, 0.0)[np.searchsorted(self.scores, scores, side="right")]


@savable_record("conformal_scores")
@dataclass(frozen=True)
class ConformalScores:
    """Held-out scores of entries that are known to be a yes, and of those known to be a no.

    Parameters
    ----------
    yes_scores, no_scores : arrays
        Distinct scores, ascending. Of more than about 4,000 a part is kept.
    yes_at_most, yes_at_least, no_at_most, no_at_least : arrays
        The weight of the entries of that class with each score or a lower one, and with it or a higher one.
    yes_heaviest, no_heaviest : float
        The largest weight of an entry.

    Examples
    --------
    >>> labels = ObservedLabels.from_dense([[1], [1], [1], [1], [0], [0], [0], [0]])
    >>> held_out = ConformalScores.of(np.array([0.9, 0.8, 0.6, 0.3, 0.5, 0.2, 0.1, 0.05]), labels)
    >>> held_out.cuts(0.6, "class", centre=0.5)
    SetCuts(yes_from=0.6, no_up_to=0.2)
    >>> held_out.cuts(0.8, "class", centre=0.5)
    SetCuts(yes_from=0.3, no_up_to=0.5)
    """

    yes_scores: Floats
    yes_at_most: Floats
    yes_at_least: Floats
    yes_heaviest: float
    no_scores: Floats
    no_at_most: Floats
    no_at_least: Floats
    no_heaviest: float

    def __post_init__(self) -> None:
        for part in (self._yes, self._no):
            arrays = (part.scores, part.at_most, part.at_least)
            plain = all(isinstance(a, np.ndarray) and a.dtype == np.float64 and a.ndim == 1 for a in arrays)
            if not plain or len({len(array) for array in arrays}) > 1 or not part.heaviest >= 0:
                raise ValueError("the scores of its conformal sets do not fit together")

    @classmethod
    def of(cls, scores: Any, labels: ObservedLabels) -> Self:
        """From one score per entry of the labels, made by a model that did not see the entry."""
        scores = np.asarray(scores, dtype=np.float64)
        weights = np.ones(len(scores)) if labels.weights is None else labels.weights
        yes = labels.values == 1
        one, other = _Class.of(scores[yes], weights[yes]), _Class.of(scores[~yes], weights[~yes])
        return cls(
            *(one.scores, one.at_most, one.at_least, one.heaviest),
            *(other.scores, other.at_most, other.at_least, other.heaviest),
        )

    @property
    def _yes(self) -> _Class:
        return _Class(self.yes_scores, self.yes_at_most, self.yes_at_least, self.yes_heaviest)

    @property
    def _no(self) -> _Class:
        return _Class(self.no_scores, self.no_at_most, self.no_at_least, self.no_heaviest)

    def cuts(self, coverage: float, guarantee: str, centre: float) -> SetCuts:
        """The scores at which the sets change.

        Parameters
        ----------
        coverage : float, above 0 and below 1
        guarantee : {"class", "entries"}
            "class": of the entries that are a yes the given fraction has yes in its set, and of those that
            are a no the given fraction no. "entries": this holds for all entries together.
        centre : float
            The score at which yes and no are equally likely, for "entries": a yes of score z is as strange
            as a no of score ``2 · centre − z``.
        """
        check_choice("guarantee", guarantee, GUARANTEES)
        yes, no = self._yes, self._no
        if guarantee == "class":
            enough = yes.scores[yes.at_least >= _target(coverage, yes.total, yes.heaviest)]
            few = no.scores[no.at_most >= _target(coverage, no.total, no.heaviest)]
            return SetCuts(
                float(enough[-1]) if len(enough) else -np.inf, float(few[0]) if len(few) else np.inf
            )
        target = _target(coverage, yes.total + no.total, max(yes.heaviest, no.heaviest))
        strange = np.unique(np.concatenate([centre - yes.scores, no.scores - centre]))
        covered = _covered(yes, centre - strange) + _covered(no, centre + strange, upwards=False)
        reached = strange[covered >= target]
        if not len(reached):
            return SetCuts(-np.inf, np.inf)
        return SetCuts(float(centre - reached[0]), float(centre + reached[0]))

    def fewest_needed(self, coverage: float) -> tuple[float, dict[str, float]]:
        """How many entries of a class a finite cut takes, and how many there are, weighed by the heaviest."""
        there = {
            name: part.total / part.heaviest if part.heaviest > 0 else 0.0
            for name, part in (("yes", self._yes), ("no", self._no))
        }
        return coverage / (1 - coverage), there


def _target(coverage: float, total: float, heaviest: float) -> float:
    return coverage * (total + heaviest) * (1 - _ROUNDING) if total > 0 else np.inf


def _covered(part: _Class, scores: Floats, *, upwards: bool = True) -> Floats:
    # centre − (centre − z) need not be z to the last digit.
    slack = _ROUNDING * np.maximum(np.abs(scores), 1.0)
    return part.weight_from(scores - slack) if upwards else part.weight_up_to(scores + slack)


def check_coverage(coverage: Any) -> float:
    """The coverage as a number between 0 and 1, or an error."""
    if isinstance(coverage, bool) or not isinstance(coverage, float | int | np.floating | np.integer):
        raise InvalidParameterError(f"coverage must be a number above 0 and below 1; got {coverage!r}.")
    if not 0 < coverage < 1:
        raise InvalidParameterError(f"coverage must be above 0 and below 1, such as 0.9; got {coverage!r}.")
    return float(coverage)


def sets_of(scores: Floats, cuts: SetCuts, threshold: Any) -> NDArray[np.float64]:
    """1 where the set is yes alone, 0 where it is no alone, NaN where it is both.

    An empty set is given the decision of the threshold.

    Examples
    --------
    >>> sets_of(np.array([0.1, 0.4, 0.9]), SetCuts(yes_from=0.3, no_up_to=0.5), 0.5)
    array([ 0., nan,  1.])
    >>> sets_of(np.array([0.1, 0.4, 0.45, 0.9]), SetCuts(yes_from=0.5, no_up_to=0.3), 0.42)
    array([0., 0., 1., 1.])
    """
    yes, no = scores >= cuts.yes_from, scores <= cuts.no_up_to
    yes |= ~no & (scores >= threshold)
    return np.where(yes & no, np.nan, yes.astype(np.float64))
