"""``labelgap complete``: a table in which many labels are blank, without its blanks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from labelgap.cli.choices import make_model, number_or, patterns, read_metric
from labelgap.cli.console import KeyValues
from labelgap.cli.decision_options import SubjectTo, Thresholds, read_bounds, word
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
    Verbose,
)
from labelgap.cli.outputs import Block, check_table_output, free_name, refuse_unguarded, write_blocks
from labelgap.cli.progress import watched
from labelgap.cli.session import Session, command, without_unfinished
from labelgap.cli.training import Training, data_lines, read_training
from labelgap.completing import Completion
from labelgap.data.files.dialect import Dialect
from labelgap.data.files.rating_files import is_ratings_file
from labelgap.data.files.source import Source
from labelgap.estimators.inputs import tolerance_of
from labelgap.exceptions import DataFileError
from labelgap.labels import ObservedLabels

# Entries that are written at a time.
_BLOCK = 1 << 20


class Written(StrEnum):
    """What is written for each entry."""

    decisions = "decisions"
    probabilities = "probabilities"


def complete(
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
    what: Annotated[
        Written,
        typer.Option(
            "--what", help="What stands in a blank: a decision (1 is yes, 0 is no) or a probability of yes."
        ),
    ] = Written.decisions,
    all_entries: Annotated[
        bool,
        typer.Option(
            "--all", help="Decide known labels as well, in place of keeping them as they are in the file."
        ),
    ] = False,
    row_penalty: Annotated[
        str | None,
        typer.Option(
            "--row-penalty",
            metavar="NUMBER|auto",
            rich_help_panel="Fit",
            show_default="auto",
            help="μ, of the part of the rows themselves; auto chooses on held-out labels, and may leave the "
            "part out.",
        ),
    ] = None,
    metric: MetricOfFit = None,
    average: AverageOfFit = None,
    thresholds: Thresholds = None,
    subject_to: SubjectTo = None,
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
            help="The file to write: CSV, TSV, Parquet or npz, by its name. Without one, CSV goes to "
            "standard output.",
        ),
    ] = None,
    spreadsheet_safe: SpreadsheetSafe = False,
    max_unpacked_mb: MaxUnpackedMb = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    force: Force = False,
) -> None:
    """Fill the blanks of a table: decide them by the features and the known labels of their rows.

    A model is fitted to the table as by labelgap fit. Then its rows get a part of their own beside their
    features, which the known labels of a row determine, if that is better on held-out labels. The table that
    is written has the ids and the labels, in the order of the file; known labels stay as they are. No model
    is saved, and new rows are a matter of labelgap fit and predict.

    [bold]Examples[/bold]

      labelgap complete articles.csv --labels 'tag_*' --id id --out filled.csv
      labelgap complete articles.csv --labels 'tag_*' --what probabilities --out filled.parquet
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
        "unobserved": None,
        "thresholds": word(thresholds),
        "rank": rank,
        "trace_penalty": number_or("auto", trace_penalty, "--trace-penalty"),
        "ridge_penalty": number_or("auto", ridge_penalty, "--ridge-penalty"),
        "feature_map": word(feature_map),
        "label_weighting": number_or("auto", label_weighting, "--label-weighting"),
        "n_jobs": jobs,
        "device": device,
    }
    mu = number_or("auto", row_penalty, "--row-penalty")
    if mu == 0:
        raise typer.BadParameter("it must be above 0.", param_hint="'--row-penalty'")
    with command(as_json=json, quiet=quiet, verbose=verbose, max_unpacked_mb=max_unpacked_mb) as session:
        given["metric"] = read_metric(metric, average)
        given["subject_to"] = read_bounds(subject_to)
        check_table_output(session, out, force, inputs=(data, label_file))
        refuse_unguarded(out, spreadsheet_safe)
        source = session.source(data, format, Dialect(delimiter, encoding, decimal))
        _refuse_ratings(source)
        training = read_training(session, source, Setting.features, given)
        X, known = training.arguments
        _refuse_one_class(source, known)
        session.step(f"read {training.size} of {data}")
        model = make_model(Setting.features, given, seed)
        with watched(session, str(model.metric), tolerance_of(model)) as display, without_unfinished():
            model.fit(X, known, callback=display)
        if model.interrupted_:
            # Blanks that an unfinished model decides are not what was asked for.
            raise KeyboardInterrupt
        found = model.complete(X, known, "auto" if mu is None else mu)
        session.step(f"decided {known.shape[0] * known.shape[1] - known.n_observed} blanks")
        session.result = _facts(data, known, model, found)
        _write(session, training, known, found, out, what, all_entries, spreadsheet_safe)


