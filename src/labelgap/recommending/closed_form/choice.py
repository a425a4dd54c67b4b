"""The choice of settings and λ for lists, by the NDCG of held-out likes among all items without a rating.

One like in ten is held out, in as many folds as it takes to have enough of them: with few likes in all ten,
with many in one. A :class:`Trial` has one R for each fold, and one decomposition of it is judged at every λ
from the largest on, with and without leaving one out. All powers are tried with few singular values, the
better ones with more, and the best one with as many as pay (successive halving). Values of dislikes and of
repeated likes are compared at the best powers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgap import kernels
from labelgap._types import Floats
from labelgap.fitting.run import FitRun
from labelgap.kernels.threads import map_in_order
from labelgap.labels import ObservedLabels
from labelgap.metrics.jackknife import N_PARTS
from labelgap.metrics.top_n import ndcg_by_user
from labelgap.recommending.closed_form.matrix import ScaledLikes
from labelgap.recommending.closed_form.settings import ListSettings, Ratings, mean_value
from labelgap.recommending.ranks import ranks_alone
from labelgap.solvers.certificate import Penalties
from labelgap.solvers.linalg import Array, host, like, namespace, wide_product
from labelgap.solvers.loop import Candidate, State, Stopped
from labelgap.solvers.soft_threshold import SPARE, first_vectors
from labelgap.solvers.spectral import Spectrum

SHOWN = 20
"""The length of the lists that settings are compared by."""
MOST_FACTORS = 1536
"""The number of factors, at most, where none is given."""
N_FOLDS = 10
NEVER = -1
# Held-out likes that tell good settings from bad ones; further folds are not fitted.
_ENOUGH_LIKES = 2_500
# Pairs of users and items that are ranked for one λ, about: users beyond that are not looked at.
_MOST_RANKED, _FEWEST_USERS = 1 << 24, 500
# Fractions of the largest singular value that λ is compared at.
_FRACTIONS = tuple(0.7 * 2 ** (-step / 2) for step in range(16))
# Singular values are used down to this fraction of the largest.
_LEAST = 1e-3
# By how much the rank at a λ grows before it is judged again.
_CHANGED = 1.02
# What λ is where nothing can be held out.
_UNJUDGED = 0.25
# The dimension of the first Krylov space, how much larger the next one is, and one of how many trials stays.
_COLUMNS, _GROWTH, _REST = 256, 4, 3


def right_vectors(R: Any, spectrum: Spectrum, count: int) -> tuple[Array, Array]:
    """The leading singular values of R and their right vectors."""
    values, vectors = spectrum.values[:count], spectrum.vectors(count)
    if R.shape[1] <= R.shape[0]:
        return values, vectors
    return values, R.transposed_times(vectors) / values


def own_parts(V: Array, kept: Array) -> Array:
    """``h_j = Σ_k V_jk² (1 − λ/σ_k)``: what a like of item j adds to the score of j."""
    return wide_product(V * V, kept[:, None])[:, 0]


@dataclass
class _Fold:
    """One fold of a trial: R without what is held out, and the users that it is judged by."""

    number: int
    R: Any
    spectrum: Spectrum
    held: ObservedLabels
    """Held-out likes of the users in ``busy``."""
    seen: ObservedLabels
    """The training ratings of the same users."""
    busy: NDArray[np.int64]
    held_out: ObservedLabels
    """All ratings that are held out."""

    def ranks(self, V: Array, values: Array, penalty: float, divides: tuple[bool, ...]) -> list[Any]:
        """The rank of each held-out like at this λ, with items' scores divided by ``1 − h_j`` or not."""
        kept = like(1.0 - penalty / values, V)
        items = V / like(self.R.item_scale, V)[:, None]
        scores = np.asarray(host(wide_product(self.R.some_times(self.busy, V * kept), items.T)), np.float32)
        others = np.asarray(host(1.0 - own_parts(V, kept)), np.float32)
        found = [_ranks(scores.copy() if True in divides else scores, self.seen, self.held)] * (
            False in divides
        )
        if True in divides:
            scores /= others
            found.append(_ranks(scores, self.seen, self.held))
        return found


