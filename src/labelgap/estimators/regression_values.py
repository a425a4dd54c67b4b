"""What a regressor is given as y, offset and exposure, and the units in which it fits them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from labelgap._arrays import plain_array
from labelgap._types import Floats
from labelgap.estimators.inputs import is_vector, vector_values
from labelgap.exceptions import InvalidInputError, InvalidLabelsError, InvalidParameterError
from labelgap.fitting.chosen import ChosenFit
from labelgap.fitting.problem import best_constants
from labelgap.labels import ObservedLabels
from labelgap.losses import Family, Gaussian, Poisson
from labelgap.objective.moments import smoothed_rates
from labelgap.objective.protocol import Factors
from labelgap.persistence.registry import savable_record
from labelgap.solvers import Fit, Penalties, Progress
from labelgap.solvers.loop import Candidate

# Squares of values beyond this leave the range of floating point.
_LARGEST_VALUE = 1e100
# Values that differ from their mean by no more than this fraction are equal, but for rounding.
_ROUNDING = 4 * float(np.finfo(np.float64).eps)


def read_values(y: Any, family: Family) -> tuple[ObservedLabels, bool]:
    """The observed values as floats, and whether y was 1-d (one label)."""
    if y is None:
        raise InvalidLabelsError(
            "This estimator requires y to be passed, but the target y is None. "
            "Pass the values, with NaN for those that are not observed."
        )
    single = is_vector(y)
    if single:
        values, missing = vector_values(y)
        rows = np.flatnonzero(~missing)
        columns = np.zeros(len(rows), dtype=np.int64)
        shape = (len(values), 1)
        labels = ObservedLabels.from_triplets(rows, columns, values[rows], shape=shape, binary=False)
    else:
        labels = ObservedLabels.from_any(y, binary=False)
    if labels.unobserved == "unlabelled":
        raise InvalidLabelsError(
            "Labels with unobserved='unlabelled' hold recorded positives only, and there is no such thing "
            "for other values. Give every known value, or read absent ones as 0 with "
            "unobserved='negative'."
        )
    labels.require_observed()
    labels = replace(labels, values=labels.values.astype(np.float64))
    _refuse_impossible(labels, family)
    if sp.issparse(y) and isinstance(family, Poisson) and labels.values.min() > 0:
        raise InvalidLabelsError(
            "Every count stored in the sparse y is above 0, and absent entries are read as not observed, so "
            "no count of 0 would be known. If absent means 0, pass ObservedLabels.from_sparse(y, "
            "unobserved='negative', binary=False); if it does mean not observed, pass "
            "ObservedLabels.from_sparse(y, binary=False)."
        )
    return labels, single


def _place(labels: ObservedLabels, entry: int) -> str:
    """Where an entry is, in words."""
    row, column = int(labels.rows[entry]), int(labels.cols[entry])
    name = "" if labels.label_names is None else f" (label {labels.label_names[column]!r})"
    return f"row {row}, column {column}{name}"


def _refuse_impossible(labels: ObservedLabels, family: Family) -> None:
    values, (low, high) = labels.values, family.means
    possible = (values > low) & (values < high) | np.isin(values, family.edge_values)
    if not possible.all():
        first = int(np.argmin(possible))
        opening = "[" if low in family.edge_values else "("
        closing = "]" if high in family.edge_values else ")"
        raise InvalidLabelsError(
            f"The value at {_place(labels, first)} is {values[first]:g}, but the {family.name} family takes "
            f"numbers in {opening}{low:g}, {high:g}{closing}. Correct it, mark it as not observed by NaN, or "
            "choose another family."
        )
    first = int(np.argmax(np.abs(values)))
    if abs(values[first]) > _LARGEST_VALUE:
        raise InvalidLabelsError(
            f"The value at {_place(labels, first)} is {values[first]:.1e}, whose square overflows. "
            "Give the values in another unit."
        )


def require_something_to_learn(labels: ObservedLabels, family: Family) -> None:
    """Raise when the values of every label all lie on one edge of the family's range."""
    if not smoothed_rates(labels, family.edge_values).informative.any():
        edges = " or all ".join(f"{edge:g}" for edge in family.edge_values)
        raise InvalidLabelsError(
            f"The {labels.n_observed} observed values are, label by label, all {edges}, at the edge of what "
            f"the {family.name} family can have, so nothing can be learned from them. Observe other values."
        )


# -- known parts of the scores ---------------------------------------------------------------------------


