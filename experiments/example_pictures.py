"""The pictures of the examples in docs/examples.md: ``python -m experiments.example_pictures``.

Each example is run as it stands, and its picture is drawn from the variables that it leaves behind, so a
picture shows what the script computed and nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from labelgap.report import plot_observed, plot_reliability, plot_threshold_curve
from labelgap.report.displays.style import BLUE, ORANGE, REFERENCE

ROOT = Path(__file__).parents[1]
Found = dict[str, Any]
Draw = Callable[[Found, Any, Any], None]


def _bars(ax: Any, names: list[str], values: list[float], colours: list[str], digits: int = 3) -> None:
    ax.barh(names, values, color=colours)
    ax.invert_yaxis()
    for at, value in enumerate(values):
        ax.text(value, at, f" {value:.{digits}f}", va="center")
    ax.set_xlim(0, 1.18 * max(values))
    ax.spines[["top", "right"]].set_visible(False)


def draw_assay_matrix(found: Found, left: Any, right: Any) -> None:
    matrix, per_assay, probability = found["matrix"], found["per_assay"], found["probability"]
    plot_observed(matrix.Y_observed[:120], ax=left)
    left.set(xlabel="assays", ylabel="the first 120 compounds")
    chosen = np.argsort(per_assay, kind="stable")[:6]
    best = [np.argsort(-probability[:, j], kind="stable")[:10] for j in chosen]
    actives = [matrix.Y[rows, j].sum() for rows, j in zip(best, chosen, strict=True)]
    places = np.arange(len(chosen))
    right.barh(places - 0.2, actives, 0.4, color=BLUE, label="the ten that the model puts first")
    usual = 10 * matrix.Y[:, chosen].mean(axis=0)
    right.barh(places + 0.2, usual, 0.4, color=REFERENCE, label="ten at random")
    right.set_yticks(places, [f"{matrix.assays[j]} ({per_assay[j]} results)" for j in chosen])
    right.invert_yaxis()
    right.set(xlabel="actives among ten untested compounds", xlim=(0, 10))
    right.legend(loc="lower center", bbox_to_anchor=(0.3, 1.0), ncols=2, fontsize=8)
    right.spines[["top", "right"]].set_visible(False)


def draw_biased_sampling(found: Found, left: Any, right: Any) -> None:
    labels, n, Y = found["labels"], found["n"], found["Y"]
    each = np.arange(found["n_labels"])
    left.plot(each, labels.label_counts() / n, "o", color=BLUE, label="observed fraction")
    chances = found["sampling"].propensities_at([n // 2] * len(each), each, Y[:n].shape)
    left.plot(each, chances, color=ORANGE, label="true chance, of a row in the middle")
    left.legend()
    left.set(xlabel="label, the most popular first", ylabel="fraction that is observed", ylim=0)
    known = labels.label_counts()
    right.plot(each, labels.positive_counts() / known, "o", color=BLUE, label="among the observed")
    right.plot(each, Y[:n].mean(axis=0), color=ORANGE, label="among all")
    right.set(xlabel="label, the most popular first", ylabel="fraction of yes", ylim=0)
    right.legend()


def draw_counts(found: Found, left: Any, right: Any) -> None:
    new, hours = found["new"], found["hours"]
    predicted = found["model"].predict(found["X"][new], exposure=hours[new])
    truth = found["rate"][new] * hours[new][:, None]
    left.loglog(truth.ravel(), predicted.ravel(), ".", color=BLUE, alpha=0.15, markersize=4)
    ends = [truth.min(), truth.max()]
    left.plot(ends, ends, ":", color=REFERENCE)
    left.set(xlabel="true mean count in a new shop", ylabel="predicted count")
    values = found["model"].singular_values_
    right.bar(np.arange(1, len(values) + 1), values, color=BLUE)
    right.set(xlabel="pattern of the fit", ylabel="singular value")


def draw_half_annotated(found: Found, left: Any, right: Any) -> None:
    problem = found["problem"]
    plot_observed(found["Y"][:120], ax=left)
    left.set(ylabel="the first 120 rows")
    for name, one in (("low rank", found["model"]), ("one classifier per label", found["baseline"])):
        plot_threshold_curve(one, problem.X_test, problem.Y_test, name=name, ax=right)


def draw_likes_and_dislikes(found: Found, left: Any, right: Any) -> None:
    model, held_out = found["model"], found["held_out"]
    plot_threshold_curve(model, held_out, ax=left)
    plot_reliability(model, held_out, n_bins=8, ax=right)


def draw_likes_and_silence(found: Found, left: Any, right: Any) -> None:
    model, truth, silent, decided = (found[name] for name in ("model", "truth", "silent", "decided"))
    names = ["all pairs", "pairs decided no", "pairs decided yes"]
    some = [silent, silent & ~decided, silent & decided]
    _bars(left, names, [float(truth[one].mean()) for one in some], [REFERENCE, ORANGE, BLUE], 2)
    left.set(xlabel="fraction truly liked, of pairs that nobody recorded")
    low, high = model.flip_rate_interval_
    around = [[model.flip_rate_ - low], [high - model.flip_rate_]]
    right.errorbar([model.flip_rate_], [0], xerr=around, fmt="o", color=BLUE)
    right.axvline(0.5, linestyle=":", color=REFERENCE)
    right.text(0.5, 0.5, " truth", color=REFERENCE)
    right.set(xlabel="estimated fraction of likes not recorded", xlim=(0, 1), ylim=(-1, 1), yticks=[])


def draw_on_a_cluster(found: Found, left: Any, right: Any) -> None:
    rng, truth, model = np.random.default_rng(0), found["truth"], found["model"]
    X = rng.standard_normal((2000, len(truth)))
    real = (X @ truth + rng.standard_normal((len(X), truth.shape[1])) > 2).mean(axis=0)
    decided = model.predict(X).mean(axis=0)
    left.plot([0, max(real)], [0, max(real)], color=REFERENCE, linewidth=1)
    left.scatter(real, decided, s=18, color=BLUE)
    left.set(xlabel="fraction of yes of a label in new rows", ylabel="fraction that is decided yes")
    right.bar(np.arange(1, model.rank_ + 1), model.singular_values_, color=BLUE)
    right.set(xlabel="pattern of the fit", ylabel="singular value")


def draw_only_positives(found: Found, left: Any, right: Any) -> None:
    problem, f1 = found["problem"], found["f1"]
    compared = {
        "the rest unlabelled": found["model"].predict(problem.X_test),
        "a missing tag is a no": found["silence"].predict(problem.X_test),
        "every tag everywhere": np.ones_like(problem.Y_test),
    }
    values = [f1(problem.Y_test, decided) for decided in compared.values()]
    _bars(left, list(compared), values, [BLUE, ORANGE, REFERENCE])
    left.set(xlabel="micro-F1 on new documents")
    plot_observed(np.where(found["added"][:100] == 1, 1.0, np.nan), ax=right)
    right.set(xlabel="tags", ylabel="the first 100 documents")


def draw_rival_methods(found: Found, left: Any, right: Any) -> None:
    problem, methods = found["problem"], found["METHODS"]
    scores = [one.score(problem.X_test, problem.Y_test) for one in methods.values()]
    names = [name.replace(": ", ":\n").replace("regression per", "regression\nper") for name in methods]
    _bars(left, names, scores, [REFERENCE] * (len(names) - 1) + [BLUE])
    left.set(xlabel="micro-F1 on new rows")
    ranks = [getattr(one, "rank_", problem.X.shape[1]) for one in methods.values()]
    _bars(right, [str(at) for at in range(len(names))], ranks, [REFERENCE] * (len(names) - 1) + [BLUE], 0)
    right.set(xlabel=f"rank of the fit, at most {problem.X.shape[1]}", yticks=[])


# ``draw_NAME`` draws the picture of ``examples/NAME.py``.
PICTURES: dict[str, Draw] = {
    name.removeprefix("draw_"): value for name, value in globals().items() if name.startswith("draw_")
}


def draw(name: str, out: Path) -> Path:
    """Run an example, draw its picture, and say where it is."""
    with contextlib.redirect_stdout(io.StringIO()):
        found = runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    PICTURES[name](found, left, right)
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}.png"
    figure.savefig(path, dpi=100, metadata={"Software": None})
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", nargs="+", choices=sorted(PICTURES), default=sorted(PICTURES))
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images" / "examples")
    asked = parser.parse_args()
    for name in asked.names:
        print(draw(name, asked.out))


if __name__ == "__main__":
    main()
