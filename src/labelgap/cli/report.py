"""``labelgap report`` and ``labelgap export``: a model as an HTML page, and as an ONNX file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from labelgap import Recommender, load
from labelgap.cli.choices import patterns, refuse_rating_columns, refuse_table_columns
from labelgap.cli.inputs import read_judged_table
from labelgap.cli.models import load_model, refuse_offsets
from labelgap.cli.options import (
    AggregateEvents,
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
    TimeColumn,
    UserColumn,
    ValueColumn,
    Verbose,
    input_files,
)
from labelgap.cli.outputs import check_output
from labelgap.cli.ratings import read_judged_ratings, use_events
from labelgap.cli.session import command
from labelgap.data.files.dialect import Dialect
from labelgap.data.files.reading import Columns
from labelgap.exceptions import DataFileError, InvalidParameterError


def report(
    model: ModelFile,
    data: DataFile,
    out: Annotated[
        Path, typer.Option("--out", "-o", rich_help_panel="Output", help="The page to write.")
    ] = Path("report.html"),
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
    format: Format = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    compare: Annotated[
        list[Path] | None,
        typer.Option(
            "--compare",
            metavar="MODEL",
            callback=input_files,
            show_default=False,
            help="Another model of the same labels, to stand beside it under the name of its file. May be "
            "repeated.",
        ),
    ] = None,
    title: Annotated[
        str | None, typer.Option(show_default="the name of the model", help="The title of the page.")
    ] = None,
    open_page: Annotated[
        bool, typer.Option("--open", rich_help_panel="Output", help="Open the page in the browser.")
    ] = False,
    max_unpacked_mb: MaxUnpackedMb = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    force: Force = False,
) -> None:
    """Write one HTML page about a model: its threshold, its labels, its fit. It needs no network.

    It is about the labels that are known in the file, best of rows that the model was not fitted to.

    [bold]Examples[/bold]

      labelgap report articles.labelgap new_articles.csv --out report.html --open
      labelgap report articles.labelgap new_articles.csv --compare older.labelgap
    """
    from labelgap.report import write_report

    with command(as_json=json, quiet=quiet, verbose=verbose, max_unpacked_mb=max_unpacked_mb) as session:
        check_output(session, out, force, inputs=(model, data, label_file, *(compare or ())))
        loaded = load_model(model)
        session.step(f"loaded {model}")
        source = session.source(data, format, Dialect(delimiter, encoding, decimal))
        X: Any = None
        if isinstance(loaded.estimator, Recommender):
            refuse_table_columns(labels, label_file, id_column)
            use_events(loaded.estimator, aggregate, time, half_life)
            known: Any = read_judged_ratings(loaded.estimator, source, user, item, value).answers
        else:
            events = (aggregate, time, half_life)
            refuse_rating_columns(user, item, value, events=events)
            refuse_offsets(loaded, "Make its report in Python too: write_report(..., exposure=...)")
            second, xml = session.label_file(label_file)
            columns = Columns(
                patterns(labels), ids=id_column, label_source=second, label_xml=xml, separator=separator
            )
            try:
                X, known = read_judged_table(loaded, source, columns, named=True)
            except DataFileError:
                # A column that is only called id, and has blanks, is no reason to have no report.
                X, known = read_judged_table(loaded, source, columns)
        session.step(f"read {data}")
        names = file_names([model, *(compare or ())])
        others = {}
        for path in compare or ():
            other = load_model(path)
            if other.prepare is not None or loaded.prepare is not None:
                raise InvalidParameterError(
                    f"{path} and {model} cannot be compared in one report, because one of them prepares its "
                    "features itself. Make a report of each."
                )
            if other.feature_names != loaded.feature_names:
                raise InvalidParameterError(
                    f"{path} was fitted to other features than {model}, so one file cannot judge both."
                )
            others[names[path]] = other.estimator
        write_report(
            out,
            loaded.estimator,
            X,
            known,
            compare=others,
            title=title or model.stem,
            feature_names=loaded.own_feature_names,
            name=names[model],
            data_name="standard input" if str(data) == "-" else data.name,
        )
        session.result = {"out": str(out), "bytes": out.stat().st_size}
        session.say_line(f"Wrote {out}; open it in a browser.")
        if open_page:
            typer.launch(out.resolve().as_uri())


def file_names(paths: Sequence[Path]) -> dict[Path, str]:
    """What the page calls the model of each file: its name without the ending, or its path if two agree.

    Examples
    --------
    >>> list(file_names([Path("old/tags.labelgap"), Path("new.labelgap")]).values())
    ['tags', 'new']
    >>> list(file_names([Path("old/tags.labelgap"), Path("tags.labelgap")]).values())
    ['old/tags.labelgap', 'tags.labelgap']
    """
    twice = [path for path, count in Counter(paths).items() if count > 1]
    if twice:
        raise InvalidParameterError(
            f"{twice[0]} is given twice; a report compares different models. Give --compare another file."
        )
    stems = Counter(path.stem for path in paths)
    return {path: path.stem if stems[path.stem] == 1 else path.as_posix() for path in paths}


class Dtype(StrEnum):
    """Types of numbers that ONNX models take."""

    float32 = "float32"
    float64 = "float64"


def export(
    model: ModelFile,
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", show_default=False, help="The file to write, as model.onnx.")
    ],
    dtype: Annotated[Dtype, typer.Option(help="The numbers that go in and come out.")] = Dtype.float64,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    force: Force = False,
) -> None:
    """Write a model as ONNX, which many languages and servers can run without labelgap.

    Features go in as one array, in the order of the fit; scores, probabilities and decisions come out.

    [bold]Examples[/bold]

      labelgap export articles.labelgap articles.onnx
    """
    from labelgap.onnx_export import to_onnx

    with command(as_json=json, quiet=quiet, verbose=verbose) as session:
        check_output(session, target, force, "TARGET", inputs=(model,))
        to_onnx(load(model), target, dtype=dtype.value)
        session.step(f"exported {model}")
        session.result = {"out": str(target), "bytes": target.stat().st_size}
        session.say_line(f"Wrote {target} ({target.stat().st_size} bytes).")