def with_known_parts(
    labels: ObservedLabels, family: Family, offset: Any, exposure: Any, sample_weight: Any
) -> ObservedLabels:
    """The values with offset and log exposure added to their offsets, and rows weighted.

    Rows of weight 0 lose their entries.
    """
    known = [] if labels.offsets is None else [labels.offsets]
    if offset is not None:
        known.append(_finite(_at_entries(labels, offset, "offset"), "offset"))
    if exposure is not None:
        known.append(_log_exposure(_at_entries(labels, exposure, "exposure"), family))
    if known:
        labels = labels.with_offsets(np.sum(known, axis=0))
    return labels if sample_weight is None else labels.with_row_weights(sample_weight)


def score_offsets(family: Family, offset: Any, exposure: Any, shape: tuple[int, int]) -> Floats | None:
    """The known part of every score, to be added to an n x L array; None without any."""
    known = []
    if offset is not None:
        known.append(_finite(_per_score(offset, shape, "offset"), "offset"))
    if exposure is not None:
        known.append(_log_exposure(_per_score(exposure, shape, "exposure"), family))
    return sum(known[1:], start=known[0]) if known else None


def _at_entries(labels: ObservedLabels, given: Any, what: str) -> Floats:
    """One number per entry of Ω, from a matrix, a vector over rows or over Ω, or one number."""
    if sp.issparse(given):
        return np.asarray(labels.align(given, what), dtype=np.float64)
    array = _numbers(given, what)
    (n, n_labels), total = labels.shape, labels.n_observed
    if array.ndim == 0:
        return np.full(total, float(array))
    if array.shape == (n,):
        if n == total and np.any(labels.row_counts() != 1):
            raise InvalidInputError(
                f"The {what} is a vector of {n} numbers, and there are as many rows as observed values: it "
                f"could be meant by row or by value. Give a matrix of shape {labels.shape}."
            )
        return np.asarray(array[labels.rows])
    if array.shape not in ((n, n_labels), (total,)):
        raise InvalidInputError(
            f"The {what} has shape {array.shape}; expected one number, {n} (one per row), {total} (one per "
            f"observed value, row by row) or {labels.shape}."
        )
    return np.asarray(labels.align(array, what))


def _per_score(given: Any, shape: tuple[int, int], what: str) -> Floats:
    array = _numbers(plain_array(given, f"The {what}").toarray() if sp.issparse(given) else given, what)
    if array.shape == shape[:1]:
        return array[:, None]
    if array.shape not in ((), shape):
        raise InvalidInputError(
            f"The {what} has shape {array.shape}; expected one number, {shape[0]} (one per row) or {shape}."
        )
    return array


def _numbers(given: Any, what: str) -> Floats:
    try:
        return np.asarray(plain_array(given, f"The {what}"), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"The {what} must be numbers: {error}.") from error


def _finite(known: Floats, what: str) -> Floats:
    bad = ~np.isfinite(known)
    if bad.any():
        raise InvalidInputError(
            f"The {what} is {known[bad][0]} where a number is needed (the first of {bad.sum()} such places); "
            "give a finite number wherever there is a value or a prediction is asked for."
        )
    return known


def _log_exposure(exposure: Floats, family: Family) -> Floats:
    if not isinstance(family, Poisson):
        raise InvalidParameterError(
            f"exposure is for counts (family='poisson'), whose mean grows in proportion to it; the family is "
            f"{family.name!r}. Give offset=, which is added to the score."
        )
    if not (exposure > 0).all():
        bad = exposure[~(exposure > 0)]
        raise InvalidInputError(
            f"The exposure is {bad[0]:g} where a positive number is needed (the first of {len(bad)} such "
            "places). Mark a value without exposure as not observed."
        )
    return _finite(np.log(exposure), "exposure")


# -- models without features -----------------------------------------------------------------------------


def without_real_offsets(labels: ObservedLabels, family: Family) -> ObservedLabels:
    """Real values less their offsets, ℓ(z + o, y) = ℓ(z, y − o); values of other families unchanged."""
    if labels.offsets is None or not isinstance(family, Gaussian):
        return labels
    return replace(labels, values=labels.values - labels.offsets, offsets=None)


def null_loss(labels: ObservedLabels, family: Family) -> float:
    """The mean loss of the best constant score per label, given the offsets.

    Exactly 0 where every label has one and the same value throughout, and no offsets.
    """
    labels = without_real_offsets(labels, family)
    if labels.offsets is None and _constant_by_label(labels):
        return 0.0
    return best_constants(labels, family).value


