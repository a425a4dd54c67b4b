"""The whole default on real data beside a tuned regression, compared with the figures of the run before.

For features, ``LowRankClassifier().fit(X, Y)`` against one logistic regression per label, C of four by three
folds over rows and the threshold from the same held-out scores. For ratings (coat), ``Recommender().fit``
against a logistic regression on who rated what. For lists (anime, citeulike), NDCG@20 of
``Recommender(unobserved="negative").fit`` against EASE, which is a ridge regression of the items on each
other, its penalty of three by a tenth of the likes. The other side is written with numpy and scikit-learn
alone, so that no fault of the library can be on both sides.

What is compared is the metric, and the time as a multiple of that of the regression of the same run.
``--quick`` leaves out the sets that take long. The files are those of the folder ``LABELGAP_DATA``.
"""

from __future__ import annotations

import json
import platform
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler, normalize

from benchmarks.harness import Line, Options, Report
from labelgap import LowRankClassifier, Recommender
from labelgap.data import data_folder

Floats = NDArray[np.float64]

OBSERVED = 0.2
STRENGTHS = (0.1, 1.0, 10.0, 100.0)
N_LIST = 20
# Draws of a set, more where one says little; the quick half comes first.
FEATURES = {"emotions": 5, "yeast": 3, "scene": 3, "cal500": 3, "sider": 2, "enron": 2}
LARGE = {"genbase": 1, "tox21": 1, "corel5k": 1, "bibtex": 1}
STORED = "gate.json"


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


# -- features ----------------------------------------------------------------------------------------------


def draw(name: str, seed: int) -> tuple[Any, Floats, Any, Floats]:
    """Training rows with their known labels (NaN elsewhere), and test rows."""
    file = np.load(data_folder() / f"{name}.npz", allow_pickle=False)
    rng = np.random.default_rng(seed)
    X = _matrix(file, "X") if "X_data" in file else file["X"].astype(np.float64)
    Y = _matrix(file, "Y").toarray() if "Y_data" in file else np.where(file["Y"] < 0, np.nan, file["Y"])
    rows = rng.permutation(len(Y))
    train, test = (file["train"], file["test"]) if "train" in file else (rows[100:], rows[:100])
    known = Y[train].astype(np.float64)
    if not np.isnan(known).any():
        known[rng.random(known.shape) >= OBSERVED] = np.nan
    return X[train], known, X[test], Y[test]


def _matrix(file: Any, name: str) -> sp.csr_array:
    parts = tuple(file[f"{name}_{part}"] for part in ("data", "indices", "indptr"))
    return sp.csr_array(parts, shape=tuple(file[f"{name}_shape"])).astype(np.float64)


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


def tuned_regression(X: Any, Y: Floats, X_new: Any) -> NDArray[np.bool_]:
    """Decisions for new rows: C and the threshold by three folds over the rows."""
    # Rows have a length of about 1, so that one range of C suits all sets.
    if sp.issparse(X):
        X, X_new = normalize(X), normalize(X_new)
    else:
        scaler, width = StandardScaler().fit(X), np.sqrt(X.shape[1])
        X, X_new = scaler.transform(X) / width, scaler.transform(X_new) / width
    fold = np.random.default_rng(0).permutation(len(Y)) % 3
    known = ~np.isnan(Y)
    found = []
    for C in STRENGTHS:
        held_out = np.empty_like(Y)
        for k in range(3):
            held_out[fold == k] = regression_scores(X[fold != k], Y[fold != k], X[fold == k], C)
        found.append((*best_f1(held_out[known], Y[known]), C))
    _, threshold, C = max(found)
    return regression_scores(X, Y, X_new, C) >= threshold


def compare_features(name: str, draws: int) -> Figures:
    """The classifier on draws of a set with features."""
    return _compare(
        [draw(name, seed) for seed in range(draws)],
        lambda X, Y, X_new: LowRankClassifier(random_state=0).fit(X, Y).predict(X_new, output="dense") == 1,
        tuned_regression,
        f1,
    )


# -- ratings and lists ---------------------------------------------------------------------------------------


def compare_ratings(name: str, draws: int) -> Figures:
    """Four stars or more, decided for the test ratings, which were drawn at random."""
    file = np.load(data_folder() / f"{name}.npz", allow_pickle=False)
    train, test = (
        np.stack([file[f"{part}_user"], file[f"{part}_item"]], axis=1) for part in ("train", "test")
    )
    liked, truth = ((file[f"{part}_rating"] >= 4).astype(np.float64)[:, None] for part in ("train", "test"))
    sizes = file["shape"]

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

    return _compare([(train, liked, test, truth)] * draws, ours, theirs, f1)


def compare_lists(name: str, draws: int) -> Figures:
    """The order of items for each user: a fifth of the likes is held out."""
    file = np.load(data_folder() / f"{name}.npz", allow_pickle=False)
    liked = file["rating"] >= 8 if "rating" in file else np.ones(len(file["user"]), dtype=bool)
    X = sp.csr_array((np.ones(liked.sum()), (file["user"][liked], file["item"][liked])), shape=file["shape"])
    parts = []
    for seed in range(draws):
        train, test = _split(X, 0.2, seed)
        parts.append((train, None, None, test))

    def ours(train: sp.csr_array, *_: Any) -> NDArray[Any]:
        model = Recommender(unobserved="negative", random_state=0).fit(train)
        found = model.recommend_batch(list(model.user_ids_), n=N_LIST).items
        return np.where(np.equal(found, None), -1, found).astype(np.int64)

    return _compare(parts, ours, lambda train, *_: tuned_ease(train), ndcg)


