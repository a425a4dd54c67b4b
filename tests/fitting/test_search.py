"""The search for penalties, with judges whose opinion is a formula or a table."""

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelgap.exceptions import UnknownNameError
from labelgap.fitting import search
from labelgap.fitting.penalty_grid import PenaltyGrid
from labelgap.fitting.search import (
    Candidate,
    Contest,
    leading,
    select_penalties,
    select_roughly,
    select_trace,
)
from labelgap.solvers import Penalties
from labelgap.solvers.loop import Stopped

pytestmark = pytest.mark.pairwise

TRACES = tuple(2.0**-step for step in range(10))
RIDGES = tuple(2.0**power for power in range(-4, 4))
INTERCEPTS = (0.0, 1.0, 3.0, 7.0)
STRIDES = ((4, 2), (2, 1), (1, 1))
N_PARTS = 6


class FakeJudge:
    """Metric and loss as functions of (λ, λ₂, κ); remembers what it was asked, and will not be asked twice.

    ``noise`` is about the standard error of a metric value; None leaves that unknown. ``again`` is how many
    choices may be judged once more, and ``empty`` the λ from which on W = 0.
    """

    def __init__(self, quality, loss=None, noise=None, again=0, empty=np.inf):
        self.quality, self.loss, self.noise, self.asked = quality, loss, noise, {}
        self.again, self.empty = again, empty

    def __call__(self, choices):
        assert len(choices) > 0
        return [self.judge(penalties) for penalties in choices]

    def judge(self, penalties):
        key = (penalties.trace, penalties.ridge, penalties.intercept)
        self.again -= key in self.asked
        assert self.again >= 0, f"{key} is judged twice"
        value = float(self.quality(*key))
        loss = -value if self.loss is None else float(self.loss(*key))
        leave_out = None
        if self.noise is not None:
            # Another pattern for each choice, so that differences are as unsure as the values.
            pattern = np.random.default_rng(len(self.asked)).standard_normal(N_PARTS)
            leave_out = value + self.noise / np.sqrt(N_PARTS) * pattern
        rank = float(penalties.trace < self.empty)
        self.asked[key] = Candidate(penalties, value, 0.5, loss, rank=rank, leave_out=leave_out)
        return self.asked[key]

    @property
    def traces(self):
        return [trace for trace, _, _ in self.asked]


def hill(trace, ridge=None, intercept=None):
    """A smooth hill in the logarithms with its top at the given penalties."""

    def quality(t, r, k):
        height = -(np.log2(t / trace) ** 2)
        if ridge is not None:
            height -= np.log2(r / ridge) ** 2
        if intercept is not None:
            height -= np.log2((k + 1) / (intercept + 1)) ** 2
        return 0.01 * height

    return quality


def obvious_choice(candidates, criterion="metric"):
    """The rule by a loop: who leads among the candidates in the order they were tried."""
    if criterion == "loss":
        return min(candidates, key=lambda c: c.loss)
    top = max(candidates, key=lambda c: c.metric_value)
    best = None
    for candidate in candidates:
        error = 0.0
        if candidate.leave_out is not None and top.leave_out is not None:
            parts = len(top.leave_out)
            gaps = [a - b for a, b in zip(candidate.leave_out, top.leave_out, strict=True)]
            mean = sum(gaps) / parts
            error = ((parts - 1) / parts * sum((gap - mean) ** 2 for gap in gaps)) ** 0.5
        alike = top.metric_value - candidate.metric_value <= search._ALIKE * error
        if alike and (best is None or candidate.loss < best.loss):
            best = candidate
    return best


# -- the grid -----------------------------------------------------------------------------------------------


def test_the_grid_knows_its_places():
    grid = PenaltyGrid((0.3, 0.1), (0.2, 0.4, 0.8), (0.0, 5.0), centre=1.0)
    assert grid.at((1, 2, 0)) == Penalties(0.1, 0.8, 0.0, 1.0)
    assert not grid.is_single
    inside = set(product(range(2), range(3), range(2)))
    for place in product(range(-1, 4), repeat=3):
        assert grid.holds(place) == (place in inside)