def _constant_by_label(labels: ObservedLabels) -> bool:
    # Each entry against another one of its label.
    example = np.zeros(labels.shape[1])
    example[labels.cols] = labels.values
    return bool(np.all(labels.values == example[labels.cols]))


def common_score(labels: ObservedLabels, family: Family) -> float:
    """The one score that, with the offsets, fits the values of all labels best."""
    total = labels.n_observed
    pooled = ObservedLabels(
        indptr=np.arange(total + 1),
        indices=np.zeros(total, dtype=np.int32),
        values=labels.values,
        shape=(total, 1),
        weights=labels.weights,
        offsets=labels.offsets,
    )
    return float(best_constants(pooled, family).factors.intercept[0])


# -- units -----------------------------------------------------------------------------------------------


@savable_record("units")
@dataclass(frozen=True)
class Units:
    """The units of a fit: ``z = scale · z' + shift`` for the scores without offsets.

    Solvers take steps in units of the score. Half the squared error does not say what a unit is, so real
    values are shifted by their mean m and divided by their spread s, rounded to a power of two, so that no
    conversion loses a digit: ``y = s y' + m`` gives ``W = s W'``, ``b = s b' + m``, λ = s λ', λ₂ = λ₂',
    κ = κ', and an objective s² times as large. Other families have a scale of their own; there only the
    offsets are shifted, so that they are about 0 on average.
    """

    shift: float = 0.0
    scale: float = 1.0

    @classmethod
    def of(cls, labels: ObservedLabels, family: Family, *, shifted: bool) -> tuple[Self, ObservedLabels]:
        """Units for these values, and the values in them; ``shifted`` if an intercept takes the shift."""
        if isinstance(family, Gaussian):
            return cls._of_real(without_real_offsets(labels, family), shifted)
        if labels.offsets is None or not shifted:
            return cls(), labels
        mean = np.average(labels.values, weights=labels.weights)
        shift = common_score(labels, family) - float(family.link(mean))
        return cls(shift), labels.with_offsets(labels.offsets + shift)

    @classmethod
    def _of_real(cls, labels: ObservedLabels, shifted: bool) -> tuple[Self, ObservedLabels]:
        values = labels.values
        shift = float(np.average(values, weights=labels.weights)) if shifted else 0.0
        moved: Floats = values - shift
        moved = np.where(np.abs(moved) <= _ROUNDING * np.abs(values).max(), 0.0, moved)
        largest = float(np.abs(moved).max())
        if largest == 0:
            return cls(shift), replace(labels, values=moved)
        # Divided first: squares of small values underflow.
        spread = largest * float(np.sqrt(np.average((moved / largest) ** 2, weights=labels.weights)))
        scale = 2.0 ** round(np.log2(spread))
        return cls(shift, scale), replace(labels, values=moved / scale)

    def factors(self, factors: Factors) -> Factors:
        """The model in the user's units."""
        root = np.sqrt(self.scale)
        intercept = self.scale * factors.intercept + self.shift
        return Factors(root * factors.left, root * factors.right, intercept)

    def from_user(self, factors: Factors) -> Factors:
        """A model in the user's units in those of the fit; inverts :meth:`factors`."""
        root = np.sqrt(self.scale)
        intercept = (factors.intercept - self.shift) / self.scale
        return Factors(factors.left / root, factors.right / root, intercept)

    def penalties(self, penalties: Penalties) -> Penalties:
        centre = self.scale * penalties.centre + self.shift
        return replace(penalties, trace=self.scale * penalties.trace, centre=centre)

    def candidate(self, candidate: Candidate) -> Candidate:
        return replace(candidate, penalties=self.penalties(candidate.penalties))

    def progress(self, progress: Progress) -> Progress:
        return replace(progress, objective=self.scale**2 * progress.objective)

    def fit(self, fit: Fit) -> Fit:
        return replace(
            fit,
            factors=self.factors(fit.factors),
            singular_values=self.scale * fit.singular_values,
            objective=self.scale**2 * fit.objective,
            gap=self.scale**2 * fit.gap,
            history=tuple(self.progress(progress) for progress in fit.history),
        )


def in_user_units(chosen: ChosenFit, units: Units) -> ChosenFit:
    """The fit, its penalties and its candidates in the units of the user's values."""
    return replace(
        chosen,
        fit=units.fit(chosen.fit),
        penalties=units.penalties(chosen.penalties),
        candidates=tuple(units.candidate(candidate) for candidate in chosen.candidates),
    )
