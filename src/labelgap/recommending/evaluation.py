"""How well a recommender ranks: held-out likes among the items a user has not rated, beside popularity."""

from __future__ import annotations

import html
from dataclasses import asdict, dataclass
from typing import Any, Generic, Literal, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from labelgap import kernels
from labelgap._names import check_choice
from labelgap._warn import warn
from labelgap.exceptions import InvalidLabelsError, InvalidParameterError, LabelgapWarning
from labelgap.labels import ObservedLabels
from labelgap.metrics import RankingFigures, ranking_figures
from labelgap.metrics.top_n import UnseenUserFigures, unseen_user_figures
from labelgap.recommending.extending import extended
from labelgap.recommending.factor_model import UNKNOWN, FactorModel, whole_number
from labelgap.recommending.ranks import ranks_by_item, ranks_of_held_out
from labelgap.recommending.top_items import Seen, UserItemFactors, top_items
from labelgap.recommending.unseen_users import deal_unseen_users

Figures = TypeVar("Figures", bound=RankingFigures | UnseenUserFigures)

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
    "capped_recall_20": "capped recall@20",
    "capped_recall_50": "capped recall@50",
    "ndcg_100": "NDCG@100",
}


@dataclass(frozen=True)
class RankingEvaluation(Generic[Figures]):
    """The figures of a recommender's lists, and those of popularity for the same users and held-out likes.

    Popularity shows the items with the most likes in training, without those that the user has rated.

    Parameters
    ----------
    n : int or None
        The length of the lists; None for users that the fit did not see, whose figures have lengths of their
        own.
    model, popularity : RankingFigures, or UnseenUserFigures for users that the fit did not see
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
    n_few_likes : int
        Users whom the fit did not see that are left out, with fewer than two likes of known items.

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

    n: int | None
    model: Figures
    popularity: Figures
    n_users: int
    n_likes: int
    n_unknown_users: int = 0
    n_unknown_items: int = 0
    n_rated: int = 0
    n_few_likes: int = 0

    @property
    def popularity_wins(self) -> bool:
        """Whether popularity alone has the higher NDCG."""
        _, own, other = self._ndcg
        return other > own

    @property
    def _ndcg(self) -> tuple[str, float, float]:
        """The row of the table that has the NDCG."""
        return next(row for row in self.rows() if row[0].startswith("NDCG"))

    def rows(self) -> list[tuple[str, float, float]]:
        """(name, figure of the model, figure of popularity), in the order of the table."""
        return [
            (title.format(n=self.n), getattr(self.model, name), getattr(self.popularity, name))
            for name, title in _TITLES.items()
            if name in self.model._fields
        ]

    def notes(self) -> list[str]:
        """What was judged and what was left out, in sentences."""
        said = [f"{self.n_likes} held-out likes of {self.n_users} users."]
        if self.n is None:
            said.append("The fit did not see these users; about 80 % of their ratings were folded in.")
        if self.n_few_likes:
            said.append(f"{self.n_few_likes} more users are left out: they have no two likes of known items.")
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

    @overload
    def evaluate_ranking(
        self, held_out: Any, n: int | None = None, *, unknown: str = "average"
    ) -> RankingEvaluation[RankingFigures]: ...

    @overload
    def evaluate_ranking(
        self,
        held_out: Any,
        *,
        unknown: str = "average",
        unseen_users: Literal[True],
        random_state: Any = None,
    ) -> RankingEvaluation[UnseenUserFigures]: ...

    def evaluate_ranking(
        self,
        held_out: Any,
        n: int | None = None,
        *,
        unknown: str = "average",
        unseen_users: bool = False,
        random_state: Any = None,
    ) -> RankingEvaluation[Any]:
        """How well the items are ranked for users with held-out likes, beside popularity.

        Every item that a user has not rated in training is ranked, the held-out likes among them. Ranks are
        exact and equal scores are broken by the order of the items, as in :meth:`recommend`. A warning says
        so if popularity has the higher NDCG.

        With ``unseen_users`` the users are others than those of the fit, as in Liang et al. (2018). A random
        fifth of the likes of each, rounded down and 1 at least, is judged. The other likes are folded in, all
        users at once, with four fifths of the dislikes; every item that is not folded in is ranked.
        Popularity is that among the likes of the fit.

        Parameters
        ----------
        held_out : ratings in any form that ``fit`` takes
            Likes of users, which were not in the fit. Dislikes are items like any other. With
            ``unseen_users`` all ratings of users that the recommender does not know; features of users are
            not used.
        n : int or None, default None
            The length of the lists, and 10 for None. With ``unseen_users`` the lengths are 20, 50 and 100.
        unknown : {"average", "raise"}, default "average"
            What happens to users and items that are not known. With "average" an unknown user gets the
            scores of the average user, and likes of unknown items, which cannot be shown, are left out; the
            result says how many these are. With "raise" they are an error; with ``unseen_users`` unknown
            items alone are.
        unseen_users : bool, default False
            Whether the users are others than those of the fit.
        random_state : int, RandomState or None, default None
            With ``unseen_users``: deals the ratings into those that are folded in and those that are judged.

        Returns
        -------
        evaluation : RankingEvaluation
            Precision, recall, NDCG, MAP, hit rate and coverage at n, and AUC. With ``unseen_users`` capped
            recall at 20 and at 50, which divides by min(n, likes judged) and not by the likes, and NDCG at
            100.

        Examples
        --------
        >>> from labelgap import Recommender
        >>> users, items = [0, 0, 1, 1, 2, 2, 3, 3], [0, 1, 0, 1, 2, 3, 2, 3]
        >>> model = Recommender(unobserved="negative", trace_penalty=0.01, threshold="train")
        >>> model = model.fit((users[:-1], items[:-1]))
        >>> model.evaluate_ranking(([3], [3]), n=1).model.hit_rate
        1.0
        >>> model.evaluate_ranking(([7, 7], [0, 1]), unseen_users=True).model.capped_recall_20
        1.0
        """
        self._require_fit()
        check_choice("unknown", unknown, UNKNOWN)
        result: RankingEvaluation[Any]
        if unseen_users:
            if n is not None:
                raise InvalidParameterError(
                    "n has no use with unseen_users=True, whose lists have the lengths 20, 50 and 100; leave "
                    "it out."
                )
            result = self._unseen_ranking(held_out, unknown, random_state)
        else:
            if random_state is not None:
                raise InvalidParameterError(
                    "random_state has no use without unseen_users=True; leave it out."
                )
            result = self._seen_ranking(held_out, 10 if n is None else whole_number("n", n), unknown)
        if result.popularity_wins:
            name, own, other = result._ndcg
            advice = ""
            if self._silence == "missing":
                advice = (
                    " This fit says how an item would be rated by a user who rates it, not which items to "
                    "show: for that, fit with unobserved='negative'."
                )
            warn(
                f"Popularity ranks better than the recommender: {name} {other:.4f} against "
                f"{own:.4f}.{advice}",
                LabelgapWarning,
            )
        return result

    def _unseen_ranking(
        self, held_out: Any, unknown: str, random_state: Any
    ) -> RankingEvaluation[UnseenUserFigures]:
        dealt = deal_unseen_users(self, held_out, unknown, random_state)
        grown = extended(self, dealt.ratings, None, None, "users")
        # New users come after the others, in the order of their ratings.
        users = np.arange(len(self.user_ids_), len(grown.user_ids_))
        seen = grown._rated_rows(users)
        own = ranks_of_held_out(*grown._factors(users), seen, dealt.likes)
        common = ranks_by_item(self._rated().positive_counts(), seen, dealt.likes)
        return RankingEvaluation(
            None,
            unseen_user_figures(own, dealt.likes.indptr),
            unseen_user_figures(common, dealt.likes.indptr),
            n_users=len(users),
            n_likes=dealt.likes.n_observed,
            n_unknown_items=dealt.n_unknown_items,
            n_few_likes=dealt.n_few_likes,
        )

    def _seen_ranking(self, held_out: Any, n: int, unknown: str) -> RankingEvaluation[RankingFigures]:
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
        return RankingEvaluation(
            n,
            figures._replace(coverage=_coverage(theirs, left_out, n)),
            common._replace(coverage=_coverage_of_popularity(popular, left_out, n)),
            n_users=len(judged),
            n_likes=likes.n_observed,
            n_unknown_users=int(np.sum(held.users[judged] < 0)),
            n_unknown_items=held.n_unknown_items,
            n_rated=int(np.sum(~ranked)),
        )

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
