"""How well a recommender ranks held-out likes, for its page."""

from __future__ import annotations

import math
from typing import Any

from labelgap.exceptions import InvalidLabelsError
from labelgap.recommending.serving import Recommending

_LENGTH = 10


def describe_ranking(model: Recommending, ratings: Any) -> dict[str, Any] | None:
    """The figures of lists of 10 items beside those of popularity; None where no like can be ranked."""
    try:
        found = model.evaluate_ranking(ratings, _LENGTH)
    except InvalidLabelsError:
        # Only dislikes, or only ratings of the fit: there is nothing to say about lists.
        return None
    return {
        "n": found.n,
        "rows": [
            {"name": name, "model": _finite(own), "popularity": _finite(other)}
            for name, own, other in found.rows()
        ],
        "notes": found.notes(),
        "popularity_wins": found.popularity_wins,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
