"""Learning from recorded positives alone, against reading silence as no and against dropping it.

Run ``python -m experiments.unlabelled [--draws 10] [--out FOLDER]``; it takes about ten minutes. Complete
labels come from a known model, and a fraction ρ of the positives, chosen at random, is lost. Every draw has a
truth of its own, which is the same for all methods and all ρ: the positives that are lost at 0.3 are lost at
0.5 too.

- **features**: labels of the logistic model with a W of rank 5, judged on fresh rows.
- **pairs**: users and items without features; likes of a logistic model of rank 3 with intercepts of users
  and of items. Judged over all pairs. All methods decide yes for a recorded like, whatever its score.

There are four methods: the flip rate is known; it is estimated; silence is read as no, with the same
estimator and loss; and silence is dropped, so that only positives are left and every entry is decided yes.
The number is the micro-F1 on complete labels. To save time λ is the only penalty that is chosen; the others
are 0.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from experiments.runs import Experiment, Results, Task, different, draws_of, markdown_table, plus_minus, those
from labelgap import LowRankClassifier, ObservedLabels, Recommender, get_metric
from labelgap.data import make_low_rank_labels
from labelgap.exceptions import LabelgapWarning

SETTINGS, FLIP_RATES = ("features", "pairs"), (0.3, 0.5, 0.7)
KNOWN, ESTIMATED, AS_NO, DROPPED = "known ρ", "estimated ρ", "silence as no", "silence dropped"
METHODS = (KNOWN, ESTIMATED, AS_NO, DROPPED)
METRIC = "micro-f1"


@dataclass(frozen=True)
class Sizes:
    """The shapes of the problems."""

    n: int = 200
    n_labels: int = 20
    n_test: int = 500
    n_users: int = 150
    n_items: int = 50


def truth_of(setting: str, sizes: Sizes, seed: int) -> tuple[Any, Any, Any, Any]:
    """Features or None, complete labels, and the features and labels of the entries that judge."""
    if setting == "features":
        shape = {"n": sizes.n, "n_labels": sizes.n_labels, "n_test": sizes.n_test}
        problem = make_low_rank_labels(**shape, observed=1.0, noise=True, random_state=seed)
        return problem.X, problem.Y, problem.X_test, problem.Y_test
    rng = np.random.RandomState(seed)
    users, items = rng.standard_normal((sizes.n_users, 3)), rng.standard_normal((3, sizes.n_items))
    Z = 2 / np.sqrt(3) * users @ items - 1
    Z += rng.standard_normal((sizes.n_users, 1)) + rng.standard_normal((1, sizes.n_items))
    Y = (rng.random_sample(Z.shape) < expit(Z)).astype(float)
    return None, Y, None, Y


def decided(X: Any, recorded: Any, X_judged: Any, parameters: dict[str, Any], seed: int) -> Any:
    """The decisions for the entries that judge, from recorded positives."""
    parameters = {"metric": METRIC, "random_state": seed, **parameters}
    with warnings.catch_warnings():
        # Few users leave ρ uncertain, and an estimate may be above what an item allows.
        warnings.simplefilter("ignore", LabelgapWarning)
        if X is not None:
            model = LowRankClassifier(ridge_penalty=0, intercept_penalty=0, **parameters)
            return model.fit(X, recorded).predict(X_judged)
        ratings = ObservedLabels.from_any(recorded, unobserved=parameters["unobserved"])
        model = Recommender(loss="squared", **parameters).fit(ratings)
        return np.maximum(model.decide_matrix().toarray(), recorded)


def measure(task: Task, sizes: Sizes) -> dict[str, Any]:
    """The metric on complete labels."""
    seed, rate, method = int(task["draw"]), float(task["flip_rate"]), task["method"]
    X, Y, X_judged, judge = truth_of(str(task["setting"]), sizes, seed)
    recorded = Y * (np.random.RandomState(1000 + seed).random_sample(Y.shape) >= rate)
    if method == DROPPED:
        decisions = np.ones_like(judge)
    else:
        parameters: dict[str, Any] = {"unobserved": "negative" if method == AS_NO else "unlabelled"}
        if method != AS_NO:
            parameters["flip_rate"] = rate if method == KNOWN else "estimate"
        decisions = decided(X, recorded, X_judged, parameters, seed)
    return {"value": float(get_metric(METRIC)(judge, decisions))}


def report(results: Results, sizes: Sizes) -> str:
    """Mean ± sd of each method, and the paired gain of known ρ over silence as no."""
    rows = []
    for setting, rate in different(results, "setting", "flip_rate"):
        mine = {
            method: [one["value"] for one in those(results, setting=setting, flip_rate=rate, method=method)]
            for method in METHODS
        }
        gains = (a - b for a, b in zip(mine[KNOWN], mine[AS_NO], strict=True))
        cells = [plus_minus(values, 3) for values in mine.values()]
        rows.append([setting, str(rate), *cells, plus_minus(gains, 3, "+")])
    return markdown_table(["judged on", "ρ", *METHODS, f"{KNOWN} − {AS_NO}"], rows)


EXPERIMENT = Experiment(
    "unlabelled",
    __doc__ or "",
    draws=10,
    choices={"settings": SETTINGS, "flip-rates": FLIP_RATES},
    tasks=lambda options, given: draws_of(
        options, setting=options.settings, flip_rate=options.flip_rates, method=METHODS
    ),
    measure=measure,
    report=report,
    settings=lambda options, given: {"sizes": asdict(given)},
    given=Sizes(),
)

if __name__ == "__main__":
    EXPERIMENT.main()
