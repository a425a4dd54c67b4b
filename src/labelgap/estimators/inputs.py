"""What an estimator is given: its parameters and y; errors say what was given and what is expected."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from labelgap._arrays import (
    plain_array,
    to_host,
)
from labelgap._names import check_choice, look_up
from labelgap._warn import warn
from labelgap.estimators.arriving import check_arriving
from labelgap.exceptions import (
    InvalidLabelsError,
    InvalidParameterError,
    LabelgapWarning,
    UninformativeLabelsWarning,
)
from labelgap.fitting.cross_validation import SolverSettings
from labelgap.fitting.feature_maps import check_features
from labelgap.kernels.gpu.device import check_device
from labelgap.labels import ObservedLabels
from labelgap.labels.constructors import is_tag_sets, refuse_other_meaning
from labelgap.labels.matching import as_kept, in_label_order
from labelgap.labels.sources import minus_one_advice, observed_mask
from labelgap.objective.frame import SCALINGS
from labelgap.sampling import inverse_propensity_weights
from labelgap.solvers import RIVALS, SOLVERS

# -- labels ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Targets:
    """Labels, and the form in which they were given."""

    labels: ObservedLabels
    classes: NDArray[Any]
    """``[0, 1]``, or for a 1-d y its two values."""
    single: bool
    """Whether y was 1-d: one label, whose decisions are 1-d too, in the user's own two values."""
    sparse: bool
    """Whether the labels were a scipy sparse matrix, as the decisions then are."""


def read_targets(y: Any, unobserved: str) -> Targets:
    """Read any form of y; a 1-d y may hold any two values, and NaN or None where not observed."""
    y = to_host(y)
    if y is None:
        raise InvalidLabelsError(
            "This estimator requires y to be passed, but the target y is None. "
            "Pass the label matrix, with NaN for labels that are not observed."
        )
    if is_vector(y):
        values, missing = vector_values(y)
        known = values[~missing]
        # Where silence has a meaning of its own, the yes alone may be given.
        likes_alone = unobserved != "missing" and len(known) > 0 and bool(np.all(known == 1))
        classes = np.array([0, 1]) if likes_alone else _two_classes(known)
        labels = _read_as(_encode(values, missing, classes), unobserved)
        return Targets(labels, classes, single=True, sparse=False)
    labels = _read_as(y, unobserved)
    return Targets(labels, np.array([0, 1]), single=False, sparse=sp.issparse(y))


def _read_as(y: Any, unobserved: str) -> ObservedLabels:
    if unobserved == "unlabelled":
        # First with the known negatives, to say how many are about to be left out.
        y = ObservedLabels.from_any(y)
        warn_of_unused_negatives(y)
    return ObservedLabels.from_any(y, unobserved=unobserved)


def warn_of_unused_negatives(labels: ObservedLabels) -> None:
    """Warn of known negatives that a fit with ``unobserved="unlabelled"`` leaves out.

    In a matrix of zeros and ones alone a zero is how "not recorded" is written; beside entries that are not
    observed it says something else.
    """
    negatives = int(np.sum(labels.values == 0))
    if negatives and not labels.is_complete:
        warn(
            f"{negatives} known negatives were not used: under unobserved='unlabelled' only positives count, "
            "and a 0 is taken for not recorded. To learn from the negatives, fit with unobserved='missing'; "
            "if they are not known to be no, leave them blank (NaN) as well.",
            LabelgapWarning,
        )


def read_judged_labels(estimator: Any, y: Any, n: int, unobserved: str) -> ObservedLabels:
    """Labels of n rows to judge a fitted estimator by, in the form and the order of labels of its fit."""
    if is_tag_sets(y) and estimator.label_names_ is not None:
        # A label that no row has here is a label all the same.
        y = ObservedLabels.from_tags(y, unobserved, label_names=as_kept(estimator.label_names_))
    labels = read_labels_like(y, estimator._single, estimator.classes_, unobserved)
    labels = in_label_order(labels, estimator.label_names_)
    if labels.shape != (n, estimator.n_labels_):
        raise InvalidLabelsError(
            f"The labels have shape {labels.shape}; {n} rows of X and the {estimator.n_labels_} labels of "
            "the fit were expected."
        )
    return labels


