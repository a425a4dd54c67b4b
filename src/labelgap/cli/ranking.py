"""How well a recommender ranks, for ``labelgap evaluate``."""

from __future__ import annotations

from typing import Any

from labelgap import Recommender
from labelgap.cli.console import PlainTable
from labelgap.cli.session import Session
from labelgap.exceptions import InvalidLabelsError
from labelgap.recommending.evaluation import RankingEvaluation


def tell_ranking(session: Session, model: Recommender, ratings: Any, n: int, unknown: str) -> None:
    """Print the figures of lists of n items beside those of popularity, and add them to the JSON object.

    Where no like of the file can be ranked, a sentence says so.
    """
    session.say()
    try:
        found = model.evaluate_ranking(ratings, n, unknown=unknown)
    except InvalidLabelsError as error:
        session.result["ranking"] = None
        session.say_line(f"Lists of items are not judged. {error}")
        return
    _tell(session, found, f"Lists of {n} items that the users had not rated")


def tell_unseen_users(session: Session, model: Recommender, ratings: Any, unknown: str, seed: int) -> None:
    """As :func:`tell_ranking`, for users that the model does not know and all their ratings."""
    found = model.evaluate_ranking(ratings, unknown=unknown, unseen_users=True, random_state=seed)
    _tell(session, found, "Lists of items that were not folded in")


def _tell(session: Session, found: RankingEvaluation[Any], what: str) -> None:
    session.result["ranking"] = found.to_dict()
    session.say_line(f"{what}, by {found.n_likes} likes of {found.n_users} users:")
    session.say()
    rows = found.rows()
    session.say(
        PlainTable(
            {
                "": [name for name, _, _ in rows],
                "model": [f"{own:.4f}" for _, own, _ in rows],
                "popularity": [f"{other:.4f}" for _, _, other in rows],
            },
            left=("",),
        )
    )
    for note in found.notes()[1:]:
        session.say_line(note)