def _refuse_ratings(source: Source) -> None:
    if is_ratings_file(source):
        raise DataFileError(
            f"{source.path} holds ratings of items by users, and `labelgap complete` decides labels of rows "
            "with features. Fit a recommender with `labelgap fit`; `predict` decides pairs without a rating."
        )


def _refuse_one_class(source: Source, known: ObservedLabels) -> None:
    """Raise if nothing can be learned about yes, or about no."""
    positive = int(known.positive_counts().sum())
    if 0 < positive < known.n_observed:
        return
    if known.n_observed == 0:
        raise DataFileError(f"{source.path}: no label is known, so nothing is there to decide blanks by.")
    there, missing = ("yes", "no") if positive else ("no", "yes")
    raise DataFileError(
        f"{source.path}: all {known.n_observed} known labels are {there}, so nothing can be learned about "
        f"{missing}. Add labels that are known to be {missing}."
    )


def _facts(data: Path, known: ObservedLabels, model: Any, found: Completion) -> dict[str, Any]:
    return {
        "data": str(data),
        "rows": known.shape[0],
        "labels": known.shape[1],
        "observed": known.n_observed,
        "blanks": known.shape[0] * known.shape[1] - known.n_observed,
        "metric": str(model.metric_.name),
        "held_out_metric": found.held_out_metric,
        "held_out_metric_by_features": found.held_out_metric_without,
        "row_penalty": None if found.row_penalty == math.inf else found.row_penalty,
        "rank": found.rank,
        "row_rank": found.row_rank,
        "threshold": found.threshold,
        "relative_gap": found.relative_gap,
    }


def _write(
    session: Session,
    training: Training,
    known: ObservedLabels,
    found: Completion,
    out: Path | None,
    what: Written,
    all_entries: bool,
    guarded: bool,
) -> None:
    names = [str(name) for name in known.label_names or range(known.shape[1])]
    named = free_name(training.facts["ids"] or "row", names)
    blocks = _blocks(found, named, names, what, keep=not all_entries)
    if out is None and not session.as_json:
        write_blocks(None, [named, *names], blocks, guarded)
        return
    if out is not None:
        write_blocks(out, [named, *names], blocks, guarded)
        session.result["out"] = str(out)
    facts = session.result
    session.say_line(f"Decided the {facts['blanks']} blanks of {facts['data']}.")
    session.say()
    session.say(KeyValues([*data_lines(training), *_lines(facts)]))
    if out is not None:
        session.say()
        session.say_line(f"Wrote {facts['rows']} rows without blanks to {out}.")


def _blocks(found: Completion, named: str, names: list[str], what: Written, *, keep: bool) -> Iterator[Block]:
    """The table without blanks, some rows at a time."""
    n, n_labels = found.shape
    step = max(1, _BLOCK // max(n_labels, 1))
    ids = found.observed.row_names
    for start in range(0, n, step):
        rows = np.arange(start, min(start + step, n))
        if what is Written.decisions:
            values = found.predict("dense", rows=rows, keep_observed=keep)
        else:
            values = found.predict_proba(rows, keep_observed=keep)
        block: Block = {named: rows.tolist() if ids is None else [ids[row] for row in rows]}
        yield block | {name: values[:, j] for j, name in enumerate(names)}


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    lines = [("labels", str(facts["labels"]))]
    if facts["held_out_metric"] is not None:
        by_features = facts["held_out_metric_by_features"]
        both = f"{facts['held_out_metric']:.4f} on held-out labels, {by_features:.4f} by features alone"
        alone = f"{by_features:.4f} on held-out labels"
        lines.append((facts["metric"], alone if facts["row_penalty"] is None else both))
    part = (
        "none: with one, held-out labels were decided no better"
        if facts["row_penalty"] is None
        else f"rank {facts['row_rank']}, row penalty {facts['row_penalty']:.3g}"
    )
    gap = f"proved within {100 * facts['relative_gap']:.2g} % of the best possible objective"
    return [*lines, ("part of the rows", part), ("certificate", gap)]
