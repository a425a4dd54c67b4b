"""Scores for choosing θ: each observed entry scored by a model that did not see it.

A threshold taken on training scores is optimistic, because a flexible model separates the entries it was
fitted to. Out-of-fold scores over the entries of Ω are as large a sample without that bias.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.labels import ObservedLabels
from labelgap.objective.kernels.threads import limit_threads, thread_count

N_FOLDS = 5
HOLDOUT_SHARE = 0.2
NEVER = -1
"""The fold number of an entry that is never held out."""


def hold_out_plan(labels: ObservedLabels, how: str, random_state: Any) -> NDArray[np.int64]:
    """For each entry the fold in which it is held out.

    ``how`` is "cross-fit" (five folds), "holdout" (a fifth of the entries, once) or "train" (none). With
    fewer than four entries nothing can be held out.
    """
    n_folds = min(N_FOLDS, labels.n_observed // 2)
    if how == "train" or n_folds < 2:
        return np.full(labels.n_observed, NEVER, dtype=np.int64)
    folds = labels.fold_numbers(n_folds, random_state=random_state)
    return np.where(folds == 0, 0, NEVER) if how == "holdout" else folds


def map_folds(
    labels: ObservedLabels,
    fold_of_entry: NDArray[np.int64],
    work: Callable[[int, ObservedLabels, ObservedLabels], Any],
    n_jobs: int | None = None,
) -> list[Any]:
    """``work(fold, training labels, held-out labels)`` for each fold, in threads.

    ``n_jobs`` folds are worked on at a time; None is as many as there are threads, since a fold in each makes
    more of them than all of them in one.
    """
    n_folds = int(fold_of_entry.max(initial=NEVER)) + 1
    parallel = Parallel(n_jobs=thread_count() if n_jobs is None else n_jobs, prefer="threads")
    jobs = min(parallel.n_jobs if parallel.n_jobs > 0 else thread_count(), max(n_folds, 1))
    # Folds side by side share the caller's threads between them (a limit does not reach into other threads).
    share = max(1, thread_count() // jobs)

    def run(fold: int) -> Any:
        held = fold_of_entry == fold
        with limit_threads(share):
            return work(fold, labels.select(~held), labels.select(held))

    if jobs <= 1:
        return [run(fold) for fold in range(n_folds)]
    answers: list[Any] = parallel(delayed(run)(fold) for fold in range(n_folds))
    return answers


def gather(fold_of_entry: NDArray[np.int64], by_fold: list[Floats]) -> tuple[NDArray[np.bool_], Floats]:
    """Which entries were held out, and their scores in the order of Ω."""
    held = fold_of_entry != NEVER
    scores = np.empty(len(fold_of_entry))
    for fold, part in enumerate(by_fold):
        scores[fold_of_entry == fold] = part
    return held, scores[held]
