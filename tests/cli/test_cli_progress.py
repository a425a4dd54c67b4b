"""What is shown during a fit, without a terminal."""

from __future__ import annotations

import io
import math

import pytest

pytest.importorskip("typer", reason="the command line is an extra")

from rich.console import Console

from labelgap.cli.progress import FitDisplay, counted, shown
from labelgap.fitting.progress import duration, fraction_done, seconds_left
from labelgap.solvers import Penalties, Progress
from labelgap.solvers.loop import Candidate


def rounds(*gaps: float, every: float = 1.0) -> list[Progress]:
    return [Progress(i, 1.0, gap, 3, i * every) for i, gap in enumerate(gaps)]


def candidate(value: float) -> Candidate:
    return Candidate(Penalties(0.1, 0.0), value, 0.0, 0.5, 2.0)


def test_a_gap_that_falls_tenfold_a_second_needs_a_second_for_each_factor_ten() -> None:
    assert seconds_left(rounds(1.0, 0.1, 0.01), 1e-5) == pytest.approx(3.0)
    assert seconds_left(rounds(1.0, 0.1, 0.01, every=2.0), 1e-5) == pytest.approx(6.0)


def test_only_the_last_rounds_count() -> None:
    slow = [1.0] * 20
    fast = rounds(*slow, *(10.0**-i for i in range(1, 8)))
    assert seconds_left(fast, 1e-9) == pytest.approx(2.0)


@pytest.mark.parametrize(
    "gaps", [(), (0.5,), (0.5, 0.1), (0.1, 0.1, 0.1), (0.1, 0.2, 0.4), (math.inf, math.inf, 0.5, 0.4)]
)
def test_what_cannot_be_told_is_not(gaps: tuple[float, ...]) -> None:
    assert seconds_left(rounds(*gaps), 1e-3) is None


def test_rounds_without_time_between_them_say_nothing() -> None:
    assert seconds_left(rounds(1.0, 0.1, 0.01, every=0.0), 1e-5) is None


@pytest.mark.parametrize("last", [1e-3, 1e-4, 0.0])
def test_nothing_is_left_at_the_target(last: float) -> None:
    assert seconds_left(rounds(1.0, 0.1, last), 1e-3) == 0.0


def test_the_way_is_a_share() -> None:
    assert fraction_done(1.0, 1.0, 1e-3) == 0.0
    assert fraction_done(math.inf, 0.5, 1e-3) == 0.0
    assert fraction_done(1.0, 0.0, 1e-3) == 1.0
    assert fraction_done(0.1, 0.5, 1e-3) == 0.0, "a gap may grow"
    assert fraction_done(1.0, 10**-1.5, 1e-3) == pytest.approx(0.5)


def test_durations() -> None:
    assert [duration(s) for s in (0.2, 59.4, 60, 3599, 3600, 90000)] == [
        "0 s",
        "59 s",
        "1 min 0 s",
        "59 min 59 s",
        "1 h 0 min",
        "25 h 0 min",
    ]
    assert duration(math.inf) == "—"


def test_the_display_follows_a_fit() -> None:
    now = [0.0]
    display = FitDisplay("micro-f1", 1e-3, clock=lambda: now[0])
    now[0] = 65.0
    assert display.lines() == [("elapsed", "1 min 5 s")]
    display.stage("choosing penalties")
    display.candidate(candidate(0.5))
    display.candidate(candidate(0.75))
    display.candidate(candidate(math.nan))
    assert ("candidates", "3 judged, best micro-f1 0.7500") in display.lines()
    assert display.fraction() is None
    display.stage("fitting")
    for one in rounds(math.inf, 1.0, 0.1, 0.01):
        display(one)
    lines = dict(display.lines())
    assert lines["duality gap"] == "1.0e-02 (asked for 1.0e-03)"
    assert lines["rank"] == "3"
    assert lines["time left"] == "about 1 s"
    assert display.fraction() == pytest.approx(2 / 3)


def test_a_solver_that_starts_again_is_followed_from_there() -> None:
    display = FitDisplay("micro-f1", 1e-3)
    for one in [*rounds(1.0, 0.1), *rounds(5.0)]:
        display(one)
    assert len(display.rounds) == 1


@pytest.mark.parametrize("width", [20, 40, 80])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_it_fits_any_terminal(width: int, encoding: str) -> None:
    written = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=written, force_terminal=True, width=width, color_system=None)
    display = FitDisplay("micro-f1", 1e-3)
    display.stage("fitting")
    display.candidate(candidate(0.5))
    display(Progress(0, 0.5, 0.1, 3, 0.0))
    console.print(display)
    written.flush()
    text = written.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]
    assert "Fitting" in text
    assert max(map(len, text.splitlines())) <= width


def test_nothing_is_shown_where_it_is_not_wanted() -> None:
    written = io.StringIO()
    with shown(FitDisplay("micro-f1", 1e-3), Console(file=written, force_terminal=True), wanted=False):
        pass
    assert written.getvalue() == ""
    with shown(FitDisplay("micro-f1", 1e-3), Console(file=written, force_terminal=True), wanted=True):
        pass
    assert "Reading" in written.getvalue()


def test_a_bar_grows_with_the_users_and_changes_nothing() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    assert list(counted(iter("abc"), console, True, total=25, each=10)) == ["a", "b", "c"]
    assert "25/25" in console.file.getvalue()  # type: ignore[attr-defined]
    assert list(counted(iter("abc"), console, False, total=25, each=10)) == ["a", "b", "c"]