def _ranks(scores: NDArray[Any], seen: ObservedLabels, held: ObservedLabels) -> NDArray[np.int64]:
    """The rank of each held-out like among the items that its user has not rated; the last one of equals."""
    own = scores[held.rows, held.indices]
    before, with_equals = np.zeros((2, held.n_observed), dtype=np.int64)
    kernels.ranks.hide_seen(scores, 0, seen.indptr, np.ascontiguousarray(seen.indices, dtype=np.int32))
    kernels.ranks.count_before(
        scores, np.zeros(len(scores), np.float32), held.indptr, own, before, with_equals
    )
    return with_equals


class Judged(NamedTuple):
    """One λ of a trial, judged on all folds."""

    ranks: tuple[NDArray[np.int64], ...]
    """The rank of each held-out like, for each fold."""
    by_user: Floats
    """The NDCG of each user that is looked at."""
    fraction: float
    """λ as a fraction of the largest singular value."""
    counts: tuple[int, ...]
    """How many singular values of each fold were above it."""
    candidate: Candidate

    @property
    def ndcg(self) -> float:
        """Its mean over the users."""
        return self.candidate.metric_value

    def is_clearly_above(self, other: Judged) -> bool:
        """Whether the NDCG is higher by more than the standard error of the difference."""
        gains = self.by_user - other.by_user
        return bool(gains.mean() > gains.std() / np.sqrt(len(gains)))


