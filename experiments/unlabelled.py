"""Learning from recorded positives alone, against reading silence as no and against dropping it.

Run ``python -m experiments.unlabelled [--draws 10] [--out FOLDER] [--quick]``; it takes about ten minutes.
Complete labels come from a known model, and a fraction ρ of the positives, chosen at random, is lost. Every
draw has a truth of its own, which is the same for all methods and all ρ: the positives that are lost at 0.3
are lost at 0.5 too.

- **features**: labels of the logistic model with a W of rank 5, judged on fresh rows.
- **noise-free**: the same with ``y = [x·w ≥ 0]``; only with ``--settings``.
- **pairs**: users and items without features; likes of a logistic model of rank 3 with intercepts of users
  and of items. Judged over all pairs. All methods decide yes for a recorded like, whatever its score: the
  recommender does so under "unlabelled", and for silence as no the experiment does.

There are four methods: the flip rate is known; it is estimated; silence is read as no, with the same
estimator and loss; and silence is dropped, so that only positives are left and every entry is decided yes.
The number is the micro-F1 on complete labels. To save time λ is the only penalty that is chosen; the others
are 0.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from labelgap import LowRankClassifier, ObservedLabels, Recommender, get_metric
from labelgap.data import make_low_rank_labels

FLIP_RATES = (0.3, 0.5, 0.7)
METHODS = ("known ρ", "estimated ρ", "silence as no", "silence dropped")
METRIC = "micro-f1"


@dataclass(frozen=True)
class Sizes:
    """The shapes of the problems."""

    n: int = 200
    n_labels: int = 20
    n_test: int = 500
    n_users: int = 150
    n_items: int = 50


QUICK = Sizes(n=100, n_labels=8, n_test=100, n_users=60, n_items=20)
Scores = dict[str, dict[str, dict[str, list[float]]]]


@dataclass(frozen=True)
class Truth:
    """Complete labels, a function that decides entries from the recorded positives, and the judge."""

    Y: Any
    judges: dict[str, Any]
    """Complete labels by the name of the judgement."""
    decide: Callable[[Any, dict[str, Any], int], dict[str, Any]]
    """From recorded labels, parameters and a seed to the decisions for each judgement."""


def with_features(name: str, sizes: Sizes, seed: int) -> Truth:
    """Labels from features."""
    problem = make_low_rank_labels(
        n=sizes.n,
        n_labels=sizes.n_labels,
        n_test=sizes.n_test,
        observed=1.0,
        noise=name == "features",
        random_state=seed,
    )

    def decide(recorded: Any, parameters: dict[str, Any], seed: int) -> dict[str, Any]:
        model = LowRankClassifier(
            METRIC, ridge_penalty=0, intercept_penalty=0, random_state=seed, **parameters
        )
        return {name: model.fit(problem.X, recorded).predict(problem.X_test)}

    return Truth(problem.Y, {name: problem.Y_test}, decide)


def of_pairs(name: str, sizes: Sizes, seed: int) -> Truth:
    """Likes of users, without features."""
    rng = np.random.RandomState(seed)
    users, items = rng.standard_normal((sizes.n_users, 3)), rng.standard_normal((3, sizes.n_items))
    Z = 2 / np.sqrt(3) * users @ items - 1
    Z += rng.standard_normal((sizes.n_users, 1)) + rng.standard_normal((1, sizes.n_items))
    Y = (rng.random_sample(Z.shape) < 1 / (1 + np.exp(-Z))).astype(float)

    def decide(recorded: Any, parameters: dict[str, Any], seed: int) -> dict[str, Any]:
        ratings = ObservedLabels.from_any(recorded, unobserved=parameters["unobserved"])
        model = Recommender(METRIC, loss="squared", random_state=seed, **parameters).fit(ratings)
        return {name: np.maximum(model.decide_matrix().toarray(), recorded)}

    return Truth(Y, {name: Y}, decide)


SETTINGS: dict[str, Callable[[str, Sizes, int], Truth]] = {
    "features": with_features,
    "noise-free": with_features,
    "pairs": of_pairs,
}
DEFAULT_SETTINGS = ("features", "pairs")


def decisions_of(truth: Truth, recorded: Any, flip_rate: float, seed: int) -> Iterator[dict[str, Any]]:
    """The decisions of each method, in their order."""
    yield truth.decide(recorded, {"unobserved": "unlabelled", "flip_rate": flip_rate}, seed)
    yield truth.decide(recorded, {"unobserved": "unlabelled", "flip_rate": "estimate"}, seed)
    yield truth.decide(recorded, {"unobserved": "negative"}, seed)
    yield {name: np.ones_like(complete) for name, complete in truth.judges.items()}


def run(
    draws: int,
    sizes: Sizes,
    *,
    settings: Sequence[str] = DEFAULT_SETTINGS,
    flip_rates: Sequence[float] = FLIP_RATES,
) -> Scores:
    """The true metric by judgement, flip rate and method: one number for each draw."""
    scores: Scores = {}
    metric = get_metric(METRIC)
    for seed in range(draws):
        for setting in settings:
            truth = SETTINGS[setting](setting, sizes, seed)
            luck = np.random.RandomState(1000 + seed).random_sample(truth.Y.shape)
            for flip_rate in flip_rates:
                recorded = truth.Y * (luck >= flip_rate)
                decided = decisions_of(truth, recorded, flip_rate, seed)
                for method, by_judge in zip(METHODS, decided, strict=True):
                    for judge, decisions in by_judge.items():
                        by_method = scores.setdefault(judge, {}).setdefault(str(flip_rate), {})
                        value = float(metric(truth.judges[judge], decisions))
                        by_method.setdefault(method, []).append(value)
        print(f"draw {seed + 1} of {draws} done", flush=True)
    return scores


def summary(scores: Scores) -> list[dict[str, Any]]:
    """Mean and spread over the draws, and the paired difference to silence as no."""
    rows = []
    for judge, by_rate in scores.items():
        for flip_rate, by_method in by_rate.items():
            plain = by_method["silence as no"]
            for method, values in by_method.items():
                gains = [a - b for a, b in zip(values, plain, strict=True)]
                rows.append(
                    {
                        "judged on": judge,
                        "flip_rate": float(flip_rate),
                        "method": method,
                        "mean": statistics.mean(values),
                        "sd": _spread(values),
                        "gain": statistics.mean(gains),
                        "gain_sd": _spread(gains),
                        "draws_above": sum(gain > 0 for gain in gains),
                    }
                )
    return rows


def _spread(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def report(scores: Scores) -> str:
    """A Markdown table: mean ± sd of each method, and the paired gain of known ρ over silence as no."""
    titles = ["judged on", "ρ", *METHODS, "known ρ − silence as no"]
    lines = [f"| {' | '.join(titles)} |", "| --- " * len(titles) + "|"]
    rows = summary(scores)
    for start in range(0, len(rows), len(METHODS)):
        group = rows[start : start + len(METHODS)]
        first = group[0]
        texts = [f"{row['mean']:.3f} ± {row['sd']:.3f}" for row in group]
        gain = f"{first['gain']:+.3f} ± {first['gain_sd']:.3f}"
        lines.append(f"| {' | '.join([first['judged on'], str(first['flip_rate']), *texts, gain])} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None, sizes: Sizes | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(DEFAULT_SETTINGS))
    parser.add_argument("--flip-rates", nargs="+", type=float, default=list(FLIP_RATES), metavar="ρ")
    parser.add_argument("--out", type=Path, help="write unlabelled.json and unlabelled.md to this folder")
    parser.add_argument("--quick", action="store_true", help="small problems, and at most two draws")
    options = parser.parse_args(arguments)
    sizes = sizes or (QUICK if options.quick else Sizes())
    draws = min(options.draws, 2) if options.quick else options.draws
    scores = run(draws, sizes, settings=options.settings, flip_rates=options.flip_rates)
    table = report(scores)
    print(table)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        content = {"sizes": asdict(sizes), "scores": scores, "summary": summary(scores)}
        text = json.dumps(content, indent=1, ensure_ascii=False)
        (options.out / "unlabelled.json").write_text(text, encoding="utf-8")
        (options.out / "unlabelled.md").write_text(table + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
