"""Scores and decisions of pairs of users and items."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap._arrays import frame_library
from labelgap._names import check_choice
from labelgap._types import Floats, Ints
from labelgap.exceptions import InvalidInputError
from labelgap.labels import ObservedLabels
from labelgap.labels.constructors import meaning_of_silence
from labelgap.metrics import unlabelled_metric
from labelgap.recommending.best_items import decisions_of
from labelgap.recommending.factor_model import UNKNOWN, FactorModel
from labelgap.recommending.top_items import UserItemFactors, score_pairs, score_rows


class PairsJudged(FactorModel):
    """A fitted recommender that scores and decides pairs, and is judged by their ratings."""

    def decision_function(self, users: Any, items: Any = None, *, unknown: str = "raise") -> Any:
        """Scores of pairs.

        Parameters
        ----------
        users, items : ids
            Sequences of one length, or one of them a single id for all of the other. Instead of both, a frame
            with a column of users and one of items.
        unknown : {"raise", "average"}, default "raise"
            What happens to ids that are not known. "average" scores them as the average user or item: the
            score is the mean over all users, or over all items.

        Returns
        -------
        scores : array with one number per pair; a number for a single pair
        """
        rows, columns, single = self._pairs(users, items, unknown)
        scores = self._pair_scores(rows, columns)
        return scores[0] if single else scores

    def predict_proba(self, users: Any, items: Any = None, *, unknown: str = "raise") -> Any:
        """The probability of a like for pairs, given as to :meth:`decision_function`."""
        return self._probability(self.decision_function(users, items, unknown=unknown))

    def predict(self, users: Any, items: Any = None, *, unknown: str = "raise") -> Any:
        """Decisions for pairs, given as to :meth:`decision_function`: 1 where the score is at least θ.

        Where only likes are recorded (``unobserved="unlabelled"``), a recorded like is a yes too.
        """
        rows, columns, single = self._pairs(users, items, unknown)
        decisions = self._decided(rows, columns, self._pair_scores(rows, columns))
        return decisions[0] if single else decisions

    @property
    def threshold_probability_(self) -> float:
        """``threshold_`` on the scale of :meth:`predict_proba`."""
        self._require_fit()
        return float(self._probability(self.threshold_))

    def score(
        self,
        answers: Any,
        unobserved: str | None = None,
        *,
        unknown: str = "raise",
        sample_weight: Any = None,
    ) -> float:
        """The metric of the decisions over these ratings, in any form that ``fit`` takes.

        Parameters
        ----------
        answers : likes and dislikes, or likes
        unobserved : {"missing", "negative", "unlabelled"} or None, default None
            What a pair of these users without a rating means; None means the same as in the fit. Under
            "unlabelled" the metric is corrected for the likes that are not recorded, with the flip rate of
            the fit.
        unknown : {"raise", "average"}, default "raise"
            What happens to users and items that are not known, as in :meth:`decision_function`. Where pairs
            without a rating count, these are the pairs of known items, and ratings of others are left out.
        sample_weight : array with one weight per rating, or None
            As in :meth:`fit`.
        """
        self._require_fit()
        check_choice("unknown", unknown, UNKNOWN)
        how = meaning_of_silence(answers, unobserved, self._silence)
        if not isinstance(answers, ObservedLabels):
            answers = self._as_events(answers)
        labels = self._read_ratings(answers, "missing" if how == "negative" else how)
        labels = self._weighed(labels, answers, sample_weight, how)
        find = "find_all" if unknown == "raise" else "find_or"
        users = getattr(self._index("user"), find)(labels.row_names or ())
        items = getattr(self._index("item"), find)(labels.label_names or ())
        if how != "missing":
            flip_rate = self._flip_rate_of_items() if how == "unlabelled" else 0.0
            return self._score_all_pairs(labels, users, items, flip_rate)
        if (users < 0).any() or (items < 0).any():
            scores = self._pair_scores(users[labels.rows], items[labels.indices])
        else:
            scores = score_rows(self._factors(users), labels.indptr, items[labels.indices])
        return self.metric_(labels, self._decided(users[labels.rows], items[labels.indices], scores))

    def _score_all_pairs(self, labels: ObservedLabels, users: Ints, items: Ints, flip_rate: Any) -> float:
        """The metric over all items of the users with ratings, where pairs without a like may hide some."""
        liked = labels.select((labels.values == 1) & (items[labels.indices] >= 0))
        recorded = ObservedLabels.from_triplets(
            liked.rows,
            items[liked.indices],
            np.ones(liked.n_observed),
            shape=(len(users), len(self.item_ids_)),
        )
        return unlabelled_metric(self.metric_, recorded, decisions_of(self, users), flip_rate)

    # -- pairs -----------------------------------------------------------------------------------------

    def _pairs(
        self, users: Any, items: Any, unknown: str
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], bool]:
        """The numbers of users and items, -1 for those not known, and whether it is a single pair."""
        self._require_fit()
        check_choice("unknown", unknown, UNKNOWN)
        if items is None:
            users, items = self._columns_of(users)
        rows, one_user = self._index("user").find(users, unknown)
        columns, one_item = self._index("item").find(items, unknown)
        if one_user and not one_item:
            rows = np.repeat(rows, len(columns))
        elif one_item and not one_user:
            columns = np.repeat(columns, len(rows))
        if len(rows) != len(columns):
            raise InvalidInputError(
                f"There are {len(rows)} users and {len(columns)} items; pairs need as many of one as of the "
                "other, or a single id on one side."
            )
        return rows, columns, one_user and one_item

    def _pair_scores(self, rows: Ints, columns: Ints) -> Floats:
        """Scores of pairs; -1 stands for the average user or item."""
        strange_user, strange_item = rows < 0, columns < 0
        if not (strange_user.any() or strange_item.any()):
            return score_pairs(self._factors(), rows, columns)
        user, (item, intercept) = self._average_user(), self._average_item()
        all_users, all_items = self.user_factors_, self.item_factors_
        one_user, one_item = user[None, :], item[None, :]
        scores = np.empty(len(rows))
        for no_user, no_item in ((False, False), (True, False), (False, True), (True, True)):
            here = (strange_user == no_user) & (strange_item == no_item)
            factors = UserItemFactors(
                one_user if no_user else all_users,
                one_item if no_item else all_items,
                np.array([intercept]) if no_item else self.item_intercept_,
            )
            scores[here] = score_pairs(factors, np.maximum(rows[here], 0), np.maximum(columns[here], 0))
        return scores

    def _columns_of(self, frame: Any) -> tuple[Any, Any]:
        names = (self._setting("user", "user"), self._setting("item", "item"))
        if frame_library(frame) is None:
            raise InvalidInputError(
                f"Pairs are users and items, or a frame with the columns {names[0]!r} and {names[1]!r}; got "
                f"{type(frame).__name__} alone."
            )
        for name in names:
            if name not in list(frame.columns):
                raise InvalidInputError(
                    f"The frame has no column {name!r}; it has {', '.join(map(repr, frame.columns))}."
                )
        return frame[names[0]], frame[names[1]]
