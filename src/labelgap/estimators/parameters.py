"""Checks of parameters, with messages that say what was given and what is expected."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from labelgap._names import check_choice, look_up
from labelgap.exceptions import InvalidParameterError
from labelgap.fitting.cross_validation import SolverSettings
from labelgap.objective.frame import SCALINGS
from labelgap.solvers import RIVALS, SOLVERS, default_max_iter

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


def check_penalty(name: str, value: Any) -> None:
    """Raise unless ``value`` is "auto" or a finite number of at least 0."""
    if isinstance(value, str):
        check_choice(name, value, ("auto",))
    elif not (_is_a(Real, value) and 0 <= float(value) < np.inf):
        raise InvalidParameterError(f"{name} must be 'auto' or a finite number, 0 or more; got {value!r}.")


# -- of low-rank estimators -------------------------------------------------------------------------------


def check_fit_parameters(model: Any) -> None:
    """Raise unless the parameters of a low-rank estimator, those that it has, can be used together."""
    given = model.get_params(deep=False)
    check_choice("solver", model.solver, SOLVERS | RIVALS)
    if "penalty" in given:
        _check_feature_parameters(model)
    for name in ("trace_penalty", "ridge_penalty", "intercept_penalty"):
        if name in given:
            check_penalty(name, given[name])
    if "fit_intercept" in given:
        _check_intercept_parameters(model)
    if isinstance(model.score_bound, str):
        check_choice("score_bound", model.score_bound, ("auto",))
    else:
        check_number("score_bound", model.score_bound, above=0.0, or_none="no bound on the scores")
    check_number("tol", model.tol, above=0.0, below=1.0)
    check_whole("rank", model.rank, or_none="no cap")
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


def solver_settings(model: Any) -> SolverSettings:
    """The solver of a low-rank estimator with its limits."""
    return SolverSettings(
        solver=look_up("solver", model.solver, SOLVERS | RIVALS),
        rank=model.rank,
        tol=model.tol,
        max_iter=model.max_iter or default_max_iter(model.solver),
    )
