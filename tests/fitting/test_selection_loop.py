"""The search for settings, with an ``evaluate`` whose landscape is known."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_seam import CLOSE, ROUGH, Answer, Setting, Space, Stopped, select

from labelgap.exceptions import UnknownNameError

TRACES = tuple(2.0**-step for step in range(10))
RIDGES = tuple(2.0**power for power in range(-4, 4))
INTERCEPTS = (0.0, 1.0, 3.0, 7.0)
WHOLE = Space(TRACES, RIDGES, INTERCEPTS, first_ridge=4)
LINE = Space(TRACES)
BOTH = (ROUGH, CLOSE)
N_PARTS = 6


class Fake:
    """Metric and loss are functions of the setting; remembers what it was asked, and in which order.

    ``noise`` is the standard error of a metric value, or None; ``empty`` the λ from which on W = 0. After
    ``until`` answers it raises ``end``; what is in ``known`` is answered from there, as after a kill.
    """

    def __init__(self, metric, loss=None, noise=None, empty=np.inf, until=None, end=Stopped, known=()):
        self.metric, self.loss, self.noise, self.empty = metric, loss, noise, empty
        self.until, self.end, self.known = until, end, dict(known)
        self.asked, self.answers, self.given = [], {}, []

    def __call__(self, wanted, budget):
        assert len(wanted) > 0
        found = [self.answer(setting, budget) for setting in wanted]
        self.given += [(budget, answer) for answer in found]
        return found

    def answer(self, setting, budget):
        key = (setting, budget)
        assert key not in self.answers, f"{setting} is evaluated twice"
        if key in self.known:
            self.answers[key] = self.known[key]
            return self.known[key]
        if self.until is not None and len(self.asked) == self.until:
            raise self.end
        value = float(self.metric(setting))
        loss = -value if self.loss is None else float(self.loss(setting))
        leave_out = None
        if self.noise is not None:
            # Another pattern for each setting, so that differences are as unsure as the values.
            pattern = np.random.default_rng(abs(hash(setting)) % 2**32).standard_normal(N_PARTS)
            leave_out = value + self.noise / np.sqrt(N_PARTS) * pattern
        self.asked.append(key)
        self.answers[key] = Answer(setting, value, loss, leave_out, float(setting.trace < self.empty))
        return self.answers[key]

    def with_budget(self, budget):
        return [answer for asked, answer in self.given if asked == budget]

    @property
    def traces(self):
        return [setting.trace for setting, _ in self.asked]


def hill(trace, ridge=None, intercept=None):
    """A smooth hill in the logarithms with its top at the given penalties."""

    def height(setting):
        away = np.log2(setting.trace / trace) ** 2
        if ridge is not None:
            away += np.log2(setting.ridge / ridge) ** 2
        if intercept is not None:
            away += np.log2((setting.intercept + 1) / (intercept + 1)) ** 2
        return -0.01 * away

    return height


def of_table(values):
    """A metric that depends on λ alone, by a list along the path."""
    return lambda setting: values[TRACES.index(setting.trace)]


def obvious_choice(answers, criterion="metric"):
    """The rule by a loop: least loss among those within half a standard error of the best metric."""
    if criterion == "loss":
        return min(answers, key=lambda one: one.loss)
    top = max(answers, key=lambda one: one.metric)
    best = None
    for one in answers:
        error = 0.0
        if one.leave_out is not None and top.leave_out is not None:
            parts = len(top.leave_out)
            gaps = [a - b for a, b in zip(one.leave_out, top.leave_out, strict=True)]
            error = ((parts - 1) / parts * sum((gap - sum(gaps) / parts) ** 2 for gap in gaps)) ** 0.5
        if top.metric - one.metric <= 0.5 * error and (best is None or one.loss < best.loss):
            best = one
    return best


CORNERS = list(product((TRACES[0], TRACES[-1]), (RIDGES[0], RIDGES[-1]), (INTERCEPTS[0], INTERCEPTS[-1])))
TOPS = [*CORNERS, (2.0**-3, 4.0, 3.0), (2.0**-6, 2.0**-3, 1.0), (2.0**-5, 1.0, 0.0)]


def test_the_top_of_a_hill_is_found_with_few_evaluations():
    """Also at the ends of the path, where the metric rises to the last value."""
    for top, noise in product(TOPS, (None, 1e-6)):
        fake = Fake(hill(*top), noise=noise)
        assert select(WHOLE, fake).setting == Setting(*top), (top, noise)
        assert len(fake.asked) < 0.3 * WHOLE.size, (top, noise)
        # It begins with the strongest λ and free intercepts, where fits are quickest.
        assert fake.asked[0][0] == Setting(TRACES[0], RIDGES[4], 0.0)


def test_two_budgets_come_near_the_top_with_fewer_evaluations():
    tops = [(2.0**-3, 4.0, 3.0), (2.0**-6, 2.0**-3, 1.0), (1.0, 1.0, 0.0), (2.0**-4, 2.0, 0.0)]
    for top in tops:
        one, two = Fake(hill(*top)), Fake(hill(*top))
        select(WHOLE, one)
        best = select(WHOLE, two, BOTH)
        assert len(two.asked) < len(one.asked), top
        assert abs(np.log2(best.setting.trace / top[0])) <= 1, top
        assert best is max(two.with_budget(CLOSE), key=lambda answer: answer.metric), top


def test_the_best_ridge_is_followed_however_far_it_is():
    ridges = tuple(2.0**power for power in range(-12, 4))
    for top in (0, 8, 9, 10, 11, 12, 13):
        fake = Fake(hill(2.0**-4, ridges[top]))
        best = select(Space(TRACES, ridges, first_ridge=12), fake, BOTH)
        assert abs(ridges.index(best.setting.ridge) - top) <= 1, top
    for end in (0, -1):
        # Steps of two lead past both ends of four ridges.
        found = select(Space(TRACES, RIDGES[:4], first_ridge=1), Fake(hill(2.0**-3, RIDGES[:4][end])))
        assert found.setting == Setting(2.0**-3, RIDGES[:4][end])


def test_among_equals_the_stronger_penalty_is_taken():
    space = Space(TRACES, (0.1, 0.2), (0.0, 1.0))
    flat = {
        "all equal": (lambda setting: 0.5, None),
        "losses that differ by rounding": (lambda s: 0.5, lambda s: 0.3 * (1 + 1e-12 * np.log2(s.trace))),
    }
    for name, (metric, loss) in flat.items():
        for criterion, budgets in product(("metric", "loss"), ((CLOSE,), BOTH)):
            best = select(space, Fake(metric, loss), budgets, criterion=criterion)
            assert best.setting.trace == 1.0, (name, criterion, budgets)


def test_the_loss_decides_among_metric_values_that_cannot_be_told_apart():
    def valley(trace):
        return lambda setting: 1.0 + np.log2(trace / setting.trace) ** 2

    for noise, expected in ((10.0, 2.0**-3), (1e-9, 2.0**-5), (None, 2.0**-5)):
        fake = Fake(hill(2.0**-5), valley(2.0**-3), noise)
        assert select(LINE, fake).setting.trace == expected, noise
        fake = Fake(hill(2.0**-5), valley(2.0**-2), noise)
        assert select(LINE, fake, criterion="loss").setting.trace == 2.0**-2, noise

    def cliff(setting):
        return 0.5 + 1e-4 * np.log2(setting.trace) if setting.trace >= 2.0**-4 else 0.2

    # Below 2⁻⁴ the metric falls off a cliff; above it says next to nothing.
    assert select(LINE, Fake(cliff, valley(2.0**-6), noise=0.01)).setting.trace == 2.0**-4


def test_the_last_budget_decides():
    rough, close = hill(2.0**-4), hill(2.0**-3)

    class Two(Fake):
        def answer(self, setting, budget):
            self.metric = rough if budget == ROUGH else close
            return super().answer(setting, budget)

    assert select(LINE, Two(rough), BOTH).setting.trace == 2.0**-3


def test_no_dip_or_slow_start_ends_the_way_to_a_better_metric():
    # The first directions may be worse than none; and the first of them may stand in for a missing intercept.
    dip = Fake(of_table([0.3, 0.2, 0.5, 0.6, *[0.1] * 6]), empty=TRACES[0])
    assert select(LINE, dip).setting.trace == TRACES[3]
    late = Fake(lambda setting: float(setting.trace <= 2.0**-6), empty=2.0**-5)
    assert select(LINE, late).setting.trace <= 2.0**-6
    metric = dict(zip(TRACES[::2], (0.029, 0.041, 0.043, 0.197, 0.31), strict=True))
    for losses in ((0.693, 0.326, 0.192, 0.071, 0.061), (0.693, 0.151, 0.151, 0.084, 0.061)):
        loss = dict(zip(TRACES[::2], losses, strict=True))
        for criterion in ("metric", "loss"):
            fake = Fake(lambda s: metric.get(s.trace, 0.2), lambda s, loss=loss: loss.get(s.trace, 0.1))
            found = select(LINE, fake, BOTH, criterion=criterion)
            assert found.setting.trace == 2.0**-8, (losses, criterion)


def test_what_is_clearly_worse_is_not_followed_up():
    """Small λ take long: beyond the first that is clearly too small nothing is fitted."""

    def cliff(setting):
        return 0.5 - 0.001 * abs(np.log2(setting.trace) + 4) if setting.trace > 2.0**-5 else 0.1

    space = Space(tuple(2.0 ** (-step / 2) for step in range(27)))
    for budgets in ((CLOSE,), BOTH):
        fake = Fake(cliff)
        assert select(space, fake, budgets).setting.trace == 2.0**-4, budgets
        assert min(fake.traces) >= 2.0**-7, budgets

    def one_ridge(setting):
        return hill(2.0**-3)(setting) - (0.0 if setting.ridge == 1.0 else 5.0)

    fake = Fake(one_ridge)
    assert select(Space(TRACES, (0.5, 1.0, 2.0), first_ridge=1), fake).setting == Setting(2.0**-3, 1.0)
    assert sum(setting.ridge != 1.0 for setting, _ in fake.asked) <= 4


def test_less_trace_makes_up_for_more_ridge():
    def ridge_replaces_trace(setting):
        """More ridge alone is a little worse, with less trace a little better."""
        product_ = setting.trace * setting.ridge
        return -2e-5 * (np.log2(product_) + 4) ** 2 + 1e-5 * np.log2(setting.ridge)

    space = Space(TRACES, tuple(2.0**power for power in range(4)))
    for noise in (None, 1e-3):
        assert select(space, Fake(ridge_replaces_trace, noise=noise)).setting == Setting(2.0**-7, 2.0**3)


def test_near_a_known_setting_only_the_trace_penalty_moves():
    for top, start in product(range(len(TRACES)), (0, 4, 9)):
        near = Setting(TRACES[start], RIDGES[2], INTERCEPTS[1])
        fake = Fake(hill(TRACES[top]))
        found = select(WHOLE, fake, near=near)
        assert found.setting == near._replace(trace=TRACES[top]), (top, start)
        assert len(fake.asked) <= abs(top - start) + 3, (top, start)
        assert {setting[1:] for setting, _ in fake.asked} == {near[1:]}


def test_a_single_setting_is_evaluated_once_and_an_unknown_criterion_not_at_all():
    fake = Fake(hill(1.0))
    assert select(Space((0.3,), (0.2,), (0.1,)), fake).setting == Setting(0.3, 0.2, 0.1)
    assert len(fake.asked) == 1
    fake = Fake(hill(1.0))
    with pytest.raises(UnknownNameError, match="metrik"):
        select(LINE, fake, criterion="metrik")
    assert fake.asked == []


def test_a_metric_that_is_not_a_number_never_wins():
    for bad in ({0}, {3}, {0, 1, 2}, {5, 6}, set(range(9))):

        def metric(setting, bad=bad):
            step = TRACES.index(setting.trace)
            return np.nan if step in bad else hill(2.0**-4)(setting)

        for budgets, loss in product(((CLOSE,), BOTH), (None, lambda s: np.log2(s.trace * 16) ** 2)):
            found = select(LINE, Fake(metric, loss), budgets)
            finite = any(step not in bad for step in range(4))
            assert not finite or np.isfinite(found.metric), (bad, budgets)


def test_an_error_of_an_evaluation_is_raised():
    for until in (0, 1, 5):
        with pytest.raises(ZeroDivisionError):
            select(WHOLE, Fake(hill(*TOPS[-1]), until=until, end=ZeroDivisionError))


@pytest.mark.parametrize("budgets", [(CLOSE,), BOTH])
def test_a_search_that_is_stopped_returns_the_best_so_far_and_resumes_to_the_same(budgets):
    top = TOPS[-2]
    whole = Fake(hill(*top))
    expected = select(WHOLE, whole, budgets)
    for until in range(len(whole.asked)):
        stopped = Fake(hill(*top), until=until)
        if until == 0:
            with pytest.raises(Stopped):
                select(WHOLE, stopped, budgets)
        else:
            best = select(WHOLE, stopped, budgets)
            # Among answers with the last budget, where there are any.
            among = stopped.with_budget(CLOSE) or stopped.with_budget(ROUGH)
            assert best is obvious_choice(among), until
        resumed = Fake(hill(*top), known=stopped.answers)
        assert select(WHOLE, resumed, budgets) == expected, until
        # What was known is not evaluated again, and nothing more than before is.
        assert stopped.asked + resumed.asked == whole.asked, until


numbers = st.integers(0, 6).map(lambda value: value / 6)
tables = st.lists(
    st.tuples(numbers, numbers, st.none() | st.lists(numbers, min_size=4, max_size=4)),
    min_size=1,
    max_size=24,
)


@settings(max_examples=100, deadline=None)
@given(
    table=tables,
    lengths=st.tuples(st.integers(1, 9), st.integers(1, 4), st.integers(1, 3)),
    criterion=st.sampled_from(["metric", "loss"]),
    budgets=st.sampled_from([(CLOSE,), BOTH]),
    data=st.data(),
)
def test_property_any_search_ends_with_the_best_of_what_it_evaluated_once(
    table, lengths, criterion, budgets, data
):
    """Ties, plateaus and sheer noise: any metric, loss and sureness at any setting."""
    traces, ridges, intercepts = (tuple(np.arange(1.0, length + 1)) for length in lengths)
    first = data.draw(st.integers(0, lengths[1] - 1))
    space = Space(traces[::-1], ridges, intercepts, first_ridge=first)
    seen = {ROUGH: [], CLOSE: []}

    def evaluate(wanted, budget):
        for setting in wanted:
            value, loss, offsets = table[sum(map(len, seen.values())) % len(table)]
            leave_out = None if offsets is None else value + np.array(offsets)
            seen[budget].append(Answer(setting, value, loss, leave_out))
        return seen[budget][-len(wanted) :]

    best = select(space, evaluate, budgets, criterion=criterion)
    assert best is obvious_choice(seen[CLOSE], criterion)
    for answers in seen.values():
        evaluated = {answer.setting for answer in answers}
        assert len(evaluated) == len(answers) <= space.size
        for setting in evaluated:
            assert setting.trace in traces
            assert setting.ridge in ridges
            assert setting.intercept in intercepts
