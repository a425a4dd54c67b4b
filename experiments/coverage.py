"""Whether conformal sets cover the truth as often as asked, and how far probabilities are off.

Run ``python -m experiments.coverage [--data synthetic popular emotions scene yeast] [--draws 20] [--out
FOLDER]``. Of the training labels 20 % are observed. ``LowRankClassifier`` is fitted with its defaults, and
its sets are judged on complete test rows, which it did not see. "popular" is "synthetic" with labels that are
observed the more often the easier they are to predict; there the fit is also made with inverse-propensity
weights. "split" are the sets after ``recalibrate`` with half of the test rows, judged on the other half.
"""

from __future__ import annotations

import warnings
from argparse import Namespace
from typing import Any

import numpy as np
import scipy.sparse as sp

from experiments.problems import OBSERVED, Problem, Source, problem
from experiments.runs import Experiment, Results, Task, different, markdown_table, plus_minus, those
from labelgap import LowRankClassifier, ObservedLabels
from labelgap.confidence import calibration_error
from labelgap.data import make_low_rank_labels
from labelgap.exceptions import LabelgapWarning
from labelgap.sampling import Popular

DATA = ("synthetic", "popular", "emotions", "scene", "yeast")
COVERAGES, GUARANTEES = (0.8, 0.9, 0.95), ("class", "entries")
CALIBRATIONS = ("none", "isotonic", "sigmoid")
SKEW = 1.0


def drawn(name: str, seed: int, observed: float) -> Problem:
    """A draw of a data set: generated, or one of the user's folder."""
    return generated(name, seed, observed) if name in DATA[:2] else problem(name, seed, observed)


def generated(name: str, seed: int, observed: float, *, n: int = 400, n_labels: int = 20) -> Problem:
    """Labels of a logistic model of rank 5, from labels that are easy to predict to labels that are not."""
    made = make_low_rank_labels(
        n=n, n_labels=n_labels, observed=observed, n_test=1000, noise=True, random_state=seed
    )
    if name != "popular":
        return Problem(made.X, ObservedLabels.from_dense(made.Y_observed), made.X_test, made.Y_test)
    # Labels with long w are far from chance.
    order = np.argsort(-np.linalg.norm(made.W, axis=0))
    labels = Popular(observed, row_skew=0.0, label_skew=SKEW).observe(made.Y[:, order], random_state=seed)
    return Problem(made.X, labels, made.X_test, made.Y_test[:, order])


def tasks(options: Namespace, given: Any) -> list[Task]:
    """Every draw of every data set, and the weighted fits of "popular"."""
    return [
        {"data": name, "draw": draw, "weights": weights}
        for draw in range(options.draws)
        for name in options.data
        for weights in ("none", *(["inverse-propensity"] if name == "popular" else []))
    ]


def measure(task: Task, source: Source) -> dict[str, Any]:
    """Fit to a draw, and count on the test rows."""
    seed = int(task["draw"])
    given = source(str(task["data"]), seed, OBSERVED)
    truth = given.Y_test.toarray() if sp.issparse(given.Y_test) else np.asarray(given.Y_test)
    weighted = task["weights"] != "none"

    def fitted(**settings: Any) -> LowRankClassifier:
        return LowRankClassifier(random_state=seed, **settings).fit(given.X, given.labels)

    with warnings.catch_warnings():
        # Labels with one class, few of a class, and clipped weights are part of the problem.
        warnings.simplefilter("ignore", LabelgapWarning)
        model = fitted(weights=str(task["weights"]) if weighted else None)
        result: dict[str, Any] = {"out-of-fold": _figures(model, given.X_test, truth)}
        if not weighted:
            models = {how: model if how == "none" else fitted(calibration=how) for how in CALIBRATIONS}
            result["error"] = _errors(models, given.X_test, truth)
            half = np.random.RandomState(seed).permutation(len(truth))
            first, second = half[: len(half) // 2], half[len(half) // 2 :]
            model.recalibrate(given.X_test[first], truth[first])
            result["split"] = _figures(model, given.X_test[second], truth[second])
    return result


def _figures(model: LowRankClassifier, X: Any, truth: Any) -> dict[str, dict[str, float]]:
    return {
        f"{guarantee} {coverage}": _judged(model.predict_set(X, coverage, guarantee, output="dense"), truth)
        for guarantee in GUARANTEES
        for coverage in COVERAGES
    }


def _judged(sets: Any, truth: Any) -> dict[str, float]:
    unsure = np.isnan(sets)
    covered = unsure | (sets == truth)
    figures = {
        "entries": covered.mean(),
        "yes": covered[truth == 1].mean(),
        "no": covered[truth == 0].mean(),
        "undecided": unsure.mean(),
    }
    return {name: round(float(figure), 4) for name, figure in figures.items()}


def _errors(models: dict[str, LowRankClassifier], X: Any, truth: Any) -> dict[str, float]:
    """The calibration error on the test rows, and what the fit said it would be."""
    found: dict[str, float] = {}
    for how, model in models.items():
        found[how] = calibration_error(np.asarray(model.predict_proba(X)).ravel(), truth.ravel())
        if how != "none" and model.calibration_error_ is not None:
            found[f"{how}, told"] = model.calibration_error_.after
            found["none, told"] = model.calibration_error_.before or 0.0
    return {name: round(error, 4) for name, error in found.items()}


def report(results: Results, source: Source) -> str:
    """Coverage (mean ± sd over draws) and the fraction not decided; then calibration errors."""
    rows, errors = [], []
    for data, weights in different(results, "data", "weights"):
        mine = those(results, data=data, weights=weights)
        for sets in ("out-of-fold", "split"):
            for key in mine[0].get(sets, ()):
                figures = [one[sets][key] for one in mine]
                named = sets if weights == "none" else f"{sets}, weighted"
                cells = [
                    plus_minus((one[name] for one in figures), 3)
                    for name in ("entries", "yes", "no", "undecided")
                ]
                rows.append([data, named, *key.split(), *cells])
        if "error" in mine[0]:
            names = [name for how in CALIBRATIONS for name in (how, f"{how}, told")]
            errors.append([data, *(plus_minus((one["error"][name] for one in mine), 3) for name in names)])
    header = ["data", "sets", "guarantee", "asked", "of all entries", "of yes", "of no", "not decided"]
    titles = ["data", "none", "told", "isotonic", "told", "sigmoid", "told"]
    return markdown_table(header, rows) + "\n\n" + markdown_table(titles, errors)


EXPERIMENT = Experiment(
    "coverage",
    __doc__ or "",
    draws=20,
    data=DATA,
    tasks=tasks,
    measure=measure,
    report=report,
    settings=lambda options, given: {"observed": OBSERVED, "skew": SKEW},
    given=drawn,
)

if __name__ == "__main__":
    EXPERIMENT.main()
