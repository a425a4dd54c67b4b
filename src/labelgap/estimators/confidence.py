"""What a classifier says about how sure it is: sets of yes and no, and calibrated probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted

from labelgap._arrays import like_input
from labelgap._names import check_choice
from labelgap._types import Floats
from labelgap._warn import warn
from labelgap.confidence.calibration import FIT_MAP, CalibrationError, CalibrationMap, IsotonicMap, SigmoidMap
from labelgap.confidence.conformal import ConformalScores, SetCuts, check_coverage, sets_of
from labelgap.estimators.features_given import refuse_misaligned
from labelgap.estimators.inputs import OUTPUTS, read_judged_labels
from labelgap.estimators.row_weights import weigh_rows
from labelgap.exceptions import InvalidParameterError, LabelgapWarning
from labelgap.labels import ObservedLabels
from labelgap.labels.constructors import meaning_of_silence
from labelgap.thresholds.cross_fit import HeldOutScores

# Scores held at one time.
_BLOCK_SCORES = 1 << 22


def check_calibration(calibration: Any, threshold: str = "cross-fit") -> None:
    """Raise unless this ``calibration`` can be used with the parameter ``threshold``."""
    check_choice("calibration", calibration, FIT_MAP)
    if threshold == "train":
        raise InvalidParameterError(
            f"calibration={calibration!r} needs out-of-fold scores, and with threshold='train' there are "
            "none. Choose threshold='cross-fit', or call recalibrate with labels that the fit does not see."
        )


def refuse_calibration(calibration: Any) -> None:
    """Raise if calibration is asked for where no entry is a known no."""
    if calibration is not None:
        raise InvalidParameterError(
            f"calibration={calibration!r} needs entries that are known to be a no, and under "
            "unobserved='unlabelled' there are none. Leave it out, or call recalibrate with labels of both "
            "kinds."
        )


class ConfidentDecisions:
    """``predict_set`` and ``recalibrate``; the class that fits hands its held-out scores over."""

    if TYPE_CHECKING:
        classes_: NDArray[Any]
        n_labels_: int
        threshold_: float
        label_names_: Any
        _single: bool
        _unobserved: str
        _container: str

        def _read_features(self, X: Any, *, reset: bool) -> Any: ...
        def _score_entries(self, X: Any, labels: ObservedLabels) -> Floats: ...
        def _blocks(self, X: Any) -> Iterator[tuple[int, Floats]]: ...
        def _on_device(self, X: Any) -> Any: ...
        def _probabilities(self, scores: Floats) -> Floats: ...
        def _answers_dense(self, output: str, X: Any, item_size: int = 1) -> bool: ...
        def _framed(self, values: Any, X: Any, columns: Any = None) -> Any: ...
        def _keep_confidence(self, held_out: HeldOutScores, calibration: str | None) -> None: ...

    _wants_held_out = False
    """Whether the fit is to score every fold, and to keep the held-out scores."""
    _conformal: ConformalScores | None = None
    _calibrator: CalibrationMap | None = None
    calibration_error_: CalibrationError | None = None

    # -- fitting ---------------------------------------------------------------------------------------

    def _scores_have_probabilities(self) -> bool:
        """Whether probabilities follow from the scores without calibration."""
        return True

    def _scores_are_probabilities(self) -> bool:
        """Whether the scores are probabilities themselves."""
        return False

    def _even_score(self) -> float:
        """The score at which yes and no are equally likely."""
        return 0.5 if self._scores_are_probabilities() else 0.0

    def _final_probabilities(self, scores: Floats) -> Floats:
        """Probabilities of yes, calibrated where that was asked for."""
        return self._probabilities(scores) if self._calibrator is None else self._calibrator(scores)

    @property
    def _calibrated_by(self) -> str | None:
        """The kind of calibration that probabilities have by now; None where they have none."""
        kinds = {SigmoidMap: "sigmoid", IsotonicMap: "isotonic"}
        return None if self._calibrator is None else kinds[type(self._calibrator)]

    def recalibrate(
        self,
        X: Any,
        y: Any,
        unobserved: str | None = None,
        sample_weight: Any = None,
        calibration: str | None = None,
    ) -> Self:
        """Take the sets of :meth:`predict_set`, and calibrated probabilities, from labels new to the model.

        The sets are then those of split conformal prediction, whose coverage is guaranteed for entries that
        are exchangeable with these. Scores, thresholds and decisions
        stay. The probabilities are calibrated on these labels in any case; ``calibration_error_`` says what
        they gain. The next ``fit`` or ``partial_fit`` ends it.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        y : labels in any form that ``fit`` takes
        unobserved : {"missing", "negative"} or None, default None
            What an absent entry of y means; None: as in the fit ("missing" after "unlabelled").
        sample_weight : array of shape (n,), or None
            Weights of the rows, as in :meth:`fit`.
        calibration : {"isotonic", "sigmoid"} or None, default None
            What makes probabilities of the scores; None: as the model was made with, and otherwise Platt's
            sigmoid, which has two numbers and does with few labels.

        Examples
        --------
        >>> from labelgap import LowRankClassifier
        >>> from labelgap.data import make_low_rank_labels
        >>> problem = make_low_rank_labels(n=300, n_labels=10, observed=0.3, random_state=0)
        >>> clf = LowRankClassifier(trace_penalty=0.01, threshold="train")
        >>> clf = clf.fit(problem.X, problem.Y_observed).recalibrate(problem.X_test, problem.Y_test)
        >>> clf.predict_set(problem.X).shape
        (300, 10)
        >>> clf.calibration_error_.after < clf.calibration_error_.before
        True
        """
        check_is_fitted(self)
        how = calibration or getattr(self, "calibration", None) or "sigmoid"
        check_choice("calibration", how, FIT_MAP)
        as_in_fit = "missing" if self._unobserved == "unlabelled" else self._unobserved
        meant = meaning_of_silence(y, unobserved, as_in_fit)
        if meant == "unlabelled":
            raise InvalidParameterError(
                "Labels with unobserved='unlabelled' say nothing about no, and without a no there is nothing "
                "to calibrate by. Recalibrate with labels that have known negatives."
            )
        refuse_misaligned(X, y)
        X = self._read_features(X, reset=False)
        labels = read_judged_labels(self, y, _num_samples(X), meant)
        if sample_weight is not None:
            X, labels = weigh_rows(X, labels, sample_weight, both_classes=False)
        labels.require_both_classes()
        held_out = HeldOutScores()
        held_out.see(self._score_entries(X, labels), labels)
        self._keep_confidence(held_out, how)
        return self

    # -- deciding --------------------------------------------------------------------------------------

    def set_cuts(self, coverage: float = 0.9, guarantee: str = "class") -> SetCuts:
        """The scores at which the sets of :meth:`predict_set` change: ``yes_from`` and ``no_up_to``.

        Yes is in the set of an entry whose score, by ``decision_function``, is at least ``yes_from``; no is
        in it where the score is at most ``no_up_to``.

        Parameters
        ----------
        coverage, guarantee
            As in :meth:`predict_set`.
        """
        check_is_fitted(self)
        coverage = check_coverage(coverage)
        cuts = self._held_out_scores().cuts(coverage, guarantee, self._even_score())
        if guarantee == "class" and not np.isfinite(cuts).all():
            self._warn_of_infinite_cuts(coverage)
        return cuts

    def _held_out_scores(self) -> ConformalScores:
        if self._conformal is None:
            if self._unobserved == "unlabelled":
                reason = "it was fitted to recorded positives alone, among which no entry is a known no"
            elif getattr(self, "threshold", None) == "train":
                reason = "threshold='train' holds nothing out; fit with threshold='cross-fit'"
            else:
                reason = "nothing was held out in its fit (or an earlier version made it)"
            raise InvalidParameterError(
                f"This {type(self).__name__} has no held-out scores to make sets from: {reason}. Or call "
                "recalibrate(X, y) with labels that the fit did not see."
            )
        return self._conformal

    def _warn_of_infinite_cuts(self, coverage: float) -> None:
        needed, there = self._held_out_scores().fewest_needed(coverage)
        few = [f"{count:.0f} {name}" for name, count in there.items() if count < needed]
        if few:
            warn(
                f"A coverage of {coverage:g} takes {np.ceil(needed - 1e-9):.0f} held-out entries of either "
                f"class, and there are {' and '.join(few)}: that class is in every set. Observe more "
                "labels, or ask for less coverage.",
                LabelgapWarning,
            )

    def predict_set(
        self, X: Any, coverage: float = 0.9, guarantee: str = "class", output: str = "auto"
    ) -> Any:
        """For every label yes (1), no (0), or NaN where held-out scores rule neither out.

        A conformal set holds yes, no or both, such that the truth is in it for the fraction ``coverage`` of
        the entries. NaN stands for both: better not to decide. An entry for which neither is plausible gets
        the decision of :meth:`predict`, which can only raise the coverage.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
        coverage : float, default 0.9
            The fraction of entries whose truth is to be in the set, above 0 and below 1.
        guarantee : {"class", "entries"}, default "class"
            "class": the coverage holds among the entries that are a yes, and among those that are a no.
            "entries": it holds for all entries together, which takes fewer NaN. Where a yes is rare, most
            of those may then be missed.
        output : "auto", "dense" or "sparse"
            As in :meth:`predict`. A sparse matrix stores 1 for yes and NaN for both; what is absent is no.

        Returns
        -------
        float64 array of shape (n, L), float32 CSR array, or a frame. After a fit to a 1-d y: the two
        classes, with NaN for both (None where the classes are no numbers).

        Notes
        -----
        The coverage is that among entries like the observed ones, over the draw of which were observed, and
        weighted as they are (``weights="inverse-propensity"`` makes it that of all entries). The sets come
        from out-of-fold scores, while the entry is scored by the model that was fitted to everything. That is
        close to cross-conformal prediction, whose bound is 1 − 2(1 − coverage), not ``coverage``; measured
        coverage is about ``coverage`` (``docs/confidence.md``). :meth:`recalibrate` gives the bound
        ``coverage`` itself.

        Examples
        --------
        >>> from labelgap import LowRankClassifier
        >>> from labelgap.data import make_low_rank_labels
        >>> problem = make_low_rank_labels(n=300, n_labels=20, observed=0.3, random_state=0)
        >>> clf = LowRankClassifier(trace_penalty=0.01, random_state=0).fit(problem.X, problem.Y_observed)
        >>> sets = clf.predict_set(problem.X_test, coverage=0.95)
        >>> import numpy as np
        >>> undecided = np.isnan(sets)
        >>> bool(np.mean((sets == problem.Y_test) | undecided) > 0.93)
        True
        """
        check_choice("output", output, OUTPUTS)
        cuts = self.set_cuts(coverage, guarantee)
        given, X = X, self._read_features(X, reset=False)
        if self._single:
            if output == "sparse":
                raise InvalidParameterError(
                    "output='sparse' is for a matrix of labels; the estimator was fitted to a 1-d y."
                )
            sets = self._dense_sets(X, cuts)[:, 0]
            return like_input(self._framed(self._as_classes(sets), given), given)
        if self._answers_dense(output, X, np.dtype(np.float64).itemsize):
            return like_input(self._framed(self._dense_sets(X, cuts), given), given)
        parts = [
            sp.csr_array(sets_of(scores, cuts, self.threshold_).astype(np.float32))
            for _, scores in self._parts(X)
        ]
        return like_input(sp.csr_array(sp.vstack(parts)), given)

    def _dense_sets(self, X: Any, cuts: SetCuts) -> Floats:
        dense = np.empty((_num_samples(X), self.n_labels_))
        for start, scores in self._parts(X):
            dense[start : start + len(scores)] = sets_of(scores, cuts, self.threshold_)
        return dense

    def _parts(self, X: Any) -> Iterator[tuple[int, Floats]]:
        """Scores of blocks of rows, from the device where the model predicts there."""
        device = self._on_device(X)
        if device is None:
            yield from self._blocks(X)
            return
        step = max(1, _BLOCK_SCORES // max(self.n_labels_, 1))
        for start in range(0, _num_samples(X), step):
            yield start, device.scores(_safe_indexing(X, slice(start, start + step)))

    def _as_classes(self, sets: Floats) -> NDArray[Any]:
        unsure = np.isnan(sets)
        decided = self.classes_[np.where(unsure, 0, sets).astype(np.intp)]
        if self.classes_.dtype.kind in "biuf":
            return np.where(unsure, np.nan, decided.astype(np.float64))
        decided = decided.astype(object)
        decided[unsure] = None
        return decided
