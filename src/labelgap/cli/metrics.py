"""Metrics as the command line takes them: names and formulas."""

from __future__ import annotations

import typer

from labelgap.cli.options import Average
from labelgap.metrics import get_metric
from labelgap.metrics.formula import looks_like_formula


def read_metric(text: str | None, average: Average | None) -> str | None:
    """The name or formula, with the average in front of a formula; raises if there is no such metric.

    Examples
    --------
    >>> read_metric("tp/(tp+fp)", Average.macro)
    'macro: tp/(tp+fp)'
    """
    if average is not None:
        if text is None or not looks_like_formula(text):
            raise typer.BadParameter(
                "it is for a formula; the name of a metric says its average itself, as macro-f1 does.",
                param_hint="'--average'",
            )
        if ":" in text:
            raise typer.BadParameter(
                f"the formula {text!r} says its average already. Leave one of them out.",
                param_hint="'--average'",
            )
        text = f"{average.value}: {text}"
    if text is not None:
        get_metric(text)
    return text
