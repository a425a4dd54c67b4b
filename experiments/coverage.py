"""Whether conformal sets cover the truth as often as asked, and how far probabilities are off.

Run ``python -m experiments.coverage [--data synthetic popular emotions scene yeast] [--draws 20] [--out
FOLDER]``. Of the training labels 20 % are observed. ``LowRankClassifier`` is fitted with its defaults, and
its sets are judged on complete test rows, which it did not see. "popular" is "synthetic" with labels that are
observed the more often the easier they are to predict; there the fit is also made with inverse-propensity
weights. "split" are the sets after ``recalibrate`` with half of the test rows, judged on the other half.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from experiments.problems import Problem, available, problem
from experiments.runs import Task, argument_parser, markdown_table, mean_sd, run_tasks, write_results
from labelgap import LowRankClassifier, ObservedLabels
from labelgap.confidence import calibration_error
from labelgap.data import make_low_rank_labels
from labelgap.exceptions import LabelgapWarning
from labelgap.sampling import Popular
from labelgap.thresholds.cross_fit import HeldOutScores

DATA = ("synthetic", "popular", "emotions", "scene", "yeast")
COVERAGES = (0.8, 0.9, 0.95)
GUARANTEES = ("class", "entries")
OBSERVED = 0.2
_SKEW = 1.0
Source = Callable[[str, int], Problem]


def drawn(name: str, seed: int) -> Problem:
    """A draw of a data set: generated, or one of the user's folder."""
    return generated(seed, popular=name == "popular") if name in DATA[:2] else problem(name, seed, OBSERVED)


def generated(seed: int, *, popular: bool, n: int = 400, n_labels: int = 20) -> Problem:
    """Labels of a logistic model of rank 5, from labels that are easy to predict to labels that are not."""
    made = make_low_rank_labels(
        n=n, n_labels=n_labels, observed=OBSERVED, n_test=1000, noise=True, random_state=seed
    )
    if not popular:
        return Problem(made.X, ObservedLabels.from_dense(made.Y_observed), made.X_test, made.Y_test)
    # Labels with long w are far from chance.
    order = np.argsort(-np.linalg.norm(made.W, axis=0))
    labels = Popular(OBSERVED, row_skew=0.0, label_skew=_SKEW).observe(made.Y[:, order], random_state=seed)
    return Problem(made.X, labels, made.X_test, made.Y_test[:, order])


class Watched(LowRankClassifier):
    """Keeps the held-out scores, so that both calibrations can be made from one fit."""

    def _keep_confidence(self, held_out: HeldOutScores) -> None:
        self.seen = held_out
        super()._keep_confidence(held_out)


def measure(task: Task, source: Source) -> dict[str, Any]:
    """Fit to a draw, and count on the test rows."""
    seed = int(task["draw"])
    given = source(str(task["data"]), seed)
    truth = given.Y_test.toarray() if sp.issparse(given.Y_test) else np.asarray(given.Y_test)
    weighted = task["weights"] != "none"
    model = Watched(random_state=seed, weights=str(task["weights"]) if weighted else None)
    with warnings.catch_warnings():
        # Labels with one class, few of a class, and clipped weights are part of the problem.
        warnings.simplefilter("ignore", LabelgapWarning)
        model.fit(given.X, given.labels)
        result: dict[str, Any] = {"out-of-fold": _figures(model, given.X_test, truth)}
        if not weighted:
            result["error"] = _errors(model, given.X_test, truth)
            half = np.random.RandomState(seed).permutation(len(truth))
            first, second = half[: len(half) // 2], half[len(half) // 2 :]
            model.recalibrate(given.X_test[first], truth[first])
            result["split"] = _figures(model, given.X_test[second], truth[second])
    return result


def _figures(model: Watched, X: Any, truth: Any) -> dict[str, dict[str, float]]:
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


def _errors(model: Watched, X: Any, truth: Any) -> dict[str, float]:
    """The calibration error on the test rows, and what the fit said it would be."""
    found: dict[str, float] = {"none": _error(model, X, truth)}
    for how in ("isotonic", "sigmoid"):
        model.calibration = how
        model._keep_confidence(model.seen)
        found[how] = _error(model, X, truth)
        assert model.calibration_error_ is not None
        found[f"{how}, told"] = model.calibration_error_.after
        assert model.calibration_error_.before is not None
        found["none, told"] = model.calibration_error_.before
    return {name: round(error, 4) for name, error in found.items()}


def _error(model: Watched, X: Any, truth: Any) -> float:
    return calibration_error(np.asarray(model.predict_proba(X)).ravel(), truth.ravel())


def report(results: Sequence[dict[str, Any]]) -> str:
    """Coverage (mean ± sd over draws) and the fraction not decided; then calibration errors."""
    rows, errors = [], []
    for data, weights in dict.fromkeys((one["data"], one["weights"]) for one in results):
        mine = [one for one in results if (one["data"], one["weights"]) == (data, weights)]
        for sets in ("out-of-fold", "split"):
            if sets not in mine[0]:
                continue
            named = sets if weights == "none" else f"{sets}, weighted"
            for guarantee in GUARANTEES:
                for coverage in COVERAGES:
                    figures = [one[sets][f"{guarantee} {coverage}"] for one in mine]
                    rows.append([data, named, guarantee, f"{coverage:g}", *_cells(figures)])
        if "error" in mine[0]:
            names = ("none", "none, told", "isotonic", "isotonic, told", "sigmoid", "sigmoid, told")
            errors.append([data, *(_mean([one["error"][name] for one in mine]) for name in names)])
    header = ["data", "sets", "guarantee", "asked", "of all entries", "of yes", "of no", "not decided"]
    titles = ["data", "none", "told", "isotonic", "told", "sigmoid", "told"]
    return markdown_table(header, rows) + "\n\n" + markdown_table(titles, errors)


def _cells(figures: Sequence[dict[str, float]]) -> list[str]:
    return [_mean([one[name] for one in figures]) for name in ("entries", "yes", "no", "undecided")]


def _mean(values: Sequence[float]) -> str:
    mean, sd = mean_sd(values)
    return f"{mean:.3f} ± {sd:.3f}"


def main(arguments: list[str] | None = None, source: Source = drawn) -> None:
    """The command line; ``source`` makes the problem of a data set and a draw."""
    parser = argument_parser(__doc__ or "", draws=20)
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    options = parser.parse_args(arguments)
    data = available(options.data) if source is drawn else options.data
    tasks: list[Task] = [
        {"data": name, "draw": draw, "weights": weights}
        for draw in range(options.draws)
        for name in data
        for weights in ("none", *(["inverse-propensity"] if name == "popular" else []))
    ]
    if not tasks:
        return
    settings = {"observed": OBSERVED, "skew": _SKEW}
    results = run_tasks(
        "coverage",
        tasks,
        lambda task: measure(task, source),
        folder=options.out,
        settings=settings,
        fresh=options.fresh,
    )
    table = report(results)
    print(table)
    write_results(
        "coverage", folder=options.out, settings=settings, results=results, table=table, figure=None
    )


if __name__ == "__main__":
    main()
