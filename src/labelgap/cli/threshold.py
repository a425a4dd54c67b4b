"""``labelgap threshold``: the exact best threshold for scores made elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from labelgap import LinearFractional, best_threshold, get_metric
from labelgap.cli.choices import refuse
from labelgap.cli.console import KeyValues
from labelgap.cli.metrics import read_metric
from labelgap.cli.options import AverageOf, Force, Format, IdColumn, Json, Quiet
from labelgap.cli.outputs import check_table_output, free_name, write_blocks
from labelgap.cli.scores import Scored, read_column_pair, read_scores
from labelgap.cli.session import command
from labelgap.cli.summary import metric_name
from labelgap.metrics import confusion_counts
from labelgap.thresholds import ThresholdResult

_USUAL = 0.5


def threshold(
    scores: Annotated[
        Path,
        typer.Argument(
            metavar="SCORES", exists=True, readable=True, show_default=False, help="A table of scores."
        ),
    ],
    labels: Annotated[
        Path | None,
        typer.Argument(
            metavar="LABELS",
            exists=True,
            readable=True,
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
    format: Format = None,
    metric: Annotated[
        str,
        typer.Option(
            metavar="NAME|FORMULA",
            help="What decisions are judged by: a name such as [bold]macro-jaccard[/bold], or a formula such "
            "as [bold]'2*tp/(2*tp+fp+fn)'[/bold].",
        ),
    ] = "micro-f1",
    average: AverageOf = None,
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
    json: Json = False,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Find the threshold that is best for a metric, exactly, for scores of any model.

    Decisions are yes where the score is at least the threshold. Only cells with a known label are judged.
    Columns of the two tables belong together by name, rows by the column --id (or one called id), or else by
    their order. Use scores of rows that the model was not fitted to.

    [bold]Examples[/bold]

      labelgap threshold scores.csv labels.csv --metric macro-f1
      labelgap threshold scores.csv labels.csv --out yes.csv --curve curve.csv
      labelgap threshold all.csv --score-column p --label-column y
    """
    with command(as_json=json, quiet=quiet) as session:
        chosen = get_metric(str(read_metric(metric, average)))
        check_table_output(out, force)
        check_table_output(curve, force, "--curve")
        scores = session.data_file(scores)
        if labels is not None:
            labels = session.data_file(labels)
            why = "it is for one file that holds both scores and labels"
            refuse(score_column is not None, "--score-column", why)
            refuse(label_column is not None, "--label-column", why)
            table = read_scores(scores, labels, id_column, format, session.warn)
        else:
            if score_column is None or label_column is None:
                raise typer.BadParameter(
                    "give a second file with the labels, or name two columns of the first with "
                    "--score-column and --label-column.",
                    param_hint="'LABELS'",
                )
            table = read_column_pair(scores, score_column, label_column, id_column, format)
        found = best_threshold(table.scores, table.labels, chosen, return_curve=curve is not None)
        facts = _facts(table, found, chosen)
        session.result = facts
        session.say(KeyValues(_lines(facts)))
        if curve is not None and found.curve is not None:
            columns = {"threshold": found.curve.thresholds, metric_name(chosen): found.curve.values}
            write_blocks(curve, list(columns), [columns])
            session.result["curve"] = str(curve)
            session.say_line(f"  Wrote the metric at {len(found.curve.values)} thresholds to {curve}.")
        if out is not None:
            _write_decisions(out, table, found.threshold)
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
        facts["at_one_half"] = {"value": metric(decided, known), "counts": _counts(table, _USUAL)}
    return facts


def _counts(table: Scored, threshold: float) -> dict[str, float]:
    counts = confusion_counts(table.scores >= threshold, table.labels)._asdict()
    return {name: float(total[0]) for name, total in counts.items()}


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    share = facts["observed"] / max(facts["cells"], 1)
    best = facts["threshold"]
    words = {np.inf: "above every score: no to all", -np.inf: "below every score: yes to all"}
    lines = [
        ("judged by", f"{facts['observed']} known cells of {facts['cells']} ({100 * share:.1f} %)"),
        ("threshold", words.get(best, f"{best:.6g}")),
        (facts["metric"], f"{facts['value']:.4f}{_in_words(facts['counts'])}"),
    ]
    if "at_one_half" in facts:
        usual = facts["at_one_half"]
        lines.append(("at 0.5", f"{usual['value']:.4f}{_in_words(usual['counts'])}"))
    return lines


def _in_words(counts: dict[str, float]) -> str:
    return " (" + ", ".join(f"{name} {count:g}" for name, count in counts.items()) + ")"


def _write_decisions(out: Path, table: Scored, threshold: float) -> None:
    decided = (table.scores >= threshold).astype(np.int8)
    columns: dict[str, Any] = {free_name(table.id_name, table.names): table.ids}
    columns |= {name: decided[:, at] for at, name in enumerate(table.names)}
    write_blocks(out, list(columns), [columns])
