"""Real and count answers with their known parts: what a regressor is given as y, offset and exposure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from labelgap._types import Floats
from labelgap.estimators.targets import _one_dimensional
from labelgap.exceptions import InvalidInputError, InvalidLabelsError, InvalidParameterError
from labelgap.labels import ObservedLabels
from labelgap.labels.rates import smoothed_rates
from labelgap.losses import Family, Gaussian, Poisson
from labelgap.objective.parts import FeatureSettings, ProblemSettings, RowBlock
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Factors, Point
from labelgap.solvers.intercept import with_best_intercept
from labelgap.solvers.penalties import Penalties

# Squares of answers beyond this leave the range of floating point.
_LARGEST_ANSWER = 1e100


def read_answers(y: Any, family: Family) -> tuple[ObservedLabels, bool]:
    """The observed answers as floats, and whether they came as a 1-d y (one label)."""
    if y is None:
        raise InvalidLabelsError(
            "This estimator requires y to be passed, but the target y is None. "
            "Pass the answers, with NaN for those that are not observed."
        )
    single = _is_vector(y)
    if single:
        values, missing = _one_dimensional(y)
        rows = np.flatnonzero(~missing)
        columns = np.zeros(len(rows), dtype=np.int64)
        shape = (len(values), 1)
        labels = ObservedLabels.from_triplets(rows, columns, values[rows], shape=shape, binary=False)
    else:
        labels = ObservedLabels.from_any(y, binary=False)
    if labels.unobserved == "unlabelled":
        raise InvalidLabelsError(
            "Labels with unobserved='unlabelled' hold recorded positives only, and there is no such thing "
            "for other answers. Give every known answer, or read absent ones as 0 with "
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


def _is_vector(y: Any) -> bool:
    if isinstance(y, ObservedLabels) or sp.issparse(y):
        return False
    try:
        shape = getattr(y, "shape", None)
        return len(np.asarray(y).shape if shape is None else shape) == 1
    except ValueError:  # Rows of several lengths: the reader of matrices says so.
        return False


def place(labels: ObservedLabels, entry: int) -> str:
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
            f"The answer at {place(labels, first)} is {values[first]:g}, but the {family.name} family takes "
            f"numbers in {opening}{low:g}, {high:g}{closing}. Correct it, mark it as not observed by NaN, or "
            "choose another family."
        )
    first = int(np.argmax(np.abs(values)))
    if abs(values[first]) > _LARGEST_ANSWER:
        raise InvalidLabelsError(
            f"The answer at {place(labels, first)} is {values[first]:.1e}, whose square overflows. "
            "Give the answers in another unit."
        )


def require_something_to_learn(labels: ObservedLabels, family: Family) -> None:
    """Raise when every label's answers all lie on one edge of the family's range."""
    if not smoothed_rates(labels, family.edge_values).informative.any():
        edges = " or all ".join(f"{edge:g}" for edge in family.edge_values)
        raise InvalidLabelsError(
            f"The {labels.n_observed} observed answers are, label by label, all {edges}, at the edge of what "
            f"the {family.name} family can have, so nothing can be learned from them. Observe other answers."
        )


# -- known parts of the scores ---------------------------------------------------------------------------


def with_known_parts(
    labels: ObservedLabels, family: Family, offset: Any, exposure: Any, sample_weight: Any
) -> ObservedLabels:
    """The answers with offset and log exposure added to their offsets, and rows weighted.

    Rows of weight 0 lose their entries.
    """
    known = [] if labels.offsets is None else [labels.offsets]
    if offset is not None:
        known.append(_finite(_at_entries(labels, offset, "offset"), "offset"))
    if exposure is not None:
        known.append(_log_exposure(_at_entries(labels, exposure, "exposure"), family))
    if known:
        labels = labels.with_offsets(np.sum(known, axis=0))
    if sample_weight is None:
        return labels
    weights = _row_weights(sample_weight, labels.shape[0])[labels.rows]
    if not (weights > 0).any():
        raise InvalidParameterError(
            "sample_weight is zero for every row with an observed answer; make one of them positive."
        )
    weights = weights if labels.weights is None else weights * labels.weights
    kept = labels.select(weights > 0)
    return kept.with_weights(weights[weights > 0])


def _row_weights(sample_weight: Any, n: int) -> Floats:
    weights = _numbers(sample_weight, "sample_weight")
    if weights.shape != (n,):
        raise InvalidInputError(
            f"sample_weight has shape {weights.shape}; expected one weight for each of the {n} rows."
        )
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise InvalidInputError("sample_weight must be finite and not negative for every row.")
    return weights


def cell_offsets(family: Family, offset: Any, exposure: Any, shape: tuple[int, int]) -> Floats | None:
    """The known part of every score, to be added to an n x L array; None without any."""
    known = []
    if offset is not None:
        known.append(_finite(_per_cell(offset, shape, "offset"), "offset"))
    if exposure is not None:
        known.append(_log_exposure(_per_cell(exposure, shape, "exposure"), family))
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
                f"The {what} is a vector of {n} numbers, and there are as many rows as observed answers: it "
                f"could be meant by row or by answer. Give a matrix of shape {labels.shape}."
            )
        return np.asarray(array[labels.rows])
    if array.shape not in ((n, n_labels), (total,)):
        raise InvalidInputError(
            f"The {what} has shape {array.shape}; expected one number, {n} (one per row), {total} (one per "
            f"observed answer, row by row) or {labels.shape}."
        )
    return np.asarray(labels.align(array, what))


def _per_cell(given: Any, shape: tuple[int, int], what: str) -> Floats:
    array = _numbers(given.toarray() if sp.issparse(given) else given, what)
    if array.shape == shape[:1]:
        return array[:, None]
    if array.shape not in ((), shape):
        raise InvalidInputError(
            f"The {what} has shape {array.shape}; expected one number, {shape[0]} (one per row) or {shape}."
        )
    return array


def _numbers(given: Any, what: str) -> Floats:
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"The {what} must be numbers: {error}.") from error


def _finite(known: Floats, what: str) -> Floats:
    bad = ~np.isfinite(known)
    if bad.any():
        raise InvalidInputError(
            f"The {what} is {known[bad][0]} where a number is needed (the first of {bad.sum()} such places); "
            "give a finite number wherever there is an answer or a prediction is asked for."
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
            "places). Mark an answer without exposure as not observed."
        )
    return _finite(np.log(exposure), "exposure")


# -- models without features -----------------------------------------------------------------------------


def without_real_offsets(labels: ObservedLabels, family: Family) -> ObservedLabels:
    """Real answers less their offsets, ℓ(z + o, y) = ℓ(z, y − o); answers of other families as they are."""
    if labels.offsets is None or not isinstance(family, Gaussian):
        return labels
    return replace(labels, values=labels.values - labels.offsets, offsets=None)


def null_loss(labels: ObservedLabels, family: Family) -> float:
    """The mean loss of the best constant score per label, given the offsets.

    Exactly 0 where every label has one and the same answer throughout, and no offsets.
    """
    labels = without_real_offsets(labels, family)
    if labels.offsets is None and _constant_by_label(labels):
        return 0.0
    return _best_constants(labels, family).value


def _constant_by_label(labels: ObservedLabels) -> bool:
    # Each entry against another one of its label.
    example = np.zeros(labels.shape[1])
    example[labels.cols] = labels.values
    return bool(np.all(labels.values == example[labels.cols]))


def common_score(labels: ObservedLabels, family: Family) -> float:
    """The one score that, with the offsets, fits the answers of all labels best."""
    total = labels.n_observed
    pooled = ObservedLabels(
        indptr=np.arange(total + 1),
        indices=np.zeros(total, dtype=np.int32),
        values=labels.values,
        shape=(total, 1),
        weights=labels.weights,
        offsets=labels.offsets,
    )
    return float(_best_constants(pooled, family).factors.intercept[0])


def _best_constants(labels: ObservedLabels, family: Family) -> Point:
    settings = ProblemSettings(family, FeatureSettings(own_rows=True))
    objective = Problem([RowBlock(None, labels)], settings).objective(labels)
    start = Factors.zero(objective.shape, objective.starting_intercept())
    return with_best_intercept(objective, objective.at(start), Penalties(1.0))
