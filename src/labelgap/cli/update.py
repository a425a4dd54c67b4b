"""A saved model and more data: ``labelgap update`` learns from them, ``labelgap fold-in`` adds ratings."""

from __future__ import annotations

import time
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
import typer

from labelgap import Recommender
from labelgap.arriving.batches import Batch
from labelgap.cli.choices import patterns, refuse, refuse_rating_columns, refuse_table_columns, use_device
from labelgap.cli.console import KeyValues, whole
from labelgap.cli.fit_options import Forget, Jobs
from labelgap.cli.fitted import kept_bytes, kept_lines
from labelgap.cli.inputs import read_judged_table
from labelgap.cli.models import LoadedModel, describe_with, load_model, refuse_offsets, save_model
from labelgap.cli.options import (
    AggregateEvents,
    Decimal,
    Delimiter,
    Device,
    Encoding,
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
    MaxUnpackedMb,
    ModelFile,
    Quiet,
    Separator,
    TimeColumn,
    UserColumn,
    UserEncoding,
    UserTable,
    ValueColumn,
    Verbose,
    input_data,
)
from labelgap.cli.outputs import check_output
from labelgap.cli.progress import watched
from labelgap.cli.ratings import own_ids, read_judged_ratings, use_events
from labelgap.cli.session import Session, command, without_unfinished
from labelgap.cli.side_tables import TableFile, read_more_sides
from labelgap.data.files import AnswerTable
from labelgap.data.files.dialect import Dialect
from labelgap.data.files.reading import Columns
from labelgap.data.files.source import Source
from labelgap.estimators.arriving import ArrivingBatches
from labelgap.estimators.description import fitted_meaning, in_lines
from labelgap.estimators.inputs import tolerance_of
from labelgap.exceptions import InvalidParameterError
from labelgap.fitting.progress import duration

Out: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        rich_help_panel="Output",
        show_default="the model itself",
        help="Where to save the model that has changed. A file is replaced in one step, at the end.",
    ),
]


class Prior(StrEnum):
    """What the factors of new users are drawn to."""

    users = "users"
    fit = "fit"


_WHY = {"drift": "the metric fell", "growth": "there are many more data than at the last choice"}


def update(
    model: ModelFile,
    data: Annotated[
        Path,
        typer.Argument(
            metavar="NEW_DATA",
            callback=input_data,
            show_default=False,
            help="More rows with labels, or more ratings, in a file like that of the fit. - is standard "
            "input, as CSV unless --format says another format.",
        ),
    ],
    labels: Labels = None,
    separator: Separator = None,
    label_file: LabelFile = None,
    id_column: IdColumn = None,
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
    max_unpacked_mb: MaxUnpackedMb = None,
    forget: Forget = None,
    jobs: Jobs = None,
    device: Device = None,
    out: Out = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    force: Force = False,
) -> None:
    """Let a model learn from more data, together with those it was fitted to.

    The new data are judged by the model as it is; then the fit goes on from there, to the same certificate,
    now over all data. The columns are those of the fit, by name, and are prepared as there. With --labels the
    file may have some of the labels alone, or new ones, which the model then decides too. A row with an id
    that was there before gets more labels, and the later one counts where both have one; so do ratings.
    Penalties and threshold are chosen anew only where the new data call for it. If it fails or is stopped,
    the model stays as it was.

    [bold]Examples[/bold]

      labelgap update articles.labelgap new_articles.csv
      labelgap update articles.labelgap corrections.csv --id id --out articles_2.labelgap
      labelgap update films.labelgap ratings_of_today.csv --forget 30 --json
    """
    with command(as_json=json, quiet=quiet, verbose=verbose, max_unpacked_mb=max_unpacked_mb) as session:
        # What cannot be written at the end is said at the start.
        check_output(session, out or model, force or out is None, inputs=(data, label_file, items, users))
        loaded = load_model(model)
        session.step(f"loaded {model}")
        estimator = loaded.estimator
        _refuse_closed(loaded)
        use_device(estimator, device)
        if forget is not None:
            estimator.set_params(forget=forget)
        if jobs is not None:
            estimator.set_params(n_jobs=jobs)
        source = session.source(data, format, Dialect(delimiter, encoding, decimal))
        if isinstance(estimator, Recommender):
            refuse_table_columns(labels, label_file, id_column)
            refuse(separator is not None, "--separator", "a recommender has users and items")
            use_events(estimator, aggregate, time_column, half_life)
            tables = _tables(items, items_encoding, users, users_encoding)
            new = _read_more_ratings(session, estimator, source, (user, item, value), tables)
            arguments: tuple[Any, ...] = (new.ratings.answers,)
            more, titles = new.features, new.titles
        else:
            titles = {}
            events = (aggregate, time_column, half_life)
            refuse_rating_columns(user, item, value, events=events)
            for option, table in (
                ("--items", items),
                ("--users", users),
                ("--items-encoding", items_encoding),
                ("--users-encoding", users_encoding),
            ):
                refuse(table is not None, option, "it is for a recommender")
            second, xml = session.label_file(label_file)
            columns = Columns(
                patterns(labels), ids=id_column, label_source=second, label_xml=xml, separator=separator
            )
            arguments, more = _read_batch(loaded, source, columns)
            session.step(f"read {arguments[1].shape[0]} rows of {data}")
        session.make_room()
        seconds = _learn(session, estimator, arguments, more)
        _save(loaded, titles, out or model)
        _tell(session, loaded, data, seconds, out or model)