@dataclass
class Trial:
    """One R, judged at one λ after the other as the decomposition grows."""

    settings: ListSettings
    folds: list[_Fold]
    divides: tuple[bool, ...]
    cap: int
    """The most singular values."""
    fractions: tuple[float, ...] = _FRACTIONS
    judged: dict[float, list[Judged]] = field(default_factory=dict)
    over: bool = False
    """Whether smaller λ need not be looked at: the NDCG has fallen twice."""

    @property
    def best(self) -> Judged:
        """The best of what has been judged; of equals the largest λ."""
        return max(itertools.chain.from_iterable(self.judged.values()), key=lambda one: one.ndcg)

    @property
    def enough(self) -> Judged:
        """The largest λ that the best one is not clearly above."""
        best = self.best
        place = self.divides.index(best.candidate.lists.leave_one_out)
        return next(
            one for one in (there[place] for there in self.judged.values()) if not best.is_clearly_above(one)
        )

    @property
    def complete(self) -> bool:
        """Whether the decompositions have all the singular values that they may have."""
        return all(fold.spectrum.complete or fold.spectrum.columns >= SPARE * self.cap for fold in self.folds)

    def extend(self, columns: int) -> list[Judged]:
        """Judge every λ that Krylov spaces of this dimension have enough singular values for."""
        new: list[Judged] = []
        if self.over:
            return new
        known = map_in_order(lambda fold: self._known(fold, columns), self.folds)
        for fraction in self.fractions:
            there = all(
                enough or fraction * float(values[0]) >= float(values[-1]) for values, _, enough in known
            )
            # Where all values are nearly equal, the largest λ is judged by those that are known.
            if self.over or (self.judged and not there):
                break
            counts = tuple(_above(values, fraction * float(values[0])) for values, _, _ in known)
            before = self.judged.get(fraction)
            # A larger space has more of the values above λ, where many lie close together.
            if before is None or sum(counts) > _CHANGED * sum(before[0].counts):
                self.judged[fraction] = self._judge(fraction, counts, known)
                new += self.judged[fraction]
            self.over = self._has_fallen()
        return new

    def _known(self, fold: _Fold, columns: int) -> tuple[Array, Array, bool]:
        """Singular values, right vectors, and whether there are no more that may be used."""
        spectrum = fold.spectrum
        spectrum.grow(min(columns, int(np.ceil(SPARE * self.cap))))
        count = spectrum.columns if spectrum.complete else int(spectrum.columns / SPARE)
        # Of smaller values single precision knows nothing.
        count = min(count, self.cap, spectrum.count_above(_LEAST * float(spectrum.values[0])))
        return *right_vectors(fold.R, spectrum, count), spectrum.complete or count >= self.cap

    def ranks_alone(self, judged: Judged) -> tuple[Floats, ObservedLabels]:
        """The rank that each held-out like would have as the only one of its user, with these likes."""
        n_users = 1 + max(int(fold.busy.max()) for fold in self.folds)
        alone, rows, columns = [], [], []
        for fold, ranks in zip(self.folds, judged.ranks, strict=True):
            alone.append(ranks_alone(ranks, fold.held.rows))
            rows.append(fold.number * n_users + fold.busy[fold.held.rows])
            columns.append(fold.held.indices)
        row, column = np.concatenate(rows), np.concatenate(columns)
        shape = (n_users * len(self.folds), self.folds[0].held.shape[1])
        likes = ObservedLabels.from_triplets(row, column, np.ones(len(row)), shape=shape)
        return np.concatenate(alone).astype(np.float64), likes

    def _has_fallen(self) -> bool:
        best = [max(one.ndcg for one in there) for there in self.judged.values()]
        return len(best) - 1 - int(np.argmax(best)) >= 2

    def _judge(
        self, fraction: float, counts: tuple[int, ...], known: list[tuple[Array, Array, bool]]
    ) -> list[Judged]:
        ranks, users, penalties = [], [], []
        for fold, count, (values, V, _) in zip(self.folds, counts, known, strict=True):
            penalty = fraction * float(values[0])
            ranks.append(fold.ranks(V[:, :count], values[:count], penalty, self.divides))
            users.append(fold.number * (1 << 40) + fold.busy[fold.held.rows])
            penalties.append(penalty)
        user = np.unique(np.concatenate(users), return_inverse=True)[1]
        trace, rank = Penalties(float(np.mean(penalties))), float(np.mean(counts))
        found = []
        for places, divided in zip(zip(*ranks, strict=True), self.divides, strict=True):
            place = np.concatenate(places)
            ndcg, loss = ndcg_by_user(place, user, SHOWN), 1.0 - float(np.mean(1.0 / np.log2(1.0 + place)))
            settings, parts = self.settings._replace(leave_one_out=divided), _leave_out_means(ndcg)
            value, nan, folds = float(ndcg.mean()), float("nan"), len(self.folds)
            candidate = Candidate(trace, value, nan, loss, rank, folds, parts, lists=settings)
            found.append(Judged(places, ndcg, fraction, counts, candidate))
        return found


def _above(values: Array, penalty: float) -> int:
    return int(namespace(values).count_nonzero(values > penalty))


def _leave_out_means(values: Floats) -> Floats | None:
    """The mean without one part of the values at a time; None where there are fewer than two parts."""
    n_parts = min(N_PARTS, len(values))
    if n_parts < 2:
        return None
    part = np.random.RandomState(0).permutation(len(values)) % n_parts
    sums, counts = np.bincount(part, weights=values), np.bincount(part)
    return np.asarray((values.sum() - sums) / (len(values) - counts))


