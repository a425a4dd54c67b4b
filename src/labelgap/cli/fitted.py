"""What ``labelgap fit`` says once a model is fitted and saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from labelgap.cli.console import KeyValues
from labelgap.cli.models import describe_with
from labelgap.cli.session import Session
from labelgap.cli.streams import INTERRUPTED
from labelgap.cli.training import Training, data_lines
from labelgap.estimators.description import in_lines
from labelgap.fitting.checkpoint import remove_checkpoint
from labelgap.fitting.progress import duration


def finish_fit(
    session: Session,
    data: Path,
    model: Any,
    training: Training,
    seconds: float,
    out: Path,
    checkpoint: Path | None,
    lists: Path | None = None,
) -> None:
    """Tell what was fitted; end with the code of an interrupted fit, or drop the checkpoint.

    ``lists`` is the file with the best items of every user, which an interrupted fit has not written.
    """
    facts = describe_with(model, training.prepare)
    kept = kept_bytes(model)
    stopped = bool(facts.get("interrupted"))
    session.result = {"data": str(data), "model": str(out), "seconds": seconds} | training.facts | facts
    session.result["kept_bytes"] = kept
    if lists is not None:
        session.result["lists"] = None if stopped else str(lists)
    took = f"{seconds:.1f} s" if seconds < 60 else duration(seconds)
    session.say_line(f"Fitted a {facts['kind']} to {data} in {took}.")
    session.say()
    lines = [*data_lines(training), *in_lines(facts), *kept_lines(kept), ("saved in", str(out))]
    if lists is not None and not stopped:
        lines += [("lists in", str(lists))]
    session.say(KeyValues(lines))
    session.say()
    if stopped:
        session.say_line(f"Stopped early on request; the model so far is saved in {out}.")
    if stopped and lists is not None:
        session.say_line(
            f"{lists} was not written; labelgap recommend {out} --all --out {lists} makes the lists."
        )
    if stopped and session.kept is not None:
        session.say_line(f"Next: the same command continues from {session.kept}.")
    else:
        session.say_line(f"Next: {_next_command(facts['kind'], out)}")
    if stopped:
        session.finish()
        raise typer.Exit(INTERRUPTED)
    if checkpoint is not None:
        # The model is saved, and no other fit could use the checkpoint.
        remove_checkpoint(checkpoint)


def _next_command(kind: str, out: Path) -> str:
    if kind == "Recommender":
        return f"labelgap recommend {out} --user ID"
    return f"labelgap predict {out} NEW_DATA --out predictions.csv"


def kept_bytes(model: Any) -> int:
    """About what the data take that the file of a model holds; 0 where it holds none."""
    if not hasattr(model, "answers_"):
        return int(model.kept_bytes_) if getattr(model, "_saves_data", False) else 0
    ratings = model.answers_
    arrays = [ratings.indptr, ratings.indices, ratings.values, ratings.weights]
    arrays += [model._given_weights, model._batch_of_rating]
    if model._events is not None:
        arrays += [model._events.values, model._events.amounts, model._events.newest]
    return sum(int(array.nbytes) for array in arrays if array is not None)


def kept_lines(kept: int) -> list[tuple[str, str]]:
    """What is printed about the data in a model file.

    Examples
    --------
    >>> kept_lines(24_300), kept_lines(0)
    ([('data', 'kept for labelgap update, about 24 kB')], [])
    """
    if not kept:
        return []
    size = f"{kept / 1e3:.0f} kB" if kept < 1e6 else f"{kept / 1e6:.0f} MB"
    return [("data", f"kept for labelgap update, about {size}")]