def test_a_single_choice_is_judged_once():
    grid = PenaltyGrid((0.3,), (0.2,), (0.1,), centre=1.0)
    assert grid.is_single
    judge = FakeJudge(hill(1.0))
    assert select_penalties(judge, grid).penalties == Penalties(0.3, 0.2, 0.1, 1.0)
    assert len(judge.asked) == 1


@pytest.mark.parametrize("criterion", ["metric", "loss"])
def test_rounding_does_not_choose_between_penalties_that_changed_nothing(criterion):
    losses = (0.4, 0.3 * (1 + 1e-12), 0.3, 0.3 * (1 - 1e-12), 0.31)
    made = [Candidate(Penalties(1.0), 0.5, 0.1, loss, 3.0) for loss in losses]
    assert leading(made, criterion) == 1
    assert leading(made[2:], criterion) == 0
    assert leading([*made, Candidate(Penalties(1.0), 0.5, 0.1, 0.299, 3.0)], criterion) == 5


def test_candidates_are_equal_whatever_is_known_of_their_sureness():
    plain = Candidate(Penalties(1.0), 0.5, 0.1, 0.2, 3.0)
    sure = Candidate(Penalties(1.0), 0.5, 0.1, 0.2, 3.0, leave_out=np.ones(4))
    assert plain == sure
    assert plain != Candidate(Penalties(1.0), 0.5, 0.1, 0.2, 3.0, n_folds=5)
    assert "leave_out" not in repr(sure)


# -- the way through it -------------------------------------------------------------------------------------


def test_the_top_of_a_hill_along_the_trace_penalties_is_found_without_walking_to_the_end():
    judge = FakeJudge(hill(2.0**-3))
    best = select_penalties(judge, PenaltyGrid(TRACES))
    assert best is judge.asked[2.0**-3, 0.0, 0.0]
    assert judge.traces[:4] == list(TRACES[:4])
    assert len(judge.asked) < len(TRACES)


def test_the_way_down_sees_over_a_dip_where_the_first_directions_come():
    values = dict(zip(TRACES, [0.3, 0.2, 0.5, 0.6, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1], strict=True))
    judge = FakeJudge(lambda trace, ridge, intercept: values[trace], empty=TRACES[0])
    assert select_penalties(judge, PenaltyGrid(TRACES)).penalties.trace == TRACES[3]


def test_the_way_down_ends_at_the_first_trace_penalty_that_is_clearly_worse():
    values = dict(zip(TRACES, [0.3, 0.5, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1], strict=True))
    judge = FakeJudge(lambda trace, ridge, intercept: values[trace], empty=TRACES[0])
    assert select_penalties(judge, PenaltyGrid(TRACES)).penalties.trace == TRACES[1]
    assert judge.traces == list(TRACES[:3])


def test_ties_stay_with_the_larger_penalty():
    judge = FakeJudge(lambda trace, ridge, intercept: 0.5)
    grid = PenaltyGrid(TRACES, ridges=(0.1, 0.2), intercepts=(0.0, 1.0))
    assert select_penalties(judge, grid).penalties == Penalties(1.0, 0.1)


@pytest.mark.parametrize("strides", [((1, 1),), STRIDES, ((3, 3), (1, 1))])
@pytest.mark.parametrize(
    "top",
    [
        *product((TRACES[0], TRACES[-1]), (RIDGES[0], RIDGES[-1]), (INTERCEPTS[0], INTERCEPTS[-1])),
        *[(2.0**-3, 4.0, 3.0), (2.0**-6, 2.0**-3, 1.0), (2.0**-5, 1.0, 0.0)],
    ],
)
@pytest.mark.parametrize("noise", [None, 1e-6])
def test_the_top_of_a_hill_is_found_wherever_it_is(top, strides, noise):
    judge = FakeJudge(hill(*top), noise=noise)
    grid = PenaltyGrid(TRACES, RIDGES, INTERCEPTS, centre=-1.5, first_ridge=4, strides=strides)
    best = select_penalties(judge, grid)
    assert best.penalties == Penalties(*top, -1.5)
    # The search begins at the ridge it was told, with intercepts left free, and is far from exhaustive.
    assert next(iter(judge.asked)) == (TRACES[0], RIDGES[4], 0.0)
    assert len(judge.asked) < 0.3 * len(TRACES) * len(RIDGES) * len(INTERCEPTS)


