"""``labelgap fit``: a model from a table with blanks."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from labelgap import save
from labelgap.cli.choices import (
    choose_setting,
    make_model,
    meaning_of_silence,
    number_or,
    option_name,
    patterns,
    read_metric,
    refuse,
    refuse_unused,
)
from labelgap.cli.cluster import (
    Cluster,
    WorkerMemory,
    Workers,
    check_cluster_options,
    cluster_job,
    fitting,
    opened_cluster,
)
from labelgap.cli.decision_options import SubjectTo, Thresholds, ThresholdScores, read_bounds
from labelgap.cli.fit_options import (
    AverageOfFit,
    Categorical,
    Forget,
    ImputeBlanks,
    Jobs,
    Memory,
    MetricOfFit,
    Rank,
    RidgePenalty,
    Seed,
    SoftLabels,
    TracePenalty,
    WithoutData,
)
from labelgap.cli.fitted import finish_fit
from labelgap.cli.lists import check_lists, warn_of_decisions, write_all_lists
from labelgap.cli.models import load_model
from labelgap.cli.options import (
    AggregateEvents,
    DataFileOrFolder,
    Decimal,
    Delimiter,
    Device,
    Drop,
    Encoding,
    FamilyName,
    FeatureColumns,
    FeatureMap,
    Force,
    Format,
    HalfLife,
    IdColumn,
    ItemColumn,
    ItemEncoding,
    ItemTable,
    Json,
    LabelFile,
    Labels,
    LabelWeighting,
    LossName,
    MaxUnpackedMb,
    Purpose,
    Quiet,
    Separator,
    Setting,
    TimeColumn,
    Unobserved,
    UserColumn,
    UserEncoding,
    UserTable,
    ValueColumn,
    Verbose,
    refuse_folder,
)
from labelgap.cli.outputs import check_output
from labelgap.cli.preparing import around
from labelgap.cli.progress import watched
from labelgap.cli.ratings import is_without_values
from labelgap.cli.session import Session, command
from labelgap.cli.sets import Calibration
from labelgap.cli.training import Training, read_training
from labelgap.data.files.dialect import Dialect
from labelgap.data.files.rating_files import is_ratings_file
from labelgap.estimators.arriving import ArrivingBatches
from labelgap.estimators.inputs import tolerance_of
from labelgap.exceptions import ModelFileError

_FIT = "Fit"


def fit(
    data: DataFileOrFolder,
    labels: Labels = None,
    features: FeatureColumns = None,
    id_column: IdColumn = None,
    drop: Drop = None,
    categorical: Categorical = None,
    impute: ImputeBlanks = None,
    separator: Separator = None,
    label_file: LabelFile = None,
    user: UserColumn = None,
    item: ItemColumn = None,
    value: ValueColumn = None,
    aggregate: AggregateEvents = None,
    time_column: TimeColumn = None,
    half_life: HalfLife = None,
    items: ItemTable = None,
    users: UserTable = None,
    items_encoding: ItemEncoding = None,
    users_encoding: UserEncoding = None,
    format: Format = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", rich_help_panel="Output", help="Where to save the model.")
    ] = Path("model.labelgap"),
    lists: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel="Output",
            show_default=False,
            help="For a recommender: write the ten best items of every user there, too; CSV, TSV or Parquet, "
            "by its name. labelgap recommend makes other lists.",
        ),
    ] = None,
    metric: MetricOfFit = None,
    average: AverageOfFit = None,
    setting: Annotated[
        Setting,
        typer.Option(
            rich_help_panel=_FIT,
            help="features: rows with features, yes/no labels. recommender: users and items. regression: "
            "numbers instead of yes/no. auto: what the file and the options suggest.",
        ),
    ] = Setting.auto,
    unobserved: Annotated[
        Unobserved | None,
        typer.Option(
            rich_help_panel=_FIT,
            show_default="missing",
            help="What a blank means: nobody looked (missing), no (negative), or yes or no, since only yes "
            "is ever recorded (unlabelled).",
        ),
    ] = None,
    flip_rate: Annotated[
        str | None,
        typer.Option(
            metavar="FRACTION|estimate",
            rich_help_panel=_FIT,
            show_default="estimate",
            help="With --unobserved unlabelled: the fraction of yes that was not recorded.",
        ),
    ] = None,
    positive: Annotated[
        float | None,
        typer.Option(
            metavar="VALUE",
            rich_help_panel=_FIT,
            show_default=False,
            help="For a recommender: a rating of that much or more is a like.",
        ),
    ] = None,
    purpose: Annotated[
        Purpose | None,
        typer.Option(
            "--for",
            rich_help_panel=_FIT,
            show_default="decide",
            help="For a recommender: whether a user will like an item (decide), or which items to show "
            "(recommend, the same as --unobserved negative).",
        ),
    ] = None,
    dislike_value: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|auto",
            rich_help_panel=_FIT,
            show_default="auto",
            help="With --for recommend: what a dislike counts, where a like is 1 and no rating 0.",
        ),
    ] = None,
    loss: Annotated[
        LossName | None,
        typer.Option(rich_help_panel=_FIT, show_default="logistic", help="The loss of yes/no labels."),
    ] = None,
    family: Annotated[
        FamilyName | None,
        typer.Option(
            rich_help_panel=_FIT, show_default="gaussian", help="For regression: what the values are."
        ),
    ] = None,
    rank: Rank = None,
    trace_penalty: TracePenalty = None,
    ridge_penalty: RidgePenalty = None,
    feature_map: FeatureMap = None,
    label_weighting: LabelWeighting = None,
    soft_labels: SoftLabels = None,
    tol: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            rich_help_panel=_FIT,
            show_default="0.001; 0.01 with --for recommend",
            help="The relative duality gap at which the fit stops.",
        ),
    ] = None,
    threshold: ThresholdScores = None,
    thresholds: Thresholds = None,
    subject_to: SubjectTo = None,
    calibration: Calibration = None,
    forget: Forget = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    device: Device = None,
    cluster: Cluster = None,
    workers: Workers = None,
    worker_memory: WorkerMemory = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            file_okay=False,
            rich_help_panel=_FIT,
            show_default=False,
            help="Save the progress here; after a stop, the same command continues from it.",
        ),
    ] = None,
    max_unpacked_mb: MaxUnpackedMb = None,
    memory: Memory = None,
    without_data: WithoutData = False,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    force: Force = False,
) -> None:
    """Fit a model to a table in which many labels are blank, and save it.

    A blank in a label column means that nobody looked; 1 is yes, 0 is no. A column called id names the
    rows, unless --id names another; every other column is a feature. The penalties and the threshold for
    all labels, or those of each, are chosen on held-out labels. The file holds the data too, from which
    labelgap update goes on, unless --without-data is said. Ctrl-C once stops early and saves the model so
    far; twice stops at once.

    [bold]Examples[/bold]

      labelgap fit articles.csv --labels 'tag_*' --id id --out articles.labelgap
      labelgap fit articles.csv --labels 'tag_*' --drop id --metric 'tp/(tp+fp)'
      labelgap fit ratings.csv --user who --item film --value stars --positive 4
      labelgap fit u.data --positive 4 --for recommend --items u.item --users u.user
      labelgap fit likes.parquet --for recommend --lists best.parquet
      labelgap fit counts.csv --labels 'n_*' --family poisson
      labelgap fit articles_parquet/ --labels 'tag_*' --cluster local --worker-memory 2GB
    """
    given: dict[str, Any] = {
        "labels": patterns(labels),
        "features": patterns(features),
        "id": id_column,
        "drop": patterns(drop),
        "categorical": patterns(categorical),
        "impute": impute,
        "separator": separator,
        "label_file": label_file,
        "user": user,
        "item": item,
        "value": value,
        "aggregate": _word(aggregate),
        "time": time_column,
        "half_life": half_life,
        "items": items,
        "users": users,
        "items_encoding": items_encoding,
        "users_encoding": users_encoding,
        "lists": lists,
        "metric": metric,
        "loss": _word(loss),
        "for": purpose,
        "unobserved": meaning_of_silence(purpose, _word(unobserved)),
        "dislike_value": number_or("auto", dislike_value, "--dislike-value", least=-1.0),
        "flip_rate": number_or("estimate", flip_rate, "--flip-rate", below=1.0),
        "positive": positive,
        "family": _word(family),
        "rank": rank,
        "trace_penalty": number_or("auto", trace_penalty, "--trace-penalty"),
        "ridge_penalty": number_or("auto", ridge_penalty, "--ridge-penalty"),
        "feature_map": _word(feature_map),
        "label_weighting": number_or("auto", label_weighting, "--label-weighting"),
        "soft_labels": number_or("auto", soft_labels, "--soft-labels"),
        "tol": tol,
        "threshold": _word(threshold),
        "thresholds": _word(thresholds),
        "calibration": _word(calibration),
        "forget": forget,
        "memory": memory,
        "without_data": without_data or None,
        "n_jobs": jobs,
        "device": device,
    }
    with command(as_json=json, quiet=quiet, verbose=verbose, max_unpacked_mb=max_unpacked_mb) as session:
        given["subject_to"] = read_bounds(subject_to)
        check_cluster_options(cluster, workers, worker_memory)
        refuse(without_data and memory is not None, "--memory", "--without-data keeps none at all")
        if cluster is not None:
            for name in ("forget", "memory", "without_data"):
                why = "a fit on a cluster leaves no data in the model file"
                refuse(given[name] is not None, option_name(name), why)
            given["metric"] = read_metric(metric, average)
            check_output(session, out, force or _continues(out, checkpoint), inputs=(data,))
            session.kept = checkpoint
            with opened_cluster(cluster, workers, worker_memory) as client:
                job = cluster_job(client, data, setting, given, seed, format)
                seconds = _fit(session, fitting(job), job.training, checkpoint)
            model, training = job.local(), job.described()
            save(model, out)
            finish_fit(session, data, model, training, seconds, out, checkpoint)
            return
        refuse_folder(data, "A folder of Parquet files is read with --cluster local.")
        source = session.source(data, format, Dialect(delimiter, encoding, decimal))
        chosen = choose_setting(setting, given, ratings_file=is_ratings_file(source))
        refuse_unused(chosen, given, asked=setting is not Setting.auto)
        given["metric"] = read_metric(metric, average)
        read = (data, label_file, items, users)
        check_output(session, out, force or _continues(out, checkpoint), inputs=read)
        check_lists(session, lists, out, force, inputs=read)
        model = make_model(chosen, given, seed)
        if chosen is Setting.recommender and is_without_values(source, value):
            why = "--value none says that each line is a like, and only --aggregate sum counts them"
            refuse(positive is not None and given["aggregate"] != "sum", "--positive", why)
            model.set_params(value=None)
        training = read_training(session, source, chosen, given)
        session.step(f"read {training.size} of {data}")
        session.make_room()
        session.kept = checkpoint
        seconds = _fit(session, model, training, checkpoint, keep=not without_data)
        save(around(training.prepare, model), out)
        if lists is not None and not model.interrupted_:
            warn_of_decisions(session, model, "The model")
            write_all_lists(session, model, lists)
        finish_fit(session, data, model, training, seconds, out, checkpoint, lists)


def _continues(out: Path, checkpoint: Path | None) -> bool:
    """Whether the file is the model of an interrupted fit that this command continues."""
    if checkpoint is None or not checkpoint.is_dir() or not out.is_file():
        return False
    try:
        return bool(getattr(load_model(out).estimator, "interrupted_", False))
    except ModelFileError:
        return False


def _word(choice: Any) -> str | None:
    return None if choice is None else str(choice.value)


def _fit(
    session: Session, model: Any, training: Training, checkpoint: Path | None, *, keep: bool = False
) -> float:
    """Fit, and with ``keep`` let the model keep the rows and labels; the time that it took."""
    # Lists are judged by another metric than decisions.
    metric = getattr(model, "candidates_metric", None) or str(getattr(model, "metric", "D²"))
    more: dict[str, Any] = {} if checkpoint is None else {"checkpoint": checkpoint}
    began = time.perf_counter()
    with watched(session, metric, tolerance_of(model)) as display:

        def fitted() -> Any:
            return model.fit(*training.arguments, callback=display, **more, **training.features)

        if keep and isinstance(model, ArrivingBatches):
            X, labels = training.arguments
            model._fit_first(X, labels, training.row_ids, fitted)
        else:
            fitted()
    if training.sides is not None and training.sides.titles is not None:
        model.set_item_titles(training.sides.titles)
    return time.perf_counter() - began
