"""Kernel features beside linear ones: Nyström features of an RBF kernel, compared on held-out rows.

With landmarks c_1, ..., c_m among the rows and ``K(x, y) = exp(−γ‖x − y‖²)`` of standardised rows, the
features are ``φ(x) = K_mm^(−1/2) (K(x, c_1), ..., K(x, c_m))``. A linear fit in φ is a fit of functions of
the kernel's space that the landmarks span (Williams and Seeger, 2001), with the same trace norm and the same
certificate. The map depends on X alone, and not on any label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from labelgap._types import Floats
from labelgap.exceptions import InvalidFeaturesError, InvalidParameterError
from labelgap.fitting.choice import PenaltyChoice, Standing
from labelgap.fitting.chosen import ChosenFit
from labelgap.fitting.penalty_grid import PenaltyGrid, PenaltyRequest, Place
from labelgap.fitting.search import Contest, ahead_in_errors, leading
from labelgap.labels import ObservedLabels
from labelgap.objective.problem import Problem
from labelgap.solvers.loop import Candidate, Stopped
from labelgap.thresholds.cross_fit import hold_out_plan

FEATURES = ("auto", "linear", "rbf")
# γ in units of 1/d, the inverse of the mean squared distance of a standardised row from the centre.
_WIDTHS = (0.25, 1.0, 4.0)
# Landmarks: this many, and so many if there are at least twice as many rows.
_LANDMARKS = (300, 900)
# "auto" looks at kernel features if there are so many rows, and so many observed entries ...
_FEWEST_ROWS, _FEWEST_ENTRIES = 200, 300
# ... and no more numbers in them than this (1 GiB).
_MOST_NUMBERS = 1 << 27
# Kernel features are taken in place of linear ones if their metric is better by so many standard errors of
# the difference, or if it is not worse and their loss, which is less noisy, is lower by this fraction.
_CLEARLY, _CLEARLY_LOWER = 1.0, 0.01
# Kernels are many and the metric is noisy: those within so many standard errors of the best are left to the
# loss.
_ALIKE = 1.0
# They are not followed up if they are behind by so many, or by so many in the first fold alone.
_HOPELESS, _HOPELESS_IN_FOLD = 1.0, 2.0
# Steps of λ, factors of √2, from the best linear fit at which kernel features are looked at first; steps of λ
# and λ₂ around the best of them; and those for further kernels.
_FIRST_STEP, _STRIDES, _STRIDES_OF_OTHERS = 4, ((2, 2), (1, 1)), ((2, 1),)
# Numbers in the kernel features of a sample of the rows (32 MiB), which is looked at first if it is at most a
# quarter of them.
_SAMPLED_NUMBERS, _SAMPLED_FRACTION = 1 << 22, 0.25
# Numbers in a block of rows that is mapped at a time.
_BLOCK_NUMBERS = 1 << 22


MakeProblem: TypeAlias = Callable[[Any, ObservedLabels, float], tuple[Problem, PenaltyGrid]]
"""From features, labels and a label weighting to a problem and its penalties."""


class RbfMap(NamedTuple):
    """An RBF kernel and its number of landmarks."""

    width: float = 1.0
    """γ in units of 1/d."""
    n_landmarks: int = _LANDMARKS[0]

    def __str__(self) -> str:
        return f"rbf of width {self.width:g}/d with {self.n_landmarks} landmarks"

    def beside(self, n_rows: int) -> Iterator[RbfMap]:
        """The maps in which the width is a step larger or smaller, or there are more landmarks."""
        place = _WIDTHS.index(self.width)
        for near in (place - 1, place + 1):
            if 0 <= near < len(_WIDTHS):
                yield self._replace(width=_WIDTHS[near])
        more = [m for m in _LANDMARKS if m > self.n_landmarks and n_rows >= 2 * m]
        if more:
            yield self._replace(n_landmarks=more[0])


def fitted_rbf(X: Floats, spec: RbfMap, random_state: Any) -> Any:
    """scikit-learn's StandardScaler and Nystroem, fitted to the rows; landmarks are drawn from all of them.

    Examples
    --------
    >>> X = np.random.RandomState(0).standard_normal((50, 3))
    >>> fitted_rbf(X, RbfMap(n_landmarks=20), 0).transform(X).shape
    (50, 20)
    """
    # Imported where they are needed: they would take a quarter of a second from every start.
    from sklearn.kernel_approximation import Nystroem
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    varying = int(np.count_nonzero(np.ptp(X, axis=0)))
    seed = int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    kernel = Nystroem(
        kernel="rbf",
        gamma=spec.width / max(varying, 1),
        n_components=min(spec.n_landmarks, X.shape[0]),
        random_state=seed,
    )
    return Pipeline([("scale", StandardScaler()), ("kernel", kernel)]).fit(X)


def fitted_transformer(features: Any, X: Any) -> Any:
    """A clone of the user's transformer, fitted to the rows."""
    return clone(features).fit(X)