def read_labels_like(y: Any, targets_single: bool, classes: NDArray[Any], unobserved: str) -> ObservedLabels:
    """Labels to be judged against, in the form that the estimator was fitted with."""
    y = to_host(y)
    if targets_single and is_vector(y):
        values, missing = vector_values(y)
        unknown = ~missing & ~np.isin(values, classes)
        if unknown.any():
            row = int(np.argmax(unknown))
            # As plain Python values, which print without numpy's type names.
            value, (no, yes) = values[row : row + 1].tolist()[0], classes.tolist()
            raise InvalidLabelsError(
                f"y holds {value!r} at row {row}; the estimator was fitted to the classes {no!r} and {yes!r}."
            )
        y = _encode(values, missing, classes)
    return ObservedLabels.from_any(y, unobserved=unobserved)


def read_batch_like(estimator: Any, y: Any) -> ObservedLabels:
    """Labels of a later batch, in the form and with the meaning of an absent entry of the fit."""
    unobserved = estimator._unobserved
    refuse_other_meaning(y, estimator.unobserved, unobserved)
    if unobserved == "unlabelled":
        # First with the known negatives, to say how many are about to be left out.
        y = read_labels_like(y, estimator._single, estimator.classes_, "missing")
        warn_of_unused_negatives(y)
    return read_labels_like(y, estimator._single, estimator.classes_, unobserved)


def is_vector(y: Any) -> bool:
    """Whether y is 1-d: the values of a single label."""
    if isinstance(y, ObservedLabels) or sp.issparse(y) or is_tag_sets(y):
        return False
    try:
        shape = getattr(y, "shape", None)
        return len(np.asarray(y).shape if shape is None else shape) == 1
    except ValueError:  # Rows of several lengths: the reader of matrices says so.
        return False


def _two_classes(values: NDArray[Any]) -> NDArray[Any]:
    """The two classes of a 1-d y, or an error that says which there are."""
    try:
        classes = np.unique(values)
    except TypeError as error:
        raise InvalidLabelsError(
            f"The values of a 1-d y cannot be compared with each other ({error}). Give two classes of one "
            "type, such as 0 and 1, and None or NaN where nothing is observed."
        ) from error
    if len(classes) == 2:
        # Numbers that None made into objects: decisions come back as numbers.
        plain = np.array(classes.tolist())
        return plain if plain.dtype.kind in "biuf" else classes
    advice = "Pass a label with both a yes and a no, or a 2-d matrix with one column per label."
    if len(classes) > 2 and np.array(classes.tolist()).dtype.kind in "iuf":
        advice = minus_one_advice(
            classes,
            with_zeros="If -1 is a no and 0 is not observed, pass np.where(y == 0, np.nan, y); if -1 is not "
            "observed and 0 is a no, pass np.where(y == -1, np.nan, y).",
            without=advice,
            else_=advice,
        )
    if len(classes) == 0:
        raise InvalidLabelsError(f"A 1-d y must hold two classes, but nothing is observed. {advice}")
    listed = ", ".join(repr(c) for c in classes[:5].tolist()) + (", ..." if len(classes) > 5 else "")
    count = "one class" if len(classes) == 1 else f"{len(classes)} classes"
    raise InvalidLabelsError(f"A 1-d y must hold two classes; got {count}: {listed}. {advice}")


