"""``partial_fit``: what estimators share that learn from data in batches.

The data of all batches are kept (or a weighted sample of them), a batch is joined to them, and the fit goes
on from the fitted model. So the certificate is about the union, and the model is that of a fit from scratch
at the same penalties, up to the gap. Penalties are chosen anew only where held-out scores say so.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples

from labelgap._arrays import row_names_of
from labelgap._types import Floats
from labelgap._warn import warn
from labelgap.arriving.batches import Batch
from labelgap.arriving.drift import check_half_life, judge_drift, warn_of_drift
from labelgap.arriving.kept import Incoming, KeptData, RowIds
from labelgap.exceptions import InvalidInputError, InvalidParameterError, LabelgapWarning
from labelgap.fitting.chosen import ChosenFit
from labelgap.fitting.feature_maps import mapped
from labelgap.fitting.penalty_grid import PenaltyRequest
from labelgap.fitting.run import FitRun
from labelgap.labels import ObservedLabels
from labelgap.metrics.jackknife import leave_out_values, metric_error
from labelgap.objective.moments import FeatureMoments, smoothed_rates
from labelgap.objective.parts import RowBlock
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Factors
from labelgap.persistence.saving import save
from labelgap.sampling.weights import propensities_on
from labelgap.solvers import Callback
from labelgap.thresholds.cross_fit import HeldOutScores

GROWTH = 1.5
"""The growth of the data since the last choice of penalties from which on they are chosen anew."""


class Judged(NamedTuple):
    """A batch by the model before it: the metric, its standard error, and held-out scores of all entries."""

    metric: float | None
    error: float | None
    held_out: Floats


class ArrivingBatches:
    """Keeps the data of a fit, and goes on from it when more arrive."""

    batches_: tuple[Batch, ...] = ()
    # Of the class, as files of earlier versions have none.
    _kept_data: KeptData | None = None
    _first_row_ids: Any = None
    _saves_data = False
    """Whether files and pickles hold the data: those of a model that was begun with ``partial_fit`` do."""

    # Of the class, as files of earlier versions have none.
    _holds_out_groups = False

    feature_map_: Any
    coef_left_: Floats
    coef_right_: Floats
    intercept_: Floats
    n_labels_: int
    warm_start: bool
    memory: int | str | None
    forget: float | None
    random_state: Any

    @property
    def kept_bytes_(self) -> int:
        """About how many bytes the kept data take, in memory and in a saved file; 0 where none are kept."""
        return 0 if self._kept_data is None else self._kept_data.n_bytes

    def save(self, path: str | os.PathLike[str], *, with_data: bool | None = None) -> None:
        """Write the fitted model to a file that :func:`labelgap.load` reads.

        The file holds numbers and JSON, no code, and every byte is checked on loading; see
        :func:`labelgap.save`.

        Parameters
        ----------
        path : str or path
            A name in an existing folder. The usual suffix is ".labelgap".
        with_data : bool or None, default None
            Whether the data that :meth:`partial_fit` goes on from are written too, about ``kept_bytes_``
            bytes. None: those of a model that was begun with :meth:`partial_fit` are, those of a plain
            :meth:`fit` are not. Without them the loaded model predicts the same, and cannot learn more.

        Examples
        --------
        >>> import labelgap
        >>> from labelgap.data import make_low_rank_labels
        >>> problem = make_low_rank_labels(n=100, n_labels=5, observed=0.5, random_state=0)
        >>> clf = labelgap.LowRankClassifier(trace_penalty=0.01).fit(problem.X, problem.Y_observed)
        >>> clf.save("tags.labelgap", with_data=True)
        >>> labelgap.load("tags.labelgap").kept_bytes_ == clf.kept_bytes_
        True
        """
        model = self
        if with_data is not None:
            model = self._copy()
            model._saves_data = bool(with_data)
        save(model, path)

    def __getstate__(self) -> dict[str, Any]:
        whole: Any = super().__getstate__()
        state: dict[str, Any] = dict(whole)
        if not self._saves_data:
            state.pop("_kept_data", None)
            if len(self.batches_) < 2:
                # The one batch of a plain fit, which nothing goes on from.
                state.pop("batches_", None)
        return state

    def _copy(self) -> Self:
        """The model with the same attributes, the data among them."""
        other = object.__new__(type(self))
        other.__dict__ = dict(self.__dict__)
        return other

    # -- the first batch -------------------------------------------------------------------------------

    def _is_fitted(self) -> bool:
        return hasattr(self, "coef_left_")

    def _fit_first(self, X: Any, y: Any, row_ids: Any, fit: Callable[[], Any]) -> Self:
        """Fit to the first batch, and keep it."""
        ids = read_row_ids(row_ids, X, y)
        # Before the fit, which takes long.
        RowIds().place(ids, _num_samples(y if X is None else X))
        self._first_row_ids = ids
        try:
            fit()
        finally:
            del self._first_row_ids
        self._saves_data = True
        return self

    def _forget_batches(self) -> None:
        """Forget the data of an earlier fit."""
        for name in ("_kept_data", "batches_", "_saves_data"):
            self.__dict__.pop(name, None)

    def _keep_first_batch(
        self: Any,
        X: Any,
        labels: ObservedLabels,
        chosen: ChosenFit,
        run: FitRun,
        *,
        sample_weight: Any,
        propensities: Any = None,
        held_out: HeldOutScores | None = None,
    ) -> None:
        """Keep the data of a fit.

        ``labels`` are those of y, in its units and without the weights that a fit gives them. ``held_out``
        are the scores that chose the threshold; without any, the last candidate says how sure its metric is.
        """
        self._forget_batches()
        if self.memory is None:
            return
        known = None if propensities is None else propensities_on(labels, propensities)
        batch = incoming(X, labels, self._first_row_ids, sample_weight, known)
        labels = batch.labels
        scores, leave_out = np.full(labels.n_observed, np.nan), None
        if held_out is None:
            leave_out = chosen.candidates[-1].leave_out if chosen.candidates else None
        elif held_out.scores is not None and held_out.labels is not None:
            found, held = held_out.scores, held_out.labels
            scores[places_of(labels, held)] = found
            leave_out = leave_out_values(self.metric_, found >= self._entry_cut(held.indices), held)
        assert chosen.problem is not None
        kept = KeptData.begin(batch, scores, chosen.problem.settings.features)
        self._kept_data = self._within_memory(kept)
        record = Batch(
            1,
            new_rows=labels.shape[0],
            new_labels=labels.shape[1],
            added=labels.n_observed,
            metric=chosen.held_out_metric,
            standard_error=metric_error(leave_out),
            held_out_metric=chosen.held_out_metric,
            chosen_anew="first",
            objective=self.objective_,
            relative_gap=self.relative_gap_,
            seconds=time.perf_counter() - run.began,
        )
        self.batches_ = (record,)

    # -- more batches ----------------------------------------------------------------------------------

    def _next(self) -> Self:
        """A copy that learns from the next batch, so that the model stays whole if that is broken off."""
        if self._kept_data is None:
            raise InvalidInputError(
                f"This {type(self).__name__} does not hold the data that it was fitted to, so that nothing "
                "can be joined to them: memory was None, or it was saved without them. Fit with "
                "memory='all', and save with with_data=True."
            )
        return self._copy()

    def _become(self, later: Self) -> Self:
        """The model after the batch, in one step, after everything has succeeded."""
        self.__dict__ = later.__dict__
        warn_of_drift(self.batches_[-1])
        return self

    def _learn_batch(self: Any, batch: Incoming, callback: Callback | None, began: float) -> None:
        """Judge a batch, join it to the data, and fit to the union."""
        before = self._kept_data
        _refuse_mixed_propensities(before, batch)
        kept, joined = before.join(batch)
        judged: Judged = self._judge(kept, joined)
        kept = replace(kept, held_out=judged.held_out)
        interval, drift = judge_drift(self.batches_, judged.metric, judged.error)
        why = self._reason_to_choose(kept, drift)
        held_out_metric = self._fit_union(kept, why, callback)
        record = Batch(
            kept.n_batches,
            new_rows=kept.labels.shape[0] - before.labels.shape[0],
            new_labels=kept.labels.shape[1] - before.labels.shape[1],
            added=joined.added,
            corrected=joined.corrected,
            repeated=joined.repeated,
            metric=judged.metric,
            standard_error=judged.error,
            interval=interval,
            drift=drift,
            held_out_metric=held_out_metric,
            chosen_anew=why,
            objective=self.objective_,
            relative_gap=self.relative_gap_,
            seconds=time.perf_counter() - began,
        )
        self.batches_ = (*self.batches_, record)

    def _keep_union(self: Any, kept: KeptData) -> None:
        """Keep the data, and the names and the number of the labels."""
        names = kept.labels.label_names
        self.n_labels_ = kept.labels.shape[1]
        self.label_names_ = None if names is None else np.asarray(names)
        self._kept_data = self._within_memory(kept)

    def _within_memory(self, kept: KeptData) -> KeptData:
        """The data as ``memory`` limits them."""
        most: Any = self.memory
        if most is None or isinstance(most, str):
            return kept
        rng = check_random_state(self.random_state)
        # Another sample for each batch, from a random state that may be one number.
        draws = np.random.RandomState([int(rng.randint(np.iinfo(np.int32).max)), kept.n_batches])

        def moments_of(X: Any, labels: ObservedLabels) -> FeatureMoments:
            from labelgap.objective.cpu.part import CpuRows

            return CpuRows(RowBlock(mapped(self.feature_map_, X), labels)).lasting_moments(kept.features)

        return kept.within(int(most), check_half_life(self.forget), draws, moments_of)

    def _reason_to_choose(self: Any, kept: KeptData, drift: str | None) -> str | None:
        """Why the penalties are chosen anew; None where they are kept, or all given."""
        given = (self.trace_penalty, self.ridge_penalty, self.intercept_penalty)
        if "auto" not in given and getattr(self, "threshold", "train") == "train":
            return None
        if drift == "worse":
            return "drift"
        return "growth" if kept.total_weight > GROWTH * kept.chosen_at else None

    def _present_penalties(self: Any) -> PenaltyRequest:
        """The penalties of the fit, or as they are given now."""
        names = ("trace_penalty", "ridge_penalty", "intercept_penalty")
        given = {name: getattr(self, name) for name in names}
        return PenaltyRequest(
            *(getattr(self, f"{name}_") if value == "auto" else value for name, value in given.items())
        )

    def _forget_groups(self) -> None:
        """Say that a choice for all batches is made without the groups that the first one had."""
        if self._holds_out_groups:
            del self._holds_out_groups
            warn(
                "The settings are chosen anew on held-out rows, whatever their groups: those of batches are "
                "not known. Fit to all rows with groups for figures about new groups.",
                LabelgapWarning,
            )

    # -- where a fit starts ----------------------------------------------------------------------------

    def _warm_factors(self) -> Factors | None:
        """The present model, for a fit to start from; None without ``warm_start``, or in mapped features."""
        if not (self.warm_start and self._is_fitted()) or self.feature_map_ is not None:
            return None
        return Factors(self.coef_left_, self.coef_right_, self.intercept_)


def start_from(
    model: Factors,
) -> Callable[[Problem, ObservedLabels, Floats], Factors | None]:
    """A start at a model in the features that were handed in; None of it where the shapes are others.

    There may be more labels, and more rows with parameters of their own, than the model has: they are 0 here,
    and placed before the fit goes on (:mod:`labelgap.solvers.placing`).
    """

    def start(problem: Problem, labels: ObservedLabels, intercept: Floats) -> Factors | None:
        coordinates = problem.features.coordinates
        n_left = labels.shape[0] if coordinates is None else coordinates.n_features
        missing = n_left - len(model.left), labels.shape[1] - len(model.right)
        if missing[1] < 0 or missing[0] < 0 or (missing[0] and coordinates is not None):
            return None
        left, right = (
            np.pad(side, ((0, more), (0, 0)))
            for side, more in zip((model.left, model.right), missing, strict=True)
        )
        scales = problem.features.label_scales
        if scales is not None:
            right = right / scales[:, None]
        known = np.pad(model.intercept, (0, missing[1]))
        moved = problem.from_original(Factors(left, np.ascontiguousarray(right), known))
        # The free intercept of a label with one class is set by its entries, as is that of a new label.
        informative = smoothed_rates(labels, problem.loss.edge_values).informative.copy()
        informative[len(model.right) :] = False
        return moved._replace(intercept=np.where(informative, moved.intercept, intercept))

    return start


# -- parameters ----------------------------------------------------------------------------------------------


def check_arriving(model: Any) -> None:
    """Raise unless ``warm_start``, ``memory`` and ``forget`` of an estimator can be used."""
    if not isinstance(model.warm_start, (bool, np.bool_)):
        raise InvalidParameterError(f"warm_start must be True or False; got {model.warm_start!r}.")
    if model.forget is not None:
        check_half_life(model.forget)
    # A recommender keeps its ratings, and has no such parameter.
    memory: Any = getattr(model, "memory", None)
    is_count = type(memory) is not bool and isinstance(memory, Integral) and int(memory) >= 1
    if not (memory is None or (isinstance(memory, str) and memory == "all") or is_count):
        raise InvalidParameterError(
            f"memory must be 'all', the number of entries to keep, 1 or more, or None to keep nothing; got "
            f"{memory!r}."
        )


def refuse_other_weights(model: Any, labels: ObservedLabels, propensities: Any) -> None:
    """Raise where a sample or a half-life would weigh entries that may not be weighed so."""
    if model.weights is not None and propensities is None and not isinstance(model.memory, str | None):
        raise InvalidParameterError(
            f"memory={model.memory!r} keeps a sample of the entries, from which propensities cannot be "
            "estimated. Give propensities with each batch, or leave memory at 'all'."
        )
    for name in ("memory", "forget") if labels.unobserved == "unlabelled" else ():
        if getattr(model, name) not in (None, "all"):
            raise InvalidParameterError(
                f"{name}={getattr(model, name)!r} weighs entries, and under unobserved='unlabelled' every "
                "entry counts once. Leave it out; all data are kept then."
            )


# -- reading a batch -----------------------------------------------------------------------------------------


def read_row_ids(row_ids: Any, X: Any, y: Any) -> Sequence[Hashable] | NDArray[Any] | None:
    """The ids of the rows: as given, or with "index" those of the frame X, or y where there is no X."""
    if not isinstance(row_ids, str):
        return row_ids  # type: ignore[no-any-return]
    names = row_names_of(y if X is None else X) if row_ids == "index" else None
    if names is None:
        raise InvalidParameterError(
            f"row_ids is {row_ids!r}; give a sequence with one id for each row, None for new rows, or "
            "'index' where X is a pandas frame whose index has the ids."
        )
    return list(names)


def incoming(
    X: Any,
    labels: ObservedLabels,
    row_ids: Any,
    sample_weight: Any = None,
    propensities: Floats | None = None,
) -> Incoming:
    """A batch without the rows of weight 0."""
    if sample_weight is None:
        return Incoming(X, labels, row_ids, None, propensities)
    # Checks the weights.
    weights = labels.with_row_weights(sample_weight).row_weights
    assert weights is not None
    inside = weights > 0
    if not inside.all():
        propensities = None if propensities is None else propensities[inside[labels.rows]]
        if X is None:
            # Rows have parameters of their own, and stay without their entries.
            labels, weights = labels.select(inside[labels.rows]), np.where(inside, weights, 1.0)
        else:
            rows = np.flatnonzero(inside)
            X, labels, weights = X[rows], labels.take_rows(rows), weights[rows]
            row_ids = None if row_ids is None else [list(row_ids)[row] for row in rows.tolist()]
    return Incoming(X, labels, row_ids, None if np.all(weights == 1) else weights, propensities)


def places_of(labels: ObservedLabels, some: Any) -> Any:
    """The numbers of some of the entries of labels among all of them."""
    if some.n_observed == labels.n_observed:
        return slice(None)
    width = labels.shape[1]
    return np.searchsorted(labels.rows * width + labels.cols, some.rows * width + some.cols)


def _refuse_mixed_propensities(kept: KeptData, batch: Incoming) -> None:
    if (kept.propensities is None) != (batch.propensities is None):
        known, new = ("have", "has none") if batch.propensities is None else ("have none", "has them")
        raise InvalidParameterError(
            f"The earlier batches {known} propensities and this one {new}. Give them with every batch, or "
            "with none, which estimates them over all data."
        )
