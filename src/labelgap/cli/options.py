"""The options that several commands share, each in one place and in the user's words."""

from __future__ import annotations

import os
import stat
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

MAX_SEED = 2**32 - 1
"""The largest seed that numpy takes."""

# -- choices -----------------------------------------------------------------------------------------------


class Setting(StrEnum):
    """What a fit is about."""

    auto = "auto"
    features = "features"
    recommender = "recommender"
    regression = "regression"


class Unobserved(StrEnum):
    """What a blank in a label column means."""

    missing = "missing"
    negative = "negative"
    unlabelled = "unlabelled"


class Purpose(StrEnum):
    """What a recommender is for."""

    decide = "decide"
    recommend = "recommend"


class Average(StrEnum):
    """What a metric is a mean over."""

    micro = "micro"
    instance = "instance"
    macro = "macro"


class LossName(StrEnum):
    """Losses for yes/no labels."""

    logistic = "logistic"
    squared = "squared"
    squared_hinge = "squared_hinge"
    exponential = "exponential"


class FamilyName(StrEnum):
    """Families of numbers for regression."""

    gaussian = "gaussian"
    poisson = "poisson"
    bernoulli = "bernoulli"


class ThresholdFrom(StrEnum):
    """Where the threshold comes from."""

    cross_fit = "cross-fit"
    holdout = "holdout"
    train = "train"


class FeatureMapName(StrEnum):
    """What a model is fitted in."""

    auto = "auto"
    linear = "linear"
    rbf = "rbf"


class Aggregate(StrEnum):
    """What becomes of several ratings of an item by a user."""

    sum = "sum"
    mean = "mean"
    max = "max"
    last = "last"


class Unknown(StrEnum):
    """What happens to users and items that a recommender does not know."""

    raise_ = "raise"
    average = "average"


# -- files -------------------------------------------------------------------------------------------------

_DATA_PANEL, _OUTPUT_PANEL = "Data", "Output"


def input_file(path: Path | None) -> Path | None:
    """The path of a file that can be read; anything else is wrong usage, in the same words everywhere."""
    if path is not None:
        problem = _why_no_file(path, or_folder=False)
        if problem is not None:
            raise typer.BadParameter(problem)
    return path


def input_files(paths: list[Path] | None) -> list[Path] | None:
    """As :func:`input_file`, for an option that may be repeated."""
    for path in paths or ():
        input_file(path)
    return paths


def input_data(path: Path | None) -> Path | None:
    """As :func:`input_file`; - is standard input."""
    return path if str(path) == "-" else input_file(path)


def input_data_or_folder(path: Path | None) -> Path | None:
    """As :func:`input_data`, where a folder may be wanted: see :func:`refuse_folder`."""
    problem = None if path is None or str(path) == "-" else _why_no_file(path, or_folder=True)
    if problem is not None:
        raise typer.BadParameter(problem)
    return path


def refuse_folder(path: Path, hint: str) -> None:
    """Wrong usage if the data are a folder and none is wanted; ``hint`` says what a folder is for."""
    if path.is_dir():
        raise typer.BadParameter(f"{_is_folder(path)} {hint}", param_hint="'DATA'")


def _is_folder(path: Path) -> str:
    return f"path {str(path)!r} is a folder, not a file."


