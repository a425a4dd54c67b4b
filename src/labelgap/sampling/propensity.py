"""How likely each entry was to be observed, estimated from which ones were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from labelgap._names import check_choice
from labelgap._types import Floats
from labelgap.sampling.calibration import Link, fit_link
from labelgap.sampling.margins import Margin, fit_margins
from labelgap.sampling.pattern import Pattern, read_pattern
from labelgap.sampling.smoothing import is_chance, smooth_sums

NOISE = ("test", "smooth", "keep")
"""What can be made of the noise in the counts."""

# Counts are moved this far towards their mean: an empty or full row, among others, would have no finite fit.
_LEAST_SHRINKAGE = 1e-6


@dataclass(frozen=True, eq=False)
class PropensityEstimate:
    """Estimated inclusion probabilities, a function of ``α_i + β_j``, held as two vectors and the function.

    Parameters
    ----------
    row_logits : array of length n
        α; +inf where everything is observed.
    label_logits : array of length L
        β.
    row_counts, label_counts : arrays of length n and L
        The expected counts that α and β were fitted to: the observed ones, as far as they were believed.
    link : Link or None
        From α_i + β_j to the logit of p_ij; None is ``logit p_ij = α_i + β_j``.
    """

    row_logits: Floats
    label_logits: Floats
    row_counts: Floats
    label_counts: Floats
    link: Link | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(n, L)."""
        return len(self.row_logits), len(self.label_logits)

    def at(self, rows: ArrayLike, cols: ArrayLike) -> Floats:
        """The propensity of each entry (rows[t], cols[t]).

        Examples
        --------
        >>> from labelgap.sampling import estimate_propensities
        >>> estimate = estimate_propensities([[1, 0, None], [0, None, 1], [None, 1, 1]])
        >>> estimate.at([0, 1], [1, 2]).round(3).tolist()
        [0.667, 0.667]
        """
        return self._probability(self.row_logits[np.asarray(rows)] + self.label_logits[np.asarray(cols)])

    def probabilities(self) -> Floats:
        """All propensities as an n x L array; meant for small matrices."""
        return self._probability(self.row_logits[:, None] + self.label_logits)

    def _probability(self, z: Floats) -> Floats:
        return np.asarray(expit(z if self.link is None else self.link(z)))


def estimate_propensities(labels: Any, noise: str = "test") -> PropensityEstimate:
    """Propensities from how often each row and each label was observed.

    The model is ``p_ij = f(α_i + β_j)``: some rows and some labels are observed more often, whatever the
    label value. α and β are such that, with the logistic f, the expected count of every row and label is the
    observed one; ``noise`` says how far those counts are believed. f is then adjusted to agree with how many
    of the entries with about the same ``α_i + β_j`` were observed, and is constant beyond the point where
    about ten observations are left. Memory is O(n + L + |Ω|). Every p is strictly between 0 and 1, or 1 where
    everything is observed.

    Parameters
    ----------
    labels : ObservedLabels, labels, or mask
        Anything with known and unknown entries; a boolean array or sparse matrix is a mask, True = observed.
    noise : "test", "smooth" or "keep", default "test"
        "test": where chance explains how the rows' counts differ, all rows are taken to be alike, and so
        with labels; otherwise the counts stand. Inverse weights then take most of a sample's bias away.
        "smooth": the counts stand for what they say of the rows' rates, given all rows (empirical Bayes).
        That is nearer to the true propensities, but its inverse weights leave more of the bias.
        "keep": the counts stand (to a millionth of the way to their mean) and f is logistic: the
        probabilities of largest entropy with these row and column sums.

    Examples
    --------
    >>> from labelgap.sampling import estimate_propensities
    >>> mask = np.array([[True, True, False], [True, True, False], [True, False, True]])
    >>> estimate_propensities(mask, noise="keep").probabilities().sum(axis=0).round(3).tolist()
    [3.0, 2.0, 1.0]
    """
    return fit_propensities(read_pattern(labels), noise)


def fit_propensities(pattern: Pattern, noise: str) -> PropensityEstimate:
    """:func:`estimate_propensities` of a pattern."""
    check_choice("noise", noise, NOISE)
    n, L = pattern.shape
    if len(pattern.rows) == n * L:
        return PropensityEstimate(np.full(n, np.inf), np.zeros(L), np.full(n, float(L)), np.full(L, float(n)))
    rows, row_class = _classes(pattern.row_counts())
    cols, label_class = _classes(pattern.label_counts())
    alpha, beta = fit_margins(rows, cols)
    link = None
    if noise != "keep":
        believed_rows = _believed(rows, alpha, cols, beta, noise)
        believed_cols = _believed(cols, beta, rows, alpha, noise)
        if np.ptp(believed_rows.sums) or np.ptp(believed_cols.sums):
            # By the fit to the counts as they are: after smoothing, that rows with few observations have few
            # would look like a fault of the link.
            link = fit_link(*_entries_by_class(pattern, rows, cols, row_class, label_class, alpha, beta))
        if believed_rows is not rows or believed_cols is not cols:
            rows, cols = believed_rows, believed_cols
            alpha, beta = fit_margins(rows, cols)
    return PropensityEstimate(
        alpha[row_class], beta[label_class], rows.sums[row_class], cols.sums[label_class], link
    )


def _believed(side: Margin, logits: Floats, other: Margin, other_logits: Floats, noise: str) -> Margin:
    """The counts less what is put down to chance."""
    if is_chance(side, other):
        return side.shrunk(1.0)
    return smooth_sums(side, logits, other, other_logits) if noise == "smooth" else side


def _classes(counts: NDArray[np.int64]) -> tuple[Margin, NDArray[np.int64]]:
    """Rows (or labels) by their count, ascending, and the class of each."""
    sums, number, members = np.unique(counts, return_inverse=True, return_counts=True)
    side = Margin(sums.astype(np.float64), members.astype(np.float64))
    return side.shrunk(_LEAST_SHRINKAGE), number


def _entries_by_class(
    pattern: Pattern,
    rows: Margin,
    cols: Margin,
    row_class: NDArray[np.int64],
    label_class: NDArray[np.int64],
    alpha: Floats,
    beta: Floats,
) -> tuple[Floats, Floats, Floats]:
    """z, the number of entries and the number of observed ones, for each pair of classes."""
    entries = np.outer(rows.members, cols.members).ravel()
    pair = row_class[pattern.rows] * len(beta) + label_class[pattern.cols]
    observed = np.bincount(pair, minlength=len(entries)).astype(np.float64)
    return (alpha[:, None] + beta).ravel(), entries, observed
