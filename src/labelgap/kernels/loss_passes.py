"""One pass over the entries for all that a data term is asked at a point.

From the scores without the intercept come the value, the slope at each entry, and per label the sums of the
positive slopes, of the negative ones and of the curvatures. Entries are met once, a block of them at a time.
:mod:`labelgap.kernels.losses` holds the losses themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from labelgap._arrays import binary_and_real, read_only
from labelgap._types import Floats, Ints
from labelgap.kernels.losses import LOGISTIC, logistic_conjugates, losses
from labelgap.kernels.options import INLINED, OPTIONS, compiled
from labelgap.kernels.threads import run_over_rows

# Entries whose losses are computed in one go; their arrays stay in the nearest cache.
_BLOCK = 512
# Entries of a chunk, which is summed by itself: of one size whatever the threads, so that sums are too.
_CHUNK = 1 << 14
# Entries of a chunk for each label, so that the chunks' sums take less memory than their entries.
_PER_LABEL = 16
# Multiply-adds that an entry's loss is worth.
_WORK = 32


@compiled(**INLINED)
def _gather(low_rank, intercept, indices, offsets, binary, real, z, y):  # type: ignore[no-untyped-def]
    """The scores and targets of a block; what is of length 0 is none."""
    count = len(low_rank)
    for e in range(count):
        z[e] = low_rank[e]
    if len(intercept):
        for e in range(count):
            z[e] += intercept[indices[e]]
    if len(offsets):
        for e in range(count):
            z[e] += offsets[e]
    if len(binary):
        for e in range(count):
            y[e] = binary[e]
    else:
        for e in range(count):
            y[e] = real[e]


@compiled(**INLINED)
def _times(numbers, weights, weight):  # type: ignore[no-untyped-def]
    """Multiply by the weight of each entry, or by the one weight of all."""
    if len(weights):
        for e in range(len(numbers)):
            numbers[e] *= weights[e]
    else:
        for e in range(len(numbers)):
            numbers[e] *= weight


@compiled(**INLINED)
def _add_by_label(indices, slopes, curvatures, sums):  # type: ignore[no-untyped-def]
    for e in range(len(indices)):
        row = sums[indices[e]]
        row[0] += max(slopes[e], 0.0)
        row[1] += min(slopes[e], 0.0)
        row[2] += curvatures[e]


@compiled(**OPTIONS)
def _pass(  # type: ignore[no-untyped-def]
    code, cuts, low_rank, intercept, indices, offsets, binary, real, weights, weight,
    gradient, curvatures, values, sums, start, stop,
):  # fmt: skip
    """Slopes, curvatures and sums by label are for those who hand over arrays that are not empty."""
    z, y = np.empty(_BLOCK), np.empty(_BLOCK)
    value, spare_slope, spare_curvature = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    for c in range(start, stop):
        total = 0.0
        for first in range(cuts[c], cuts[c + 1], _BLOCK):
            last = min(first + _BLOCK, cuts[c + 1])
            count = last - first
            # A block's own arrays, counted from 0: only those loops become vector instructions.
            labels, some = indices[first:last], weights[first:last]
            slope = gradient[first:last] if len(gradient) else spare_slope[:count]
            curvature = curvatures[first:last] if len(curvatures) else spare_curvature[:count]
            _gather(
                low_rank[first:last], intercept, labels, offsets[first:last], binary[first:last],
                real[first:last], z, y,
            )  # fmt: skip
            losses(code, z, y, value, slope, curvature, count)
            _times(value[:count], some, weight)
            _times(slope, some, weight)
            part = 0.0
            for e in range(count):
                part += value[e]
            total += part
            if len(curvatures) or sums.shape[1]:
                _times(curvature, some, weight)
            if sums.shape[1]:
                _add_by_label(labels, slope, curvature, sums[c])
        values[c] = total


@compiled(**OPTIONS)
def _logistic_conjugate(cuts, slopes, binary, weights, weight, scale, totals, start, stop):  # type: ignore[no-untyped-def]
    conjugates, ratios = np.empty(_BLOCK), np.empty(_BLOCK)
    for c in range(start, stop):
        total = 0.0
        for first in range(cuts[c], cuts[c + 1], _BLOCK):
            last = min(first + _BLOCK, cuts[c + 1])
            count = last - first
            some, mine = slopes[first:last], weights[first:last]
            # An entry's own slope, without its weight.
            if len(weights):
                for e in range(count):
                    ratios[e] = some[e] / mine[e]
            else:
                for e in range(count):
                    ratios[e] = some[e] / weight
            logistic_conjugates(ratios, binary[first:last], scale, conjugates, count)
            _times(conjugates[:count], mine, weight)
            part = 0.0
            for e in range(count):
                part += conjugates[e]
            total += part
        totals[c] = total


def _chunks(n_entries: int, n_labels: int) -> Ints:
    """Where chunks of the entries begin and end."""
    chunk = max(_CHUNK, _PER_LABEL * n_labels)
    return np.append(np.arange(0, n_entries, chunk), n_entries).astype(np.int64)


class LossPasses:
    """``Σ ω_e ℓ(z_e + b_j + o_e, y_e)`` over fixed entries, as a function of the scores z and intercepts b.

    Parameters
    ----------
    code : int
        Which loss.
    indices : array of int
        The label j of each entry.
    n_labels : int
        How many labels there are.
    targets : array
        y.
    weights : array or float
        ω, one for each entry or one for all.
    offsets : array or None
        o.
    constant : float, default 0
        What is added to the value.
    """

    def __init__(
        self,
        code: int,
        indices: Ints,
        n_labels: int,
        targets: Any,
        weights: Floats | float,
        offsets: Floats | None,
        constant: float = 0.0,
    ) -> None:
        none = np.empty(0)
        per_entry = isinstance(weights, np.ndarray)
        self._n_labels = n_labels
        self._cuts = _chunks(len(indices), n_labels)
        self._entries = (
            read_only(indices, np.int32),
            read_only(none if offsets is None else offsets, np.float64),
            *binary_and_real(targets, np.float64),
            read_only(weights if per_entry else none, np.float64),
            1.0 if per_entry else float(weights),
        )
        self._code, self._constant = code, constant

    def _run(
        self, cuts: Ints, entries: tuple[Any, ...], low_rank: Floats, intercept: Floats | None, *out: Any
    ) -> None:
        b = np.empty(0) if intercept is None else intercept
        scores = (read_only(part, np.float64) for part in (low_rank, b))
        run_over_rows(_pass, cuts, _WORK, self._code, cuts, *scores, *entries, *out)

    def value_and_gradient(self, low_rank: Floats, intercept: Floats | None) -> tuple[float, Floats]:
        """The value, and the slope at each entry."""
        value, gradient, _ = self._pass(low_rank, intercept, 0)
        return value, gradient

    def with_label_sums(self, low_rank: Floats, intercept: Floats) -> tuple[float, Floats, Floats]:
        """The same, and per label (3 x L) the sums of positive slopes, negative slopes and curvatures."""
        value, gradient, sums = self._pass(low_rank, intercept, self._n_labels)
        return value, gradient, sums.sum(axis=0).T[:3]

    def _pass(
        self, low_rank: Floats, intercept: Floats | None, n_summed: int
    ) -> tuple[float, Floats, Floats]:
        chunks = len(self._cuts) - 1
        gradient, values = np.empty(len(low_rank)), np.empty(chunks)
        # A fourth number makes a label's sums half a line of the cache.
        sums = np.zeros((chunks, n_summed, 4))
        self._run(self._cuts, self._entries, low_rank, intercept, gradient, np.empty(0), values, sums)
        return float(values.sum()) + self._constant, gradient, sums

    def curvature(self, low_rank: Floats, intercept: Floats | None, part: slice | None = None) -> Floats:
        """The curvature at each entry, or at a part of the entries if only theirs are the scores."""
        cuts, entries = self._cuts, self._entries
        if part is not None:
            *arrays, weight = entries
            # Arrays that are not used are empty.
            entries = *(array[part] if len(array) else array for array in arrays), weight
            # Nothing is summed by label.
            cuts = _chunks(len(low_rank), 0)
        out, values = np.empty(len(low_rank)), np.empty(len(cuts) - 1)
        self._run(cuts, entries, low_rank, intercept, np.empty(0), out, values, np.empty((len(values), 0, 4)))
        return out

    def conjugate(self, gradient: Floats, scale: float) -> float | None:
        """The convex conjugate at ``scale · gradient``, for labels under the logistic loss; else None."""
        _, offsets, binary, _, weights, weight = self._entries
        if self._code != LOGISTIC or len(binary) != len(gradient):
            return None
        totals, slopes = np.empty(len(self._cuts) - 1), read_only(gradient, np.float64)
        run_over_rows(
            _logistic_conjugate, self._cuts, _WORK,
            self._cuts, slopes, binary, weights, weight, float(scale), totals,
        )  # fmt: skip
        value = float(totals.sum()) - self._constant
        # The conjugate of z ↦ ℓ(z + o) is ℓ*(a) − a o.
        return value - scale * float(gradient @ offsets) if len(offsets) else value
