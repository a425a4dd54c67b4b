"""``labelgap recommend``: the best items of users."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from labelgap import Recommender
from labelgap.cli.choices import refuse, use_device
from labelgap.cli.console import PlainTable
from labelgap.cli.lists import LIST_LENGTH, list_columns, warn_of_decisions, write_lists
from labelgap.cli.models import load_model
from labelgap.cli.options import (
    Device,
    Force,
    ItemEncoding,
    Json,
    MaxUnpackedMb,
    ModelFile,
    Quiet,
    SpreadsheetSafe,
    Unknown,
    UserEncoding,
    Verbose,
    input_file,
)
from labelgap.cli.outputs import Block, check_table_output, refuse_unguarded, write_blocks
from labelgap.cli.ratings import find_ids
from labelgap.cli.session import Session, command
from labelgap.cli.side_tables import TableFile, read_titles, with_new_users
from labelgap.data.files.text_encoding import line_of
from labelgap.exceptions import DataFileError, InvalidParameterError
from labelgap.recommending.times import one_date

_CHOICE = "Which items"


def recommend(
    model: ModelFile,
    user: Annotated[
        list[str] | None,
        typer.Option("--user", metavar="ID", show_default=False, help="A user. May be repeated."),
    ] = None,
    users_file: Annotated[
        Path | None,
        typer.Option(
            callback=input_file,
            show_default=False,
            help="A file with a user on each line.",
        ),
    ] = None,
    users_table: Annotated[
        Path | None,
        typer.Option(
            "--users",
            metavar="FILE",
            callback=input_file,
            show_default=False,
            help="A table of users like that of the fit; those that the model does not know get items by "
            "their features.",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All users of the model.")] = False,
    n: Annotated[
        int, typer.Option("-n", "--number", min=1, help="Items for each user, at most.")
    ] = LIST_LENGTH,
    with_seen: Annotated[
        bool, typer.Option("--with-seen", help="Include items that the user has rated.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="ID",
            rich_help_panel=_CHOICE,
            show_default=False,
            help="Choose from this item. May be repeated.",
        ),
    ] = None,
    only_file: Annotated[
        Path | None,
        typer.Option(
            callback=input_file,
            rich_help_panel=_CHOICE,
            show_default=False,
            help="A file with the items to choose from, one on each line.",
        ),
    ] = None,
    but: Annotated[
        list[str] | None,
        typer.Option(
            "--not",
            metavar="ID",
            rich_help_panel=_CHOICE,
            show_default=False,
            help="Leave out this item. May be repeated.",
        ),
    ] = None,
    not_file: Annotated[
        Path | None,
        typer.Option(
            callback=input_file,
            rich_help_panel=_CHOICE,
            show_default=False,
            help="A file with items to leave out, one on each line.",
        ),
    ] = None,
    unavailable: Annotated[
        Path | None,
        typer.Option(
            "--unavailable",
            metavar="FILE",
            callback=input_file,
            rich_help_panel=_CHOICE,
            show_default=False,
            help="A file with items that cannot be shown, one on each line; after a comma or tab, the date "
            "from which one can, such as 2024-05-31.",
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            rich_help_panel=_CHOICE,
            show_default="now",
            help="With --unavailable: when the lists are shown.",
        ),
    ] = None,
    explore: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=1.0,
            rich_help_panel=_CHOICE,
            help="The fraction of the places of a list that items without ratings get, by their features; "
            "the fit needs --items.",
        ),
    ] = 0.0,
    diversity: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=1.0,
            rich_help_panel=_CHOICE,
            help="How much the items of a user should differ from each other, from 0 to 1.",
        ),
    ] = 0.0,
    unknown: Annotated[
        Unknown,
        typer.Option(help="Users that the model does not know: an error, or the average user's items."),
    ] = Unknown.raise_,
    items: Annotated[
        Path | None,
        typer.Option(
            "--items",
            metavar="FILE",
            callback=input_file,
            show_default=False,
            help="A table of items with their titles, such as MovieLens' u.item. Without one, the titles "
            "that the fit was given.",
        ),
    ] = None,
    items_encoding: ItemEncoding = None,
    users_encoding: UserEncoding = None,
    why: Annotated[
        bool, typer.Option("--why", help="Say which ratings of the user each item is recommended for.")
    ] = False,
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
    device: Device = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    force: Force = False,
) -> None:
    """The best items for users, each with its probability and a decision: would the user like it?

    Items that a user has rated are left out, likes and dislikes. The decision is yes where the score is at
    least the threshold of the model. With --diversity the best items (5 for each one that is shown) are
    ranked again, so that a list does not repeat itself.

    [bold]Examples[/bold]

      labelgap recommend films.labelgap --user ann -n 5 --why
      labelgap recommend films.labelgap --all --out best.parquet
      labelgap recommend films.labelgap --user 7 --items u.item --diversity 0.3 --not-file sold_out.txt
      labelgap recommend films.labelgap --all --explore 0.1 --unavailable coming.csv --out best.csv
    """
    with command(as_json=json, quiet=quiet, verbose=verbose, max_unpacked_mb=max_unpacked_mb) as session:
        if sum([bool(user), users_file is not None, users_table is not None, every]) != 1:
            raise typer.BadParameter(
                "say for whom: with one of --user (which may be repeated), --users-file, --users and --all.",
                param_hint="'--user'",
            )
        refuse(why and out is not None, "--why", "a file has no column for reasons")
        refuse(at is not None and unavailable is None, "--at", "it is for the dates of --unavailable")
        read = (model, items, users_table, users_file, only_file, not_file, unavailable)
        check_table_output(session, out, force, inputs=read)
        refuse_unguarded(out, spreadsheet_safe)
        loaded = load_model(model).estimator
        session.step(f"loaded {model}")
        if not isinstance(loaded, Recommender):
            raise InvalidParameterError(
                f"{model} is a {type(loaded).__name__}, which has no users; see labelgap predict."
            )
        use_device(loaded, device)
        item_table = TableFile("item", items, items_encoding)
        user_table = TableFile("user", users_table, users_encoding)
        if items is not None:
            loaded.set_item_titles(read_titles(session, item_table, loaded.item_ids_))
        if users_table is not None:
            loaded, users = with_new_users(session, loaded, user_table)
        else:
            listed = [] if users_file is None else _listed(users_file, "user")
            users = _users(loaded, user or listed, unknown)
        blocks = loaded.recommendation_blocks(
            None if every else users,
            min(n, len(loaded.item_ids_)),
            not with_seen,
            only=_items(loaded, only, only_file),
            exclude=_items(loaded, but, not_file),
            unavailable=None if unavailable is None else _unavailable(loaded, unavailable),
            at=at,
            explore=explore,
            diversity=diversity,
            unknown=unknown.value,
        )
        warn_of_decisions(session, loaded, str(model))
        names = list_columns(loaded, explore > 0)
        if out is not None:
            n_users = len(loaded.user_ids_) if every else len(users)
            write_lists(session, names, blocks, n_users, out, spreadsheet_safe)
            session.result = {"out": str(out), "users": n_users}
            session.say_line(f"Wrote the items of {n_users} user{'s' if n_users != 1 else ''} to {out}.")
        elif session.as_json or why or session.is_read_by_people:
            _tell(session, loaded, names, blocks, why)
        else:
            write_blocks(None, names, blocks, spreadsheet_safe)


def _users(model: Recommender, asked: Sequence[str], unknown: Unknown) -> list[Any]:
    if unknown is Unknown.raise_:
        return find_ids(model.user_ids_, asked, "user")
    by_text = {str(one): one for one in model.user_ids_}
    return [by_text.get(text, text) for text in asked]


def _items(model: Recommender, named: list[str] | None, file: Path | None) -> list[Any] | None:
    if named is None and file is None:
        return None
    listed = [] if file is None else _listed(file, "item")
    return find_ids(model.item_ids_, [*(named or ()), *listed], "item")


def _listed(path: Path, what: str) -> list[str]:
    data = path.read_bytes()
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise DataFileError(
            f"{path}, line {line_of(data, error.start)}: the byte 0x{data[error.start]:02x} is not UTF-8; "
            "save the file as UTF-8."
        ) from error
    names = [line.strip() for line in lines if line.strip()]
    if not names:
        raise DataFileError(f"{path} names no {what}; it has one on each line.")
    return names


def _unavailable(model: Recommender, path: Path) -> dict[Any, str | None]:
    """The items of a file that cannot be shown, with the date from which they can, None for never."""
    records = []
    for line, text in enumerate(_listed(path, "item"), start=1):
        separator = "\t" if "\t" in text else ","
        record = [part.strip() for part in next(csv.reader([text], delimiter=separator))]
        if len(record) > 2:
            raise DataFileError(
                f"{path}, item {line}: {text!r} has {len(record)} parts; it is an item, or an item and a "
                "date. An item with a comma stands in quotes."
            )
        records.append((line, record[0], record[1] if len(record) == 2 and record[1] else None))
    found: dict[Any, str | None] = {}
    for (line, _, until), name in zip(
        records, find_ids(model.item_ids_, [text for _, text, _ in records], "item"), strict=True
    ):
        if until is not None:
            one_date(until, f"{path}, item {line}: what stands after the item")
        found[name] = until
    return found


def _tell(session: Session, model: Recommender, names: list[str], blocks: Iterator[Block], why: bool) -> None:
    found: list[dict[str, Any]] = []
    for block in blocks:
        rows = zip(*(block[name].tolist() for name in names), strict=True)
        found += [dict(zip(names, row, strict=True)) for row in rows]
    explained = [model.explain(one["user"], one["item"]) for one in found] if why else []
    for one, reasons in zip(found, explained, strict=False):
        one["why"] = {
            "score": reasons.score,
            "item_intercept": reasons.item_intercept,
            "user_intercept": reasons.user_intercept,
            "from_features": reasons.from_features,
            "answers": [part._asdict() for part in reasons.contributions],
            "other_answers": reasons.other_answers,
        }
    session.result = {"recommendations": found}
    if why:
        for reasons in explained:
            session.say(Text(str(reasons)))
        return
    columns = {name: [one[name] for one in found] for name in names if name in ("user", "item", "title")}
    columns["probability"] = [f"{one['probability']:.3f}" for one in found]
    columns["decision"] = ["yes" if one["decision"] else "no" for one in found]
    if "exploratory" in names:
        columns["exploratory"] = ["yes" if one["exploratory"] else "" for one in found]
    session.say(PlainTable(columns, left=("user", "item", "title")))
