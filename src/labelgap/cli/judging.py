"""What ``labelgap evaluate`` finds: metrics, counts, and a table of the labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from labelgap.cli.choices import refuse
from labelgap.cli.console import KeyValues, PlainTable, whole
from labelgap.cli.options import Unobserved
from labelgap.cli.outputs import write_blocks
from labelgap.cli.session import Session
from labelgap.estimators.description import describe, explained_in_words, value_in_words, what_it_answers
from labelgap.exceptions import InvalidLabelsError
from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional, confusion_counts, unlabelled_metric
from labelgap.metrics.jackknife import metric_interval
from labelgap.metrics.linear_fractional import aligned_decisions
from labelgap.thresholds.cross_fit import describe_one_class, one_class_labels, without_labels

# A smaller difference than this would not change a printed figure.
_NOTICED = 5e-5


def reading(session: Session, labels: ObservedLabels, fitted_to: str, asked: Unobserved | None) -> str:
    """What a blank means: as asked, or as in the fit; but known no are used unless it is said otherwise."""
    no = int(np.sum(labels.values == 0))
    if asked is None and fitted_to == "unlabelled" and no:
        session.say_line(
            f"The file has {whole(no)} known no, so decisions are judged by what is known. With --unobserved "
            "unlabelled these would be taken for not recorded, as in the fit."
        )
        session.say()
        return "missing"
    if asked is Unobserved.unlabelled and no:
        session.warn(
            f"{whole(no)} entries are known as no, and --unobserved unlabelled takes them for not recorded. "
            "Leave it at --unobserved missing to judge by them."
        )
    return fitted_to if asked is None else str(asked.value)


def tell(
    session: Session,
    model: Any,
    metrics: dict[str, LinearFractional],
    decisions: Any,
    labels: ObservedLabels,
    flip_rate: Any,
    per_label: bool,
    *,
    insists: bool,
) -> None:
    """Say what decisions are worth; ``insists`` where the user has said what a blank means."""
    if labels.unobserved == "unlabelled":
        refuse(per_label, "--per-label", "recorded yes alone do not say how good single labels are")
        values = {
            name: unlabelled_metric(metric, labels, decisions, flip_rate) for name, metric in metrics.items()
        }
        # A corrected metric has no interval that is known.
        intervals = dict.fromkeys(metrics)
        counts: dict[str, Any] = {}
        by_label = None
    else:
        _refuse_one_class(session, labels, insists)
        values = {name: metric(labels, decisions) for name, metric in metrics.items()}
        yes = aligned_decisions(decisions, labels)
        intervals = {name: metric_interval(metric, yes, labels) for name, metric in metrics.items()}
        totals = confusion_counts(labels, decisions)._asdict()
        counts = {name: _as_count(total[0]) for name, total in totals.items()}
        by_label = decisions_by_label(decisions, labels)
        _warn_of_one_class(session, metrics, values, decisions, labels)
    session.result |= {
        "rows": labels.shape[0],
        "labels": labels.shape[1],
        "observed": labels.n_observed,
        "yes": int(np.sum(labels.values == 1)),
        "no": int(np.sum(labels.values == 0)),
        "unobserved": labels.unobserved,
        "flip_rate": flip_rate if labels.unobserved == "unlabelled" else None,
        "metrics": values,
        "intervals": intervals,
        "held_out": describe(model)["held_out"],
        "counts": counts or None,
        "per_label": by_label,
    }
    session.say_line(judged_by(labels))
    session.say()
    session.say(KeyValues([(name, value_in_words(value, intervals[name])) for name, value in values.items()]))
    tell_held_out(session, model)
    if counts:
        session.say()
        session.say(_confusion(counts))
    if per_label and by_label is not None:
        session.say()
        session.say(label_table(by_label))


def tell_held_out(session: Session, model: Any) -> None:
    """Say what the fit had on what it held out, and what that answers beside the figures of this file."""
    facts = describe(model)
    found = facts["held_out"]
    if found["value"] is None or math.isnan(found["value"]):
        return
    in_words = explained_in_words if found["name"] == "d2" else value_in_words
    title = "D²" if found["name"] == "d2" else found["name"]
    title = f"{title}, corrected for yes that were not recorded," if "flip_rate" in facts else title
    figure = in_words(found["value"], found["interval"])
    above = "are about the ratings" if "users" in facts else "say how well the rows"
    of_file = "of this file" if "users" in facts else "of this file are predicted"
    session.say()
    session.say_line(
        f"In the fit, {title} was {figure} {what_it_answers(facts)}; the figures above {above} {of_file}."
    )


def judged_by(labels: ObservedLabels) -> str:
    """What the figures are about, in a sentence."""
    n, L = labels.shape
    if labels.unobserved == "unlabelled":
        return (
            f"Judged by {whole(labels.n_observed)} recorded yes in {whole(n)} x {whole(L)} entries, "
            "corrected for those that are not recorded."
        )
    fraction = labels.n_observed / max(n * L, 1)
    return (
        f"Judged by the {whole(labels.n_observed)} known entries of {whole(n)} x {whole(L)} "
        f"({100 * fraction:.1f} %)."
    )


# -- labels with one class ---------------------------------------------------------------------------------


def _refuse_one_class(session: Session, labels: ObservedLabels, insists: bool) -> None:
    """Known yes alone say nothing about no: every decision of yes would be right."""
    if not labels.n_observed or not np.all(labels.values == 1):
        return
    what = (
        f"Every one of the {whole(labels.n_observed)} known labels is a yes, so no decision of yes could be "
        "wrong: precision would be 1 whatever the model says"
    )
    if insists:
        session.warn(f"{what}, and only recall says something.")
        return
    raise InvalidLabelsError(
        f"{what}. Give a file with known no. If a blank means no, say --unobserved negative; if it may be "
        "yes or no, fit and judge with --unobserved unlabelled. To see the figures as they are, say "
        "--unobserved missing."
    )


def _warn_of_one_class(
    session: Session,
    metrics: dict[str, LinearFractional],
    values: dict[str, float],
    decisions: Any,
    labels: ObservedLabels,
) -> None:
    """Say which labels have one class here, and the first figure without them."""
    one_class = one_class_labels(labels)
    kept = without_labels(labels, one_class)
    if kept.all() or not kept.any():
        return
    name, metric = next(iter(metrics.items()))
    rest = metric(labels.select(kept), labels.align(decisions, "decisions")[kept])
    if abs(rest - values[name]) >= _NOTICED:
        session.warn(
            f"{describe_one_class(labels, one_class)} {name} is {values[name]:.4f} with "
            f"{'it' if one_class.sum() == 1 else 'them'} and {rest:.4f} without."
        )


# -- label by label ----------------------------------------------------------------------------------------


def decisions_by_label(decisions: Any, labels: ObservedLabels) -> list[dict[str, Any]]:
    """Counts and ratios of each label; NaN where a ratio is 0/0."""
    counts = confusion_counts(labels, decisions, "macro")
    ratios = {
        "precision": _ratio(counts.tp, counts.tp + counts.fp),
        "recall": _ratio(counts.tp, counts.tp + counts.fn),
        "f1": _ratio(2 * counts.tp, 2 * counts.tp + counts.fp + counts.fn),
        "accuracy": _ratio(counts.tp + counts.tn, counts.total),
    }
    numbers = {
        "observed": counts.total,
        "yes": counts.tp + counts.fn,
        "decided_yes": counts.tp + counts.fp,
        **counts._asdict(),
    }
    columns: dict[str, Any] = {
        "label": _names(labels),
        **{name: list(map(_as_count, values)) for name, values in numbers.items()},
        **{name: values.tolist() for name, values in ratios.items()},
    }
    return _records(columns)


def regression_by_label(model: Any, X: Any, labels: ObservedLabels) -> list[dict[str, Any]]:
    """The mean value, the mean prediction and the mean deviance of each label."""
    from labelgap.report.regression_figures import label_means

    means = label_means(model, X, labels)
    return _records(
        {"label": _names(labels), "observed": labels.label_counts().tolist()}
        | {name: values.tolist() for name, values in means.items()}
    )


def label_table(by_label: Sequence[dict[str, Any]]) -> PlainTable:
    """The table of the labels for people, without the counts that follow from others."""
    hidden = ("tp", "fp", "fn", "tn", "accuracy")
    titles = {"observed": "known", "decided_yes": "decided yes"}
    columns = {
        titles.get(name, name): [_shown(name, row[name]) for row in by_label]
        for name in by_label[0]
        if name not in hidden
    }
    return PlainTable(columns, left=("label",))


def write_results(session: Session, out: Path | None, per_label: bool) -> None:
    """Write the metrics, or the table of the labels, to a file."""
    if out is None:
        return
    result = session.result
    rows = result.get("per_label") if per_label else None
    if rows is None:
        named = result.get("metrics") or {name: result[name] for name in ("d2", "deviance") if name in result}
        rows = [{"metric": name, "value": value} for name, value in named.items()]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    write_blocks(out, list(columns), [columns])
    result["out"] = str(out)
    session.say()
    session.say_line(f"Wrote {len(rows)} {'labels' if 'label' in columns else 'metrics'} to {out}.")


def _records(columns: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _names(labels: ObservedLabels) -> list[str]:
    return [str(name) for name in labels.label_names or range(labels.shape[1])]


def _shown(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if name in ("observed", "yes", "decided_yes"):
        return whole(value)
    return "-" if np.isnan(value) else f"{value:.3f}"


def _confusion(counts: dict[str, float]) -> PlainTable:
    return PlainTable(
        {
            "": ["decided yes", "decided no"],
            "truly yes": [whole(counts["tp"]), whole(counts["fn"])],
            "truly no": [whole(counts["fp"]), whole(counts["tn"])],
        },
        left=("",),
    )


def _as_count(count: float) -> float:
    """A whole number where it is one: only weighted entries count in parts."""
    return int(count) if float(count).is_integer() else float(count)


def _ratio(above: Any, below: Any) -> Any:
    """A ratio for each label; NaN where it is 0/0."""
    return np.divide(above, below, out=np.full(len(above), np.nan), where=below > 0)