@pytest.mark.parametrize("end", [0, -1])
def test_a_step_of_the_ridge_that_would_leave_the_grid_ends_at_its_edge(end):
    # From the second of four ridges, steps of two lead past both ends.
    ridges = RIDGES[:4]
    grid = PenaltyGrid(TRACES, ridges, first_ridge=1, strides=((1, 2),))
    judge = FakeJudge(hill(2.0**-3, ridges[end]))
    assert select_penalties(judge, grid).penalties == Penalties(2.0**-3, ridges[end])


def test_larger_steps_come_first():
    judge = FakeJudge(hill(2.0**-7))
    select_penalties(judge, PenaltyGrid(TRACES, strides=((4, 1), (2, 1), (1, 1))))
    steps = [-int(np.log2(trace)) for trace in judge.traces]
    assert steps[:3] == [0, 4, 8]
    # Odd places only once the steps of two have nothing more to say.
    odd = [step % 2 for step in steps]
    assert odd == sorted(odd)
    assert steps[-1] in (6, 7, 8)


def ridge_that_replaces_trace(trace, ridge, intercept):
    """More ridge alone is a little worse, with less trace a little better: the hill runs along a diagonal."""
    return -2e-5 * (np.log2(trace * ridge) + 4) ** 2 + 1e-5 * np.log2(ridge)


@pytest.mark.parametrize("noise", [None, 1e-3])
def test_the_trace_penalty_follows_when_the_ridge_moves(noise):
    ridges = tuple(2.0**power for power in range(4))
    judge = FakeJudge(ridge_that_replaces_trace, noise=noise)
    assert select_penalties(judge, PenaltyGrid(TRACES, ridges)).penalties == Penalties(2.0**-7, 2.0**3)


def test_a_ridge_far_behind_is_not_followed_up():
    def quality(trace, ridge, intercept):
        return hill(2.0**-3)(trace, ridge, intercept) - (0.0 if ridge == 1.0 else 5.0)

    judge = FakeJudge(quality)
    best = select_penalties(judge, PenaltyGrid(TRACES, (0.5, 1.0, 2.0), first_ridge=1))
    assert best.penalties == Penalties(2.0**-3, 1.0)
    # One look at each, where the leader was.
    assert [key[:2] for key in judge.asked if key[1] != 1.0] == [(2.0**-3, 2.0), (2.0**-3, 0.5)]


# -- a coarse search ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("top", [(2.0**-3, 4.0, 3.0), (2.0**-6, 2.0**-3, 1.0), (1.0, 1.0, 0.0)])
def test_a_coarse_search_is_the_best_of_fewer_looks(top):
    grid = PenaltyGrid(TRACES, RIDGES, INTERCEPTS, first_ridge=4, strides=STRIDES)
    rough, close, thorough = (FakeJudge(hill(*top)) for _ in range(3))
    best = select_penalties(rough, grid, closely=close).penalties
    assert select_penalties(thorough, grid).penalties == Penalties(*top)
    assert (best.trace, best.ridge, best.intercept) == max(close.asked, key=lambda asked: hill(*top)(*asked))
    assert len(rough.asked) + len(close.asked) < len(thorough.asked)


