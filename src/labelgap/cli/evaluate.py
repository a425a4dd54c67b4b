"""``labelgap evaluate``: how good decisions are where the labels are known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from labelgap import LowRankRegressor, Recommender, get_metric
from labelgap.cli.choices import patterns, read_metric, refuse, refuse_rating_columns, refuse_table_columns
from labelgap.cli.console import KeyValues
from labelgap.cli.inputs import read_judged_table
from labelgap.cli.judging import (
    judged_by,
    label_table,
    reading,
    regression_by_label,
    tell,
    tell_held_out,
    write_results,
)
from labelgap.cli.models import LoadedModel, load_model, refuse_offsets
from labelgap.cli.options import (
    MAX_SEED,
    AggregateEvents,
    AverageOf,
    DataFile,
    Decimal,
    Delimiter,
    Encoding,
    Force,
    Format,
    HalfLife,
    IdColumn,
    ItemColumn,
    Json,
    LabelFile,
    Labels,
    MaxUnpackedMb,
    ModelFile,
    Quiet,
    Separator,
    SkipUnknown,
    TimeColumn,
    Unknown,
    UnknownIds,
    Unobserved,
    UserColumn,
    ValueColumn,
    Verbose,
)
from labelgap.cli.outputs import check_table_output
from labelgap.cli.ranking import tell_ranking, tell_unseen_users
from labelgap.cli.rating_checks import refuse_unknown
from labelgap.cli.ratings import known_ratings, read_judged_ratings, use_events, warn_of_unknown
from labelgap.cli.session import Session, command
from labelgap.data.files.dialect import Dialect
from labelgap.data.files.reading import Columns
from labelgap.data.files.source import Source
from labelgap.estimators.description import describe, explained_in_words, fitted_meaning, metric_name
from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional

_ALSO = ("micro-f1", "macro-f1", "micro-precision", "micro-recall", "micro-accuracy")


def evaluate(
    model: ModelFile,
    data: DataFile,
    labels: Labels = None,
    separator: Separator = None,
    label_file: LabelFile = None,
    id_column: IdColumn = None,
    user: UserColumn = None,
    item: ItemColumn = None,
    value: ValueColumn = None,
    aggregate: AggregateEvents = None,
    time: TimeColumn = None,
    half_life: HalfLife = None,
    skip_unknown: SkipUnknown = False,
    unknown: UnknownIds = None,
    format: Format = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
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
    n: Annotated[
        int | None,
        typer.Option(
            "-n",
            "--number",
            min=1,
            show_default="10",
            help="For a recommender: the length of the lists that are judged.",
        ),
    ] = None,
    unseen_users: Annotated[
        bool,
        typer.Option(
            "--unseen-users",
            help="For a recommender and ratings of users that it does not know: 80 % of the ratings of each "
            "are folded in, and lists are judged by the likes among the others.",
        ),
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=MAX_SEED, show_default="0", help="Deals the ratings for --unseen-users."),
    ] = None,
    max_unpacked_mb: MaxUnpackedMb = None,
    per_label: Annotated[
        bool, typer.Option("--per-label", help="Add a table of the labels; JSON has it anyway.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            rich_help_panel="Output",
            show_default=False,
            help="Write the results too, as CSV, TSV or Parquet by its name: a row for each metric, or with "
            "--per-label a row for each label.",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    force: Force = False,
) -> None:
    """Judge a model by the labels that are known in a file, and by no others.

    The columns are those of the fit, by name. Give rows that the model was not fitted to: on its own rows it
    looks better than it is. A recommender is judged by its decisions, and by where the likes of the file
    stand among all items that a user had not rated, beside a list of the most popular ones.

    [bold]Examples[/bold]

      labelgap evaluate articles.labelgap new_articles.csv
      labelgap evaluate articles.labelgap new_articles.csv --metric macro-jaccard --per-label
      labelgap evaluate articles.labelgap new_articles.csv --per-label --out labels.csv
      labelgap evaluate films.labelgap later_ratings.csv --json
      labelgap evaluate films.labelgap ratings_of_others.csv --unseen-users
    """
    with command(as_json=json, quiet=quiet, verbose=verbose, max_unpacked_mb=max_unpacked_mb) as session:
        check_table_output(session, out, force, inputs=(model, data, label_file))
        loaded = load_model(model)
        session.result = {"model": str(model), "data": str(data)}
        session.step(f"loaded {model}")
        metrics = _metrics(loaded.estimator, metric, average)
        refuse(average is not None and not metric, "--average", "it goes with a formula as --metric")
        refuse(seed is not None and not unseen_users, "--seed", "it goes with --unseen-users")
        source = session.source(data, format, Dialect(delimiter, encoding, decimal))
        if isinstance(loaded.estimator, Recommender):
            refuse_table_columns(labels, label_file, id_column)
            refuse(skip_unknown and unknown is not None, "--unknown", "--skip-unknown leaves them out")
            if unseen_users:
                others = {"-n": n, "--metric": metric or None, "--unobserved": unobserved, "--out": out}
                others |= {"--per-label": per_label or None, "--skip-unknown": skip_unknown or None}
                for option, given in others.items():
                    refuse(given is not None, option, "--unseen-users judges lists of 20, 50 and 100 alone")
            use_events(loaded.estimator, aggregate, time, half_life)
            ratings = read_judged_ratings(loaded.estimator, source, user, item, value)
            if skip_unknown:
                ratings = known_ratings(session, loaded.estimator, ratings)
            how = (unknown or Unknown.average).value
            if unseen_users:
                tell_unseen_users(session, loaded.estimator, ratings.answers, how, seed or 0)
                return
            if how == "average":
                warn_of_unknown(session, loaded.estimator, ratings.users, ratings.items)
            elif not skip_unknown:
                refuse_unknown(source, loaded.estimator, ratings.users, ratings.items)
            _tell_recommender(
                session, loaded.estimator, ratings.answers, metrics, unobserved, per_label, bool(metric), how
            )
            tell_ranking(session, loaded.estimator, ratings.answers, n or 10, how)
            write_results(session, out, per_label)
            return
        refuse(n is not None, "-n", "it is for a recommender")
        refuse(unseen_users, "--unseen-users", "it is for a recommender")
        events = (aggregate, time, half_life)
        refuse_rating_columns(user, item, value, skip_unknown, unknown, events=events)
        second, xml = session.label_file(label_file)
        columns = Columns(
            patterns(labels), ids=id_column, label_source=second, label_xml=xml, separator=separator
        )
        if isinstance(loaded.estimator, LowRankRegressor):
            refuse(unobserved is not None, "--unobserved", "in a regression a blank is always missing")
            _tell_regressor(session, loaded, source, columns, per_label)
        else:
            _refuse_uncorrected(loaded, unobserved)
            X, known = read_judged_table(loaded, source, columns, unobserved=unobserved)
            _tell_classifier(session, loaded.estimator, X, known, metrics, unobserved, per_label)
        write_results(session, out, per_label)


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


def _tell_classifier(
    session: Session,
    model: Any,
    X: Any,
    labels: ObservedLabels,
    metrics: dict[str, LinearFractional],
    unobserved: Unobserved | None,
    per_label: bool,
) -> None:
    how = reading(session, labels, fitted_meaning(model) or "missing", unobserved)
    judged = ObservedLabels.from_any(labels, unobserved=how)
    decisions = model.predict(X, output="sparse")
    flip_rate = getattr(model, "flip_rate_", 0.0)
    tell(session, model, metrics, decisions, judged, flip_rate, per_label, insists=unobserved is not None)


def _tell_recommender(
    session: Session,
    model: Recommender,
    ratings: Any,
    metrics: dict[str, LinearFractional],
    unobserved: Unobserved | None,
    per_label: bool,
    asked: bool,
    unknown: str,
) -> None:
    how = str(unobserved or model._silence)
    if how != "missing":
        why = f"with unrated pairs taken as {how} there is the model's own metric only"
        refuse(per_label, "--per-label", why)
        refuse(asked, "--metric", why)
        value = model.score(ratings, unobserved=how, unknown=unknown)
        own = metric_name(model.metric_)
        session.result |= {"unobserved": how, "metrics": {own: value}}
        session.say(KeyValues([(own, f"{value:.4f}, with unrated pairs taken as {how}")]))
        return
    labels = model._read_ratings(ratings, "missing")
    users = [labels.row_names[row] for row in labels.rows.tolist()]  # type: ignore[index]
    items = [labels.label_names[column] for column in labels.cols.tolist()]  # type: ignore[index]
    tell(
        session,
        model,
        metrics,
        model.predict(users, items, unknown=unknown),
        labels,
        0.0,
        per_label,
        insists=unobserved is not None,
    )


def _tell_regressor(
    session: Session,
    loaded: LoadedModel,
    source: Source,
    columns: Columns,
    per_label: bool,
) -> None:
    from labelgap.report.regression_figures import explained_interval

    refuse_offsets(loaded, "Judge it in Python too: model.score(X, y, exposure=...)")
    model = loaded.estimator
    X, known = read_judged_table(loaded, source, columns)
    explained, deviance = model.score(X, known), model.deviance(X, known)
    interval = explained_interval(model, *model._judged(X, known, None, None, None))
    session.result |= {
        "rows": known.shape[0],
        "labels": known.shape[1],
        "observed": known.n_observed,
        "d2": explained,
        "intervals": {"d2": interval},
        "held_out": describe(model)["held_out"],
        "deviance": deviance,
        "per_label": regression_by_label(model, X, known),
    }
    session.say_line(judged_by(known))
    session.say()
    session.say(
        KeyValues(
            [
                ("explained", f"{explained_in_words(explained, interval)} of the deviance (D²)"),
                ("mean deviance", f"{deviance:.6g}"),
            ]
        )
    )
    tell_held_out(session, model)
    if per_label:
        session.say()
        session.say(label_table(session.result["per_label"]))
