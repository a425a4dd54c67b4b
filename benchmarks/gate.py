"""The whole default on real data beside a tuned regression, compared with the figures of the run before.

For features, ``LowRankClassifier().fit(X, Y)`` against one logistic regression per label, C of six by three
folds over rows and the threshold from the same held-out scores. For ratings (coat), ``Recommender().fit``
against a logistic regression on who rated what. For lists (anime, citeulike), NDCG@20 of
``Recommender(unobserved="negative").fit`` against EASE, which is a ridge regression of the items on each
other, its penalty of three by a tenth of the likes. The other side is written with numpy and scikit-learn
alone, so that no fault of the library can be on both sides.

What is compared is the metric, and the time as a multiple of that of the regression of the same run.
``--quick`` leaves out the sets that take long. Figures are stored after each set, so that a run that is
stopped loses nothing. The files are those of the folder ``LABELGAP_DATA``.
"""

from __future__ import annotations

import json
import platform
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler, normalize

from benchmarks.data import Floats, draw, file, read_likes
from benchmarks.harness import Line, Options, Report
from benchmarks.item_models import ease
from benchmarks.ranking import ndcg, split_likes, top_lists
from labelgap import LowRankClassifier, Recommender

STRENGTHS, PENALTIES = (0.1, 1.0, 10.0, 100.0, 1e3, 1e4), (100.0, 300.0, 1000.0)
N_LIST = 20
# Draws of a set, more where one says little; the quick half comes first.
QUICK = {"emotions": 5, "yeast": 3, "scene": 3, "cal500": 3, "sider": 2, "enron": 2, "coat": 1}
# The least NDCG@20 of lists.
FLOORS = {"anime": 0.37, "citeulike": 0.265}
LARGE = {"genbase": 1, "tox21": 1, "corel5k": 1, "bibtex": 1, "anime": 1, "citeulike": 1}


@dataclass(frozen=True)
class Figures:
    """Metrics of the draws of one set and the seconds for all of them: of labelgap, and of the regression."""

    values: list[float]
    seconds: float
    rival_values: list[float]
    rival_seconds: float

    @property
    def times(self) -> float:
        """The time as a multiple of the regression's."""
        return self.seconds / self.rival_seconds


