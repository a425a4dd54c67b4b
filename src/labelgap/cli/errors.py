"""``labelgap errors``: known labels that are probably wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from labelgap import find_label_errors
from labelgap.cli.choices import make_model, number_or, patterns, read_metric, refuse
from labelgap.cli.console import KeyValues, PlainTable
from labelgap.cli.decision_options import word
from labelgap.cli.fit_options import (
    AverageOfFit,
    Categorical,
    ImputeBlanks,
    Jobs,
    MetricOfFit,
    Rank,
    RidgePenalty,
    Seed,
    TracePenalty,
)
from labelgap.cli.options import (
    DataFile,
    Decimal,
    Delimiter,
    Device,
    Drop,
    Encoding,
    FeatureColumns,
    FeatureMap,
    Force,
    Format,
    IdColumn,
    Json,
    LabelFile,
    Labels,
    LabelWeighting,
    MaxUnpackedMb,
    Quiet,
    Separator,
    Setting,
    SpreadsheetSafe,
    Unobserved,
    Verbose,
)
from labelgap.cli.outputs import check_table_output, free_name, refuse_unguarded, write_blocks
from labelgap.cli.progress import watched
from labelgap.cli.session import Session, command
from labelgap.cli.training import Training, data_lines, read_training
from labelgap.data.files.dialect import Dialect
from labelgap.data.files.rating_files import is_ratings_file
from labelgap.data.files.source import Source
from labelgap.estimators.inputs import tolerance_of
from labelgap.exceptions import DataFileError
from labelgap.flip_rates.label_errors import LabelErrors
from labelgap.labels import ObservedLabels

_LISTED = 50
_NAMES = ["label", "recorded", "probability", "wrong"]


def errors(
    data: DataFile,
    labels: Labels = None,
    features: FeatureColumns = None,
    id_column: IdColumn = None,
    drop: Drop = None,
    categorical: Categorical = None,
    impute: ImputeBlanks = None,
    separator: Separator = None,
    label_file: LabelFile = None,
    format: Format = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    n: Annotated[
        int | None,
        typer.Option(
            "-n", "--number", min=1, show_default=str(_LISTED), help="How many labels to list, at most."
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="List all known labels, in this order.")] = False,
    flip_rates: Annotated[
        tuple[float, float] | None,
        typer.Option(
            "--flip-rates",
            metavar="NO_TO_YES YES_TO_NO",
            show_default="estimated",
            help="How often a no is recorded as a yes, and a yes as a no, if you know it. The list is then "
            "ordered by the probability of being wrong.",
        ),
    ] = None,
    metric: MetricOfFit = None,
    average: AverageOfFit = None,
    unobserved: Annotated[
        Unobserved | None,
        typer.Option(
            rich_help_panel="Fit",
            show_default="missing",
            help="What a blank means: nobody looked (missing), or no (negative), which is then a label to be "
            "judged like the others.",
        ),
    ] = None,
    rank: Rank = None,
    trace_penalty: TracePenalty = None,
    ridge_penalty: RidgePenalty = None,
    feature_map: FeatureMap = None,
    label_weighting: LabelWeighting = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    device: Device = None,
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
    """List the known labels that are probably wrong, found by models that did not see them.

    The known labels are dealt to five folds, and each is judged by a model that was fitted to the others.
    The list has what was recorded (1 is yes, 0 is no), the probability of a recorded yes, and what it is
    ordered by, in the column wrong: the probability that the label is wrong with --flip-rates, and without
    them one minus the probability of what was recorded. A label high in the list is wrong, or one that the
    model cannot tell: look at it again. Nothing in the file is changed, and no model is saved.

    [bold]Examples[/bold]

      labelgap errors articles.csv --labels 'tag_*' --id id
      labelgap errors articles.csv --labels 'tag_*' -n 200 --out suspects.csv
      labelgap errors articles.csv --labels 'tag_*' --flip-rates 0.01 0.1
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
        "unobserved": word(unobserved),
        "rank": rank,
        "trace_penalty": number_or("auto", trace_penalty, "--trace-penalty"),
        "ridge_penalty": number_or("auto", ridge_penalty, "--ridge-penalty"),
        "feature_map": word(feature_map),
        "label_weighting": number_or("auto", label_weighting, "--label-weighting"),
        "n_jobs": jobs,
        "device": device,
    }
    with command(as_json=json, quiet=quiet, verbose=verbose, max_unpacked_mb=max_unpacked_mb) as session:
        refuse(every and n is not None, "--all", "-n says how many")
        if unobserved is Unobserved.unlabelled:
            raise typer.BadParameter(
                "where only yes is ever recorded, there is no recorded no to compare with. Use a table with "
                "both, or say --unobserved negative to judge every blank as a no.",
                param_hint="'--unobserved'",
            )
        given["metric"] = read_metric(metric, average)
        check_table_output(session, out, force, inputs=(data, label_file))
        refuse_unguarded(out, spreadsheet_safe)
        source = session.source(data, format, Dialect(delimiter, encoding, decimal))
        _refuse_ratings(source)
        training = read_training(session, source, Setting.features, given)
        X, known = training.arguments
        _refuse_one_class(source, known)
        session.step(f"read {training.size} of {data}")
        model = make_model(Setting.features, given, seed)
        with watched(session, str(model.metric), tolerance_of(model)) as display:
            found = find_label_errors(X, known, model, flip_rates=flip_rates, callback=display)
        session.step(f"judged {len(found)} known labels")
        session.result = _facts(data, training, found, given_rates=flip_rates is not None)
        _tell(session, training, found, out, len(found) if every else n or _LISTED, spreadsheet_safe)


