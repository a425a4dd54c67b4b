"""How sure decisions are: ``predict --coverage``, and ``fit --calibration``."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import typer

from labelgap.cli.choices import refuse
from labelgap.data.files import detect_format
from labelgap.estimators.base import DecisionEstimator


class Guarantee(StrEnum):
    """What the coverage holds for."""

    by_class = "class"
    entries = "entries"


class CalibrationName(StrEnum):
    """What makes calibrated probabilities of scores."""

    isotonic = "isotonic"
    sigmoid = "sigmoid"


Calibration: TypeAlias = Annotated[
    CalibrationName | None,
    typer.Option(
        rich_help_panel="Fit",
        show_default="none",
        help="Make calibrated probabilities of the scores: by isotonic regression, or by a sigmoid.",
    ),
]
Coverage: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--coverage",
        metavar="FRACTION",
        rich_help_panel="Output",
        show_default=False,
        help="Decide only where held-out labels rule out yes or no, so that for this fraction of the entries "
        "the truth is not ruled out; the others stay blank. Such as [bold]0.9[/bold].",
    ),
]
GuaranteeOf: TypeAlias = Annotated[
    Guarantee | None,
    typer.Option(
        "--guarantee",
        rich_help_panel="Output",
        show_default="class",
        help="With --coverage: whether it holds for yes and for no (class), or for all entries together.",
    ),
]
Decide: TypeAlias = Callable[[Any], Any]
"""From rows to decisions, n x L."""


def decider(
    model: Any, coverage: float | None, guarantee: Guarantee | None, out: Path | None, *, decides: bool
) -> Decide:
    """What makes decisions of rows: the threshold or, with a coverage, conformal sets.

    ``decides`` says whether decisions are asked for at all. In tables of text an entry that is not decided
    is blank, in others it is NaN.
    """
    if coverage is None:
        refuse(guarantee is not None, "--guarantee", "it goes with --coverage")
        return lambda X: model.predict(X, output="dense")
    if not isinstance(model, DecisionEstimator):
        refuse(True, "--coverage", "it is for classifiers of rows with features")
    refuse(not decides, "--coverage", "it is about decisions, and --what asks for none")
    if not 0 < coverage < 1:
        raise typer.BadParameter("it is above 0 and below 1, such as 0.9.", param_hint="'--coverage'")
    how = (guarantee or Guarantee.by_class).value
    # A warning is given before any row is decided, and once.
    cuts = model.set_cuts(coverage, how)
    as_text = out is None or detect_format(out) in ("csv", "tsv")

    def decide(X: Any) -> Any:
        sets = model._dense_sets(model._read_features(X, reset=False), cuts)
        return _with_blanks(sets) if as_text else sets

    return decide


def _with_blanks(sets: Any) -> Any:
    values = np.empty(sets.shape, dtype=object)
    values[sets == 1], values[sets == 0] = 1, 0
    return values


def count_sets(column: Any) -> tuple[int, int, int]:
    """How many of the decisions are a yes, how many there are, and how many entries are not decided.

    Examples
    --------
    >>> count_sets([1, 0, None, 1])
    (2, 3, 1)
    """
    values = np.asarray(column, dtype=np.float64)
    unsure = int(np.isnan(values).sum())
    return int(np.sum(values == 1)), len(values) - unsure, unsure