@dataclass
class Choice:
    """What the comparison found; ``trial`` is None where nothing could be held out."""

    settings: ListSettings
    fraction: float
    candidates: tuple[Candidate, ...] = ()
    trial: Trial | None = None
    columns: int = 0
    """The dimension of its Krylov spaces."""

    def state(self) -> State:
        """Its numbers, as a checkpoint keeps them."""
        rows = [(c.penalties.trace, c.metric_value, c.loss, c.rank, c.n_folds) for c in self.candidates]
        parts = np.full((len(rows), N_PARTS), np.nan)
        for part, candidate in zip(parts, self.candidates, strict=True):
            if candidate.leave_out is not None:
                part[: len(candidate.leave_out)] = candidate.leave_out
        return {
            "chosen": np.array([self.fraction, self.columns, *self.settings], dtype=np.float64),
            "candidates": np.array(rows),
            "settings": np.array([one.lists for one in self.candidates], dtype=np.float64),
            "leave_out": parts,
        }

    @classmethod
    def of(cls, state: State) -> Choice:
        """The choice whose :meth:`state` this is, without its trial."""
        fraction, columns, *settings = state["chosen"].tolist()
        candidates = []
        for row, lists, part in zip(
            *(state[k] for k in ("candidates", "settings", "leave_out")), strict=True
        ):
            trace, value, loss, rank, folds = row.tolist()
            parts = None if np.isnan(part).all() else part[~np.isnan(part)]
            trial = Candidate(Penalties(trace), value, float("nan"), loss, rank, int(folds), parts)
            candidates.append(replace(trial, lists=_settings(lists.tolist())))
        return cls(_settings(settings), fraction, tuple(candidates), columns=int(columns))


def _settings(numbers: list[Any]) -> ListSettings:
    found = ListSettings(*numbers)
    return found._replace(leave_one_out=bool(found.leave_one_out))


