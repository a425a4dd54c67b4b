"""What an estimator does with the features that it was fitted in: map new rows, and say which rows speak."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from labelgap._types import Floats
from labelgap.estimators.features_given import read_features
from labelgap.estimators.inputs import check_between
from labelgap.exceptions import InvalidFeaturesError, InvalidInputError, InvalidParameterError
from labelgap.fitting.feature_maps import is_clearly_ahead, mapped, mapped_product, tells_rows_apart
from labelgap.fitting.problem import device_scores
from labelgap.labels import ObservedLabels
from labelgap.metrics.jackknife import leave_out_values, standard_error
from labelgap.thresholds.choosing import ChosenThresholds
from labelgap.thresholds.cross_fit import HeldOutScores, OneClassEffect
from labelgap.thresholds.sweep import best_threshold

# ε, where the eigenvalues of the kernel between landmarks have a mean of 1.
_LANDMARK_RIDGE = 0.01


class RowContributions(NamedTuple):
    """What training rows add to a score, those with the largest contributions first.

    The score is ``intercept``, plus the contributions of all landmarks, plus ``unexplained``.
    """

    rows: NDArray[np.int64]
    """The numbers of the training rows, from 0."""
    contributions: Floats
    similarities: Floats
    """``K(x, row)``, from 0 to 1."""
    score: float
    intercept: float
    unexplained: float


class FeatureMapped:
    """An estimator that may be fitted in other features than X itself."""

    # Of the class: an estimator that was fitted in X itself has no map of its own, and files of earlier
    # versions have none either.
    feature_map_: Any = None
    features: Any

    def _takes_sparse(self) -> bool:
        """Whether X may be sparse, as far as the features are concerned."""
        return not tells_rows_apart(self.features)

    @property
    def features_(self) -> str:
        """What the fit was made in: "linear", "rbf", or the class of the given transformer."""
        check_is_fitted(self)
        if self.feature_map_ is None:
            return "linear"
        return "rbf" if kernel_of(self.feature_map_) is not None else type(self.feature_map_).__name__


class MappedFeatures(FeatureMapped):
    """The part of a low-rank estimator that knows the feature map of its fit."""

    coef_left_: Floats
    coef_right_: Floats
    intercept_: Floats
    label_names_: NDArray[Any] | None
    n_labels_: int
    device: str

    def _left_product(self, X: Any) -> Floats:
        """``φ(X) A`` of validated rows."""
        return mapped_product(self.feature_map_, X, self.coef_left_)

    def _scores_on_device(self, X: Any) -> Any:
        """The scores of validated rows on a device; None where the CPU makes them."""
        transformer = self.feature_map_
        left = self.coef_left_ if transformer is None else np.eye(self.coef_left_.shape[1])
        device = device_scores(self.device, X, left, self.coef_right_, self.intercept_)
        return device if device is None or transformer is None else _MappedScores(self, device)

    def explain_rows(self, x: Any, label: Any, n: int = 5) -> RowContributions:
        """Which training rows speak for, or against, a decision, after a fit in kernel features.

        With landmarks c_1, ..., c_m among the training rows, the score of a label is ``z_j(x) = b_j + Σ_l
        K(x, c_l) u_lj`` for ``u_j = K^(−1/2) w_j``, K the kernel between landmarks. Where landmarks are much
        alike, such a u has huge parts of both signs that cancel. ``u_j = (K + ε)⁻¹ K^(1/2) w_j`` with
        ε = 0.01 has none and gives almost the same score; the difference is ``unexplained``. The contribution
        of row c_l is ``K(x, c_l) u_lj``.

        Parameters
        ----------
        x : array of shape (d,) or (1, d)
            One row of features.
        label : int, or the name of a label
        n : int, default 5
            The number of rows that are listed, those with the largest contributions of either sign.

        Examples
        --------
        >>> import numpy as np
        >>> from labelgap import LowRankClassifier
        >>> X = np.random.RandomState(0).uniform(-2, 2, size=(120, 2))
        >>> Y = np.column_stack([np.hypot(*X.T) < 1.2, np.hypot(*X.T) > 1.6]).astype(float)
        >>> clf = LowRankClassifier(features="rbf", trace_penalty=0.002, random_state=0).fit(X, Y)
        >>> found = clf.explain_rows(X[0], 0, n=3)
        >>> found.rows.shape, bool(np.isclose(found.score, clf.decision_function(X[:1])[0, 0]))
        ((3,), True)
        >>> bool(abs(found.unexplained) < 0.1 * abs(found.score - found.intercept))
        True
        """
        check_is_fitted(self)
        kernel = kernel_of(self.feature_map_)
        if kernel is None:
            raise InvalidInputError(
                f"explain_rows is for a fit in kernel features; this one is in {self.features_!r} features. "
                "coef_ has what each of these adds to a score. Fit with features='rbf' to learn of rows."
            )
        row = np.atleast_2d(np.asarray(x, dtype=np.float64))
        if len(row) != 1:
            raise InvalidFeaturesError(f"explain_rows takes one row of features; got {len(row)} rows.")
        row = read_features(self, row, reset=False)
        number = label_number(self, label)
        check_between("n", n, 1, len(kernel.components_), "the number of landmarks")
        scaled = self.feature_map_[:-1].transform(row)
        similarities = kernel_values(kernel, scaled)[0]
        w = self.coef_left_ @ self.coef_right_[number]
        intercept = float(self.intercept_[number])
        score = intercept + float(self._left_product(row)[0] @ self.coef_right_[number])
        parts = similarities * _landmark_weights(kernel, w)
        first = np.argsort(-np.abs(parts), kind="stable")[:n]
        return RowContributions(
            np.asarray(kernel.component_indices_, dtype=np.int64)[first],
            parts[first],
            similarities[first],
            score,
            intercept,
            score - intercept - float(parts.sum()),
        )


class _MappedScores:
    """Scores on a device of rows that are mapped on the host; as ``DeviceScores``, for features as given."""

    def __init__(self, model: MappedFeatures, device: Any) -> None:
        self._model, self._device = model, device

    def scores(self, X: Any) -> Any:
        return self._device.scores(self._model._left_product(X))

    def decisions(self, X: Any, threshold: float) -> Any:
        return self._device.decisions(self._model._left_product(X), threshold)

    def yes_columns(self, X: Any, threshold: float) -> Any:
        return self._device.yes_columns(self._model._left_product(X), threshold)

    def top(self, X: Any, n: int) -> Any:
        return self._device.top(self._model._left_product(X), n)


def kernel_of(transformer: Any) -> Any:
    """The Nystroem at the end of labelgap's own map, or of a pipeline of the same form; None for others."""
    steps = getattr(transformer, "steps", None)
    last: Any = steps[-1][1] if steps and len(steps) > 1 else None
    return last if type(last).__name__ == "Nystroem" and last.kernel == "rbf" else None


