"""The options about thresholds, bounds and budgets, and what they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, TypeAlias

import typer

from labelgap.cli.choices import refuse
from labelgap.cli.options import ThresholdFrom
from labelgap.decisions import Budget
from labelgap.thresholds.constraints import read_constraints


class ThresholdKind(StrEnum):
    """How many thresholds there are."""

    shared = "shared"
    per_label = "per-label"
    shrunk = "shrunk"
    auto = "auto"


_UNLIMITED = "unlimited"

ThresholdScores: TypeAlias = Annotated[
    ThresholdFrom | None,
    typer.Option(
        "--threshold",
        rich_help_panel="Fit",
        show_default="cross-fit",
        help="Which scores the threshold is chosen on: out-of-fold, of a fifth held out, or training.",
    ),
]
Thresholds: TypeAlias = Annotated[
    ThresholdKind | None,
    typer.Option(
        "--thresholds",
        rich_help_panel="Decisions",
        show_default="shared",
        help="One threshold for all labels, the best one of each label, those drawn towards the shared one "
        "by how little is known about a label, or what is best on held-out rows (auto).",
    ),
]
SubjectTo: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--subject-to",
        metavar="BOUND",
        rich_help_panel="Decisions",
        show_default=False,
        help="A bound that the threshold must keep, such as [bold]'recall >= 0.9'[/bold]; a name without "
        "micro-, instance- or macro- is the micro average. May be repeated.",
    ),
]
RowBudget: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="NUMBER|unlimited",
        rich_help_panel="Budget",
        show_default=False,
        help="At most so many yes in each row: those that maximise the expected metric of the model over all "
        "rows of the file. unlimited maximises it without a limit.",
    ),
]
TotalBudget: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--total-budget",
        metavar="NUMBER",
        min=1,
        rich_help_panel="Budget",
        show_default=False,
        help="At most so many yes in the whole file.",
    ),
]
Exactly: TypeAlias = Annotated[
    bool,
    typer.Option("--exactly", rich_help_panel="Budget", help="Exactly as many yes as the budget says."),
]


def read_bounds(subject_to: Sequence[str] | None) -> list[str] | None:
    """The bounds as they were given, after they have been read once; None where there are none.

    Examples
    --------
    >>> read_bounds(["recall >= 0.9"]), read_bounds([])
    (['recall >= 0.9'], None)
    """
    if not subject_to:
        return None
    read_constraints(list(subject_to))
    return list(subject_to)


def read_budgets(per_row: str | None, total: int | None, exactly: bool) -> Budget | None:
    """The budget that the options ask for; None where there is none.

    Examples
    --------
    >>> read_budgets("3", None, True)
    Budget(per_row=3, total=None, exactly=True)
    """
    refuse(per_row is not None and total is not None, "--total-budget", "--budget says another limit")
    limited = total is not None or per_row not in (None, _UNLIMITED)
    refuse(exactly and not limited, "--exactly", "it goes with a number in --budget or --total-budget")
    if per_row is None and total is None:
        return None
    if per_row is None or per_row == _UNLIMITED:
        return Budget(total=total, exactly=exactly)
    if not per_row.isdecimal() or int(per_row) < 1:
        raise typer.BadParameter(
            f"{per_row!r} is neither a whole number from 1 on nor {_UNLIMITED!r}.", param_hint="'--budget'"
        )
    return Budget(per_row=int(per_row), exactly=exactly)


def word(choice: Any) -> str | None:
    """The value of a choice; None where it was not made."""
    return None if choice is None else str(choice.value)