def _split(X: sp.csr_array, fraction: float, seed: int) -> tuple[sp.csr_array, sp.csr_array]:
    held = np.random.default_rng(seed).random(X.nnz) < fraction
    rows, columns = X.nonzero()
    one, other = (
        sp.csr_array((np.ones(part.sum()), (rows[part], columns[part])), shape=X.shape)
        for part in (~held, held)
    )
    return one, other


def ease_lists(X: sp.csr_array, penalty: float) -> NDArray[Any]:
    """The best items that a user has not liked, by EASE; all inverses are of users x users."""
    K = np.linalg.inv((X @ X.T).toarray() + penalty * np.eye(X.shape[0]))
    KX = (X.T @ K).T
    diagonal = (1 - (X * KX).sum(axis=0)) / penalty
    scores = X.toarray() - KX / diagonal
    scores[X.nonzero()] = -np.inf
    top = np.argpartition(-scores, N_LIST, axis=1)[:, :N_LIST]
    return np.take_along_axis(top, np.argsort(-np.take_along_axis(scores, top, 1), axis=1), 1)


def tuned_ease(X: sp.csr_array) -> NDArray[Any]:
    """EASE with the penalty that is best for a tenth of the likes."""
    fit, held = _split(X, 0.1, 1)
    return ease_lists(X, max((100.0, 300.0, 1000.0), key=lambda p: ndcg(ease_lists(fit, p), held)))


def ndcg(lists: NDArray[Any], held: sp.csr_array) -> float:
    """NDCG@20, the mean over users with a held-out like."""
    discounts = 1 / np.log2(np.arange(2, N_LIST + 2))
    counts = np.diff(held.indptr)
    hits = np.zeros(lists.shape)
    dense = held.toarray()
    for place in range(N_LIST):
        given = lists[:, place] >= 0
        hits[given, place] = dense[np.flatnonzero(given), lists[given, place]]
    ideal = np.concatenate([[1.0], np.cumsum(discounts)])[np.minimum(counts, N_LIST)]
    return float((hits @ discounts / ideal)[counts > 0].mean())


# -- the run -----------------------------------------------------------------------------------------------


def _compare(parts: list[Any], ours: Callable[..., Any], theirs: Callable[..., Any], judge: Any) -> Figures:
    """Both methods on each part: data to fit to, labels, new rows, and the truth that judges."""
    values, seconds = [], []
    for method in (ours, theirs):
        began = time.perf_counter()
        answers = [method(*part[:3]) for part in parts]
        seconds.append(time.perf_counter() - began)
        values.append([judge(answer, part[3]) for answer, part in zip(answers, parts, strict=True)])
    return Figures(values[0], seconds[0], values[1], seconds[1])


def stored_figures(path: Path) -> dict[str, Figures]:
    """The figures of an earlier run; none where there is no file."""
    if not path.exists():
        return {}
    return {name: Figures(**figures) for name, figures in json.loads(path.read_text())["details"].items()}


def run(options: Options) -> Report:
    """Each set, against the figures that are stored for this kind of processor."""
    from benchmarks.__main__ import RESULTS_HERE

    report = Report(
        "gate",
        "Whole defaults beside a tuned regression, and against the run before",
        "One default fit for each draw, with the choice of all settings, beside a regression written with "
        "scikit-learn alone (EASE for lists); metrics are means over the draws, on rows, ratings or likes "
        "that no method saw.",
    )
    before = stored_figures(RESULTS_HERE / STORED)
    jobs = [(name, n, compare_features) for name, n in FEATURES.items()] + [("coat", 1, compare_ratings)]
    if not options.quick:
        jobs += [(name, n, compare_features) for name, n in LARGE.items()]
        jobs += [(name, 1, compare_lists) for name in ("anime", "citeulike")]
    LowRankClassifier(random_state=0).fit(*draw("emotions", 0)[:2])  # Compiles.
    now = {}
    for name, draws, compare in jobs:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            now[name] = found = compare(name, draws)
        mine, other = np.mean(found.values), np.mean(found.rival_values)
        said = f"{mine:.4f} against {other:.4f}"
        if name in before:
            metric, speed = verdict(found, before[name])
            earlier = f"{np.mean(before[name].values):.4f}, {before[name].times:.2f} x"
            said += f"; before {earlier}: metric {metric}, time {speed}"
        report.lines.append(
            Line(name, f"{draws} draws", found.seconds, found.times, "x regression", note=said)
        )
        print(f"{name}: {said}, {found.times:.2f} x {found.rival_seconds:.1f} s", flush=True)
    report.details = {name: asdict(figures) for name, figures in (before | now).items()}
    report.remarks.append(platform.machine())
    return report