def _why_no_file(path: Path, *, or_folder: bool) -> str | None:
    """Why nothing can be read there, in words; None where it can."""
    try:
        is_folder = stat.S_ISDIR(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return f"path {str(path)!r} does not exist."
    except OSError as error:
        return f"path {str(path)!r} is not readable: {error.strerror}."
    if is_folder and not or_folder:
        return _is_folder(path)
    return None if os.access(path, os.R_OK) else f"path {str(path)!r} is not readable."


_DATA_HELP = (
    "The table: CSV, TSV, Parquet, npz, Mulan ARFF, XMC or MovieLens; known by its name. - is standard "
    "input, as CSV unless --format says another format."
)
DataFile: TypeAlias = Annotated[
    Path, typer.Argument(metavar="DATA", callback=input_data, show_default=False, help=_DATA_HELP)
]
DataFileOrFolder: TypeAlias = Annotated[
    Path, typer.Argument(metavar="DATA", callback=input_data_or_folder, show_default=False, help=_DATA_HELP)
]
ModelFile: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        callback=input_file,
        show_default=False,
        help="A model that [bold]labelgap fit[/bold] saved.",
    ),
]
Format: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        rich_help_panel=_DATA_PANEL,
        show_default=False,
        help="The format of the file, where its name does not say it: csv, tsv, parquet, npz, arff, xmc, "
        "movielens.",
    ),
]
MaxUnpackedMb: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--max-unpacked-mb",
        metavar="MB",
        rich_help_panel=_DATA_PANEL,
        show_default=False,
        help="What a packed file may become, in megabytes, or none. Without it: what fits into the memory, "
        "and from 250 MB on at most 100 times the size of the file.",
    ),
]
SpreadsheetSafe: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--spreadsheet-safe",
        rich_help_panel="Output",
        help="In CSV and TSV, put an apostrophe before texts that begin with =, +, - or @, which a "
        "spreadsheet would take for formulas and run.",
    ),
]
NumberFormat: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        rich_help_panel=_DATA_PANEL,
        show_default=False,
        help="The format of the files, where their names do not say it: csv, tsv, parquet, npz.",
    ),
]
LabelFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--label-file",
        callback=input_file,
        rich_help_panel=_DATA_PANEL,
        show_default=False,
        help="A second file that holds the labels, matched by the ids or else by order (or, for Mulan, names "
        "them in XML).",
    ),
]

# -- columns -----------------------------------------------------------------------------------------------

Labels: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--labels",
        metavar="NAME|PATTERN",
        rich_help_panel=_DATA_PANEL,
        show_default=False,
        help="The columns that hold labels: a name, a pattern such as 'tag_*', numbers such as 10:15, or "
        "several with commas.",
    ),
]
FeatureColumns: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--features",
        metavar="NAME|PATTERN",
        rich_help_panel=_DATA_PANEL,
        show_default=False,
        help="The columns that hold features; all others, if not given.",
    ),
]
IdColumn: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--id",
        "--ids",
        metavar="COLUMN",
        rich_help_panel=_DATA_PANEL,
        show_default=False,
        help="The column that names the rows; one called id, if not given.",
    ),
]
Drop: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--drop",
        metavar="NAME|PATTERN",
        rich_help_panel=_DATA_PANEL,
        show_default=False,
        help="Columns to leave out. May be repeated.",
    ),
]
Separator: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--separator",
        metavar="TEXT",
        rich_help_panel=_DATA_PANEL,
        show_default=False,
        help="With --labels COLUMN: the column lists the tags of each row with this between them; ' ' is any "
        "white space.",
    ),
]
Delimiter: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--delimiter",
        metavar="SIGN",
        rich_help_panel=_DATA_PANEL,
        show_default="found",
        help="What stands between the values of a CSV or TSV file: ';', tab, ...",
    ),
]
Encoding: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        metavar="NAME",
        rich_help_panel=_DATA_PANEL,
        show_default="found",
        help="The encoding of a text file: utf-8, latin-1, utf-16, ...",
    ),
]
Decimal: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--decimal",
        metavar="SIGN",
        rich_help_panel=_DATA_PANEL,
        show_default="found",
        help="What stands before the decimals of a number in a CSV or TSV file: . or ,",
    ),
]
UserColumn: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--user",
        metavar="COLUMN",
        rich_help_panel=_DATA_PANEL,
        show_default=False,
        help="The column of users, for a recommender.",
    ),
]
ItemColumn: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--item",
        metavar="COLUMN",
        rich_help_panel=_DATA_PANEL,
        show_default=False,
        help="The column of items, for a recommender.",
    ),
]
ValueColumn: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--value",
        metavar="COLUMN",
        rich_help_panel=_DATA_PANEL,
        show_default=False,
        help="The column of ratings, for a recommender; none if each line is a like, whatever other columns "
        "there are.",
    ),
]

