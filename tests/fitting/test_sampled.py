"""Settings chosen by a sample of the users, and the look at λ for all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labelgap import ObservedLabels, Recommender
from labelgap.fitting import sampled
from labelgap.fitting.penalty_grid import PenaltyGrid
from labelgap.fitting.search import Candidate
from labelgap.fitting.trace_search import confirm_trace, loss_curvature, weaken
from labelgap.recommending.closed_form import fit
from labelgap.solvers import FitListener, Penalties, Progress
from labelgap.solvers.loop import Stopped

TRACES = [2.0 ** (-step / 2) for step in range(13)]
GRID = PenaltyGrid(TRACES, (0.0,), (1.0, 4.0))


def candidate(place: int, loss: float, *, intercept: float = 1.0, weighting: float = 0.75) -> Candidate:
    penalties = Penalties(TRACES[place], 0.0, intercept)
    return Candidate(penalties, -loss, 0.0, loss, 1.0, 1, count_weighting=weighting)


class Valley:
    """Held-out losses along a parabola in steps of λ, and which steps were asked for."""

    def __init__(self, bottom: float, curvature: float = 0.02) -> None:
        self.bottom, self.curvature = bottom, curvature
        self.asked: list[int] = []

    def loss(self, place: int) -> float:
        return 0.5 + self.curvature / 2 * (place - self.bottom) ** 2

    def __call__(self, choices: list[Penalties]) -> list[Candidate]:
        places = [GRID.place_of(choice)[0] for choice in choices]
        self.asked += places
        return [candidate(place, self.loss(place)) for place in places]


@pytest.mark.parametrize("bottom", range(len(TRACES)))
@pytest.mark.parametrize("start", [0, 5, len(TRACES) - 1])
@pytest.mark.parametrize("is_known", [False, True])
def test_the_best_trace_penalty_is_confirmed(bottom: int, start: int, is_known: bool) -> None:
    valley = Valley(bottom)
    curvature = valley.curvature if is_known else None
    best = confirm_trace(valley, GRID, (start, 0, 0), curvature=curvature)
    assert GRID.place_of(best.penalties) == (bottom, 0, 0)


def test_a_smaller_trace_penalty_is_not_fitted_where_the_curvature_says_that_it_is_worse() -> None:
    for bottom, beyond in ((5.0, []), (5.4, []), (5.6, [6]), (7.9, [6, 7, 8]), (4.0, [3])):
        valley = Valley(bottom)
        confirm_trace(valley, GRID, (5, 0, 0), curvature=valley.curvature)
        assert valley.asked == [4, 5, *beyond]


@pytest.mark.parametrize(("trace", "ridge"), [(4, 6), (6, 4), (10, 0), (5, 2)])
def test_penalties_of_a_sample_are_weakened_where_all_rows_want_less(trace: int, ridge: int) -> None:
    grid = PenaltyGrid(TRACES, tuple(10.0 ** (step / 2) for step in range(9)), (0.0,))
    asked: list[tuple[int, int, int]] = []

    def compare(choices: list[Penalties]) -> list[Candidate]:
        places = [grid.place_of(choice) for choice in choices]
        asked.extend(places)
        losses = [0.5 + 0.01 * (place[0] - trace) ** 2 + 0.01 * (place[1] - ridge) ** 2 for place in places]
        return [
            Candidate(choice, -loss, 0.0, loss, 1.0, 1) for choice, loss in zip(choices, losses, strict=True)
        ]

    best = grid.place_of(weaken(compare, compare, grid, (4, 6, 0)).penalties)
    assert abs(best[0] - trace) <= 1
    assert abs(best[1] - ridge) <= 1
    # Where the sample was right, one fit says so.
    assert asked[:2] == [(4, 6, 0), (6, 4, 0)]
    assert (len(asked) == 2) == ((trace, ridge) == (4, 6))


def test_a_stopped_look_returns_the_best_so_far() -> None:
    valley = Valley(9.0)

    def compare(choices: list[Penalties]) -> list[Candidate]:
        if len(valley.asked) >= 4:
            raise Stopped
        return valley(choices)

    assert GRID.place_of(confirm_trace(compare, GRID, (5, 0, 0)).penalties)[0] == 7
    with pytest.raises(Stopped):
        confirm_trace(compare, GRID, (5, 0, 0))


def test_the_curvature_is_that_of_the_candidates_with_the_settings_that_won() -> None:
    valley = Valley(4.3, curvature=0.03)
    others = [candidate(place, 0.9, weighting=0.5) for place in (3, 4, 5)]
    others += [candidate(4, 0.9, intercept=4.0)]
    # Steps of two sizes, as a search takes them.
    path = [candidate(place, valley.loss(place)) for place in (0, 2, 4, 6, 5)]
    assert loss_curvature([*path[:3], *others, *path[3:]], GRID) == pytest.approx(0.03)
    # Of settings with fewer than three candidates nothing is known; those of the beginning are next best.
    assert loss_curvature([*path, candidate(4, 0.4, weighting=1.0)], GRID) == pytest.approx(0.03)
    assert loss_curvature(path[:2], GRID) is None
    assert loss_curvature([candidate(place, 1.0 - 0.1 * place**2) for place in range(4)], GRID) is None


def test_users_are_drawn_until_they_have_enough_ratings() -> None:
    labels = ObservedLabels.from_dense(np.tril(np.ones((40, 30))) + 0.0)
    rng = np.random.RandomState(0)
    assert sampled.sample_of_users(labels, 600, rng) is None
    drawn = sampled.sample_of_users(labels, 100, rng)
    assert drawn is not None
    assert np.all(np.diff(drawn) > 0)
    assert 100 <= labels.row_counts()[drawn].sum() < 140


def test_four_times_as_many_users_want_a_trace_penalty_one_step_smaller() -> None:
    assert sampled.moved((3, 0, 1), GRID, 4.0) == (4, 0, 1)
    assert sampled.moved((3, 0, 1), GRID, 64.0) == (6, 0, 1)
    assert sampled.moved((11, 0, 1), GRID, 64.0) == (12, 0, 1)


@pytest.fixture(scope="module")
def ratings() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((120, 30)) < 0.4)
    score = (rng.standard_normal((120, 2)) @ rng.standard_normal((2, 30)))[users, items]
    return users, items, (score + 0.5 * rng.standard_normal(len(users)) > 0).astype(int)


@pytest.mark.slow
def test_a_sample_of_the_users_chooses_for_decisions_where_there_are_many(
    ratings: tuple[np.ndarray, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = Recommender(random_state=0).fit(ratings)
    monkeypatch.setattr(sampled, "ENOUGH_RATINGS", 400)
    model, again = (
        Recommender(random_state=0).fit(ratings, checkpoint=tmp_path / name) for name in ("one", "two")
    )
    np.testing.assert_array_equal(model.item_factors_, again.item_factors_)
    assert model.threshold_ == again.threshold_
    assert model.relative_gap_ <= 1e-3
    # Candidates of the sample are listed in the units of all ratings.
    assert model.candidates_[0].penalties == whole.candidates_[0].penalties
    # The last fit has more ratings than a fold, and so a smaller λ.
    assert model.trace_penalty_ == pytest.approx(model.candidates_[-1].penalties.trace * 0.8**0.5, rel=1e-2)
    assert model.count_weighting_ == model.candidates_[-1].count_weighting
    assert abs(model.held_out_metric_ - whole.held_out_metric_) < 0.05


def test_a_sample_chooses_where_the_count_weighting_is_given(
    ratings: tuple[np.ndarray, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampled, "ENOUGH_RATINGS", 400)
    model = Recommender(random_state=0, count_weighting=0.5).fit(ratings)
    assert model.count_weighting_ == 0.5
    assert {c.count_weighting for c in model.candidates_} == {None}


# -- lists ---------------------------------------------------------------------------------------------------


def likes_by_taste(n: int, n_items: int) -> tuple[list[str], list[str], np.ndarray]:
    """Stars of users who rate what they like."""
    rng = np.random.default_rng(0)
    taste = rng.standard_normal((n, 2)) @ rng.standard_normal((2, n_items))
    users, items = np.nonzero(taste + rng.gumbel(size=taste.shape) > 1.2)
    stars = np.clip(np.round(3 + taste[users, items] + 0.5 * rng.standard_normal(len(users))), 1, 5)
    return [f"u{user}" for user in users], [f"i{item}" for item in items], stars


def listing(**settings: Any) -> Recommender:
    return Recommender(positive=4, unobserved="negative", random_state=0, **settings)


def test_a_sample_chooses_what_lists_are_made_by(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ratings = likes_by_taste(80, 40)
    by_all = listing().fit(ratings)
    monkeypatch.setattr(fit, "ENOUGH_RATINGS", 300)
    judged: list[Candidate] = []

    class Broken(FitListener):
        def candidate(self, candidate: Candidate) -> None:
            judged.append(candidate)

        def __call__(self, progress: Progress) -> None:
            raise RuntimeError

    model = listing().fit(ratings)
    with pytest.raises(RuntimeError):
        listing().fit(ratings, callback=Broken(), checkpoint=tmp_path)
    n_judged = len(judged)
    with pytest.raises(RuntimeError):
        listing().fit(ratings, callback=Broken(), checkpoint=tmp_path)
    assert len(judged) == n_judged > 0
    again = listing().fit(ratings, checkpoint=tmp_path)
    np.testing.assert_array_equal(model.item_factors_, again.item_factors_)
    assert (repr(model.candidates_), model.threshold_) == (repr(again.candidates_), again.threshold_)
    # All users are in the fit and judge λ, though some of them have chosen the rest.
    assert set(model.user_ids_) == set(ratings[0])
    judged_by = [one.candidates_[-1].metric_value for one in (model, by_all)]
    assert judged_by[0] == pytest.approx(judged_by[1], abs=0.1)
    assert model.held_out_metric_ is not None
    assert model.batches_[0].metric is not None
    assert 0 < model.decide_matrix().mean() < 1
