"""LibMultiLabel's linear one-vs-rest: one logistic regression per label by multi-core LIBLINEAR.

Its ``train_1vsrest`` wants every label of every row. What it does for a label is one call of LIBLINEAR's
``train``, from as many threads as there are cores. Here the same call gets the rows in which the label is
observed, again from threads over the labels; solver 0 is the L2-regularised logistic regression, and -B 1
adds an intercept, which is penalised.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from benchmarks.rivals import sklearn_logistic, why_missing
from benchmarks.rivals.sklearn_logistic import LinearModel
from labelgap.labels import ObservedLabels

NAME = "libmultilabel (linear)"


def unavailable() -> str | None:
    """Why it cannot run here."""
    return why_missing(NAME, "libmultilabel.linear", "liblinear.liblinearutil")


def prepare(X: Any, labels: ObservedLabels) -> list[tuple[Any, int]]:
    """LIBLINEAR's problem of each label (None if nothing is observed) and the number of features."""
    from liblinear.liblinearutil import problem

    parts = sklearn_logistic.prepare(sp.csr_matrix(X), labels)
    return [
        (problem(2.0 * y - 1, sp.csr_matrix(rows), bias=1) if len(y) else None, rows.shape[1])
        for rows, y in parts
    ]


def fit(data: list[tuple[Any, int]], *, C: float = 1.0, tol: float = 0.01, threads: int = 1) -> LinearModel:
    """All labels; ``tol`` is LIBLINEAR's -e."""
    from liblinear.liblinearutil import parameter, train

    options = f"-s 0 -c {C} -e {tol} -B 1 -q"

    def fit_label(part: tuple[Any, int]) -> NDArray[np.float64]:
        problem, n_features = part
        weights = np.zeros(n_features + 1)
        if problem is not None:
            model = train(problem, parameter(options))
            # The features after the last that occurs have no weight there. Its first label is the positive.
            found = np.ctypeslib.as_array(model.w, (model.nr_feature + 1,))
            sign = model.get_labels()[0]
            weights[: model.nr_feature], weights[-1] = sign * found[:-1], sign * found[-1]
        return weights

    with ThreadPoolExecutor(threads) as pool:
        stacked = np.column_stack(list(pool.map(fit_label, data)))
    return LinearModel(stacked[:-1], stacked[-1])


scores = sklearn_logistic.scores