def vector_values(y: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Values and where they are missing; masked, None, NaN and pandas' NA all count as missing."""
    masked = np.ma.getmaskarray(y) if np.ma.isMaskedArray(y) else None
    values = column_or_1d(np.ma.getdata(y) if masked is not None else y, warn=False)
    missing = np.zeros(len(values), dtype=bool) if masked is None else masked
    plain_array(values, "y", InvalidLabelsError)
    if values.dtype.kind == "f":
        infinite = np.isinf(values) & ~missing
        if infinite.any():
            raise InvalidLabelsError(
                f"Input y contains infinity at row {int(np.argmax(infinite))}; "
                "use NaN for a label that is not observed."
            )
    return values, missing | ~observed_mask(values)


def _encode(values: NDArray[Any], missing: NDArray[np.bool_], classes: NDArray[Any]) -> ObservedLabels:
    rows = np.flatnonzero(~missing)
    return ObservedLabels.from_triplets(
        rows, np.zeros(len(rows), dtype=np.int64), values[rows] == classes[1], shape=(len(values), 1)
    )


def weighted_labels(labels: ObservedLabels, weights: str | None, propensities: Any) -> ObservedLabels:
    """The labels with the weights that an estimator's ``weights`` asks for."""
    if weights is None:
        if propensities is not None:
            raise InvalidParameterError(
                "propensities were given but weights is None, so they would not be used. "
                "Set weights='inverse-propensity', or leave them out."
            )
        return labels
    if labels.unobserved == "unlabelled":
        raise InvalidParameterError(
            "weights='inverse-propensity' is about which labels were observed; under "
            "unobserved='unlabelled' every entry counts. Use flip_rate, one per label if need be."
        )
    inverse = inverse_propensity_weights(labels, propensities)
    return labels.with_weights(inverse if labels.weights is None else inverse * labels.weights)


def judging_labels(labels: ObservedLabels, judged: Any, *, of_batch: bool = False) -> ObservedLabels:
    """The labels, of which those in ``judged`` choose penalties and thresholds; None: as they say themselves.

    Of a later batch ``judged`` may have one value alone, or none.
    """
    if judged is None:
        return labels
    if labels.unobserved == "unlabelled":
        raise InvalidParameterError(
            "judged says which observed labels are a fair sample; under unobserved='unlabelled' every entry "
            "counts. Leave it out."
        )
    return labels._marked(judged) if of_batch else labels.with_judging(judged)


def warn_of_unseen_labels(labels: ObservedLabels) -> None:
    """Warn once of labels without any entry."""
    unseen = np.flatnonzero(labels.label_counts() == 0)
    if len(unseen):
        what = "recorded yes" if labels.unobserved == "unlabelled" else "observed entry"
        first = unseen[0] if labels.label_names is None else repr(labels.label_names[unseen[0]])
        warn(
            f"{len(unseen)} of {labels.shape[1]} labels have no {what} (the first: {first}); "
            "their score is the same for every row.",
            UninformativeLabelsWarning,
        )


PENALTIES = ("weights", "scores")
OUTPUTS = ("auto", "dense", "sparse")
THRESHOLDS = ("cross-fit", "holdout", "train")


def _is_a(kind: type, value: Any) -> bool:
    """Whether ``value`` is a number of that kind; True and False are not meant as numbers."""
    return isinstance(value, kind) and not isinstance(value, bool)


def check_number(
    name: str, value: Any, *, above: float, below: float = np.inf, or_none: str | None = None
) -> None:
    """Raise unless ``above < value < below`` (or None, where ``or_none`` says what that means)."""
    if value is None and or_none is not None:
        return
    if not (_is_a(Real, value) and above < float(value) < below):
        upper = " and finite" if below == np.inf else f" and below {below:g}"
        choice = f", or None for {or_none}" if or_none is not None else ""
        raise InvalidParameterError(f"{name} must be a number above {above:g}{upper}{choice}; got {value!r}.")


def check_fraction(name: str, value: Any) -> None:
    """Raise unless ``0 ≤ value ≤ 1``."""
    if not (_is_a(Real, value) and 0 <= float(value) <= 1):
        raise InvalidParameterError(f"{name} must be a number from 0 to 1; got {value!r}.")


def check_at_least_zero(name: str, value: Any) -> None:
    """Raise unless ``value`` is a number of at least 0, which may be infinite."""
    if not (_is_a(Real, value) and float(value) >= 0):
        raise InvalidParameterError(f"{name} must be a number of at least 0; got {value!r}.")


def check_whole(name: str, value: Any, *, or_none: str) -> None:
    """Raise unless ``value`` is a whole number of at least 1, or None."""
    if value is None:
        return
    if not (_is_a(Integral, value) and int(value) >= 1):
        raise InvalidParameterError(
            f"{name} must be a whole number, 1 or more, or None for {or_none}; got {value!r}."
        )


def check_between(name: str, value: Any, low: int, high: int, what: str) -> None:
    """Raise unless ``value`` is a whole number from ``low`` to ``high``, which is ``what``."""
    if not (_is_a(Integral, value) and low <= int(value) <= high):
        raise InvalidParameterError(
            f"{name} must be a whole number from {low} to {high}, {what}; got {value!r}."
        )


def check_verbose(value: Any) -> None:
    """Raise unless ``value`` is a whole number; True and False count as 1 and 0."""
    if not isinstance(value, Integral | np.bool_):
        raise InvalidParameterError(
            "verbose must be 0 for nothing, 1 for the stages of the fit, or 2 for each round of the solver "
            f"too; got {value!r}."
        )


def check_penalty(name: str, value: Any) -> None:
    """Raise unless ``value`` is "auto" or a finite number of at least 0."""
    if isinstance(value, str):
        check_choice(name, value, ("auto",))
    elif not (_is_a(Real, value) and 0 <= float(value) < np.inf):
        raise InvalidParameterError(f"{name} must be 'auto' or a finite number, 0 or more; got {value!r}.")


def check_soft_labels(value: Any) -> None:
    """Raise unless ``value`` is "auto" or a finite number of at least 0, the weight of soft labels."""
    if isinstance(value, str):
        check_choice("soft_labels", value, ("auto",))
    else:
        check_at_least_zero("soft_labels", value)
        check_number("soft_labels", value, above=-1.0)


# -- of low-rank estimators -------------------------------------------------------------------------------


def check_fit_parameters(model: Any) -> None:
    """Raise unless the parameters of a low-rank estimator, those that it has, can be used together."""
    given = model.get_params(deep=False)
    check_choice("solver", model.solver, SOLVERS | RIVALS)
    if model.device != "auto":
        check_device(model.device)
    if "penalty" in given:
        _check_feature_parameters(model)
    if "features" in given:
        check_features(model.features)
    if "forget" in given:
        check_arriving(model)
    if given.get("label_weighting", "auto") != "auto":
        check_fraction("label_weighting", model.label_weighting)
    for name in ("trace_penalty", "ridge_penalty", "intercept_penalty"):
        if name in given:
            check_penalty(name, given[name])
    if "fit_intercept" in given:
        _check_intercept_parameters(model)
    if isinstance(model.score_bound, str):
        check_choice("score_bound", model.score_bound, ("auto",))
    else:
        check_number("score_bound", model.score_bound, above=0.0, or_none="no bound on the scores")
    check_number("tol", model.tol, above=0.0, below=1.0, or_none=getattr(model, "_tol_of_none", None))
    check_whole("rank", model.rank, or_none="no cap")
    check_verbose(model.verbose)
    jobs: Any = model.n_jobs
    if jobs is not None and (not isinstance(jobs, (int, np.integer)) or jobs == 0):
        raise InvalidParameterError(
            f"n_jobs must be a whole number other than 0, or None for one job per thread; got {jobs!r}."
        )
    check_whole("max_iter", model.max_iter, or_none="the solver's own limit")
    if model.solver in RIVALS and model.rank is None:
        raise InvalidParameterError(
            f"solver={model.solver!r} works at a fixed rank: give rank=, a whole number such as 10."
        )


def _check_feature_parameters(model: Any) -> None:
    check_choice("penalty", model.penalty, PENALTIES)
    check_choice("feature_scaling", model.feature_scaling, ("auto", *SCALINGS))
    if model.penalty == "scores" and model.feature_scaling in ("root", "standard"):
        raise InvalidParameterError(
            f"feature_scaling={model.feature_scaling!r} has no effect on penalty='scores', which is about "
            "XW whatever the units of X. Leave it at 'auto'."
        )


def _check_intercept_parameters(model: Any) -> None:
    if not isinstance(model.fit_intercept, (bool, np.bool_)):
        raise InvalidParameterError(f"fit_intercept must be True or False; got {model.fit_intercept!r}.")
    if not model.fit_intercept and model.intercept_penalty not in ("auto", 0):
        raise InvalidParameterError(
            f"intercept_penalty is {model.intercept_penalty!r} but fit_intercept is False, so there is "
            "nothing to penalise. Leave it at 'auto', or fit an intercept."
        )


def check_decision_parameters(model: Any) -> None:
    """As :func:`check_fit_parameters`, for an estimator that decides by a threshold."""
    check_fit_parameters(model)
    check_choice("threshold", model.threshold, THRESHOLDS)
    if model.weights is not None:
        check_choice("weights", model.weights, ("inverse-propensity",))
    check_number("memory_limit_mb", model.memory_limit_mb, above=0.0)


def refuse_flip_rate(flip_rate: Any, unobserved: str) -> None:
    """Raise if a flip rate was given although it has no meaning for these labels."""
    if not (isinstance(flip_rate, str) and flip_rate == "estimate"):
        raise InvalidParameterError(
            "flip_rate is the fraction of unrecorded positives and has a meaning only under "
            f"unobserved='unlabelled'; here it is {unobserved!r}. Leave it out."
        )


def tolerance_of(model: Any) -> float:
    """The relative duality gap at which the fit of a low-rank estimator stops."""
    return float(model.default_tol if model.tol is None else model.tol)


def rank_limit_of(model: Any) -> int | None:
    """The highest rank that the fit of a low-rank estimator may have; None where there is no limit."""
    limit = getattr(model, "default_rank_limit", None) if model.rank is None else model.rank
    return None if limit is None else int(limit)


def solver_settings(model: Any) -> SolverSettings:
    """The solver of a low-rank estimator with its limits."""
    return SolverSettings(
        solver=look_up("solver", model.solver, SOLVERS | RIVALS),
        rank=model.rank,
        tol=tolerance_of(model),
        max_iter=model.max_iter,
        compare_with=SOLVERS["auto"],
    )
