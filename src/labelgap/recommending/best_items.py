"""The best items of users, and all items with a yes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labelgap import kernels
from labelgap._arrays import distinct
from labelgap._names import check_choice
from labelgap._types import Floats, Ints
from labelgap.data.files.writing import write_column_blocks
from labelgap.exceptions import InvalidParameterError
from labelgap.kernels.gpu.device import prediction_device
from labelgap.labels.sources import index_type
from labelgap.recommending.device_top import top_items_on
from labelgap.recommending.factor_model import UNKNOWN, FactorModel, whole_number
from labelgap.recommending.list_limits import (
    checked_fraction,
    explored,
    items_by_user,
    new_places,
    unavailable_items,
    with_left_out,
    within,
)
from labelgap.recommending.results import Recommendations
from labelgap.recommending.tables import as_texts
from labelgap.recommending.top_items import Seen, UserItemFactors, items_above, score_rows, top_items

# The candidates of a diverse list are so many times as many as its items, and not fewer than the second.
_CANDIDATES, _LEAST_CANDIDATES = 5, 50
# Users whose items are looked for at one time, where they are written to a file.
BLOCK_USERS = 10_000


class _Wish(NamedTuple):
    """What lists are to be made, from the parameters of :meth:`ItemsChosen.recommend`."""

    n: int
    exclude_seen: bool
    kept: NDArray[np.int64] | None
    """The numbers of the items to choose from, ascending; None for all."""
    left_out: dict[Hashable, NDArray[np.int64]]
    """Numbers of items that single users do not get, by the ids of the users."""
    diversity: float
    explore: float


class ItemsChosen(FactorModel):
    """A fitted recommender that chooses items for users."""

    def recommend(
        self,
        user: Any,
        n: int = 10,
        exclude_seen: bool = True,
        *,
        only: Any = None,
        exclude: Any = None,
        unavailable: Any = None,
        at: Any = None,
        diversity: float = 0.0,
        explore: float = 0.0,
        unknown: str = "raise",
    ) -> Recommendations:
        """The n items with the highest scores for one user, best first; equal scores in the items' order.

        Parameters
        ----------
        user : id
        n : int, default 10
            The largest number of items; there may be fewer that the user has not rated.
        exclude_seen : bool, default True
            Leave out items that the user has rated, likes and dislikes.
        only : ids of items, default None
            Choose from these items; None means all.
        exclude : ids of items, or pairs of users and items, default None
            Leave out these items, for everybody; or for single users: a mapping from a user to items, a frame
            with a column of users and one of items, or two lists (users, items) of one length.
        unavailable : ids of items, or mapping from id to date, default None
            Items that cannot be shown; with a date, until then: from that moment on they can. None in place
            of a date is for good. Dates are texts such as "2024-05-31" or "2024-05-31T12:00:00", dates or
            datetimes, in UTC if they have no time zone.
        at : date, default None
            When the lists are shown, for the dates of ``unavailable``; None is now.
        diversity : float from 0 to 1, default 0.0
            How much the items of a list should differ from each other. The best 5 n items (50 at least) are
            ranked again by maximal marginal relevance: each next item has the largest
            ``(1 − diversity) r − diversity max cos``, where r is its score, scaled to 0 to 1 among these
            candidates, and the cosine is that of its factors with those of an item chosen before. With 0 the
            order is that of the scores.
        explore : float from 0 to 1, default 0.0
            The fraction of the places that items without a rating get at least, by the scores that their
            features give them. A list of n places that has fewer than m = ``int(explore * n + 0.5)`` of them
            by itself gets the best m, spread evenly, the k-th at place ``ceil((k − 1/2) n/m)``; the others
            are then for items with ratings. Where there are too few of one kind, the other has its places.
            It needs ``item_features`` in the fit; ``exploratory`` of the result says which items these are.
        unknown : {"raise", "average"}, default "raise"
            With "average" a user who is not known gets the items of the average user.
        """
        self._require_fit()
        check_choice("unknown", unknown, UNKNOWN)
        row = np.array([self._index("user").find_one(user, unknown)])
        limits = (only, exclude, unavailable, at)
        wish = self._wish(n, exclude_seen, limits, diversity, explore, unknown)
        known = row[0] >= 0
        found, scores, exploratory = self._best(row, [self.user_ids_[row[0]] if known else user], wish)
        kept = found[0] >= 0
        fresh = None if exploratory is None else exploratory[0][kept]
        return self._recommendations(row, found[0][kept], scores[0][kept], None, fresh)

    def recommend_batch(
        self,
        users: Any = None,
        n: int = 10,
        exclude_seen: bool = True,
        *,
        only: Any = None,
        exclude: Any = None,
        unavailable: Any = None,
        at: Any = None,
        diversity: float = 0.0,
        explore: float = 0.0,
        unknown: str = "raise",
    ) -> Recommendations:
        """As :meth:`recommend`, for several users: arrays of users x n.

        ``users`` None means all, in the order of ``user_ids_``. A row with fewer than n items is filled up,
        with None as item and NaN as score.
        """
        self._require_fit()
        rows, names = self._asked(users, unknown)
        limits = (only, exclude, unavailable, at)
        wish = self._wish(n, exclude_seen, limits, diversity, explore, unknown)
        found, scores, exploratory = self._best(rows, names, wish)
        numbers = np.arange(len(found)) if rows is None else rows
        return self._recommendations(numbers[:, None], found, scores, names, exploratory)

    def recommend_to_file(
        self,
        path: Any,
        users: Any = None,
        n: int = 10,
        exclude_seen: bool = True,
        *,
        only: Any = None,
        exclude: Any = None,
        unavailable: Any = None,
        at: Any = None,
        diversity: float = 0.0,
        explore: float = 0.0,
        unknown: str = "raise",
    ) -> None:
        """Write the recommendations of many users to a CSV, TSV or Parquet file, some users at a time.

        There is one line for each user and item, with the columns user, rank, item, title (where the items
        have titles), score, probability and decision, and with ``explore`` exploratory. No more than the
        lines of 10 000 users are in memory.
        Ids of several types are written as texts.

        Parameters
        ----------
        path : str or path
            The file appears when it is complete; its suffix says the format.
        users, n, exclude_seen, only, exclude, unavailable, at, diversity, explore, unknown :
            As in :meth:`recommend_batch`.

        Examples
        --------
        >>> from pathlib import Path
        >>> from labelgap import Recommender
        >>> ratings = (["a", "a", "b", "b"], ["x", "y", "x", "z"], [1, 0, 1, 0])
        >>> model = Recommender(trace_penalty=0.1, threshold="train").fit(ratings)
        >>> model.recommend_to_file("best.csv", n=1)
        >>> Path("best.csv").read_text().split("\\n")[0]
        'user,rank,item,score,probability,decision'
        """
        blocks = self.recommendation_blocks(
            users,
            n,
            exclude_seen,
            only=only,
            exclude=exclude,
            unavailable=unavailable,
            at=at,
            diversity=diversity,
            explore=explore,
            unknown=unknown,
        )
        write_column_blocks(path, map(as_texts, blocks))

    def recommendation_blocks(
        self,
        users: Any = None,
        n: int = 10,
        exclude_seen: bool = True,
        *,
        only: Any = None,
        exclude: Any = None,
        unavailable: Any = None,
        at: Any = None,
        diversity: float = 0.0,
        explore: float = 0.0,
        unknown: str = "raise",
    ) -> Iterator[dict[str, Any]]:
        """The columns of :meth:`recommend_to_file`, for 10 000 users after the other.

        Parameters are as in :meth:`recommend_batch`.

        Yields
        ------
        columns : dict from name to vector
            One line for each user and item.
        """
        self._require_fit()
        rows, names = self._asked(users, unknown)
        limits = (only, exclude, unavailable, at)
        wish = self._wish(n, exclude_seen, limits, diversity, explore, unknown)
        # A column has one type in all blocks.
        mixed = [name for name, ids in (("user", names), ("item", self.item_ids_)) if not _one_type(ids)]
        for start in range(0, max(len(names), 1), BLOCK_USERS):
            stop = min(start + BLOCK_USERS, len(names))
            here = np.arange(start, stop) if rows is None else rows[start:stop]
            some = tuple(names[start:stop])
            found, scores, exploratory = self._best(here, some, wish)
            columns = self._recommendations(here[:, None], found, scores, some, exploratory).columns()
            yield columns | {name: columns[name].astype(object) for name in mixed}

    def set_item_titles(self, titles: Any) -> Any:
        """Give items titles, which results then show beside the ids; returns the recommender.

        Parameters
        ----------
        titles : mapping from id to text, or None for no titles
            Items that are not in it have none. They are saved with the model.
        """
        self._require_fit()
        self.item_titles_ = (
            None if titles is None else {name: str(text) for name, text in dict(titles).items()}
        )
        return self

    def decide(
        self, users: Any = None, exclude_seen: bool = False, *, unknown: str = "raise"
    ) -> dict[Hashable, list[Hashable]]:
        """For each user the items with a yes, that is with a score of at least θ, best first.

        ``users`` None means all. With ``exclude_seen`` items that the user has rated are left out. With
        ``unknown="average"`` a user who is not known gets the items of the average user.
        """
        self._require_fit()
        rows, asked = self._asked(users, unknown)
        seen = self._seen(rows) if exclude_seen else None
        chosen = items_above(self._factors(rows), self.threshold_, seen)
        names = list(map(self.item_ids_.__getitem__, chosen.items.tolist()))
        cuts = chosen.indptr.tolist()
        decided = {user: names[cuts[at] : cuts[at + 1]] for at, user in enumerate(asked)}
        if not exclude_seen:
            for row, item in self._known_below(rows):
                decided[self.user_ids_[row]].append(self.item_ids_[item])
        return decided

    def _known_below(self, rows: NDArray[np.int64] | None) -> list[tuple[int, int]]:
        """Likes that are recorded, where nothing else is, and score below θ; of each user best first."""
        if self.answers_.unobserved != "unlabelled":
            return []
        users = np.arange(len(self.user_ids_)) if rows is None else distinct(rows[rows >= 0])
        known = self._rated_rows(users)
        scores = score_rows(self._factors(users), known.indptr, known.indices)
        below = np.flatnonzero(scores < self.threshold_)
        below = below[np.lexsort((-scores[below], known.rows[below]))]
        return list(zip(users[known.rows[below]].tolist(), known.indices[below].tolist(), strict=True))

    def decide_matrix(self, users: Any = None, *, unknown: str = "raise") -> sp.csr_array:
        """The decisions as a sparse matrix, users x items, that holds a 1 for each yes.

        Rows are the given users, or all in the order of ``user_ids_``; columns are ``item_ids_``. Users who
        are not known are treated as in :meth:`decide`.
        """
        self._require_fit()
        return decisions_of(self, self._asked(users, unknown)[0])

    def _asked(self, users: Any, unknown: str) -> tuple[NDArray[np.int64] | None, Sequence[Any]]:
        """The numbers of the users, -1 for one not known, and their ids; None for all of them in order."""
        check_choice("unknown", unknown, UNKNOWN)
        if users is None:
            return None, self.user_ids_
        index = self._index("user")
        rows, one = index.find(users, unknown)
        if (rows >= 0).all():
            return rows, [self.user_ids_[row] for row in rows.tolist()]
        return rows, [users] if one else list(users)

    def _wish(
        self,
        n: int,
        exclude_seen: bool,
        limits: tuple[Any, Any, Any, Any],
        diversity: float,
        explore: float,
        unknown: str,
    ) -> _Wish:
        """What is asked for; ``limits`` are only, exclude, unavailable and at."""
        only, exclude, unavailable, at = limits
        by_user = items_by_user(exclude, self._setting("user", "user"), self._setting("item", "item"))
        if by_user is not None:
            exclude = None
            # Who is not known may only be among those who get the average user's items.
            self._index("user").find(list(by_user), unknown)
        index, kept = self._index("item"), None
        absent = unavailable_items(unavailable, at)
        if not (only is None and exclude is None and absent is None):
            allowed = np.full(len(self.item_ids_), only is None)
            if only is not None:
                allowed[index.find(only)[0]] = True
            for some in (exclude, absent):
                if some is not None:
                    allowed[index.find(some)[0]] = False
            kept = np.flatnonzero(allowed)
        left_out = {user: index.find(items)[0] for user, items in (by_user or {}).items()}
        fraction = checked_fraction("explore", explore)
        if fraction and not self._has_item_features():
            raise InvalidParameterError(
                "explore shows items without ratings by what their features say, and this recommender was "
                "fitted without item_features. Fit it with those of all items, or leave explore out."
            )
        wanted, weight = whole_number("n", n), checked_fraction("diversity", diversity)
        if fraction and new_places(fraction, wanted) == 0:
            raise InvalidParameterError(
                f"explore={fraction:g} is less than half of one of {wanted} places. Ask for longer lists, or "
                f"for {0.5 / wanted:.2g} and more; 0 keeps no place."
            )
        return _Wish(wanted, exclude_seen, kept, left_out, weight, fraction)

    def _best(
        self, rows: NDArray[np.int64] | None, names: Sequence[Any], wish: _Wish
    ) -> tuple[NDArray[np.int64], Floats, NDArray[np.bool_] | None]:
        """The best items of these users with their scores, and which of them explore, where some do."""
        factors = self._factors(rows)
        seen = self._seen(rows) if wish.exclude_seen else None
        seen = with_left_out(seen, wish.left_out, names, len(self.item_ids_))
        best = self._best_among(wish.kept, factors, seen, wish)
        if not wish.explore:
            return (*best, None)
        is_new = self._rated().label_counts() == 0
        exploratory = (best[0] >= 0) & is_new[best[0]]
        n_new = new_places(wish.explore, wish.n)
        few = exploratory.sum(axis=1) < n_new
        if not few.any():
            return (*best, exploratory)
        kept = np.arange(len(is_new)) if wish.kept is None else wish.kept
        rated = self._best_among(kept[~is_new[kept]], factors, seen, wish)
        new = self._best_among(kept[is_new[kept]], factors, seen, wish)
        for part, with_new in zip((*best, exploratory), explored(rated, new, n_new), strict=True):
            part[few] = with_new[few]
        return (*best, exploratory)

    def _best_among(
        self, kept: NDArray[np.int64] | None, factors: UserItemFactors, seen: Seen | None, wish: _Wish
    ) -> tuple[NDArray[np.int64], Floats]:
        """The best of the items with these numbers, ascending; None for all items."""
        n, weight = wish.n, wish.diversity
        if kept is not None:
            factors = factors._replace(items=factors.items[kept], intercept=factors.intercept[kept])
            seen = None if seen is None else within(seen, kept, len(self.item_ids_))
        wanted = max(_CANDIDATES * n, _LEAST_CANDIDATES) if weight else n
        place = prediction_device(self._setting("device", "cpu"), factors.users.shape[0] * len(factors.items))
        if place is None:
            found, scores = top_items(factors, wanted, seen)
        else:
            found, scores = top_items_on(place, factors, wanted, seen)
        if weight:
            own = self._item_directions(slice(None) if kept is None else kept)
            found, scores = _diverse(found, scores, own, n, weight)
        if kept is not None and len(kept):
            found = np.where(found >= 0, kept[found], -1)
        return found, scores

    def _recommendations(
        self,
        rows: NDArray[np.int64],
        found: NDArray[np.int64],
        scores: Floats,
        names: Sequence[Any] | None,
        exploratory: NDArray[np.bool_] | None = None,
    ) -> Recommendations:
        # One by one: numpy would make a matrix of ids that are tuples.
        ids = (None if number < 0 else self.item_ids_[number] for number in found.ravel().tolist())
        items = np.fromiter(ids, dtype=object, count=found.size).reshape(found.shape)
        pairs = np.broadcast_to(rows, found.shape).ravel(), found.ravel()
        decisions = self._decided(*pairs, scores.ravel()).reshape(found.shape)
        titles = None
        if self.item_titles_ is not None:
            texts = (self.item_titles_.get(item) for item in items.ravel().tolist())
            titles = np.fromiter(texts, dtype=object, count=found.size).reshape(found.shape)
        users = None if names is None else tuple(names)
        return Recommendations(
            items,
            scores,
            self._probability(scores),
            decisions,
            users=users,
            titles=titles,
            exploratory=exploratory,
        )


def decisions_of(model: FactorModel, rows: Ints | None) -> sp.csr_array:
    """The decisions of these users, or of all, about all items; -1 stands for the average user."""
    chosen = items_above(model._factors(rows), model.threshold_, best_first=False)
    n_items = len(model.item_ids_)
    indices = chosen.items.astype(index_type(n_items))
    shape = (len(chosen.indptr) - 1, n_items)
    decided = sp.csr_array((np.ones(len(indices), dtype=np.int8), indices, chosen.indptr), shape=shape)
    if model.answers_.unobserved != "unlabelled":
        return decided
    either = sp.csr_array(decided + model._rated_rows(rows).to_sparse().astype(np.int8))
    either.data[:] = 1
    return either


def _one_type(ids: Sequence[Any]) -> bool:
    return set(map(type, ids)) <= {int} or set(map(type, ids)) <= {str}


def _diverse(
    found: NDArray[np.int64], scores: Floats, factors: Floats, n: int, diversity: float
) -> tuple[NDArray[np.int64], Floats]:
    """The candidates, ranked again; see :meth:`ItemsChosen.recommend`."""
    if found.shape[0] == 0 or len(factors) == 0:
        return found[:, :n], scores[:, :n]
    lengths = np.linalg.norm(factors, axis=1, keepdims=True)
    directions = np.divide(factors, lengths, out=np.zeros_like(factors), where=lengths > 0)
    there = found >= 0
    low = np.where(there, scores, np.inf).min(axis=1, keepdims=True)
    span = scores[:, :1] - low
    relevance = np.divide(scores - low, span, out=np.ones_like(scores), where=there & (span > 0))
    chosen = np.empty((len(found), n), dtype=np.int64)
    kernels.diversity.rerank(found, relevance, directions, diversity, chosen)
    some = chosen >= 0
    place = np.maximum(chosen, 0)
    return (
        np.where(some, np.take_along_axis(found, place, axis=1), -1),
        np.where(some, np.take_along_axis(scores, place, axis=1), np.nan),
    )