def verdict(now: Figures, before: Figures) -> tuple[str, str]:
    """Whether the metric, and the time, are better, equal or worse than before.

    The metric differs if the mean over the draws does by more than 0.002 and two standard errors. The time
    differs if its multiple does by more than a fifth, and that is more than half a second.
    """
    gains = np.subtract(now.values, before.values)
    error = float(gains.std(ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else 0.0
    gain, least = float(gains.mean()), max(0.002, 2 * error)
    metric = "better" if gain > least else "worse" if gain < -least else "equal"
    saved = (before.times - now.times) * now.rival_seconds
    far = max(now.times, before.times) > 1.2 * min(now.times, before.times) and abs(saved) > 0.5
    return metric, ("better" if saved > 0 else "worse") if far else "equal"


# -- the regression ----------------------------------------------------------------------------------------


def best_f1(scores: Floats, truth: Floats) -> tuple[float, float]:
    """The largest micro-F1 of all thresholds, and the threshold."""
    order = np.argsort(-scores, kind="stable")
    values = 2 * np.cumsum(truth[order]) / (np.arange(1, len(truth) + 1) + truth.sum())
    last = np.append(scores[order][1:] < scores[order][:-1], True)
    best = int(np.argmax(np.where(last, values, -1)))
    return float(values[best]), float(scores[order][best])


def f1(decided: NDArray[np.bool_], truth: Floats) -> float:
    """Micro-F1 of the known entries."""
    known = ~np.isnan(truth)
    return float(2 * (decided & (truth == 1)).sum() / (decided[known].sum() + (truth == 1).sum()))


def regression_scores(X: Any, Y: Floats, X_new: Any, C: float) -> Floats:
    """Log-odds of each label by a regression of its own; of labels with one class by their rate."""
    scores = np.empty((X_new.shape[0], Y.shape[1]))
    for label in range(Y.shape[1]):
        rows = np.flatnonzero(~np.isnan(Y[:, label]))
        y = Y[rows, label]
        if len(np.unique(y)) < 2:
            scores[:, label] = np.log((y.sum() + 0.5) / (len(y) - y.sum() + 0.5))
            continue
        model = LogisticRegression(C=C, solver="liblinear", random_state=0).fit(X[rows], y)
        scores[:, label] = model.decision_function(X_new)
    return scores


def tuned_regression(
    X: Any, Y: Floats, X_new: Any, strengths: Sequence[float] = STRENGTHS, groups: Any = None
) -> NDArray[np.bool_]:
    """Decisions for new rows: C and the threshold by three folds over the rows, or groups of them."""
    # Rows have a length of about 1, so that one range of C suits all sets.
    if sp.issparse(X):
        X, X_new = normalize(X), normalize(X_new)
    else:
        scaler, width = StandardScaler().fit(X), np.sqrt(X.shape[1])
        X, X_new = scaler.transform(X) / width, scaler.transform(X_new) / width
    unit = np.arange(len(Y)) if groups is None else np.unique(groups, return_inverse=True)[1]
    fold = (np.random.default_rng(0).permutation(unit.max() + 1) % 3)[unit]
    known = ~np.isnan(Y)
    found = []
    for C in strengths:
        held_out = np.empty_like(Y)
        for k in range(3):
            held_out[fold == k] = regression_scores(X[fold != k], Y[fold != k], X[fold == k], C)
        found.append((*best_f1(held_out[known], Y[known]), C))
    _, threshold, C = max(found)
    return regression_scores(X, Y, X_new, C) >= threshold


def best_penalty(X: sp.csr_array, penalties: Sequence[float] = PENALTIES) -> float:
    """EASE's penalty that is best for a tenth of the likes."""
    fit, held = split_likes(X, 0.1, 1)
    return max(penalties, key=lambda penalty: ndcg(top_lists(ease(fit, penalty), fit, N_LIST), held))


def tuned_ease(X: sp.csr_array, *_: Any) -> NDArray[np.int64]:
    """The lists of EASE, with the choice of its penalty."""
    return top_lists(ease(X, best_penalty(X)), X, N_LIST)


# -- the sets ----------------------------------------------------------------------------------------------


def decided(X: Any, Y: Floats, X_new: Any) -> NDArray[np.bool_]:
    """Decisions for new rows by the default."""
    model = LowRankClassifier(random_state=0).fit(X, Y)
    return np.asarray(model.predict(X_new, output="dense") == 1)


def compare_features(name: str, draws: int) -> Figures:
    """The classifier on draws of a set with features."""
    return compare([draw(name, seed) for seed in range(draws)], decided, tuned_regression, f1)


def compare_ratings(name: str, draws: int) -> Figures:
    """Four stars or more, decided for the test ratings, which were drawn at random."""
    arrays = file(name)
    train, test = (
        np.stack([arrays[f"{part}_user"], arrays[f"{part}_item"]], axis=1) for part in ("train", "test")
    )
    liked, truth = ((arrays[f"{part}_rating"] >= 4).astype(np.float64)[:, None] for part in ("train", "test"))
    sizes = arrays["shape"]

    def who_and_what(pairs: NDArray[Any]) -> sp.csr_array:
        rows = np.arange(len(pairs), dtype=np.int32).repeat(2)
        places = rows, (pairs + np.array([0, sizes[0]])).ravel().astype(np.int32)
        return sp.csr_array((np.ones(2 * len(pairs)), places), shape=(len(pairs), sizes.sum()))

    def ours(pairs: NDArray[Any], y: Floats, new: NDArray[Any]) -> NDArray[np.bool_]:
        model = Recommender(random_state=0).fit((pairs[:, 0].tolist(), pairs[:, 1].tolist(), y[:, 0]))
        found = model.predict(new[:, 0].tolist(), new[:, 1].tolist(), unknown="average")
        return np.asarray(found == 1)[:, None]

    def theirs(pairs: NDArray[Any], y: Floats, new: NDArray[Any]) -> NDArray[np.bool_]:
        return tuned_regression(who_and_what(pairs), y, who_and_what(new))

    return compare([(train, liked, test, truth)] * draws, ours, theirs, f1)


def recommended(train: sp.csr_array, *_: Any) -> NDArray[np.int64]:
    """The lists of all users by the default for lists."""
    return lists_of(Recommender(unobserved="negative", random_state=0).fit(train))


def lists_of(model: Recommender) -> NDArray[np.int64]:
    """The lists of all users as numbers of items; -1 where a list ends."""
    found = model.recommend_batch(list(model.user_ids_), n=N_LIST).items
    return np.where(np.equal(found, None), -1, found).astype(np.int64)


def compare_lists(name: str, draws: int) -> Figures:
    """The order of items for each user: a fifth of the likes is held out."""
    X = read_likes(name)
    parts = [(train, None, None, test) for train, test in (split_likes(X, 0.2, s) for s in range(draws))]
    return compare(parts, recommended, tuned_ease, ndcg)


def compare(parts: Sequence[Any], ours: Any, theirs: Any, judge: Callable[..., float]) -> Figures:
    """Both methods on each part: data to fit to, labels, new rows, and the truth that judges."""
    values, seconds = [], []
    for method in (ours, theirs):
        began = time.perf_counter()
        answers = [method(*part[:3]) for part in parts]
        seconds.append(time.perf_counter() - began)
        values.append([judge(answer, part[3]) for answer, part in zip(answers, parts, strict=True)])
    return Figures(values[0], seconds[0], values[1], seconds[1])


# -- the run -----------------------------------------------------------------------------------------------

Job = Callable[[], Figures]


def jobs(quick: bool) -> dict[str, tuple[int, Job]]:
    """The sets with their draws, the quick half first."""
    special = {"coat": compare_ratings, "anime": compare_lists, "citeulike": compare_lists}
    return {
        name: (draws, partial(special.get(name, compare_features), name, draws))
        for name, draws in (QUICK if quick else QUICK | LARGE).items()
    }


def stored(path: Path) -> tuple[dict[str, Figures], dict[str, Line]]:
    """The figures and lines of an earlier run; none where there is no file."""
    if not path.exists():
        return {}, {}
    content = json.loads(path.read_text())
    figures = {name: Figures(**one) for name, one in content["details"].items()}
    return figures, {line["what"]: Line(**line) for line in content["lines"]}


def run(options: Options) -> Report:
    """Each set, against the figures that are stored for this kind of processor."""
    LowRankClassifier(random_state=0).fit(*draw("emotions", 0)[:2])  # Compiles.
    return run_jobs(jobs(options.quick), options)


def run_jobs(todo: dict[str, tuple[int, Job]], options: Options) -> Report:
    """The report of these sets; what was stored of others is kept."""
    before, lines = stored(options.before / "gate.json")
    report = Report(
        "gate",
        "Whole defaults beside a tuned regression, and against the run before",
        "One default fit for each draw, with the choice of all settings, beside a regression written with "
        "scikit-learn alone (EASE for lists); metrics are means over the draws, on rows, ratings or likes "
        "that no method saw.",
        remarks=[platform.machine()],
        details={name: asdict(figures) for name, figures in before.items()},
    )
    for name, (draws, job) in todo.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = job()
        said = f"{np.mean(found.values):.4f} against {np.mean(found.rival_values):.4f}"
        if name in before:
            metric, speed = verdict(found, before[name])
            earlier = f"{np.mean(before[name].values):.4f}, {before[name].times:.2f} x"
            said += f"; before {earlier}: metric {metric}, time {speed}"
        floor = FLOORS.get(name)
        target, met = ("", None) if floor is None else (f"metric ≥ {floor}", np.mean(found.values) >= floor)
        lines[name] = Line(
            *(name, f"{draws} draws", found.seconds, found.times, "x regression"),
            target=target,
            met=None if met is None else bool(met),
            note=said,
        )
        report.details[name] = asdict(found)
        report.lines = list(lines.values())
        options.store(report)
        print(f"{name}: {said}, {found.times:.2f} x {found.rival_seconds:.1f} s", flush=True)
    return report