AggregateEvents: TypeAlias = Annotated[
    Aggregate | None,
    typer.Option(
        "--aggregate",
        rich_help_panel=_DATA_PANEL,
        show_default=False,
        help="What becomes of several ratings of an item by a user, such as plays, for a recommender: their "
        "sum, mean or maximum, or the last one. --positive judges the result. As in the fit, if not given.",
    ),
]
TimeColumn: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--time",
        metavar="COLUMN",
        rich_help_panel=_DATA_PANEL,
        show_default="timestamp",
        help="The column of times, for --half-life and --aggregate last: numbers, or dates such as "
        "2024-05-31.",
    ),
]
HalfLife: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--half-life",
        metavar="NUMBER",
        rich_help_panel=_DATA_PANEL,
        show_default=False,
        help="The time in which a rating loses half of its weight, for a recommender: in days where times "
        "are dates, otherwise in their unit.",
    ),
]

SkipUnknown: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--skip-unknown",
        rich_help_panel=_DATA_PANEL,
        help="For a recommender: leave out users and items that the model does not know.",
    ),
]

UnknownIds: TypeAlias = Annotated[
    Unknown | None,
    typer.Option(
        "--unknown",
        rich_help_panel=_DATA_PANEL,
        show_default="raise; average in evaluate",
        help="For a recommender: users and items that the model does not know are an error, or are judged as "
        "the average user or item.",
    ),
]
ItemTable: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--items",
        metavar="FILE",
        callback=input_file,
        rich_help_panel=_DATA_PANEL,
        show_default=False,
        help="For a recommender: a table of items, such as MovieLens' u.item or movies.csv.",
    ),
]
UserTable: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--users",
        metavar="FILE",
        callback=input_file,
        rich_help_panel=_DATA_PANEL,
        show_default=False,
        help="For a recommender: a table of users, such as MovieLens' u.user.",
    ),
]
ItemEncoding: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--items-encoding",
        metavar="NAME",
        rich_help_panel=_DATA_PANEL,
        show_default="found",
        help="The encoding of the table of --items, if it is a text file: utf-8, latin-1, utf-16, ...",
    ),
]
UserEncoding: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--users-encoding",
        metavar="NAME",
        rich_help_panel=_DATA_PANEL,
        show_default="found",
        help="The encoding of the table of --users, if it is a text file: utf-8, latin-1, utf-16, ...",
    ),
]

# -- the model ---------------------------------------------------------------------------------------------

FeatureMap: TypeAlias = Annotated[
    FeatureMapName | None,
    typer.Option(
        "--feature-map",
        rich_help_panel="Fit",
        show_default="auto; linear for regression",
        help="Fit in the features as they are (linear), in kernel features made of them (rbf), or in "
        "whichever is better on held-out rows (auto).",
    ),
]
LabelWeighting: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--label-weighting",
        metavar="NUMBER|auto",
        rich_help_panel="Fit",
        show_default="auto",
        help="From 0 to 1: how much the penalty grows with the number of a label's positives; auto chooses "
        "on held-out labels.",
    ),
]

# -- metrics -----------------------------------------------------------------------------------------------

AverageOf: TypeAlias = Annotated[
    Average | None,
    typer.Option(
        "--average",
        show_default=False,
        help="For a formula: over all entries (micro), rows (instance) or labels (macro).",
    ),
]

# -- the machine -------------------------------------------------------------------------------------------

Device: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="auto|cpu|cuda|cuda:N",
        show_default="auto",
        help="Where the work is done: the CPU, or a GPU through torch (pip install 'labelgap\\[gpu]').",
    ),
]

# -- output ------------------------------------------------------------------------------------------------

Json: TypeAlias = Annotated[
    bool,
    typer.Option("--json", rich_help_panel=_OUTPUT_PANEL, help="Print one JSON object and nothing else."),
]
Quiet: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", rich_help_panel=_OUTPUT_PANEL, help="Print nothing but warnings and errors."
    ),
]
Verbose: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        rich_help_panel=_OUTPUT_PANEL,
        help="Say on stderr what is done, with the time that it takes.",
    ),
]
Force: TypeAlias = Annotated[
    bool, typer.Option("--force", rich_help_panel=_OUTPUT_PANEL, help="Replace a file that exists.")
]