# Numbers of ridges on the way from the first one, 12, with a step of 1: steps of 1, 1, 2, 4 and so on, and
# what the last one went past.
@pytest.mark.parametrize(
    ("top", "looks"),
    [
        (12, [11, 13]),
        (13, [11, 13, 14]),
        (11, [11, 10]),
        (10, [11, 10, 8, 9]),
        (9, [11, 10, 8, 9]),
        (8, [11, 10, 8, 4, 6]),
        (0, [11, 10, 8, 4, 0]),
    ],
)
def test_a_coarse_search_follows_the_ridge_in_steps_that_double(top, looks):
    ridges = tuple(2.0**power for power in range(-12, 4))
    grid = PenaltyGrid(TRACES, ridges, first_ridge=12, strides=((2, 1), (2, 1), (1, 1)))
    quality = hill(2.0**-4, ridges[top])
    close = FakeJudge(quality)
    best = select_penalties(FakeJudge(quality), grid, closely=close).penalties
    assert [ridges.index(key[1]) for key in close.asked if key[1] != ridges[12]] == looks
    assert best.ridge == ridges[top]


def test_close_looks_decide():
    # From rough fits the smaller λ seems better, from close ones its neighbour is.
    rough, close = FakeJudge(hill(2.0**-4)), FakeJudge(hill(2.0**-3))
    grid = PenaltyGrid(TRACES, strides=((2, 1), (2, 1), (1, 1)))
    assert select_penalties(rough, grid, closely=close).penalties.trace == 2.0**-3
    assert 2.0**-4 in close.traces


# The best λ as a power of two; of 2⁻⁴, which leads, the neighbour of a smaller λ is better from 4.5 on only.
@pytest.mark.parametrize(("power", "beside"), [(3.2, 3), (3.8, 3), (4.4, 3), (4.6, 5), (4.9, 5)])
def test_a_smaller_penalty_is_looked_at_closely_only_where_a_parabola_says_that_it_is_better(power, beside):
    quality = hill(2.0**-power)
    close = FakeJudge(quality)
    grid = PenaltyGrid(TRACES, strides=((2, 1), (2, 1), (1, 1)))
    select_penalties(FakeJudge(quality), grid, closely=close)
    assert close.traces == [2.0**-4, 2.0**-beside]


def test_a_coarse_search_ends_at_the_first_penalty_that_is_clearly_too_small():
    def cliff(trace, ridge, intercept):
        return 0.5 - 0.001 * abs(np.log2(trace) + 4) if trace > 2.0**-5 else 0.1

    judge = FakeJudge(cliff)
    grid = PenaltyGrid(TRACES, strides=((4, 1), (2, 1), (1, 1)))
    select_penalties(judge, grid, closely=FakeJudge(cliff))
    assert min(judge.traces) == 2.0**-6


@pytest.mark.parametrize("top", [2.0**-1, 2.0**-4, 2.0**-7])
@pytest.mark.parametrize("together", [2, 3])
def test_penalties_that_are_compared_together_are_chosen_from_alike(top, together):
    grid = PenaltyGrid(TRACES, strides=((2, 1), (2, 1), (1, 1)))
    alone, sizes = FakeJudge(hill(top)), []
    judge = FakeJudge(hill(top))

    def compare(choices):
        sizes.append(len(choices))
        return judge(choices)

    expected = select_penalties(alone, grid, closely=FakeJudge(hill(top)))
    found = select_penalties(compare, grid, closely=FakeJudge(hill(top)), together=together)
    assert found.penalties == expected.penalties
    assert max(sizes) == together
    # At most the rest of the last comparison is looked at in vain.
    assert judge.traces[: len(alone.traces)] == alone.traces
    assert len(judge.traces) < len(alone.traces) + together


def test_a_parabola_that_turns_down_spares_a_look():
    # 0, 0.38, 0.40: the next would be at 0.06.
    heights = {1.0: 0.0, 2.0**-2: 0.38, 2.0**-4: 0.4, 2.0**-6: 0.06}
    judge = FakeJudge(lambda trace, ridge, intercept: heights[trace])
    close = FakeJudge(lambda trace, ridge, intercept: heights.get(trace, 0.39))
    grid = PenaltyGrid(TRACES, strides=((4, 1), (2, 1), (1, 1)))
    assert select_penalties(judge, grid, closely=close).penalties.trace == 2.0**-4
    assert judge.traces == [1.0, 2.0**-2, 2.0**-4]
    # Of the neighbours only the one on the higher side is looked at.
    assert close.traces == [2.0**-4, 2.0**-3]


