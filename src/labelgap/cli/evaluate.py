"""``labelgap evaluate``: how good decisions are where the labels are known."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer

from labelgap import LowRankRegressor, Recommender, get_metric
from labelgap.cli.choices import patterns, read_metric, refuse, refuse_rating_columns, refuse_table_columns
from labelgap.cli.console import KeyValues, PlainTable
from labelgap.cli.inputs import read_judged_table
from labelgap.cli.models import LoadedModel, load_model, metric_name, refuse_offsets
from labelgap.cli.options import (
    AverageOf,
    DataFile,
    Format,
    IdColumn,
    ItemColumn,
    Json,
    LabelFile,
    Labels,
    ModelFile,
    SkipUnknown,
    Unobserved,
    UserColumn,
    ValueColumn,
)
from labelgap.cli.ratings import known_ratings, read_judged_ratings
from labelgap.cli.session import Session, command
from labelgap.data.files.reading import Columns
from labelgap.data.files.source import Source
from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional, confusion_counts, unlabelled_metric
from labelgap.recommending.ratings import read_ratings

_ALSO = ("micro-f1", "macro-f1", "micro-precision", "micro-recall", "micro-accuracy")


def evaluate(
    model: ModelFile,
    data: DataFile,
    labels: Labels = None,
    label_file: LabelFile = None,
    id_column: IdColumn = None,
    user: UserColumn = None,
    item: ItemColumn = None,
    value: ValueColumn = None,
    skip_unknown: SkipUnknown = False,
    format: Format = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="NAME|FORMULA",
            show_default=False,
            help="More metrics, names or formulas, besides the model's own. May be repeated.",
        ),
    ] = None,
    average: AverageOf = None,
    unobserved: Annotated[
        Unobserved | None,
        typer.Option(show_default="as in the fit", help="What a blank means in this file."),
    ] = None,
    per_label: Annotated[bool, typer.Option("--per-label", help="Add a table of the labels.")] = False,
    json: Json = False,
) -> None:
    """Judge a model by the labels that are known in a file, and by no others.

    The columns are those of the fit, by name. Give rows that the model was not fitted to: on its own rows it
    looks better than it is.

    [bold]Examples[/bold]

      labelgap evaluate articles.labelgap new_articles.csv
      labelgap evaluate articles.labelgap new_articles.csv --metric macro-jaccard --per-label
      labelgap evaluate films.labelgap later_ratings.csv --json
    """
    with command(as_json=json) as session:
        loaded = load_model(model)
        metrics = _metrics(loaded.estimator, metric, average)
        refuse(average is not None and not metric, "--average", "it goes with a formula as --metric")
        source = session.source(data, format)
        if isinstance(loaded.estimator, Recommender):
            refuse_table_columns(labels, label_file, id_column)
            ratings = read_judged_ratings(loaded.estimator, source, user, item, value)
            if skip_unknown:
                ratings = known_ratings(session, loaded.estimator, ratings)
            _tell_recommender(
                session, loaded.estimator, ratings.answers, metrics, unobserved, per_label, bool(metric)
            )
            return
        refuse_rating_columns(user, item, value, skip_unknown)
        second, xml = session.label_file(label_file)
        columns = Columns(patterns(labels), ids=id_column, label_source=second, label_xml=xml)
        if isinstance(loaded.estimator, LowRankRegressor):
            refuse(unobserved is not None, "--unobserved", "in a regression a blank is always missing")
            _tell_regressor(session, loaded, source, columns, per_label)
        else:
            _refuse_uncorrected(loaded, unobserved)
            X, known = read_judged_table(loaded, source, columns, unobserved=unobserved)
            _warn_of_known_no(session, known, unobserved)
            _tell_classifier(session, loaded.estimator, X, known, metrics, unobserved, per_label)


def _metrics(model: Any, names: list[str] | None, average: Any) -> dict[str, LinearFractional]:
    if isinstance(model, LowRankRegressor):
        refuse(bool(names), "--metric", "a regression is judged by its deviance")
        return {}
    asked = [read_metric(name, average) for name in names or ()]
    all_of_them = [model.metric_, *(get_metric(name) for name in (*(asked or _ALSO),) if name is not None)]
    return {metric_name(metric): metric for metric in all_of_them}


def _refuse_uncorrected(loaded: LoadedModel, unobserved: Unobserved | None) -> None:
    fitted_so = hasattr(loaded.estimator, "flip_rate_")
    refuse(
        unobserved is Unobserved.unlabelled and not fitted_so,
        "--unobserved",
        f"{loaded.path} was not fitted with --unobserved unlabelled, so it has no flip rate to correct by",
    )


def _warn_of_known_no(session: Session, labels: ObservedLabels, unobserved: Unobserved | None) -> None:
    no = int(np.sum(labels.values == 0))
    if unobserved is Unobserved.unlabelled and no and labels.is_complete:
        session.warn(
            f"All entries are known, {no} of them as no, and --unobserved unlabelled takes these for not "
            "recorded. Leave it at --unobserved missing to judge by them."
        )


def _tell_classifier(
    session: Session,
    model: Any,
    X: Any,
    labels: ObservedLabels,
    metrics: dict[str, LinearFractional],
    unobserved: Unobserved | None,
    per_label: bool,
) -> None:
    how = model.unobserved if unobserved is None and hasattr(model, "unobserved") else unobserved or "missing"
    judged = ObservedLabels.from_any(labels, unobserved=str(how))
    decisions = model.predict(X, output="sparse")
    flip_rate = getattr(model, "flip_rate_", 0.0)
    _tell(session, metrics, decisions, judged, flip_rate, per_label)


def _tell_recommender(
    session: Session,
    model: Recommender,
    ratings: Any,
    metrics: dict[str, LinearFractional],
    unobserved: Unobserved | None,
    per_label: bool,
    asked: bool,
) -> None:
    how = str(unobserved or model.answers_.unobserved)
    if how != "missing":
        why = f"with unrated pairs taken as {how} there is the model's own metric only"
        refuse(per_label, "--per-label", why)
        refuse(asked, "--metric", why)
        value = model.score(ratings, unobserved=how)
        own = metric_name(model.metric_)
        session.result = {"unobserved": how, "metrics": {own: value}}
        session.say(KeyValues([(own, f"{value:.4f}, with unrated pairs taken as {how}")]))
        return
    labels = read_ratings(ratings, positive=model.positive)
    users = [labels.row_names[row] for row in labels.rows.tolist()]  # type: ignore[index]
    items = [labels.label_names[column] for column in labels.cols.tolist()]  # type: ignore[index]
    _tell(session, metrics, model.predict(users, items), labels, 0.0, per_label)


def _tell(
    session: Session,
    metrics: dict[str, LinearFractional],
    decisions: Any,
    labels: ObservedLabels,
    flip_rate: Any,
    per_label: bool,
) -> None:
    if labels.unobserved == "unlabelled":
        refuse(per_label, "--per-label", "recorded yes alone do not say how good single labels are")
        values = {
            name: unlabelled_metric(metric, labels, decisions, flip_rate) for name, metric in metrics.items()
        }
        counts: dict[str, Any] = {}
    else:
        values = {name: metric(labels, decisions) for name, metric in metrics.items()}
        counts = {
            name: float(total[0]) for name, total in confusion_counts(labels, decisions)._asdict().items()
        }
    session.result = {
        "rows": labels.shape[0],
        "labels": labels.shape[1],
        "observed": labels.n_observed,
        "unobserved": labels.unobserved,
        "metrics": values,
        "counts": counts or None,
    }
    session.say_line(_judged_by(labels))
    session.say()
    session.say(KeyValues([(name, f"{value:.4f}") for name, value in values.items()]))
    if counts:
        session.say()
        session.say(_confusion(counts))
    if per_label:
        _tell_labels(session, decisions, labels)


def _judged_by(labels: ObservedLabels) -> str:
    n, L = labels.shape
    if labels.unobserved == "unlabelled":
        return (
            f"Judged by {labels.n_observed} recorded yes in {n} x {L} entries, corrected for those that "
            "are not recorded."
        )
    fraction = labels.n_observed / max(n * L, 1)
    return f"Judged by the {labels.n_observed} known entries of {n} x {L} ({100 * fraction:.1f} %)."


def _confusion(counts: dict[str, float]) -> Any:
    return PlainTable(
        {
            "": ["decided yes", "decided no"],
            "truly yes": [f"{counts['tp']:g}", f"{counts['fn']:g}"],
            "truly no": [f"{counts['fp']:g}", f"{counts['tn']:g}"],
        },
        left=("",),
    )


def _tell_labels(session: Session, decisions: Any, labels: ObservedLabels) -> None:
    counts = confusion_counts(labels, decisions, "macro")
    names = [str(name) for name in labels.label_names or range(labels.shape[1])]
    ratios = {
        "precision": _ratio(counts.tp, counts.tp + counts.fp),
        "recall": _ratio(counts.tp, counts.tp + counts.fn),
        "f1": _ratio(2 * counts.tp, 2 * counts.tp + counts.fp + counts.fn),
    }
    session.result["per_label"] = [
        {"label": name, "observed": observed, "yes": yes, "decided_yes": decided}
        | {what: values[at] for what, values in ratios.items()}
        for at, (name, observed, yes, decided) in enumerate(
            zip(names, counts.total, counts.tp + counts.fn, counts.tp + counts.fp, strict=True)
        )
    ]
    session.say()
    session.say(
        PlainTable(
            {
                "label": names,
                "known": [f"{count:g}" for count in counts.total],
                "yes": [f"{count:g}" for count in counts.tp + counts.fn],
                "decided yes": [f"{count:g}" for count in counts.tp + counts.fp],
            }
            | {what: ["-" if np.isnan(v) else f"{v:.3f}" for v in values] for what, values in ratios.items()},
            left=("label",),
        )
    )


def _ratio(above: Any, below: Any) -> Any:
    """A ratio for each label; NaN where it is 0/0."""
    return np.divide(above, below, out=np.full(len(above), np.nan), where=below > 0)


def _tell_regressor(
    session: Session,
    loaded: LoadedModel,
    source: Source,
    columns: Columns,
    per_label: bool,
) -> None:
    refuse(per_label, "--per-label", "it is for yes/no labels")
    refuse_offsets(loaded, "Judge it in Python too: model.score(X, y, exposure=...)")
    model = loaded.estimator
    X, known = read_judged_table(loaded, source, columns)
    explained, deviance = model.score(X, known), model.deviance(X, known)
    session.result = {
        "rows": known.shape[0],
        "labels": known.shape[1],
        "observed": known.n_observed,
        "d2": explained,
        "deviance": deviance,
    }
    session.say_line(_judged_by(known))
    session.say()
    session.say(
        KeyValues(
            [
                ("explained", f"{100 * explained:.1f} % of the deviance (D²)"),
                ("mean deviance", f"{deviance:.6g}"),
            ]
        )
    )