def check_features(features: Any) -> None:
    """Raise unless ``features`` is one of the words, or has ``fit`` and ``transform``."""
    if isinstance(features, str) and features in FEATURES:
        return
    if not isinstance(features, (str, type)) and all(
        hasattr(features, verb) for verb in ("fit", "transform")
    ):
        return
    words = ", ".join(map(repr, FEATURES))
    raise InvalidParameterError(
        f"features must be one of {words}, or a transformer with fit and transform, such as "
        f"sklearn.kernel_approximation.Nystroem(); got {features!r}."
    )


def first_map(features: Any, X: Any, random_state: Any) -> Any:
    """The transformer that a fit begins with, fitted to X; None where the features are X itself."""
    if isinstance(features, str) and features != "rbf":
        return None
    if X is None:
        raise InvalidParameterError(
            f"features={features!r} has a meaning only with features X; here X is None, and every row has "
            "parameters of its own. Leave it out."
        )
    if isinstance(features, str):
        _refuse_sparse(X)
        return fitted_rbf(X, RbfMap(), random_state)
    return fitted_transformer(features, X)


def maps_to_compare(features: Any, X: Any, n_observed: int, random_state: Any) -> list[Any]:
    """The fitted transformers among which a baseline chooses; None stands for X itself.

    Examples
    --------
    >>> len(maps_to_compare("rbf", np.eye(3), 9, 0)), maps_to_compare("linear", np.eye(3), 9, 0)
    (3, [None])
    """
    if not isinstance(features, str):
        return [fitted_transformer(features, X)]
    if features == "linear" or (features == "auto" and not _worth_looking(X, n_observed)):
        return [None]
    _refuse_sparse(X)
    seed = int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    kernels = [fitted_rbf(X, RbfMap(width), seed) for width in _WIDTHS]
    return kernels if features == "rbf" else [None, *kernels]


def is_clearly_ahead(value: float, other: float, standard_error: float) -> bool:
    """Whether kernel features reach so much more than linear ones that they are taken."""
    return value - other > _CLEARLY * standard_error


def _refuse_sparse(X: Any) -> None:
    if sp.issparse(X):
        raise InvalidFeaturesError(
            "features='rbf' needs a dense X: distances in many sparse features tell little. Leave features "
            "at 'linear', or reduce X first, for instance with sklearn.decomposition.TruncatedSVD."
        )
    if not np.isfinite(X).all():
        raise InvalidFeaturesError(
            "features='rbf' needs an X without NaN. Impute it first, for instance with "
            "sklearn.impute.SimpleImputer, or leave features at 'linear'."
        )


def mapped(transformer: Any, X: Any) -> Any:
    """The features of these rows: X itself without a transformer; checked, since any object may make them."""
    if transformer is None:
        return X
    step = _BLOCK_NUMBERS // max(X.shape[1], _LANDMARKS[0]) + 1
    if X.shape[0] > step and not sp.issparse(X):
        return _mapped_in_blocks(transformer, X, step)
    return _checked_rows(transformer.transform(X), X)