def kernel_values(kernel: Any, rows: Floats) -> Floats:
    """``exp(−γ‖x − c‖²)`` of scaled rows and the landmarks of a fitted Nystroem."""
    from sklearn.metrics.pairwise import rbf_kernel

    return np.asarray(rbf_kernel(rows, kernel.components_, gamma=kernel.gamma))


def _landmark_weights(kernel: Any, w: Floats) -> Floats:
    """``(K + ε)⁻¹ K^(1/2) w``."""
    values, vectors = np.linalg.eigh(kernel_values(kernel, kernel.components_))
    values = np.maximum(values, 0.0)
    return np.asarray(vectors @ (np.sqrt(values) / (values + _LANDMARK_RIDGE) * (vectors.T @ w)))


def label_number(model: Any, label: Any) -> int:
    """The number of a label that is given by its name or its number."""
    names = model.label_names_
    if names is not None and label in names.tolist():
        return int(names.tolist().index(label))
    if isinstance(label, (int, np.integer)) and type(label) is not bool and 0 <= label < model.n_labels_:
        return int(label)
    raise InvalidParameterError(
        f"There is no label {label!r}: give a name in label_names_, or a number from 0 to "
        f"{model.n_labels_ - 1}."
    )


class WatchedScores(OneClassEffect):
    """Keeps how sure the metric is on the scores that choose a threshold, too."""

    leave_out: Floats | None = None

    def see(self, scores: Floats, labels: ObservedLabels, threshold: float | None = None) -> None:
        super().see(scores, labels, threshold)
        yes = scores >= best_threshold(scores, labels, self._metric).threshold
        self.leave_out = leave_out_values(self._metric, yes, labels)


class Outcome(NamedTuple):
    """A fit in some features, and how it was judged."""

    model: Any
    chosen: ChosenThresholds
    value: float
    """The metric at these thresholds."""
    effect: WatchedScores
    held_out: HeldOutScores


def best_map(maps: list[Any], X: Any, fit_in: Callable[[Any], Outcome]) -> tuple[Any, Outcome]:
    """The best of some feature maps by the metric, and the fit in its features.

    The first one stays unless it is X itself and a kernel is clearly better, or another kernel is better.
    """
    best, outcome = maps[0], fit_in(mapped(maps[0], X))
    for other in maps[1:]:
        found = fit_in(mapped(other, X))
        error, (one, two) = 0.0, (found.effect.leave_out, outcome.effect.leave_out)
        if best is None and one is not None and two is not None:
            error = standard_error(one, two)
        if is_clearly_ahead(found.value, outcome.value, error):
            best, outcome = other, found
    return best, outcome


def mapped_rows(model: Any, X: Any) -> Any:
    """Validated rows in the features that the model was fitted in."""
    return mapped(model.feature_map_, X)