@dataclass
class ListChoice:
    """Compares settings on held-out likes."""

    ratings: Ratings
    first: ListSettings
    """The settings to begin with, among them those that were given."""
    axes: dict[str, tuple[Any, ...]]
    """Further values of the settings that may change."""
    cap: int
    run: FitRun
    place: Callable[[Ratings, ListSettings, float], Any] = ScaledLikes
    """What makes R, on the machine that does the work."""

    def __post_init__(self) -> None:
        self._candidates: list[Candidate] = []
        self._mean = mean_value(self.ratings.labels)

    def choose(self, plan: NDArray[np.int8], near: Choice | None = None) -> Choice:
        """The best settings and λ by what the plan holds out; ``near`` has settings that are kept."""
        if not (plan >= 0).any():
            return near or Choice(self.first, _UNJUDGED)
        self._plan = plan
        if near is not None:
            only = self._extend([self._trial(near.settings)], _COLUMNS * _GROWTH)
            # Where it was stopped before, λ is that of the sample.
            return self._grown(only[0], _COLUMNS * _GROWTH) if only else replace(near, trial=None)
        divides = self.axes.get("leave_one_out", (self.first.leave_one_out,))
        powers = itertools.product(*(self._values(name) for name in ("user_power", "item_power")))
        trials = [self._trial(self.first._replace(user_power=a, item_power=b), divides) for a, b in powers]
        columns = _COLUMNS
        trials = self._extend(trials, columns)
        if not trials:
            raise Stopped
        while len(trials) > _REST:
            trials = sorted(trials, key=lambda trial: -trial.best.ndcg)[: -(-len(trials) // _REST)]
            columns *= _GROWTH
            self._extend(trials, columns)
        best = max(trials, key=lambda trial: trial.best.ndcg)
        for name in ("dislike_value", "value_power"):
            others = [value for value in self._values(name) if value != getattr(best.settings, name)]
            beside = [self._trial(best.settings._replace(**{name: value}), divides) for value in others]
            best = max([best, *self._extend(beside, columns)], key=lambda trial: trial.best.ndcg)
        return self._grown(best, columns)

    def again(self, plan: NDArray[np.int8], choice: Choice) -> Choice:
        """The trial of a choice that is known, in Krylov spaces of its dimension or larger ones."""
        self._plan, columns = plan, choice.columns
        trial = self._trial(choice.settings)
        trial.fractions = (choice.fraction,)
        while not trial.judged:
            trial.extend(columns)
            columns *= 2
        return replace(choice, trial=trial)

    def _grown(self, trial: Trial, columns: int) -> Choice:
        """The only trial that is left, with as many singular values as it takes."""
        best, pays = trial.best, True
        while pays and not (trial.over or trial.complete or self.run.checkpoint.stopping()):
            columns *= 2
            self._extend([trial], columns)
            pays, best = trial.best.is_clearly_above(best), trial.best
        enough = trial.enough
        candidates = (*self._candidates, enough.candidate)
        columns = max(fold.spectrum.columns for fold in trial.folds)
        return Choice(enough.candidate.lists, enough.fraction, candidates, trial, columns)

    def _values(self, name: str) -> tuple[Any, ...]:
        return self.axes.get(name, (getattr(self.first, name),))

    def _extend(self, trials: list[Trial], columns: int) -> list[Trial]:
        """Judge more of the trials, none once the fit is to stop; those of which anything is judged."""
        stopping = self.run.checkpoint.stopping
        new = map_in_order(lambda trial: [] if stopping() else trial.extend(columns), trials)
        for trial, judged in zip(trials, new, strict=True):
            self._candidates += [one.candidate for one in judged]
            if judged:
                self.run.candidate(trial.best.candidate)
        return [trial for trial in trials if trial.judged]

    def _trial(self, settings: ListSettings, divides: tuple[bool, ...] | None = None) -> Trial:
        folds = [self._fold(number, settings) for number in self._folds()]
        return Trial(settings, folds, divides or (settings.leave_one_out,), self.cap)

    def _folds(self) -> Iterable[int]:
        return range(int(self._plan.max()) + 1)

    def _fold(self, number: int, settings: ListSettings) -> _Fold:
        held_out = self._plan == number
        train = self.ratings.select(~held_out)
        R = self.place(train, settings, self._mean)
        likes = self.ratings.labels.select(held_out & (self.ratings.labels.values == 1))
        busy = np.flatnonzero((likes.row_counts() > 0) & (train.labels.row_counts() > 0))
        held, seen = (replace(labels, row_names=None).take_rows(busy) for labels in (likes, train.labels))
        spectrum = Spectrum(R.normal, first_vectors(min(R.shape), R.example))
        return _Fold(number, R, spectrum, held, seen, busy, self.ratings.labels.select(held_out))


def ranking_plan(labels: ObservedLabels, how: str, rng: np.random.RandomState) -> NDArray[np.int8]:
    """For each rating the fold in which it is held out, or −1; as few folds, and users, as tell enough."""
    n_folds = min(N_FOLDS, labels.n_observed // 2)
    if n_folds < 2:
        return np.full(labels.n_observed, NEVER, dtype=np.int8)
    folds = labels.fold_numbers(n_folds, random_state=rng).astype(np.int8)
    n, n_items = labels.shape
    judged = np.ones(n, dtype=np.bool_)
    judged[rng.permutation(n)[max(_FEWEST_USERS, _MOST_RANKED // max(n_items, 1)) :]] = False
    of_judged = np.repeat(judged, labels.row_counts())
    likes = int(np.sum((labels.values == 1) & of_judged))
    needed = 1 if how == "holdout" else int(np.clip(-(-n_folds * _ENOUGH_LIKES // max(likes, 1)), 1, n_folds))
    plan, number = np.full(labels.n_observed, NEVER, dtype=np.int8), 0
    for fold in range(needed):
        held = (folds == fold) & of_judged
        if _tells(labels, held):
            plan[held] = number
            number += 1
    return plan


def _tells(labels: ObservedLabels, held: NDArray[np.bool_]) -> bool:
    """Whether there are likes to rank by what remains."""
    remaining = np.bincount(labels.rows[~held], minlength=labels.shape[0])
    likes = labels.values == 1
    return bool((likes & ~held).any() and (remaining[labels.rows[likes & held]] > 0).any())