@pytest.mark.parametrize("criterion", ["metric", "loss"])
# The third of the second line is a fit that stayed where it began.
@pytest.mark.parametrize("losses", [(0.693, 0.326, 0.192, 0.071, 0.061), (0.693, 0.151, 0.151, 0.084, 0.061)])
def test_gains_that_become_smaller_do_not_end_a_coarse_search(losses, criterion):
    # As on Bibtex without an intercept: the first direction stands in for it, and the others come later.
    metric = dict(zip(TRACES[::2], (0.029, 0.041, 0.043, 0.197, 0.31), strict=True))
    loss = dict(zip(TRACES[::2], losses, strict=True))
    judge = FakeJudge(lambda trace, *_: metric[trace], lambda trace, *_: loss[trace])
    close = FakeJudge(lambda trace, *_: metric.get(trace, 0.2), lambda trace, *_: loss.get(trace, 0.1))
    grid = PenaltyGrid(TRACES, strides=((4, 1), (2, 1), (1, 1)))
    assert select_penalties(judge, grid, criterion=criterion, closely=close).penalties.trace == 2.0**-8


@pytest.mark.parametrize("top", range(len(TRACES)))
@pytest.mark.parametrize("start", [0, 4, len(TRACES) - 1])
@pytest.mark.parametrize("is_known", [False, True])
def test_the_best_trace_penalty_near_a_start_is_found_step_by_step(top, start, is_known):
    grid, place = PenaltyGrid(TRACES, RIDGES, INTERCEPTS), (start, 2, 1)
    quality = hill(TRACES[top])
    known = FakeJudge(quality).judge(grid.at(place)) if is_known else None
    judge = FakeJudge(quality)
    found = select_trace(judge, grid, place, known=known)
    assert grid.place_of(found.penalties) == (top, 2, 1)
    # The steps towards the top, one beyond it, and one to the other side.
    assert len(judge.asked) <= abs(top - start) + 3 - is_known
    assert {(ridge, intercept) for _, ridge, intercept in judge.asked} <= {(RIDGES[2], INTERCEPTS[1])}


def test_a_stopped_look_at_trace_penalties_returns_the_best_so_far():
    grid, judge = PenaltyGrid(TRACES), FakeJudge(hill(TRACES[7]))

    def compare(choices):
        if len(judge.asked) == 3:
            raise Stopped
        return judge(choices)

    assert select_trace(compare, grid, (2, 0, 0)).penalties.trace == TRACES[4]
    with pytest.raises(Stopped):
        select_trace(compare, grid, (2, 0, 0))


def test_a_stopped_close_look_leaves_what_the_rough_ones_found():
    def stop(choices):
        raise Stopped

    best = select_penalties(FakeJudge(hill(2.0**-4)), PenaltyGrid(TRACES), closely=stop)
    assert best.penalties.trace == 2.0**-4


# -- who leads ----------------------------------------------------------------------------------------------


def loss_valley(trace):
    return lambda t, r, k: 1.0 + np.log2(t / trace) ** 2


@pytest.mark.parametrize(("noise", "expected"), [(10.0, 2.0**-3), (1e-9, 2.0**-5), (None, 2.0**-5)])
def test_the_loss_decides_among_metric_values_that_cannot_be_told_apart(noise, expected):
    judge = FakeJudge(hill(2.0**-5), loss_valley(2.0**-3), noise)
    assert select_penalties(judge, PenaltyGrid(TRACES)).penalties.trace == expected


