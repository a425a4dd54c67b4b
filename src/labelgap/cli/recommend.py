"""``labelgap recommend``: the best items of users."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.text import Text

from labelgap import Recommender
from labelgap.cli.choices import refuse
from labelgap.cli.console import PlainTable
from labelgap.cli.models import load_model
from labelgap.cli.options import Force, Json, ModelFile, Quiet, Verbose
from labelgap.cli.outputs import Block, check_table_output, write_blocks
from labelgap.cli.ratings import find_ids
from labelgap.cli.session import Session, command
from labelgap.data.files.text_encoding import line_of
from labelgap.exceptions import DataFileError, InvalidParameterError

_NAMES = ["user", "rank", "item", "decision", "probability"]
# Users whose items are looked for at one time.
_BLOCK_USERS = 10_000


def recommend(
    model: ModelFile,
    user: Annotated[
        list[str] | None,
        typer.Option("--user", metavar="ID", show_default=False, help="A user. May be repeated."),
    ] = None,
    users_file: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            readable=True,
            show_default=False,
            help="A file with a user on each line.",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All users of the model.")] = False,
    n: Annotated[int, typer.Option("-n", "--number", min=1, help="Items for each user, at most.")] = 10,
    with_seen: Annotated[
        bool, typer.Option("--with-seen", help="Include items that the user has rated.")
    ] = False,
    why: Annotated[
        bool, typer.Option("--why", help="Say which ratings of the user each item is recommended for.")
    ] = False,
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
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    force: Force = False,
) -> None:
    """The best items for users, each with its probability and a decision: would the user like it?

    Items that a user has rated are left out. The decision is yes where the score is at least the
    threshold of the model.

    [bold]Examples[/bold]

      labelgap recommend films.labelgap --user ann -n 5 --why
      labelgap recommend films.labelgap --all --out best.csv
    """
    with command(as_json=json, quiet=quiet, verbose=verbose) as session:
        if sum([bool(user), users_file is not None, every]) != 1:
            raise typer.BadParameter(
                "say for whom: with one of --user (which may be repeated), --users-file and --all.",
                param_hint="'--user'",
            )
        refuse(why and out is not None, "--why", "a file has no column for reasons")
        check_table_output(out, force)
        loaded = load_model(model).estimator
        session.step(f"loaded {model}")
        if not isinstance(loaded, Recommender):
            raise InvalidParameterError(
                f"{model} is a {type(loaded).__name__}, which has no users; see labelgap predict."
            )
        asked = user or ([] if users_file is None else _listed(users_file))
        users = list(loaded.user_ids_) if every else find_ids(loaded.user_ids_, asked, "user")
        blocks = _blocks(loaded, users, n, not with_seen)
        if out is not None:
            write_blocks(out, _NAMES, blocks)
            session.result = {"out": str(out), "users": len(users)}
            session.say_line(f"Wrote the items of {len(users)} users to {out}.")
        elif session.as_json or why or session.is_read_by_people:
            _tell(session, loaded, blocks, why)
        else:
            write_blocks(None, _NAMES, blocks)


def _listed(path: Path) -> list[str]:
    data = path.read_bytes()
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise DataFileError(
            f"{path}, line {line_of(data, error.start)}: the byte 0x{data[error.start]:02x} is not UTF-8; "
            "save the file as UTF-8."
        ) from error
    users = [line.strip() for line in lines if line.strip()]
    if not users:
        raise DataFileError(f"{path} names no user; it has one on each line.")
    return users


def _blocks(model: Recommender, users: Sequence[Any], n: int, exclude_seen: bool) -> Iterator[Block]:
    for start in range(0, len(users), _BLOCK_USERS):
        some = users[start : start + _BLOCK_USERS]
        best = model.recommend_batch(some, n=min(n, len(model.item_ids_)), exclude_seen=exclude_seen)
        rows, places = np.nonzero(~np.isnan(best.scores))
        yield {
            "user": [some[row] for row in rows.tolist()],
            "rank": places + 1,
            "item": best.items[rows, places],
            "decision": best.decisions[rows, places],
            "probability": best.probabilities[rows, places],
        }


def _tell(session: Session, model: Recommender, blocks: Iterator[Block], why: bool) -> None:
    found: list[dict[str, Any]] = []
    for block in blocks:
        rows = zip(*(block[name] for name in _NAMES), strict=True)
        found += [dict(zip(_NAMES, row, strict=True)) for row in rows]
    explained = [model.explain(one["user"], one["item"]) for one in found] if why else []
    for one, reasons in zip(found, explained, strict=False):
        one["why"] = {
            "score": reasons.score,
            "item_intercept": reasons.item_intercept,
            "user_intercept": reasons.user_intercept,
            "from_features": reasons.from_features,
            "answers": [part._asdict() for part in reasons.contributions],
            "other_answers": reasons.other_answers,
        }
    session.result = {"recommendations": found}
    if why:
        for reasons in explained:
            session.say(Text(str(reasons)))
        return
    columns = {
        "user": [one["user"] for one in found],
        "item": [one["item"] for one in found],
        "probability": [f"{one['probability']:.3f}" for one in found],
        "decision": ["yes" if one["decision"] else "no" for one in found],
    }
    session.say(PlainTable(columns, left=("user", "item")))
