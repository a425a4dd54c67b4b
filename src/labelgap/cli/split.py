"""``labelgap split``: ratings for a fit, and ratings to judge it by."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from labelgap.cli.choices import refuse
from labelgap.cli.options import (
    MAX_SEED,
    DataFile,
    Decimal,
    Delimiter,
    Encoding,
    Force,
    Format,
    ItemColumn,
    Json,
    MaxUnpackedMb,
    Quiet,
    UserColumn,
    ValueColumn,
    Verbose,
)
from labelgap.cli.outputs import check_table_output
from labelgap.cli.ratings import read_ratings_file
from labelgap.cli.session import command
from labelgap.data.files import AnswerTable, write_columns
from labelgap.data.files.dialect import Dialect
from labelgap.exceptions import DataFileError
from labelgap.recommending.splitting import split_ratings


class How(StrEnum):
    """Which ratings are held out."""

    random = "random"
    time = "time"
    leave_last_out = "leave-last-out"


def split(
    data: DataFile,
    how: Annotated[
        How,
        typer.Option(
            help="A random part, the latest part, or the last ratings of each user.",
        ),
    ] = How.random,
    fraction: Annotated[
        float | None,
        typer.Option(show_default="0.2", help="How much is held out, at random or by time."),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(
            min=1, show_default="1", help="With --how leave-last-out: how many ratings of each user."
        ),
    ] = None,
    train: Annotated[
        Path,
        typer.Option(rich_help_panel="Output", help="Where the ratings for the fit go: CSV, TSV, Parquet."),
    ] = Path("train.csv"),
    held_out: Annotated[
        Path, typer.Option(rich_help_panel="Output", help="Where the held-out ratings go.")
    ] = Path("held_out.csv"),
    user: UserColumn = None,
    item: ItemColumn = None,
    value: ValueColumn = None,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            rich_help_panel="Data",
            show_default="timestamp",
            help="The column of times: numbers, or dates such as 2024-05-31.",
        ),
    ] = None,
    format: Format = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=MAX_SEED, show_default="0", help="For a random split.")
    ] = None,
    max_unpacked_mb: MaxUnpackedMb = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    force: Force = False,
) -> None:
    """Split ratings in two: one file for a fit, and one to judge it by.

    By time a recommender is judged as it will be used, by what came after the fit. The files have the columns
    user, item, value (if there are ratings) and timestamp (if times are used).

    [bold]Examples[/bold]

      labelgap split u.data --how time
      labelgap split ratings.csv --how leave-last-out --last 2 --train fit.csv --held-out judge.csv
    """
    with command(as_json=json, quiet=quiet, verbose=verbose, max_unpacked_mb=max_unpacked_mb) as session:
        by_time = how is not How.random
        refuse(fraction is not None and how is How.leave_last_out, "--fraction", "it has no use here")
        refuse(last is not None and how is not How.leave_last_out, "--last", "it has no use here")
        refuse(time is not None and not by_time, "--time", "a random split uses no times")
        refuse(seed is not None and by_time, "--seed", "nothing is random here")
        if train.resolve() == held_out.resolve():
            raise DataFileError(f"--train and --held-out are both {train}; name two files.")
        check_table_output(session, train, force, "--train", inputs=(data,))
        check_table_output(session, held_out, force, "--held-out", inputs=(data,))
        source = session.source(data, format, Dialect(delimiter, encoding, decimal))
        table = read_ratings_file(source, user, item, value, (time or "timestamp") if by_time else None)
        session.step(f"read {len(table)} ratings of {data}")
        lines = np.arange(len(table))
        more: dict[str, Any] = {"time": table.times} if by_time else {"random_state": seed or 0}
        parts = split_ratings((table.users, lines), how.value, fraction=fraction, n_last=last, **more)
        for path, part in zip((train, held_out), parts, strict=True):
            write_columns(path, _columns(table.take(part[1])))
        sizes = [len(part[1]) for part in parts]
        session.result = {
            "train": {"out": str(train), "ratings": sizes[0]},
            "held_out": {"out": str(held_out), "ratings": sizes[1]},
        }
        session.say_line(f"Wrote {sizes[0]} ratings to {train} and {sizes[1]} to {held_out}.")


def _columns(table: AnswerTable) -> dict[str, Any]:
    columns: dict[str, Any] = {"user": table.users, "item": table.items}
    if table.values is not None:
        whole = bool(np.all(table.values == np.round(table.values)))
        columns["value"] = table.values.astype(np.int64) if whole else table.values
    if table.times is not None:
        columns["timestamp"] = _plain_times(table.times)
    return columns


def _plain_times(times: Any) -> Any:
    if times.dtype.kind == "M":
        return np.datetime_as_string(times, unit="s").astype(object)
    return times.astype(np.int64) if np.all(times == np.round(times)) else times
