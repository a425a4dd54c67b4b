"""``labelgap suggest``: what to ask about next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from labelgap import LowRankRegressor, Recommender
from labelgap.cli.choices import patterns, refuse, refuse_table_columns
from labelgap.cli.console import PlainTable
from labelgap.cli.inputs import read_judged_table
from labelgap.cli.models import LoadedModel, load_model
from labelgap.cli.options import (
    Decimal,
    Delimiter,
    Encoding,
    Force,
    Format,
    IdColumn,
    ItemEncoding,
    Json,
    LabelFile,
    Labels,
    MaxUnpackedMb,
    ModelFile,
    Quiet,
    Separator,
    SpreadsheetSafe,
    Verbose,
    input_data,
    input_file,
)
from labelgap.cli.outputs import check_table_output, free_name, refuse_unguarded, write_blocks
from labelgap.cli.ratings import find_ids
from labelgap.cli.session import Session, command
from labelgap.cli.side_tables import TableFile, read_titles
from labelgap.data.files.dialect import Dialect
from labelgap.data.files.reading import Columns
from labelgap.exceptions import InvalidParameterError
from labelgap.labels import ObservedLabels
from labelgap.recommending.tables import as_texts


def suggest(
    model: ModelFile,
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="DATA",
            callback=input_data,
            show_default=False,
            help="The table with the blanks to choose from. For a recommender there is none.",
        ),
    ] = None,
    n: Annotated[int, typer.Option("-n", "--number", min=1, help="How many, at most.")] = 20,
    per_row: Annotated[
        int | None,
        typer.Option(
            "--budget-per-row", min=1, show_default="no limit", help="At most so many blanks of a row."
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(
            "--user",
            metavar="ID",
            show_default="a new user",
            help="For a recommender: the user to ask. What they have rated is not asked for again.",
        ),
    ] = None,
    any_item: Annotated[
        bool,
        typer.Option(
            "--any-item",
            help="For a recommender: do not prefer items that many users have rated, because the item is "
            "shown with the question.",
        ),
    ] = False,
    items: Annotated[
        Path | None,
        typer.Option(
            "--items",
            metavar="FILE",
            callback=input_file,
            show_default=False,
            help="For a recommender: a table of items with their titles, such as MovieLens' u.item.",
        ),
    ] = None,
    items_encoding: ItemEncoding = None,
    labels: Labels = None,
    separator: Separator = None,
    label_file: LabelFile = None,
    id_column: IdColumn = None,
    format: Format = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            rich_help_panel="Output",
            show_default=False,
            help="The file to write: CSV, TSV or Parquet, by its name. Without one, a table on a terminal, "
            "or CSV into a pipe.",
        ),
    ] = None,
    spreadsheet_safe: SpreadsheetSafe = False,
    max_unpacked_mb: MaxUnpackedMb = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    force: Force = False,
) -> None:
    """List the blanks whose labels would help most, or the items to ask a user about.

    For a table, a blank is worth asking about where the metric of the model is expected to gain from it, and
    where the batch does not repeat itself. The list has the probability of yes and the expected gain. For a
    recommender, an item is worth asking about where a rating of it tells much about the other items, and
    many users know it.

    [bold]Examples[/bold]

      labelgap suggest articles.labelgap articles.csv -n 100 --budget-per-row 3 --out ask.csv
      labelgap suggest films.labelgap -n 5 --items u.item
      labelgap suggest films.labelgap --user ann
    """
    with command(as_json=json, quiet=quiet, verbose=verbose, max_unpacked_mb=max_unpacked_mb) as session:
        check_table_output(session, out, force, inputs=(model, data, label_file, items))
        refuse_unguarded(out, spreadsheet_safe)
        loaded = load_model(model)
        session.result = {"model": str(model)}
        session.step(f"loaded {model}")
        if isinstance(loaded.estimator, Recommender):
            refuse(data is not None, "DATA", "a recommender has its ratings in the model")
            refuse(per_row is not None, "--budget-per-row", "it is for a table")
            refuse_table_columns(labels, label_file, id_column)
            table = TableFile("item", items, items_encoding)
            columns = _questions(session, loaded.estimator, user, n, any_item, table)
        else:
            for given, name in (
                (user, "--user"),
                (any_item, "--any-item"),
                (items, "--items"),
                (items_encoding, "--items-encoding"),
            ):
                refuse(bool(given), name, "it is for a recommender")
            second, xml = session.label_file(label_file)
            wanted = Columns(
                patterns(labels), ids=id_column, label_source=second, label_xml=xml, separator=separator
            )
            columns = _entries(
                session, loaded, data, format, Dialect(delimiter, encoding, decimal), wanted, n, per_row
            )
        _tell(session, columns, out, spreadsheet_safe)


def _questions(
    session: Session, model: Recommender, user: str | None, n: int, any_item: bool, items: TableFile
) -> dict[str, Any]:
    if items.path is not None:
        model.set_item_titles(read_titles(session, items, model.item_ids_))
    asked = None if user is None else find_ids(model.user_ids_, [user], "user")[0]
    session.result["user"] = asked
    return model.suggest(asked, n, by_popularity=not any_item).columns()


def _entries(
    session: Session,
    loaded: LoadedModel,
    data: Path | None,
    format: Any,
    dialect: Dialect,
    wanted: Columns,
    n: int,
    per_row: int | None,
) -> dict[str, Any]:
    model = loaded.estimator
    if data is None:
        raise typer.BadParameter(
            f"{loaded.path} decides labels of rows: give the table with the blanks to choose from.",
            param_hint="'DATA'",
        )
    if isinstance(model, LowRankRegressor) or not hasattr(model, "suggest"):
        raise InvalidParameterError(
            f"{loaded.path} is a {type(model).__name__}, which makes no decisions that a label could change."
        )
    source = session.source(data, format, dialect)
    X, known = read_judged_table(loaded, source, wanted, named=True)
    session.step(f"read {known.n_observed} known labels of {data}")
    blank = ObservedLabels.from_any(known, unobserved="missing")
    found = model.suggest(X, n, blank, budget_per_row=per_row)
    session.result |= {"data": str(data), "known": known.n_observed}
    columns = found.columns()
    named = free_name(wanted.ids or ("id" if known.row_names is not None else "row"), list(columns)[1:])
    return {named if name == "row" else name: column for name, column in columns.items()}


def _tell(session: Session, columns: dict[str, Any], out: Path | None, guarded: bool) -> None:
    names = list(columns)
    count = len(columns[names[0]])
    if count == 0:
        session.warn("Nothing is left to ask about: the table has no blanks, or every item is rated.")
    if out is not None:
        write_blocks(out, names, [as_texts(columns)], guarded)
        session.result |= {"out": str(out), "listed": count}
        session.say_line(f"Wrote {count} suggestions to {out}.")
        return
    if not session.as_json and not session.is_read_by_people:
        write_blocks(None, names, [columns], guarded)
        return
    plain = {name: column.tolist() for name, column in columns.items()}
    rows = zip(*plain.values(), strict=True)
    session.result["suggestions"] = [dict(zip(plain, row, strict=True)) for row in rows]
    numbers = ("known", "probability", "gain", "value")
    shown = {
        name: [f"{one:.3g}" for one in column] if name in numbers else column
        for name, column in plain.items()
    }
    session.say(PlainTable(shown, left=tuple(name for name in names if name not in numbers)))