def fold_in(
    model: ModelFile,
    data: Annotated[
        Path,
        typer.Argument(
            metavar="NEW_RATINGS",
            callback=input_data,
            show_default=False,
            help="More ratings, in a file like that of the fit. - is standard input, as CSV unless --format "
            "says another format.",
        ),
    ],
    user: UserColumn = None,
    item: ItemColumn = None,
    value: ValueColumn = None,
    time_column: TimeColumn = None,
    items: ItemTable = None,
    users: UserTable = None,
    items_encoding: ItemEncoding = None,
    users_encoding: UserEncoding = None,
    prior: Annotated[
        Prior,
        typer.Option(
            "--prior",
            help="What the factors of new users are drawn to: the mean and the spread of the users of the "
            "fit, or 0 as in the fit.",
        ),
    ] = Prior.users,
    format: Format = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    max_unpacked_mb: MaxUnpackedMb = None,
    out: Out = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    force: Force = False,
) -> None:
    """Add new users, new items and more ratings to a recommender, without a new fit.

    The factors of new users follow from their ratings of known items, and those of new items from the ratings
    of known users. A known user with more or other ratings of known items is computed again. All others stay
    as they are, and so do the settings; this takes a moment, whatever the size of the model. No certificate
    covers what is new: labelgap update lets all factors learn from the ratings. If it fails, the model stays
    as it was.

    [bold]Examples[/bold]

      labelgap fold-in films.labelgap ratings_of_eve.csv
      labelgap fold-in films.labelgap ratings_of_today.csv --out today.labelgap
      labelgap fold-in films.labelgap new.csv --items new_films.csv --json
    """
    with command(as_json=json, quiet=quiet, verbose=verbose, max_unpacked_mb=max_unpacked_mb) as session:
        check_output(session, out or model, force or out is None, inputs=(data, items, users))
        loaded = load_model(model)
        session.step(f"loaded {model}")
        before = loaded.estimator
        if not isinstance(before, Recommender):
            raise InvalidParameterError(
                f"{model} is a {type(before).__name__}, and ratings are folded into a recommender. labelgap "
                "update lets other models learn from more data."
            )
        use_events(before, None, time_column, None)
        source = session.source(data, format, Dialect(delimiter, encoding, decimal))
        tables = _tables(items, items_encoding, users, users_encoding)
        new = _read_more_ratings(session, before, source, (user, item, value), tables)
        began = time.perf_counter()
        after = before.fold_in(new.ratings.answers, prior=prior.value, **new.features)
        seconds = time.perf_counter() - began
        _save(loaded._replace(estimator=after, whole=after), new.titles, out or model)
        pairs = len(set(zip(new.ratings.users.tolist(), new.ratings.items.tolist(), strict=True)))
        added = after.answers_.n_observed - before.answers_.n_observed
        counts = {
            "new_users": len(after.user_ids_) - len(before.user_ids_),
            "new_items": len(after.item_ids_) - len(before.item_ids_),
            "added": added,
            "replaced": pairs - added,
        }
        session.result = {"data": str(data), "model": str(out or model), "seconds": seconds} | counts
        session.say_line(f"Folded {data} into {model}, without a new fit.")
        session.say()
        what = "{new_users} users, {new_items} items, {added} ratings; {replaced} of known pairs replaced"
        lines = [
            ("new", what.format(**{name: whole(count) for name, count in counts.items()})),
            ("users", whole(len(after.user_ids_))),
            ("items", whole(len(after.item_ids_))),
            ("certificate", "that of the fit, which what is new is no part of"),
            ("saved in", str(out or model)),
        ]
        session.say(KeyValues(lines))


class _MoreRatings(NamedTuple):
    """What a file of ratings and tables of items and users bring to a recommender."""

    ratings: AnswerTable
    features: dict[str, Any]
    titles: dict[Any, str]


def _tables(
    items: Path | None, items_encoding: str | None, users: Path | None, users_encoding: str | None
) -> dict[str, TableFile]:
    return {
        "item": TableFile("item", items, items_encoding),
        "user": TableFile("user", users, users_encoding),
    }


def _read_more_ratings(
    session: Session,
    model: Recommender,
    source: Source,
    columns: tuple[str | None, str | None, str | None],
    tables: dict[str, TableFile],
) -> _MoreRatings:
    ratings = read_judged_ratings(model, source, *columns)
    features, titles = read_more_sides(session, model, ratings, tables)
    session.step(f"read {len(ratings)} ratings of {source.path}")
    return _MoreRatings(ratings, features, titles)


