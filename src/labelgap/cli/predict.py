"""``labelgap predict``: decisions for new rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from sklearn.utils import _safe_indexing

from labelgap import LowRankRegressor, Recommender
from labelgap.cli.choices import refuse, refuse_rating_columns, refuse_table_columns, use_device
from labelgap.cli.console import PlainTable
from labelgap.cli.decision_options import Exactly, RowBudget, TotalBudget, read_budgets
from labelgap.cli.inputs import read_rows, warn_of_repeated_ids
from labelgap.cli.models import load_model
from labelgap.cli.options import (
    DataFile,
    Decimal,
    Delimiter,
    Device,
    Encoding,
    Force,
    Format,
    IdColumn,
    ItemColumn,
    Json,
    MaxUnpackedMb,
    ModelFile,
    Quiet,
    SkipUnknown,
    SpreadsheetSafe,
    Unknown,
    UnknownIds,
    UserColumn,
    Verbose,
)
from labelgap.cli.outputs import (
    Block,
    check_table_output,
    free_name,
    refuse_twice,
    refuse_unguarded,
    write_blocks,
)
from labelgap.cli.rating_checks import refuse_unknown
from labelgap.cli.ratings import known_pairs, read_pairs, warn_of_unknown
from labelgap.cli.session import Session, command
from labelgap.cli.sets import Coverage, Decide, GuaranteeOf, count_sets, decider
from labelgap.data.files.dialect import Dialect
from labelgap.decisions import Budget

# Entries that are predicted at one time.
_BLOCK_ENTRIES = 1 << 20
_PREVIEW_ROWS = 10
_LONG = ("label", "decision", "probability")


class What(StrEnum):
    """What is written of each row and label."""

    decisions = "decisions"
    probabilities = "probabilities"
    scores = "scores"
    all = "all"


class _Table(NamedTuple):
    """A table to be written, block by block."""

    names: list[str]
    blocks: Iterator[Block]
    decisions: list[str]
    """The columns that hold decisions."""


def predict(
    model: ModelFile,
    data: DataFile,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            rich_help_panel="Output",
            show_default=False,
            help="The file to write: CSV, TSV or Parquet, by its name. Without one, a preview on a terminal, "
            "or CSV into a pipe.",
        ),
    ] = None,
    what: Annotated[
        What | None,
        typer.Option(
            rich_help_panel="Output",
            show_default="decisions",
            help="What to write of each row and label. A regression has predictions (its default) or scores.",
        ),
    ] = None,
    long: Annotated[
        bool,
        typer.Option(
            "--long",
            rich_help_panel="Output",
            help="One line for each yes: id, label, decision, probability.",
        ),
    ] = False,
    every: Annotated[
        bool, typer.Option("--all", rich_help_panel="Output", help="With --long: a line for each no, too.")
    ] = False,
    budget: RowBudget = None,
    total_budget: TotalBudget = None,
    exactly: Exactly = False,
    coverage: Coverage = None,
    guarantee: GuaranteeOf = None,
    id_column: IdColumn = None,
    user: UserColumn = None,
    item: ItemColumn = None,
    skip_unknown: SkipUnknown = False,
    unknown: UnknownIds = None,
    spreadsheet_safe: SpreadsheetSafe = False,
    format: Format = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    max_unpacked_mb: MaxUnpackedMb = None,
    device: Device = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    force: Force = False,
) -> None:
    """Decide every label of new rows: 1 is yes, 0 is no.

    Columns are matched by name with those of the fit, in any order; others, such as labels, are ignored. Rows
    are named by the column --id, or else by one called id. A recommender takes pairs of users and items.

    [bold]Examples[/bold]

      labelgap predict articles.labelgap new_articles.csv --out decisions.csv
      labelgap predict articles.labelgap new_articles.csv --what scores | head
      labelgap predict articles.labelgap new_articles.csv --long --out tags.csv
      labelgap predict articles.labelgap new_articles.csv --budget 3 --out tags.csv
      labelgap predict articles.labelgap new_articles.csv --coverage 0.9 --out sure.csv
      labelgap predict films.labelgap pairs.csv --user user --item film
    """
    with command(as_json=json, quiet=quiet, verbose=verbose, max_unpacked_mb=max_unpacked_mb) as session:
        refuse(every and not long, "--all", "it goes with --long")
        refuse(long and what is not None, "--what", "--long has its own columns")
        limit = read_budgets(budget, total_budget, exactly)
        refuse(limit is not None and coverage is not None, "--coverage", "a budget decides every entry")
        check_table_output(session, out, force, inputs=(model, data))
        refuse_unguarded(out, spreadsheet_safe)
        loaded = load_model(model)
        use_device(loaded.estimator, device)
        source = session.source(data, format, Dialect(delimiter, encoding, decimal))
        decides = long or what in (None, What.decisions, What.all)
        decide = decider(loaded.estimator, coverage, guarantee, out, decides=decides)
        if isinstance(loaded.estimator, Recommender):
            refuse(long, "--long", "a recommender writes one line for each pair anyway")
            refuse(limit is not None, "--budget", "a recommender decides pair by pair")
            refuse_table_columns(id_column=id_column)
            users, items = read_pairs(loaded.estimator, source, user, item)
            refuse(skip_unknown and unknown is not None, "--unknown", "--skip-unknown leaves them out")
            if skip_unknown:
                users, items = known_pairs(session, loaded.estimator, users, items)
            elif unknown is Unknown.average:
                warn_of_unknown(session, loaded.estimator, users, items)
            else:
                refuse_unknown(source, loaded.estimator, users, items)
            how = (unknown or Unknown.raise_).value
            table, n_rows = _pair_table(loaded.estimator, users, items, what, how), len(users)
        else:
            refuse_rating_columns(user, item, skip_unknown=skip_unknown, unknown=unknown)
            X, ids, id_name = read_rows(loaded, source, id_column)
            use = "Each row is decided on its own, so such an id has several lines in the output."
            warn_of_repeated_ids(session, source, ids, use)
            table = _row_table(loaded.estimator, X, ids, id_name, what, long, every, decide, limit)
            n_rows = len(ids)
        session.step(f"loaded {model} and read {n_rows} rows of {data}")
        _write(session, out, table, n_rows, spreadsheet_safe)
        session.step("wrote the predictions")


# -- rows and labels ---------------------------------------------------------------------------------------


def _row_table(
    model: Any,
    X: Any,
    ids: Sequence[Any],
    id_name: str,
    what: What | None,
    long: bool,
    every: bool,
    decide: Decide,
    limit: Budget | None = None,
) -> _Table:
    labels = label_names(model)
    slices = list(_slices(len(ids), len(labels)))
    if isinstance(model, LowRankRegressor):
        refuse(long, "--long", "a regression has no yes and no")
        refuse(what not in (None, What.scores), "--what", "a regression has predictions, or scores")
        refuse(limit is not None, "--budget", "a regression has no yes and no")
        id_name = free_name(id_name, labels)
        predicted = model.predict if what is None else model.decision_function
        blocks = (
            {id_name: ids[rows]} | _by_label(labels, predicted(_safe_indexing(X, rows))) for rows in slices
        )
        return _Table([id_name, *labels], blocks, [])
    undecided = not long and what in (What.probabilities, What.scores)
    refuse(limit is not None and undecided, "--budget", "it is about decisions")
    decided = _decided(model, X, decide, limit)
    if long:
        id_name = free_name(id_name, _LONG)
        blocks = (
            _long_block(
                decided(rows),
                _values(model, _safe_indexing(X, rows), What.probabilities),
                ids[rows],
                id_name,
                labels,
                every,
            )
            for rows in slices
        )
        return _Table([id_name, *_LONG], blocks, ["decision"])
    wanted = what or What.decisions
    parts = [part for part in (What.decisions, What.probabilities, What.scores) if wanted in (part, What.all)]
    titles = {part: [_title(label, part, wanted) for label in labels] for part in parts}
    names = [titles[part][at] for at in range(len(labels)) for part in parts]
    refuse_twice(names, "Write one thing at a time with --what, or lines with --long.")
    id_name = free_name(id_name, names)

    def wide_block(rows: slice) -> Block:
        here, block = _safe_indexing(X, rows), {id_name: ids[rows]}
        for part in parts:
            values = decided(rows) if part is What.decisions else _values(model, here, part)
            block |= _by_label(titles[part], values)
        return block

    return _Table([id_name, *names], map(wide_block, slices), titles.get(What.decisions, []))


def _by_label(names: list[str], values: Any) -> dict[str, Any]:
    return {name: values[:, at] for at, name in enumerate(names)}


def _decided(model: Any, X: Any, decide: Decide, limit: Budget | None) -> Callable[[slice], Any]:
    """The decisions of a slice of the rows; those within a budget are made for all rows at a time."""
    if limit is None:
        return lambda rows: decide(_safe_indexing(X, rows))
    if model._single:
        whole = model.predict(X, budget=limit)
        return lambda rows: whole[rows].reshape(-1, 1)
    found = model.predict(X, output="sparse", budget=limit)
    return lambda rows: found[rows].toarray()


def _long_block(
    decisions: Any, probabilities: Any, ids: Sequence[Any], id_name: str, labels: list[str], every: bool
) -> Block:
    # What is not decided may be a yes, too.
    rows, columns = np.nonzero(np.ones(decisions.shape) if every else decisions != 0)
    return {
        id_name: [ids[row] for row in rows.tolist()],
        "label": [labels[column] for column in columns.tolist()],
        "decision": decisions[rows, columns],
        "probability": probabilities[rows, columns],
    }


def _values(model: Any, X: Any, part: What) -> Any:
    return model.predict_proba(X) if part is What.probabilities else model.decision_function(X)


def _title(label: str, part: What, wanted: What) -> str:
    endings = {What.decisions: "", What.probabilities: "_probability", What.scores: "_score"}
    return label + endings[part] if wanted is What.all else label


def _slices(n_rows: int, n_labels: int) -> Iterator[slice]:
    step = max(1, _BLOCK_ENTRIES // max(n_labels, 1))
    return (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))


def label_names(model: Any) -> list[str]:
    """Names of the labels, or their numbers."""
    names = model.label_names_
    return (
        [f"label_{at}" for at in range(model.n_labels_)] if names is None else [str(name) for name in names]
    )


# -- pairs -------------------------------------------------------------------------------------------------


def _pair_table(
    model: Recommender, users: Sequence[Any], items: Sequence[Any], what: What | None, unknown: str
) -> _Table:
    wanted = {
        None: ["decision", "probability"],
        What.decisions: ["decision"],
        What.probabilities: ["probability"],
        What.scores: ["score"],
        What.all: ["decision", "probability", "score"],
    }[what]
    methods = {
        "decision": model.predict,
        "probability": model.predict_proba,
        "score": model.decision_function,
    }

    def blocks() -> Iterator[Block]:
        for rows in _slices(len(users), 1):
            pair = (users[rows], items[rows])
            columns = {name: methods[name](*pair, unknown=unknown) for name in wanted}
            yield {"user": pair[0], "item": pair[1]} | columns

    return _Table(["user", "item", *wanted], blocks(), ["decision"] if "decision" in wanted else [])


# -- writing -----------------------------------------------------------------------------------------------


def _write(session: Session, out: Path | None, table: _Table, n_rows: int, guarded: bool) -> None:
    if out is not None:
        yes = decided = unsure = 0

        def counted() -> Iterator[Block]:
            nonlocal yes, decided, unsure
            for block in table.blocks:
                for name in table.decisions:
                    counts = count_sets(block[name])
                    yes, decided, unsure = yes + counts[0], decided + counts[1], unsure + counts[2]
                yield block

        write_blocks(out, table.names, counted(), guarded)
        said = f": {yes} yes among {decided} decisions" if table.decisions else ""
        said += f", {unsure} not decided" if unsure else ""
        session.result = {"out": str(out), "rows": n_rows}
        session.result |= {"decisions": decided, "yes": yes} if table.decisions else {}
        session.result |= {"undecided": unsure} if unsure else {}
        session.say_line(f"Wrote {n_rows} rows to {out}{said}.")
    elif session.as_json:
        session.result = {"rows": n_rows, "predictions": list(_records(table))}
    elif session.is_read_by_people:
        if session.talks:
            _preview(session, table, n_rows)
    else:
        write_blocks(None, table.names, table.blocks, guarded)


def _records(table: _Table) -> Iterator[dict[str, Any]]:
    for block in table.blocks:
        for row in zip(*(block[name] for name in table.names), strict=True):
            yield dict(zip(table.names, row, strict=True))


def _preview(session: Session, table: _Table, n_rows: int) -> None:
    nothing: Block = {name: [] for name in table.names}
    block = next(table.blocks, nothing)
    first = {name: list(block[name])[:_PREVIEW_ROWS] for name in table.names}
    id_name = table.names[0]
    if table.names == [id_name, *table.decisions]:
        # As many columns as there are labels do not fit; the names of those with a yes do.
        rows = list(zip(*(first[name] for name in table.decisions), strict=True))
        columns = {id_name: first[id_name], "yes": _names_of(table.decisions, rows, 1)}
        if any(one is None for row in rows for one in row):
            columns["not decided"] = _names_of(table.decisions, rows, None)
        session.say(PlainTable(columns, left=("yes", "not decided")))
    else:
        shown = _fitting(
            {name: list(map(_short, column)) for name, column in first.items()}, session.out.width
        )
        session.say(PlainTable(shown))
        if len(shown) < len(table.names):
            session.say_line(f"{len(table.names)} columns in all.")
    session.say_line(f"{n_rows} rows in all; --out FILE writes them.")


def _names_of(names: Sequence[str], rows: Sequence[Sequence[Any]], value: int | None) -> list[str]:
    """For each row the names of the columns that hold the value."""
    return [
        ", ".join(name for name, one in zip(names, row, strict=True) if one == value) or "none"
        for row in rows
    ]


def _fitting(columns: dict[str, list[str]], width: int) -> dict[str, list[str]]:
    """As many of the first columns as fit into the width, two at least."""
    free = width
    kept: dict[str, list[str]] = {}
    for name, texts in columns.items():
        free -= 2 + max(map(len, (name, *texts)))
        if free < 0 and len(kept) >= 2:
            break
        kept[name] = texts
    return kept


def _short(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float | np.floating) else str(value)
