"""How well a recommender ranks: held-out likes among the items a user has not rated, beside popularity."""

from __future__ import annotations

import html
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap import kernels
from labelgap._names import check_choice
from labelgap._warn import warn
from labelgap.exceptions import InvalidLabelsError, LabelgapWarning
from labelgap.labels import ObservedLabels
from labelgap.metrics import RankingFigures, ranking_figures
from labelgap.recommending.factor_model import UNKNOWN, FactorModel, whole_number
from labelgap.recommending.ranks import ranks_by_item, ranks_of_held_out
from labelgap.recommending.top_items import Seen, UserItemFactors, top_items

# Users whose lists are made at one time, for the coverage.
_BLOCK_USERS = 10_000
_TITLES = {
    "precision": "precision@{n}",
    "recall": "recall@{n}",
    "ndcg": "NDCG@{n}",
    "map": "MAP@{n}",
    "hit_rate": "hit rate@{n}",
    "coverage": "coverage@{n}",
    "auc": "AUC",
}


@dataclass(frozen=True)
class RankingEvaluation:
    """The figures of a recommender's lists, and those of popularity for the same users and held-out likes.

    Popularity shows the items with the most likes in training, without those that the user has rated.

    Parameters
    ----------
    n : int
        The length of the lists.
    model, popularity : RankingFigures
    n_users : int
        The users with a held-out like that could be ranked; all figures are means over these.
    n_likes : int
        Their held-out likes.
    n_unknown_users : int
        How many of these users the recommender does not know. They get the scores of the average user.
    n_unknown_items : int
        Held-out likes that are left out because the recommender does not know the item.
    n_rated : int
        Held-out likes that are left out because the user has rated the item in training.

    Examples
    --------
    >>> better, worse = RankingFigures(.2, .4, .4, .3, .6, .9, .7), RankingFigures(.1, .3, .2, .2, .5, .8, .1)
    >>> print(RankingEvaluation(10, better, worse, n_users=50, n_likes=80))
                   model  popularity
    precision@10  0.2000      0.1000
    recall@10     0.4000      0.3000
    NDCG@10       0.4000      0.2000
    MAP@10        0.3000      0.2000
    hit rate@10   0.6000      0.5000
    coverage@10   0.7000      0.1000
    AUC           0.9000      0.8000
    80 held-out likes of 50 users.
    """

    n: int
    model: RankingFigures
    popularity: RankingFigures
    n_users: int
    n_likes: int
    n_unknown_users: int = 0
    n_unknown_items: int = 0
    n_rated: int = 0

    @property
    def popularity_wins(self) -> bool:
        """Whether popularity alone has the higher NDCG."""
        return self.popularity.ndcg > self.model.ndcg

    def rows(self) -> list[tuple[str, float, float]]:
        """(name, figure of the model, figure of popularity), in the order of the table."""
        return [
            (title.format(n=self.n), getattr(self.model, name), getattr(self.popularity, name))
            for name, title in _TITLES.items()
        ]

    def notes(self) -> list[str]:
        """What was judged and what was left out, in sentences."""
        said = [f"{self.n_likes} held-out likes of {self.n_users} users."]
        if self.n_unknown_users:
            said.append(
                f"{self.n_unknown_users} of these users are not known; they get the average user's items."
            )
        if self.n_unknown_items:
            said.append(f"{self.n_unknown_items} more likes are left out: their items are not known.")
        if self.n_rated:
            said.append(f"{self.n_rated} more likes are left out: the user has rated the item in training.")
        return said

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain numbers by name."""
        parts = asdict(self)
        return parts | {"model": self.model._asdict(), "popularity": self.popularity._asdict()}

    def __str__(self) -> str:
        rows = self.rows()
        wide = max(len(name) for name, _, _ in rows)
        lines = [f"{'':<{wide}}   model  popularity"]
        lines += [f"{name:<{wide}}  {own:.4f}  {other:10.4f}" for name, own, other in rows]
        return "\n".join([*lines, *self.notes()])

    def _repr_html_(self) -> str:
        body = "".join(
            f"<tr><th>{name}</th><td>{own:.4f}</td><td>{other:.4f}</td></tr>"
            for name, own, other in self.rows()
        )
        said = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes())
        head = "<tr><th></th><th>model</th><th>popularity</th></tr>"
        return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>{said}"


class RankingJudged(FactorModel):
    """A fitted recommender that can be judged by held-out likes."""

    def evaluate_ranking(self, held_out: Any, n: int = 10, *, unknown: str = "average") -> RankingEvaluation:
        """How well the items are ranked for users with held-out likes, beside popularity.

        Every item that a user has not rated in training is ranked, the held-out likes among them. Ranks are
        exact and equal scores are broken by the order of the items, as in :meth:`recommend`. A warning says
        so if popularity has the higher NDCG.

        Parameters
        ----------
        held_out : ratings in any form that ``fit`` takes
            Likes of users, which were not in the fit. Dislikes are items like any other.
        n : int, default 10
            The length of the lists.
        unknown : {"average", "raise"}, default "average"
            What happens to users and items that are not known. With "average" an unknown user gets the
            scores of the average user, and likes of unknown items, which cannot be shown, are left out; the
            result says how many these are. With "raise" they are an error.

        Returns
        -------
        evaluation : RankingEvaluation
            Precision, recall, NDCG, MAP, hit rate and coverage at n, and AUC.

        Examples
        --------
        >>> from labelgap import Recommender
        >>> users, items = [0, 0, 1, 1, 2, 2, 3, 3], [0, 1, 0, 1, 2, 3, 2, 3]
        >>> model = Recommender(unobserved="negative", trace_penalty=0.01, threshold="train")
        >>> model = model.fit((users[:-1], items[:-1]))
        >>> model.evaluate_ranking(([3], [3]), n=1).model.hit_rate
        1.0
        """
        self._require_fit()
        check_choice("unknown", unknown, UNKNOWN)
        n = whole_number("n", n)
        held = self._held_likes(held_out, unknown)
        factors, seen = self._factors(held.users), self._rated_rows(held.users)
        ranks = ranks_of_held_out(*factors, seen, held.likes)
        popular = self._rated().positive_counts()
        by_popularity = ranks_by_item(popular, seen, held.likes)
        ranked = ranks > 0
        if not ranked.any():
            raise InvalidLabelsError(
                "No held-out like can be ranked: the users have rated all of these items in training. Give "
                "ratings that were not in the fit."
            )
        likes = held.likes.select(ranked)
        candidates = len(self.item_ids_) - seen.row_counts()
        judged = np.flatnonzero(likes.row_counts())
        theirs = factors._replace(users=factors.users[judged])
        left_out = _rows_of(seen, judged)
        figures, common = (
            ranking_figures(some[ranked], likes.indptr, candidates, n) for some in (ranks, by_popularity)
        )
        result = RankingEvaluation(
            n,
            figures._replace(coverage=_coverage(theirs, left_out, n)),
            common._replace(coverage=_coverage_of_popularity(popular, left_out, n)),
            n_users=len(judged),
            n_likes=likes.n_observed,
            n_unknown_users=int(np.sum(held.users[judged] < 0)),
            n_unknown_items=held.n_unknown_items,
            n_rated=int(np.sum(~ranked)),
        )
        if result.popularity_wins:
            advice = ""
            if self.answers_.unobserved == "missing":
                advice = (
                    " This fit says how an item would be rated by a user who rates it, not which items to "
                    "show: for that, fit with unobserved='negative'."
                )
            warn(
                f"Popularity ranks better than the recommender: NDCG@{n} {common.ndcg:.4f} against "
                f"{figures.ndcg:.4f}.{advice}",
                LabelgapWarning,
            )
        return result

    def _held_likes(self, held_out: Any, unknown: str) -> _HeldLikes:
        labels = self._read_ratings(held_out, "missing")
        labels = labels.select(labels.values == 1)
        user_index, item_index = self._index("user"), self._index("item")
        find = "find_all" if unknown == "raise" else "find_or"
        users = getattr(user_index, find)(labels.row_names or ())
        items = getattr(item_index, find)(labels.label_names or ())
        columns = items[labels.indices]
        known = columns >= 0
        if not known.any():
            what = "are likes" if labels.n_observed == 0 else "are likes of items that the recommender knows"
            raise InvalidLabelsError(f"None of the held-out ratings {what}, so there is nothing to rank.")
        likes = ObservedLabels.from_triplets(
            labels.rows[known],
            columns[known],
            np.ones(int(known.sum())),
            shape=(len(users), len(self.item_ids_)),
        )
        return _HeldLikes(users, likes, int(np.sum(~known)))


@dataclass(frozen=True)
class _HeldLikes:
    """Held-out likes of known items, with the number of each user, -1 for one that is not known."""

    users: NDArray[np.int64]
    likes: ObservedLabels
    n_unknown_items: int


def _rows_of(labels: ObservedLabels, rows: NDArray[np.intp]) -> Seen:
    theirs = labels.take_rows(rows)
    return Seen(theirs.indptr, theirs.indices)


def _coverage(factors: UserItemFactors, seen: Seen, n: int) -> float:
    shown = np.zeros(len(factors.items), dtype=np.bool_)
    for start in range(0, len(factors.users), _BLOCK_USERS):
        stop = min(start + _BLOCK_USERS, len(factors.users))
        pointers = seen.indptr[start : stop + 1]
        here = Seen(pointers - pointers[0], seen.indices[pointers[0] : pointers[-1]])
        found, _ = top_items(factors._replace(users=factors.users[start:stop]), n, here)
        shown[found[found >= 0]] = True
    return float(shown.mean())


def _coverage_of_popularity(popular: NDArray[np.int64], seen: Seen, n: int) -> float:
    shown = np.zeros(len(popular), dtype=np.bool_)
    kernels.ranks.mark_first(
        np.argsort(-popular, kind="stable"), n, seen.indptr, seen.indices.astype(np.int64), shown
    )
    return float(shown.mean())