def test_the_loss_does_not_decide_where_the_metric_can():
    # Down to 2⁻⁵ the metric falls off a cliff; between the two it says next to nothing.
    def quality(trace, ridge, intercept):
        return 0.5 + 1e-4 * np.log2(trace) if trace >= 2.0**-4 else 0.2

    judge = FakeJudge(quality, loss_valley(2.0**-6), noise=0.01)
    assert select_penalties(judge, PenaltyGrid(TRACES)).penalties.trace == 2.0**-4


def test_the_loss_can_be_the_only_criterion():
    for noise in (None, 10.0):
        judge = FakeJudge(hill(2.0**-5), loss_valley(2.0**-2), noise)
        assert select_penalties(judge, PenaltyGrid(TRACES), criterion="loss").penalties.trace == 2.0**-2


def test_an_unknown_criterion_is_named_before_anything_is_fitted():
    judge = FakeJudge(hill(1.0))
    with pytest.raises(UnknownNameError, match="metrik"):
        select_penalties(judge, PenaltyGrid(TRACES), criterion="metrik")
    assert judge.asked == {}


numbers = st.integers(0, 6).map(lambda value: value / 6)
tables = st.lists(
    st.tuples(numbers, numbers, st.none() | st.lists(numbers, min_size=4, max_size=4)),
    min_size=1,
    max_size=24,
)


def judge_by_table(table, grid):
    """Ties, plateaus and sheer noise: any metric, loss and sureness at any place."""
    answers = iter(range(10**6))

    def judge(penalties):
        value, loss, offsets = table[next(answers) % len(table)]
        leave_out = None if offsets is None else value + np.array(offsets)
        return Candidate(penalties, value, 0.5, loss, 1.0, leave_out=leave_out)

    return lambda choices: [judge(penalties) for penalties in choices]


@settings(max_examples=150, deadline=None)
@given(table=tables, criterion=st.sampled_from(["metric", "loss"]))
def test_property_the_leader_is_the_obvious_choice(table, criterion):
    grid = PenaltyGrid(np.geomspace(1, 0.1, len(table)))
    contest = Contest(judge_by_table(table, grid), grid, criterion)
    for step in range(len(table)):
        contest.look_at((step, 0, 0), (step, 0, 0))
        contest.look_at((0, 0, 0))
        assert len(contest.tried) == step + 1
        assert contest.tried[contest.leader()] is obvious_choice(list(contest.tried.values()), criterion)


@settings(max_examples=150, deadline=None)
@given(
    table=tables,
    lengths=st.tuples(st.integers(1, 9), st.integers(1, 4), st.integers(1, 3)),
    strides=st.sampled_from([((1, 1),), STRIDES, ((2, 2), (2, 2))]),
    criterion=st.sampled_from(["metric", "loss"]),
    coarse=st.booleans(),
    data=st.data(),
)
def test_property_any_search_ends_with_the_leader_of_what_it_judged_once(
    table, lengths, strides, criterion, coarse, data
):
    traces, ridges, intercepts = (np.arange(1.0, length + 1) for length in lengths)
    first = data.draw(st.integers(0, lengths[1] - 1))
    grid = PenaltyGrid(traces[::-1], ridges, intercepts, first_ridge=first, strides=strides)
    by_table, roughly, closely = judge_by_table(table, grid), [], []

    def judge(judged, choices):
        found = by_table(choices)
        judged.extend(found)
        return found

    close = partial(judge, closely) if coarse else None
    best = select_penalties(partial(judge, roughly), grid, criterion=criterion, closely=close)
    assert best is obvious_choice(closely if coarse else roughly, criterion)
    for judged in (roughly, closely):
        assert len({candidate.penalties for candidate in judged}) == len(judged)


# -- the coarse search of a sample ---------------------------------------------------------------------------