# -- what is refused ---------------------------------------------------------------------------------------


def _refuse_ratings(source: Source) -> None:
    if is_ratings_file(source):
        raise DataFileError(
            f"{source.path} holds ratings of items by users, and `labelgap errors` judges labels of rows "
            "with features. Split the ratings with `labelgap split`, fit a recommender to one part, and see "
            "in a `labelgap report` about the other which ratings it decides otherwise."
        )


def _refuse_one_class(source: Source, known: ObservedLabels) -> None:
    """Raise if there is nothing to compare a recorded label with."""
    positive = int(known.positive_counts().sum())
    if known.n_observed == 0:
        raise DataFileError(f"{source.path}: no label is known, so there is none to judge.")
    if 0 < positive < known.n_observed:
        return
    recorded, advice = "no", "Add rows in which a label is yes."
    if positive:
        recorded = "yes"
        advice = "If a blank means no, say --unobserved negative; else add labels that are known to be no."
    raise DataFileError(
        f"{source.path}: all {known.n_observed} known labels are {recorded}, and wrong ones are found where "
        f"both yes and no are recorded. {advice}"
    )


# -- what is told ------------------------------------------------------------------------------------------


def _facts(data: Path, training: Training, found: LabelErrors, *, given_rates: bool) -> dict[str, Any]:
    facts = training.facts
    return {
        "data": str(data),
        "rows": facts["rows"],
        "labels": training.arguments[1].shape[1],
        "observed": len(found),
        "flip_rates": found.flip_rates._asdict(),
        "flip_rates_from": "given" if given_rates else "estimated bounds",
        "ordered_by": "probability of being wrong" if given_rates else "one minus self-confidence",
        "expected_wrong": found.expected,
    }


def _tell(
    session: Session, training: Training, found: LabelErrors, out: Path | None, n: int, guarded: bool
) -> None:
    columns = _columns(found, n)
    named = free_name(training.facts["ids"] or "row", _NAMES)
    listed = len(columns["row"])
    written = {named if name == "row" else name: column for name, column in columns.items()}
    if out is None and not session.as_json and not session.is_read_by_people:
        write_blocks(None, list(written), [written], guarded)
        return
    if out is not None:
        write_blocks(out, list(written), [written], guarded)
        session.result |= {"out": str(out), "listed": listed}
    else:
        rows = zip(*columns.values(), strict=True)
        session.result["entries"] = [dict(zip(columns, row, strict=True)) for row in rows]
    session.say_line(f"Judged the {len(found)} known labels, each by a model that did not see it.")
    session.say()
    session.say(KeyValues([*data_lines(training), *_rate_lines(session.result)]))
    session.say()
    if out is not None:
        session.say_line(f"Wrote the first {listed} labels to look at again to {out}.")
        return
    shown = {named: columns["row"], "label": columns["label"]}
    shown["recorded"] = ["yes" if one else "no" for one in columns["recorded"]]
    shown |= {name: [f"{one:.3f}" for one in columns[name]] for name in ("probability", "wrong")}
    session.say(PlainTable(shown, left=(named, "label")))


def _columns(found: LabelErrors, n: int) -> dict[str, list[Any]]:
    """The first n entries; rows and labels by their names, or else by their numbers."""
    rows, labels = found.rows[:n].tolist(), found.labels[:n].tolist()
    return {
        "row": rows if found.row_names is None else [found.row_names[row] for row in rows],
        "label": labels if found.label_names is None else [found.label_names[one] for one in labels],
        "recorded": found.recorded[:n].tolist(),
        "probability": found.probability[:n].tolist(),
        "wrong": found.wrong[:n].tolist(),
    }


def _rate_lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    rates = facts["flip_rates"]
    most = "" if facts["flip_rates_from"] == "given" else "at most "
    flipped = f"{most}{100 * rates['no_to_yes']:.1f} % of the no, {100 * rates['yes_to_no']:.1f} % of the yes"
    about = most or "about "
    return [
        ("recorded wrongly", flipped),
        ("expected wrong", f"{about}{facts['expected_wrong']} of the {facts['observed']} known labels"),
    ]
