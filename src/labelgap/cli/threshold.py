"""``labelgap threshold``: the exact best threshold for scores made elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
import typer

from labelgap import LinearFractional, best_threshold, get_metric
from labelgap._names import listed
from labelgap._types import Floats
from labelgap.cli.choices import read_metric, refuse
from labelgap.cli.console import KeyValues, whole
from labelgap.cli.decision_options import SubjectTo, Thresholds, read_bounds, word
from labelgap.cli.options import (
    AverageOf,
    Decimal,
    Delimiter,
    Encoding,
    Force,
    IdColumn,
    Json,
    MaxUnpackedMb,
    NumberFormat,
    Quiet,
    Verbose,
    input_data,
)
from labelgap.cli.outputs import check_table_output, free_name, write_blocks
from labelgap.cli.session import command
from labelgap.data.files.dialect import Dialect
from labelgap.data.files.formats import PathLike
from labelgap.data.files.ids import repeated_ids
from labelgap.data.files.reading import Columns, read_numbers_from, read_table_from
from labelgap.data.files.source import Source
from labelgap.data.files.writing import WRITTEN
from labelgap.estimators.description import metric_name
from labelgap.exceptions import DataFileError
from labelgap.fitting.judges import DecisionRule, decision_rule
from labelgap.labels import ObservedLabels
from labelgap.metrics import confusion_counts
from labelgap.thresholds import ThresholdResult

_USUAL = 0.5
# Labels whose thresholds are printed.
_SHOWN = 12

Cut: TypeAlias = float | Floats
"""One threshold, or a row with one for each label."""


def threshold(
    scores: Annotated[
        Path,
        typer.Argument(
            metavar="SCORES",
            callback=input_data,
            show_default=False,
            help="A table of scores; - is standard input, as CSV unless --format says another format.",
        ),
    ],
    labels: Annotated[
        Path | None,
        typer.Argument(
            metavar="LABELS",
            callback=input_data,
            show_default=False,
            help="A table of labels with columns of the same names; blank where nothing is known.",
        ),
    ] = None,
    score_column: Annotated[
        str | None,
        typer.Option(show_default=False, help="With SCORES alone: the column that holds the scores."),
    ] = None,
    label_column: Annotated[
        str | None,
        typer.Option(show_default=False, help="With SCORES alone: the column that holds the labels."),
    ] = None,
    id_column: IdColumn = None,
    format: NumberFormat = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    metric: Annotated[
        str,
        typer.Option(
            metavar="NAME|FORMULA",
            help="What decisions are judged by: a name such as [bold]macro-jaccard[/bold], or a formula such "
            "as [bold]'2*tp/(2*tp+fp+fn)'[/bold].",
        ),
    ] = "micro-f1",
    average: AverageOf = None,
    thresholds: Thresholds = None,
    subject_to: SubjectTo = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            rich_help_panel="Output",
            show_default=False,
            help="Write the decisions of all scores at the threshold: CSV, TSV or Parquet, by its name.",
        ),
    ] = None,
    curve: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel="Output",
            show_default=False,
            help="Write the metric at every threshold that makes a difference.",
        ),
    ] = None,
    max_unpacked_mb: MaxUnpackedMb = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    force: Force = False,
) -> None:
    """Find the threshold that is best for a metric, exactly, for scores of any model.

    Decisions are yes where the score is at least the threshold, or that of its label (--thresholds). Only
    entries with a known label are judged. Columns of the two tables belong together by name, rows by the
    column --id (or one called id), or else by their order. Use scores of rows that the model was not fitted
    to.

    [bold]Examples[/bold]

      labelgap threshold scores.csv labels.csv --metric macro-f1
      labelgap threshold scores.csv labels.csv --out yes.csv --curve curve.csv
      labelgap threshold scores.csv labels.csv --metric micro-precision --subject-to 'recall >= 0.9'
      labelgap threshold scores.csv labels.csv --metric macro-f1 --thresholds auto
      labelgap threshold all.csv --score-column p --label-column y
    """
    with command(as_json=json, quiet=quiet, verbose=verbose, max_unpacked_mb=max_unpacked_mb) as session:
        chosen = get_metric(str(read_metric(metric, average)))
        rule = decision_rule(chosen, word(thresholds) or "shared", read_bounds(subject_to))
        check_table_output(session, out, force, inputs=(scores, labels))
        check_table_output(session, curve, force, "--curve", inputs=(scores, labels))
        if out is not None and curve is not None and out.resolve() == curve.resolve():
            raise DataFileError(f"--out and --curve are both {out}; name two files.")
        if format is not None and format not in WRITTEN:
            raise typer.BadParameter(
                f"{format!r} is no format of tables of numbers; these are {', '.join(WRITTEN)}.",
                param_hint="'--format'",
            )
        dialect = Dialect(delimiter, encoding, decimal)
        source = session.source(scores, format, dialect)
        if labels is not None:
            why = "it is for one file that holds both scores and labels"
            refuse(score_column is not None, "--score-column", why)
            refuse(label_column is not None, "--label-column", why)
            table = read_scores(source, session.source(labels, format, dialect), id_column, session.warn)
        else:
            if score_column is None or label_column is None:
                raise typer.BadParameter(
                    "give a second file with the labels, or name two columns of the first with "
                    "--score-column and --label-column.",
                    param_hint="'LABELS'",
                )
            table = read_column_pair(source, score_column, label_column, id_column)
        session.step(f"read {len(table.scores)} rows of {len(table.names)} scores")
        found = best_threshold(
            table.scores, table.labels, chosen, return_curve=curve is not None, subject_to=rule.bounds
        )
        cut: Cut = found.threshold
        facts = _facts(table, found, chosen)
        if rule.kind != "shared":
            cut = _several(table, rule, facts)
        session.result = facts
        session.say(KeyValues(_lines(facts)))
        if curve is not None and found.curve is not None:
            columns = {"threshold": found.curve.thresholds, metric_name(chosen): found.curve.values}
            write_blocks(curve, list(columns), [columns])
            session.result["curve"] = str(curve)
            session.say_line(f"  Wrote the metric at {len(found.curve.values)} thresholds to {curve}.")
        if out is not None:
            _write_decisions(out, table, cut)
            session.result["out"] = str(out)
            session.say_line(f"  Wrote the decisions to {out}.")


def _facts(table: Scored, found: ThresholdResult, metric: LinearFractional) -> dict[str, Any]:
    known = table.labels
    facts: dict[str, Any] = {
        "metric": metric_name(metric),
        "observed": known.n_observed,
        "cells": known.shape[0] * known.shape[1],
        "threshold": found.threshold,
        "all_decided": {np.inf: "no", -np.inf: "yes"}.get(found.threshold),
        "value": found.value,
        "counts": _counts(table, found.threshold),
    }
    judged = known.align(table.scores, "scores")
    if np.all((judged >= 0) & (judged <= 1)):
        decided = table.scores >= _USUAL
        facts["at_one_half"] = {"value": metric(known, decided), "counts": _counts(table, _USUAL)}
    return facts


def _several(table: Scored, rule: DecisionRule, facts: dict[str, Any]) -> Cut:
    """The thresholds of the labels, which the facts tell beside the shared one."""
    several = rule.choose(table.scores, table.labels)
    facts |= {"shared_value": facts["value"], "kind": several.kind, "strength": several.strength}
    facts["held_out_value"] = several.held_out_value
    if several.kind == "shared":
        return several.shared
    facts["thresholds"] = dict(zip(table.names, several.thresholds.tolist(), strict=True))
    facts["value"] = rule.metric(table.labels, table.scores >= several.thresholds)
    facts["counts"] = _counts(table, several.thresholds)
    return several.thresholds


def _counts(table: Scored, threshold: Cut) -> dict[str, float]:
    counts = confusion_counts(table.labels, table.scores >= threshold)._asdict()
    return {name: float(total[0]) for name, total in counts.items()}


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    fraction = facts["observed"] / max(facts["cells"], 1)
    best = facts["threshold"]
    words = {np.inf: "above every score: no to all", -np.inf: "below every score: yes to all"}
    lines = [
        ("judged by", f"{facts['observed']} known entries of {facts['cells']} ({100 * fraction:.1f} %)"),
        ("threshold", words.get(best, f"{best:.6g}")),
        (facts["metric"], f"{facts['value']:.4f}{_in_words(facts['counts'])}"),
    ]
    if "kind" in facts:
        lines[1:2] = _lines_of_labels(facts, lines[1][1])
    if "at_one_half" in facts:
        usual = facts["at_one_half"]
        lines.append(("at 0.5", f"{usual['value']:.4f}{_in_words(usual['counts'])}"))
    return lines


def _lines_of_labels(facts: dict[str, Any], shared: str) -> list[tuple[str, str]]:
    """What the thresholds are, the first of them, and what they are worth on rows that did not choose."""
    alike = f"{shared} ({facts['metric']} {facts['shared_value']:.4f})"
    lines = [("thresholds", facts["kind"]), ("shared", alike)]
    named = facts.get("thresholds", {})
    lines += [(f"  {name}", f"{value:.6g}") for name, value in list(named.items())[:_SHOWN]]
    if len(named) > _SHOWN:
        lines.append(("", f"and {len(named) - _SHOWN} more; --json has all of them"))
    if facts["held_out_value"] is not None:
        lines.append(("held out", f"{facts['held_out_value']:.4f}, with thresholds from other rows"))
    return lines


def _in_words(counts: dict[str, float]) -> str:
    return " (" + ", ".join(f"{name} {whole(count)}" for name, count in counts.items()) + ")"


def _write_decisions(out: Path, table: Scored, threshold: Cut) -> None:
    decided = (table.scores >= threshold).astype(np.int8)
    columns: dict[str, Any] = {free_name(table.id_name, table.names): table.ids}
    columns |= {name: decided[:, at] for at, name in enumerate(table.names)}
    write_blocks(out, list(columns), [columns])


# -- scores and labels, brought together -------------------------------------------------------------------


class Scored(NamedTuple):
    """Scores and what is known, row by row and column by column."""

    scores: Floats
    labels: ObservedLabels
    names: tuple[str, ...]
    ids: Sequence[Any]
    id_name: str


class _Numbers(NamedTuple):
    names: tuple[str, ...]
    values: Floats
    ids: tuple[Any, ...] | None
    id_name: str


def read_scores(scores: Source, labels: Source, ids: str | None, warn: Callable[[str], None]) -> Scored:
    """Scores with the labels of the columns of the same names.

    Rows belong together by their ids where both tables have them, else by their order. Labels of rows without
    scores are not used, and ``warn`` is called with their number.
    """
    given = _read(scores, ids)
    known = _read(labels, ids, only=given.names)
    n = len(given.values)
    if given.ids is not None and known.ids is not None:
        values = _by_id(given.ids, known, scores.path, labels.path, warn)
    elif len(known.values) == n:
        values = known.values
    else:
        raise DataFileError(
            f"{scores.path} has {n} rows and {labels.path} has {len(known.values)}. Rows belong together by "
            "their order unless both tables have a column of ids; name it with --id."
        )
    return _scored(given, values)


def read_column_pair(source: Source, score: str, label: str, ids: str | None) -> Scored:
    """One column of scores and one of labels, of the same table."""
    both = _read(source, ids, only=(score, label))
    given = both._replace(names=(score,), values=both.values[:, :1])
    return _scored(given, both.values[:, 1:])


def _scored(given: _Numbers, values: Floats) -> Scored:
    labels = ObservedLabels.from_dense(values, label_names=given.names)
    rows = range(len(given.values)) if given.ids is None else given.ids
    return Scored(given.values, labels, given.names, rows, given.id_name)


def _read(source: Source, ids: str | None, only: tuple[str, ...] | None = None) -> _Numbers:
    """Columns of numbers, ``only`` these and in their order, NaN where nothing is known."""
    if not source.is_sheet:
        names, values = read_numbers_from(source)
        _refuse_other_names(source.path, names, only)
        order = list(range(len(names))) if only is None else [names.index(name) for name in only]
        return _Numbers(only or names, values[:, order], None, "row")
    sheet = source.sheet
    found, named = sheet.names, (*sheet.names, *sheet.index_names)
    chosen = ids or next((name for name in named if name.lower() == "id" and name not in (only or ())), None)
    _refuse_other_names(source.path, found, only)
    wanted = list(only) if only is not None else [name for name in found if name != chosen]
    columns = Columns(wanted, features=(), ids=chosen)
    table = read_table_from(source, columns, unobserved=None, binary=False)
    assert table.labels is not None
    names = tuple(map(str, table.labels.label_names or ()))
    values = table.labels.to_dense()[:, [names.index(name) for name in wanted]]
    return _Numbers(tuple(wanted), values, table.row_ids, chosen or "row")


def _refuse_other_names(path: PathLike, found: Sequence[str], wanted: tuple[str, ...] | None) -> None:
    missing = [name for name in wanted or () if name not in found]
    if missing:
        raise DataFileError(
            f"{path} has no column {_listed(missing)}, which the scores are about; it has {_listed(found)}."
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def _by_id(
    rows: tuple[Any, ...],
    known: _Numbers,
    scores: PathLike,
    labels: PathLike,
    warn: Callable[[str], None],
) -> Floats:
    """The labels in the order of the rows; NaN in rows that they lack."""
    assert known.ids is not None
    at = {str(one): place for place, one in enumerate(known.ids)}
    for path, ids in ((scores, rows), (labels, known.ids)):
        twice = repeated_ids(list(map(str, ids)))
        if twice is not None:
            raise DataFileError(
                f"{path}, column {known.id_name!r}: {twice}. Keep one row of each, or "
                "name another column with --id."
            )
    places = np.array([at.get(str(one), -1) for one in rows], dtype=np.int64)
    used = int(np.sum(places >= 0))
    if used == 0:
        raise DataFileError(
            f"{scores} and {labels} have no id in common in their columns of ids. Name others with --id."
        )
    if used < len(known.ids):
        scored = set(map(str, rows))
        unknown = listed(one for one in known.ids if str(one) not in scored)
        warn(
            f"{len(known.ids) - used} of {len(known.ids)} rows of {labels} have no scores ({unknown}); they "
            "are not used."
        )
    values = known.values[places]
    values[places < 0] = np.nan
    return values