def _mapped_in_blocks(transformer: Any, X: Any, step: int) -> Any:
    """The same, some rows at a time: a kernel makes copies of X and of its values on the way."""
    first = _checked_rows(transformer.transform(X[:step]), X[:step])
    if sp.issparse(first):
        return _checked_rows(transformer.transform(X), X)
    Z = np.empty((X.shape[0], first.shape[1]))
    Z[:step] = first
    for start in range(step, len(Z), step):
        rows = X[start : start + step]
        Z[start : start + step] = _checked_rows(transformer.transform(rows), rows)
    return Z


def _checked_rows(Z: Any, X: Any) -> Any:
    if not sp.issparse(Z):
        Z = np.asarray(Z, dtype=np.float64)
    elif Z.dtype != np.float64 or Z.format != "csr":
        Z = sp.csr_array(Z, dtype=np.float64)
    values = Z.data if sp.issparse(Z) else Z
    if Z.ndim != 2 or Z.shape[0] != X.shape[0] or not np.isfinite(values).all():
        raise InvalidFeaturesError(
            f"The transformer in features made an array of shape {Z.shape} for {X.shape[0]} rows, or values "
            "that are not finite. It must give each row one row of finite numbers."
        )
    return Z


def mapped_product(transformer: Any, X: Any, left: Floats) -> Floats:
    """``φ(X) A``, some rows at a time, so that the features of all rows are never held."""
    if transformer is None:
        return np.ascontiguousarray(X @ left)
    n, width = X.shape[0], max(len(left), 1)
    step = max(1, _BLOCK_NUMBERS // width)
    P = np.empty((n, left.shape[1]))
    for start in range(0, n, step):
        P[start : start + step] = mapped(transformer, X[start : start + step]) @ left
    return P


# -- the choice --------------------------------------------------------------------------------------------


def tells_rows_apart(features: Any) -> bool:
    """Whether a model in these features can tell training rows apart, so that whole rows are held out."""
    return isinstance(features, str) and features == "rbf"


def _worth_looking(X: Any, n_observed: int) -> bool:
    """Whether "auto" compares kernel features with linear ones for such data."""
    if X is None or sp.issparse(X):
        return False
    n = X.shape[0]
    if n < _FEWEST_ROWS or n_observed < _FEWEST_ENTRIES or n * _LANDMARKS[0] > _MOST_NUMBERS:
        return False
    return bool(np.isfinite(X).all() and np.ptp(X, axis=0).any())


@dataclass
class FeatureMaps:
    """Lets kernel features compete with the features that a search was about; a challenge of its choice.

    Rows are held out in the comparison: with kernel features a model can tell rows apart, and the other
    labels of a row that it was fitted to would give away the one that is held out.
    """

    X: Floats
    make: MakeProblem
    transformer: Any = None
    """The map of the features that the choice stands at; None for X itself."""
    current: RbfMap | None = None
    """The same as a kernel; None where it is none."""
    competes: bool = True
    """Whether there are other kernels to compare with."""
    _seed: int = field(default=0, init=False)

    @classmethod
    def of(
        cls,
        model: Any,
        X: Any,
        labels: ObservedLabels,
        request: PenaltyRequest,
        make: MakeProblem,
        transformer: Any,
    ) -> FeatureMaps:
        """The competition that an estimator's ``features`` asks for, from a fit with this transformer.

        There is none for a λ that is given, which refers to the features as they are.
        """
        word = model.features if isinstance(model.features, str) else None
        is_open = request.trace == "auto" and model.penalty == "weights"
        competes = is_open and (word == "rbf" or (word == "auto" and _worth_looking(X, labels.n_observed)))
        return cls(X, make, transformer, RbfMap() if word == "rbf" else None, competes)

    def fit(self, choice: PenaltyChoice) -> ChosenFit:
        """Choose, and fit to all entries in the features that won."""
        choice.challenge = self if self.competes else None
        choice.feature_map = None if self.current is None else str(self.current)
        return replace(choice.fit(), feature_map=self.transformer)

    def __call__(self, choice: PenaltyChoice, best: Candidate, tol: float, n_folds: int) -> Candidate:
        """The best candidate with these and other features."""
        rng = check_random_state(choice.run.random_state)
        how = "holdout" if choice.how == "holdout" else "cross-fit"
        plan = choice.plan if choice.by_row else hold_out_plan(choice.labels, how, rng, by_row=True)
        # All maps have the same landmarks, as far as their numbers go.
        self._seed = int(rng.randint(np.iinfo(np.int32).max))
        before = choice.standing
        kept, kept_transformer, kept_spec = before, self.transformer, self.current
        try:
            standing = before
            if not choice.by_row:
                standing = before._replace(folds=choice.cross_validation("search by rows", plan))
            place = before.grid.place_of(best.penalties)
            if (
                self.current is None
                and choice.samples_folds
                and self._is_hopeless(choice, standing, place, plan, tol, n_folds)
            ):
                choice.stand_at(before)
                self.transformer = kept_transformer
                return best
            judged = best
            choice.stand_at(standing)
            if not choice.by_row:
                (judged,) = choice.compare_at(standing, [best.penalties], tol, n_folds)
            waiting = [RbfMap()] if self.current is None else list(self.current.beside(len(self.X)))
            tried = {self.current}
            while waiting:
                spec = waiting.pop(0)
                if spec in tried:
                    continue
                tried.add(spec)
                found = self._best_with(choice, spec, plan, place, judged, tol, n_folds)
                if found is None:
                    continue
                judged, place, kept = found
                best = judged
                kept_transformer, kept_spec = self.transformer, spec
                waiting = list(spec.beside(len(self.X)))
        except Stopped:
            pass
        choice.stand_at(kept)
        self.transformer, self.current = kept_transformer, kept_spec
        return best

    def _is_hopeless(
        self, choice: PenaltyChoice, linear: Standing, place: Place, plan: Any, tol: float, n_folds: int
    ) -> bool:
        """Whether kernels are clearly worse in one fold or for a sample of the rows, which costs little."""
        rows = self._draw_rows()
        if rows is None and n_folds == 1:
            return False
        if rows is None:
            X, times = self.X, 1.0
            (judged,) = choice.compare_at(linear, [linear.grid.at(place)], tol, 1)
        else:
            X, times = self.X[rows], len(self.X) / len(rows)
            judged, plan = _judge_in_sample(choice, linear, place, plan, rows, tol)
        standing, contest = self._contest(choice, RbfMap(), X, plan, tol, 1, times)
        first = self._first_look(contest, standing.grid, place, from_linear=True)
        standing.folds.close()
        return ahead_in_errors(first, judged) < -_HOPELESS_IN_FOLD and first.loss >= judged.loss

    def _draw_rows(self) -> NDArray[np.int64] | None:
        """Rows to look at first; None where all of them do not take much memory."""
        n, n_few = len(self.X), _SAMPLED_NUMBERS // _LANDMARKS[0]
        if n_few > _SAMPLED_FRACTION * n:
            return None
        return np.sort(check_random_state(self._seed).permutation(n)[:n_few])

    def _contest(
        self,
        choice: PenaltyChoice,
        spec: RbfMap,
        X: Floats,
        plan: Any,
        tol: float,
        n_folds: int,
        times: float = 1.0,
    ) -> tuple[Standing, Contest]:
        """Penalties of a fit with a kernel, to be judged on the first folds.

        There are ``times`` as many rows as in X, which is 1 where it is not a sample.
        """
        self.transformer = fitted_rbf(X, spec, self._seed)
        weighting = choice.problem.settings.features.label_weighting
        choice.problem, grid = self.make(mapped(self.transformer, X), choice.labels, weighting)
        if times != 1:
            # Candidates are listed in the units of all rows.
            grid = grid.for_sample(1 / times).for_sample(times)
        part = f"search with {spec}".replace("/", " over ")
        folds = choice.cross_validation(part if n_folds > 1 else f"{part} in a fold", plan)
        standing = choice.standing._replace(grid=choice.grid_here(grid), folds=folds, feature_map=str(spec))

        def compare(choices: Any) -> list[Candidate]:
            return choice.compare_at(standing, choices, tol, n_folds)

        return standing, Contest(compare, standing.grid, choice.criterion, _ALIKE)

    def _first_look(
        self, contest: Contest, grid: PenaltyGrid, place: Place, *, from_linear: bool
    ) -> Candidate:
        """The best of some λ around the one of the features that were best so far."""
        steps = (0, _FIRST_STEP, -_FIRST_STEP) if from_linear else (0,)
        contest.look_at(*_along_trace(grid, _nearest(grid, place), steps))
        return contest.tried[contest.leader()]

    def _best_with(
        self,
        choice: PenaltyChoice,
        spec: RbfMap,
        plan: Any,
        place: Place,
        leader: Candidate,
        tol: float,
        n_folds: int,
    ) -> tuple[Candidate, Place, Standing] | None:
        """The best candidate with a kernel, its place and what it is about; None if the leader is better."""
        from_linear = leader.feature_map is None
        standing, contest = self._contest(choice, spec, self.X, plan, tol, n_folds)
        first = self._first_look(contest, standing.grid, place, from_linear=from_linear)
        hopeless = ahead_in_errors(first, leader) < -_HOPELESS and first.loss >= leader.loss
        if not hopeless:
            coarsely = not from_linear
            for stride in _STRIDES_OF_OTHERS if coarsely else _STRIDES:
                contest.look_around(stride)
        standing.folds.close()
        at = contest.leader()
        found = contest.tried[at]
        wins = (
            _is_clearly_better(found, leader)
            if from_linear
            else leading([leader, found], choice.criterion, _ALIKE) == 1
        )
        return (found, at, standing) if wins else None


def _judge_in_sample(
    choice: PenaltyChoice, linear: Standing, place: Place, plan: Any, rows: NDArray[np.int64], tol: float
) -> tuple[Candidate, Any]:
    """Penalties of a fit to a sample of the rows, judged in its first fold, and the plan of the sample.

    The choice is left with the labels of the sample.
    """
    # The objectives of all rows would take more memory than they save time.
    linear.folds.close()
    chosen = np.zeros(linear.labels.shape[0], dtype=np.bool_)
    chosen[rows] = True
    plan = plan[np.repeat(chosen, linear.labels.row_counts())]
    labels = linear.labels.take_rows(rows)
    grid = linear.grid.for_sample(len(chosen) / len(rows))
    sampled = linear._replace(problem=linear.problem.of_rows(rows, labels), labels=labels, grid=grid)
    choice.stand_at(sampled)
    sampled = sampled._replace(folds=choice.cross_validation("search in a sample", plan))
    (judged,) = choice.compare_at(sampled, [grid.at(place)], tol, 1)
    choice.stand_at(linear._replace(labels=labels))
    return judged, plan


def _is_clearly_better(candidate: Candidate, other: Candidate) -> bool:
    ahead = ahead_in_errors(candidate, other)
    lower = candidate.loss < other.loss - _CLEARLY_LOWER * abs(other.loss)
    return ahead > _CLEARLY or (ahead >= 0 and lower)


def _nearest(grid: PenaltyGrid, place: Place) -> Place:
    """The same place, or where the grid has no such place the nearest one."""
    lengths = (len(grid.traces), len(grid.ridges), len(grid.intercepts))
    trace, ridge, intercept = (min(step, length - 1) for step, length in zip(place, lengths, strict=True))
    return trace, ridge, intercept


def _along_trace(grid: PenaltyGrid, start: Place, steps: tuple[int, ...]) -> Iterator[Place]:
    for step in steps:
        place = (start[0] + step, *start[1:])
        if grid.holds(place):
            yield place