@pytest.mark.parametrize(("trace", "ridge"), [(2.0**-4, 2.0**-1), (2.0**-3, 1.0), (2.0**-6, 2.0)])
def test_a_rough_search_comes_next_to_the_top_with_few_fits(trace, ridge):
    # The best λ is fitted again beside its neighbours.
    judge = FakeJudge(hill(trace, ridge), again=1)
    grid = PenaltyGrid(TRACES, RIDGES, first_ridge=3, strides=STRIDES)
    best = select_roughly(judge, grid).penalties
    assert abs(np.log2(best.trace / trace)) <= 1
    assert abs(np.log2(best.ridge / ridge)) <= 1
    assert len(judge.asked) <= len(TRACES) // 2 + 4


def test_of_a_sample_the_metric_only_rules_out_and_the_loss_decides():
    # The metric rises a little with λ, within its noise; the loss has its least value at 2⁻⁴.
    judge = FakeJudge(
        lambda t, r, k: 0.5 + 0.001 * np.log2(t), lambda t, r, k: np.log2(t * 16) ** 2, noise=0.05, again=1
    )
    best = select_roughly(judge, PenaltyGrid(TRACES, RIDGES, first_ridge=3, strides=STRIDES))
    assert best.penalties.trace == 2.0**-4


def test_models_without_any_direction_do_not_end_a_rough_search():
    flat = FakeJudge(lambda t, r, k: 0.0 if t > 2.0**-5 else 1.0, again=1)

    def judge(choices):
        return [
            replace(found, rank=0.0) if found.penalties.trace > 2.0**-5 else found for found in flat(choices)
        ]

    best = select_roughly(judge, PenaltyGrid(TRACES, RIDGES, first_ridge=3, strides=STRIDES))
    assert best.penalties.trace <= 2.0**-5


# -- a glance at the next λ ----------------------------------------------------------------------------------


def coarse_grid():
    return PenaltyGrid(TRACES, RIDGES, INTERCEPTS, strides=STRIDES, first_ridge=3)


def glancing(judge, seen):
    """A glance that sees what a judge would; it notes from where it looked."""

    def glance(best, other):
        seen.append((best.trace, other.trace))
        return replace(judge.judge(other), rank=1.0)

    return glance


@pytest.mark.parametrize("top", [2.0**-2, 2.0**-4, 2.0**-6])
def test_a_glance_ends_the_way_down_before_a_fit_to_a_penalty_that_is_worse(top):
    quality = hill(top, ridge=RIDGES[3])
    fitted, seen = FakeJudge(quality, empty=1.0), []
    close, quick = FakeJudge(quality), FakeJudge(quality)
    best = select_penalties(fitted, coarse_grid(), closely=close, glance=glancing(quick, seen))
    assert (best.penalties.trace, best.penalties.ridge) == (top, RIDGES[3])
    # The one beyond the best was looked at, and not fitted.
    assert min(fitted.traces) == top
    assert seen[-1] == (top, top / 4)
    # W = 0 says nothing about others, so no glance starts there.
    assert all(start < 1.0 for start, _ in seen)


@pytest.mark.parametrize("turned", ["metric", "loss"])
def test_a_glance_counts_only_where_metric_and_loss_have_both_turned(turned):
    quality = hill(2.0**-2, ridge=RIDGES[3])
    fitted = FakeJudge(quality, empty=1.0)
    if turned == "metric":
        misled = FakeJudge(quality, loss=lambda *penalties: -1.0)
    else:
        misled = FakeJudge(lambda *penalties: 1.0, loss=lambda *penalties: -quality(*penalties))
    select_penalties(fitted, coarse_grid(), closely=FakeJudge(quality), glance=glancing(misled, []))
    assert min(fitted.traces) < 2.0**-2


def test_without_an_estimate_the_search_is_as_it_was():
    quality = hill(2.0**-4, ridge=RIDGES[3])
    one, other = FakeJudge(quality, empty=1.0), FakeJudge(quality, empty=1.0)
    plain = select_penalties(one, coarse_grid(), closely=FakeJudge(quality))
    blind = select_penalties(
        other, coarse_grid(), closely=FakeJudge(quality), glance=lambda best, penalties: None
    )
    assert plain == blind
    assert one.asked == other.asked
