"""Lists of the best items of users, written to a file block by block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import typer

from labelgap import Recommender
from labelgap.cli.outputs import Block, check_table_output, write_blocks
from labelgap.cli.progress import counted
from labelgap.cli.session import Session
from labelgap.recommending.best_items import BLOCK_USERS
from labelgap.recommending.tables import as_texts

_NAMES = ["user", "rank", "item", "title", "decision", "probability", "exploratory"]
LIST_LENGTH = 10
"""Items for each user, where nothing else is said."""


def list_columns(model: Recommender, explores: bool = False) -> list[str]:
    """The columns of a table of lists, and where places are kept for items without ratings one of these."""
    there = {"title": model.item_titles_ is not None, "exploratory": explores}
    return [name for name in _NAMES if there.get(name, True)]


def check_lists(
    session: Session, out: Path | None, model_file: Path, force: bool, *, inputs: Iterable[Path | None]
) -> None:
    """Raise before the fit begins if the lists could not be written after it."""
    if out is not None and out.resolve() == model_file.resolve():
        raise typer.BadParameter(
            "the model itself is saved under that name; choose another one.", param_hint="'--lists'"
        )
    check_table_output(session, out, force, "--lists", inputs=inputs)


def warn_of_decisions(session: Session, model: Recommender, which: str) -> None:
    """Say so where the model is made for the other question."""
    if model._silence == "missing":
        session.warn(
            f"{which} was fitted to decide whether users will like given items, not to choose items to "
            "show; its lists can be worse than popularity. For lists fit it with --for recommend."
        )


def write_lists(
    session: Session,
    names: list[str],
    blocks: Iterator[Block],
    n_users: int,
    out: Path,
    spreadsheet_safe: bool = False,
) -> None:
    """Write the lists of so many users, with a bar that grows with them."""
    shown = counted(blocks, session.err, session.shows_progress, total=n_users, each=BLOCK_USERS)
    write_blocks(out, names, map(as_texts, shown), spreadsheet_safe)


def write_all_lists(session: Session, model: Recommender, out: Path) -> None:
    """Write the best items of every user of the model."""
    n = min(LIST_LENGTH, len(model.item_ids_))
    blocks = model.recommendation_blocks(None, n)
    write_lists(session, list_columns(model), blocks, len(model.user_ids_), out)