def _save(loaded: LoadedModel, titles: dict[Any, str], out: Path) -> None:
    """Save a model that has changed, with the titles of new items."""
    if titles:
        loaded.estimator.set_item_titles({**(loaded.estimator.item_titles_ or {}), **titles})
    save_model(loaded, out)


def _refuse_closed(loaded: LoadedModel) -> None:
    """Refuse a model that cannot go on learning, and say what to do."""
    estimator, path = loaded.estimator, loaded.path
    if isinstance(estimator, Recommender):
        return
    if not isinstance(estimator, ArrivingBatches):
        raise InvalidParameterError(
            f"{path} is a {type(estimator).__name__}, which cannot go on learning; fit it again to all data. "
            "A model of labelgap fit can."
        )
    refuse_offsets(loaded, "Go on in Python too: model.partial_fit(X, y, exposure=...)")
    if not estimator.kept_bytes_:
        raise InvalidParameterError(
            f"{path} does not hold the data that it was fitted to, so that new data cannot join them. Fit it "
            "to all data, old and new, with labelgap fit, and leave --without-data out (in Python: "
            "model.save(path, with_data=True)); that model can be updated."
        )


def _read_batch(
    loaded: LoadedModel, source: Source, columns: Columns
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Rows and labels of a file, and the ids of the rows where it has some."""
    estimator = loaded.estimator
    meant = fitted_meaning(estimator)
    X, known = read_judged_table(
        loaded,
        source,
        columns,
        unobserved=None if meant == "missing" else meant,
        named=True,
        may_be_new=True,
    )
    names = known.row_names
    if names is None:
        return (X, known), {}
    ids = np.empty(len(names), dtype=object)
    ids[:] = names
    return (X, known), {"row_ids": own_ids(estimator._kept_data.rows.ids, ids)}


def _learn(session: Session, model: Any, arguments: tuple[Any, ...], more: dict[str, Any]) -> float:
    """Let the model learn; the time that it took."""
    metric = getattr(model, "candidates_metric", None) or str(getattr(model, "metric", "D²"))
    began = time.perf_counter()
    with watched(session, metric, tolerance_of(model)) as display, without_unfinished():
        model.partial_fit(*arguments, callback=display, **more)
    if getattr(model, "interrupted_", False):
        # What an unfinished fit has reached is not the model that was asked for.
        raise KeyboardInterrupt
    return time.perf_counter() - began


# -- what is said ------------------------------------------------------------------------------------------


def _tell(session: Session, loaded: LoadedModel, data: Path, seconds: float, out: Path) -> None:
    model = loaded.estimator
    batch: Batch = model.batches_[-1]
    facts, kept = describe_with(model, loaded.prepare), kept_bytes(model)
    session.result = {
        "data": str(data),
        "model": str(out),
        "seconds": seconds,
        "batch": asdict(batch) | {"metric_name": _metric_of(model)},
        "kept_bytes": kept,
    } | facts
    took = f"{seconds:.1f} s" if seconds < 60 else duration(seconds)
    session.say_line(f"{loaded.path} has learned from {data} in {took}.")
    session.say()
    lines = [*_batch_lines(model, batch), *in_lines(facts), *kept_lines(kept), ("saved in", str(out))]
    session.say(KeyValues(lines))


def _metric_of(model: Any) -> str:
    """What the batch was judged by."""
    if isinstance(model, Recommender):
        return model.batch_metric
    return "d2" if hasattr(model, "family_") else str(describe_with(model, None)["metric"])


def _batch_lines(model: Any, batch: Batch) -> list[tuple[str, str]]:
    rows, columns = ("users", "items") if isinstance(model, Recommender) else ("rows", "labels")
    new = f"{whole(batch.new_rows)} {rows}"
    if batch.new_labels:
        new += f", {whole(batch.new_labels)} {columns}"
    entries = "ratings" if rows == "users" else "entries"
    counts = f"{whole(batch.added)} {entries}; {whole(batch.corrected)} corrected"
    if batch.repeated:
        counts += f", {whole(batch.repeated)} as they were"
    lines = [("batch", str(batch.number)), ("new", f"{new}, {counts}")]
    lines.append(("judged", _judgement(_metric_of(model), batch)))
    chosen = "no" if batch.chosen_anew is None else f"yes: {_WHY.get(batch.chosen_anew, batch.chosen_anew)}"
    return [*lines, ("chosen anew", chosen)]


def _judgement(metric: str, batch: Batch) -> str:
    """The metric of the batch before it was learned from, beside what was expected."""
    if batch.metric is None:
        return "not: it has no new entries that the model before could decide"
    title = "D²" if metric == "d2" else metric
    said = f"{title} {batch.metric:.4f} before learning"
    if batch.standard_error is None:
        return f"{said}, of too few rows to say more"
    if batch.interval is None:
        return f"{said}; nothing to compare it with yet"
    low, high = batch.interval
    where = {"worse": "below", "better": "above", "no": "within"}[batch.drift or "no"]
    return f"{said}, {where} {low:.4f} to {high:.4f}"
