"""Scores for choosing θ: each observed entry scored by a model that did not see it.

A threshold taken on training scores is optimistic, because a flexible model separates the entries it was
fitted to. Out-of-fold scores over the entries of Ω are as large a sample without that bias.

Labels with one class among their observed entries are decided alike for every row. They still count in the
metric, and so for θ: a label that is always a yes is an easy gain for micro-F1, and one that is always a no
is a 0/0 in macro-F1. :class:`OneClassEffect` says what they do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from labelgap._arrays import is_tensor, like_input, to_host
from labelgap._types import Floats
from labelgap._warn import warn
from labelgap.exceptions import InvalidInputError, UninformativeLabelsWarning
from labelgap.kernels.threads import limit_threads, thread_count
from labelgap.labels import ObservedLabels
from labelgap.labels.splitting import shuffled_entries
from labelgap.labels.stratified import StratifiedRowSplit
from labelgap.metrics import LinearFractional
from labelgap.thresholds.sweep import best_threshold

T = TypeVar("T")

N_FOLDS = 5
# Entries that are sorted in less time on the CPU than the work on a device takes to start.
_FEW_ENTRIES = 1 << 16
# Entries below which a fit is mostly work of the interpreter, which runs one thread at a time: tasks side by
# side would only wait for each other.
_FEW_FOR_THREADS = 1000
NEVER = -1
"""The fold number of an entry that is never held out."""
# A smaller difference of a metric than this hides nothing.
_NOTICED = 0.005
# With fewer known entries than this, one class is chance.
_FEWEST = 10
_NAMED = 5


def hold_out_plan(
    labels: ObservedLabels,
    how: str,
    random_state: Any,
    *,
    by_row: bool = False,
    groups: NDArray[np.int64] | None = None,
    device: Any = None,
) -> NDArray[Any]:
    """For each entry the fold in which it is held out.

    ``how`` is "cross-fit" (five folds), "holdout" (a fifth of the entries, once) or "train" (none). With
    fewer than four entries nothing can be held out. ``by_row`` holds out all entries of a row together, if
    there are two observed rows for each fold, and those of all rows of a group where each row has a number in
    ``groups``. ``device`` is that of the fit, if it has one.
    """
    n_folds = min(N_FOLDS, labels.n_observed // 2)
    if how == "train" or n_folds < 2:
        return np.full(labels.n_observed, NEVER, dtype=np.int8)
    used = np.flatnonzero(labels.row_counts())
    if groups is not None:
        folds = _row_folds(labels, used, min(n_folds, _several_groups(groups[used])), random_state, groups)
    elif by_row and len(used) >= 2 * n_folds:
        folds = _row_folds(labels, used, n_folds, random_state)
    else:
        folds = spread_folds(labels, n_folds, random_state, device)
    # Fold numbers are small, and there is one for each entry.
    return np.where(folds == 0, 0, NEVER).astype(np.int8) if how == "holdout" else folds.astype(np.int8)


def _row_folds(
    labels: ObservedLabels,
    used: NDArray[np.int64],
    k: int,
    random_state: Any,
    groups: NDArray[np.int64] | None = None,
) -> NDArray[Any]:
    """A fold for each entry, the same for all of a row, or of a group; rows without entries do not count."""
    splitter = StratifiedRowSplit(k, random_state=random_state)
    some = labels if len(used) == labels.shape[0] else labels.take_rows(used)
    of_row = splitter.fold_numbers(None, some, None if groups is None else groups[used])
    return np.repeat(of_row, labels.row_counts()[used])


def _several_groups(groups: NDArray[np.int64]) -> int:
    """How many groups have labels; an error where it is one."""
    n_groups = len(np.unique(groups))
    if n_groups < 2:
        raise InvalidInputError(
            f"groups puts all {len(groups)} rows that have labels into one group, so that none can be held "
            "out from a fit to the others. Give at least two groups, or leave groups out."
        )
    return n_groups


def spread_folds(labels: ObservedLabels, k: int, random_state: Any, device: Any = None) -> NDArray[Any]:
    """:meth:`ObservedLabels.fold_numbers`, of which a device, if there is one, makes those of many entries.

    The random order is drawn here, one number after the other; the device sorts by value and label.
    """
    if device is None or labels.n_observed < _FEW_ENTRIES:
        return labels.fold_numbers(k, random_state=random_state)
    from labelgap.kernels.gpu.folds import dealt_in_order, fits_device

    if not fits_device(labels.n_observed, device):
        return labels.fold_numbers(k, random_state=random_state)
    shuffled = shuffled_entries(labels.n_observed, check_random_state(random_state))
    return dealt_in_order(shuffled, labels.indices, labels.values, k, device)


def map_folds(
    labels: ObservedLabels,
    fold_of_entry: NDArray[np.int64],
    work: Callable[..., Any],
    n_jobs: int | None = None,
    choices: Sequence[Any] | None = None,
    *,
    selects_training: bool = True,
) -> list[Any]:
    """``work(fold, training labels, held-out labels)`` for each fold, in threads.

    With ``choices`` it is ``work(fold, training labels, held-out labels, choice)``, and the result a list for
    each choice. ``n_jobs`` tasks run at a time; None is as many as there are threads, since one fold in
    each thread uses them better than one fold in all of them, and one where there are few entries. Work that
    may not need the training labels gets None for them without ``selects_training``.
    """
    n_folds = int(fold_of_entry.max(initial=NEVER)) + 1
    tasks = [
        (fold, *extra)
        for extra in ([()] if choices is None else [(c,) for c in choices])
        for fold in range(n_folds)
    ]
    if n_jobs is None:
        n, n_labels = labels.shape
        entries = labels.n_observed if labels.unobserved == "missing" else n * n_labels
        n_jobs = 1 if entries < _FEW_FOR_THREADS else thread_count()

    def run(fold: int, *extra: Any) -> Any:
        held = fold_of_entry == fold
        train = labels.select(~held) if selects_training else None
        return work(fold, train, labels.select(held), *extra)

    results = side_by_side([partial(run, *task) for task in tasks], n_jobs)
    if choices is None:
        return results
    return [results[start : start + n_folds] for start in range(0, len(tasks), n_folds)]


def side_by_side(tasks: Sequence[Callable[[], T]], n_jobs: int | None = None) -> list[T]:
    """What the tasks return. ``n_jobs`` of them run at a time, one in each thread; None is all threads.

    Tasks side by side divide the caller's threads among them (a limit does not reach into other threads). The
    last ones take over the threads of those that have ended.
    """
    threads = thread_count()
    n_jobs = threads if n_jobs is None else n_jobs
    asked = Parallel(n_jobs=n_jobs, prefer="threads").n_jobs
    jobs = min(asked if asked > 0 else threads, max(len(tasks), 1))
    # Appending to a list needs no lock.
    ended: list[Callable[[], T]] = []

    def threads_each() -> int:
        return max(1, threads // max(1, min(jobs, len(tasks) - len(ended))))

    def run(task: Callable[[], T]) -> T:
        with limit_threads(threads_each):
            try:
                return task()
            finally:
                ended.append(task)

    if jobs <= 1:
        return [run(task) for task in tasks]
    # joblib starts as many threads as it is asked for, also where there are fewer tasks.
    parallel = Parallel(n_jobs=jobs, prefer="threads")
    return list(parallel(delayed(run)(task) for task in tasks))


def gather(fold_of_entry: NDArray[np.int64], by_fold: list[Any]) -> tuple[NDArray[np.bool_], Any]:
    """Which entries were held out, and their scores in the order of Ω: a tensor if all parts are."""
    held = fold_of_entry != NEVER
    fold_of_held: Any = fold_of_entry[held]
    if by_fold and all(map(is_tensor, by_fold)):
        # They stay on their device, and only the numbers of the folds go there.
        scores = by_fold[0].new_empty(len(fold_of_held))
        fold_of_held = like_input(fold_of_held.astype(np.int8), scores)
    else:
        scores, by_fold = np.empty(len(fold_of_held)), list(map(to_host, by_fold))
    for fold, part in enumerate(by_fold):
        scores[fold_of_held == fold] = part
    return held, scores


class HeldOutScores:
    """Scores of entries by models that did not see them; empty until :meth:`see` is called.

    Examples
    --------
    >>> held_out = HeldOutScores()
    >>> held_out.see(np.array([0.2, 0.9]), ObservedLabels.from_dense([[0, 1]]))
    >>> held_out.scores.tolist(), held_out.labels.values.tolist()
    ([0.2, 0.9], [0, 1])
    """

    def __init__(self) -> None:
        self.scores: Floats | None = None
        self.labels: ObservedLabels | None = None

    def see(self, scores: Any, labels: ObservedLabels, threshold: float | None = None) -> None:
        """Keep these scores, one for each entry, in place of earlier ones."""
        self.scores, self.labels = np.asarray(to_host(scores), dtype=np.float64), labels


# -- labels with one class -----------------------------------------------------------------------------------


class Figure(NamedTuple):
    """A metric and the threshold at which it is taken."""

    value: float
    threshold: float


def one_class_labels(labels: ObservedLabels, fewest: int = _FEWEST) -> NDArray[np.bool_]:
    """For each label whether all of its observed entries, ``fewest`` or more, are yes, or all of them no.

    Examples
    --------
    >>> one_class_labels(ObservedLabels.from_dense([[1, 0, None], [1, 1, None]]), fewest=1)
    array([ True, False, False])
    """
    counts, positives = labels.label_counts(), labels.positive_counts()
    return np.asarray((counts >= fewest) & ((positives == 0) | (positives == counts)))


def without_labels(labels: ObservedLabels, left_out: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """A mask over the entries: those of the other labels."""
    return np.asarray(~left_out[labels.indices])


class OneClassEffect:
    """Watches the scores that choose a threshold, and says what one-class labels do to the figure.

    Parameters
    ----------
    labels : ObservedLabels
        All labels of the fit, which say which of them have one class.
    metric : LinearFractional
    choose : function from scores and labels to a threshold, default None
        As the threshold of the fit is chosen; None is the best one.

    Examples
    --------
    >>> from labelgap.metrics import get_metric
    >>> labels = ObservedLabels.from_dense([[1, 1], [1, 0]] * 5)
    >>> effect = OneClassEffect(labels, get_metric("micro-f1"))
    >>> effect.see(np.array([0.9, 0.4, 0.9, 0.6] * 5), labels)
    >>> round(effect.whole.value, 3), round(effect.rest.value, 3)
    (0.857, 0.667)
    """

    def __init__(
        self,
        labels: ObservedLabels,
        metric: LinearFractional,
        choose: Callable[[Any, ObservedLabels], float] | None = None,
    ) -> None:
        self._labels, self._metric = labels, metric
        self._choose = choose or (lambda scores, some: best_threshold(scores, some, metric).threshold)
        self._one_class = one_class_labels(labels)
        self.whole: Figure | None = None
        """The metric over all labels."""
        self.rest: Figure | None = None
        """The metric over the labels with both classes."""

    def see(self, scores: Any, labels: ObservedLabels, threshold: float | None = None) -> None:
        """Compare the figure of these entries with that of the labels with both classes.

        ``threshold`` is what ``choose`` gives for them, for a caller who knows it.
        """
        if not self._one_class.any():
            return
        kept = without_labels(labels, self._one_class)
        if kept.all() or not kept.any():
            return
        scores = to_host(scores)
        self.whole = self._figure(scores, labels, threshold)
        self.rest = self._figure(scores[kept], labels.select(kept))

    def _figure(self, scores: Any, labels: ObservedLabels, threshold: float | None = None) -> Figure:
        threshold = self._choose(scores, labels) if threshold is None else threshold
        return Figure(self._metric(labels, scores >= threshold), threshold)

    def warn(self) -> None:
        """Warn, if they make a difference, with their names and both figures."""
        if self.whole is None or self.rest is None:
            return
        if abs(self.whole.value - self.rest.value) < _NOTICED:
            return
        name = self._metric.name or "the metric"
        warn(
            f"{describe_one_class(self._labels, self._one_class)} Such labels are decided alike for every "
            f"row, and they count: {name} on the scores that chose the threshold is "
            f"{self.whole.value:.4f} with them and {self.rest.value:.4f} without; the threshold on the "
            f"scores is {self.whole.threshold:.4g} and would be {self.rest.threshold:.4g}. Leave them out, "
            "or read the figure with them in mind.",
            UninformativeLabelsWarning,
        )


def describe_one_class(labels: ObservedLabels, one_class: NDArray[np.bool_]) -> str:
    """A sentence that names the one-class labels.

    Examples
    --------
    >>> labels = ObservedLabels.from_dense([[1, 0], [1, 1]], label_names=["paid", "late"])
    >>> describe_one_class(labels, one_class_labels(labels, fewest=1))
    "1 of 2 labels has one class: 'paid' (only yes)."
    """
    positives = labels.positive_counts()
    which = np.flatnonzero(one_class)
    listed = ", ".join(
        f"{label if labels.label_names is None else repr(labels.label_names[label])} "
        f"(only {'yes' if positives[label] else 'no'})"
        for label in which[:_NAMED].tolist()
    )
    more = f" and {len(which) - _NAMED} more" if len(which) > _NAMED else ""
    verb = "has" if len(which) == 1 else "have"
    return f"{len(which)} of {labels.shape[1]} labels {verb} one class: {listed}{more}."
