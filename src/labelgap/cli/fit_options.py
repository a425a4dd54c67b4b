"""The options of a fit that more than one command takes."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from labelgap.cli.options import MAX_SEED, Average
from labelgap.cli.preparing import Impute

_DATA_PANEL, _FIT_PANEL = "Data", "Fit"

# -- features ----------------------------------------------------------------------------------------------

Categorical: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--categorical",
        metavar="NAME|PATTERN",
        rich_help_panel=_DATA_PANEL,
        show_default="columns of text",
        help="Feature columns that hold names and not amounts: each value becomes a feature.",
    ),
]
ImputeBlanks: TypeAlias = Annotated[
    Impute | None,
    typer.Option(
        "--impute",
        rich_help_panel=_DATA_PANEL,
        show_default="refused",
        help="What blanks among the features are filled with, here and for new rows.",
    ),
]

# -- the metric --------------------------------------------------------------------------------------------

MetricOfFit: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="NAME|FORMULA",
        rich_help_panel=_FIT_PANEL,
        show_default="micro-f1",
        help="What decisions are judged by: a name such as [bold]macro-jaccard[/bold], or a formula such "
        "as [bold]'2*tp/(2*tp+fp+fn)'[/bold].",
    ),
]
AverageOfFit: TypeAlias = Annotated[
    Average | None,
    typer.Option(
        "--average",
        rich_help_panel=_FIT_PANEL,
        show_default=False,
        help="For a formula: over all entries (micro), rows (instance) or labels (macro).",
    ),
]

# -- the model ---------------------------------------------------------------------------------------------

Rank: TypeAlias = Annotated[
    int | None,
    typer.Option("--rank", min=1, rich_help_panel=_FIT_PANEL, show_default="none", help="A cap on the rank."),
]
TracePenalty: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--trace-penalty",
        metavar="NUMBER|auto",
        rich_help_panel=_FIT_PANEL,
        show_default="auto",
        help="λ; auto chooses on held-out labels.",
    ),
]
RidgePenalty: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--ridge-penalty",
        metavar="NUMBER|auto",
        rich_help_panel=_FIT_PANEL,
        show_default="auto; 0 for a recommender",
        help="λ₂; auto chooses on held-out labels.",
    ),
]
SoftLabels: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--soft-labels",
        metavar="NUMBER|auto",
        rich_help_panel=_FIT_PANEL,
        show_default="0",
        help="The weight of soft labels for blanks, by the known labels of their rows; auto chooses on "
        "held-out rows.",
    ),
]
Seed: TypeAlias = Annotated[
    int,
    typer.Option(
        "--seed", min=0, max=MAX_SEED, rich_help_panel=_FIT_PANEL, help="Deals the labels to folds."
    ),
]
Jobs: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        metavar="NUMBER",
        rich_help_panel=_FIT_PANEL,
        show_default="one per core",
        help="Fits that run side by side.",
    ),
]

# -- data that arrive later --------------------------------------------------------------------------------

WithoutData: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--without-data",
        rich_help_panel="Output",
        help="Leave the rows and labels of the fit out of the file: it becomes smaller, and labelgap update "
        "cannot go on from it. A recommender always has its ratings.",
    ),
]
Memory: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--memory",
        metavar="ENTRIES",
        min=1,
        rich_help_panel="Output",
        show_default="all",
        help="How many known labels the file keeps for labelgap update, at most: a weighted sample of them.",
    ),
]
Forget: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--forget",
        metavar="BATCHES",
        rich_help_panel=_FIT_PANEL,
        show_default="never",
        help="For labelgap update: after how many batches an entry counts half.",
    ),
]
