"""What a fit reports: log records, printed lines, and the progress bar of notebooks.

The bar is tested with a stand-in for IPython, which is no dependency.
"""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from labelgap import LowRankClassifier, LowRankRegressor, PlugInClassifier, Recommender
from labelgap.fitting.notebook import NotebookBar, in_notebook
from labelgap.solvers import Progress

RNG = np.random.RandomState(0)
X = RNG.standard_normal((60, 3))
Y = np.where(RNG.uniform(size=(60, 4)) < 0.3, np.nan, X @ RNG.standard_normal((3, 4)) > 0.2)


class Output:
    """The output of a cell, which keeps all that it was given."""

    def __init__(self) -> None:
        self.pages: list[str] = []

    def display(self, page: str, *, display_id: bool) -> Output:
        assert display_id
        self.pages.append(page)
        return self

    def update(self, page: str) -> None:
        self.pages.append(page)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Output:
    output = Output()
    ipython, shown = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    shown.HTML, shown.display = str, output.display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    return output


def test_only_the_kernel_of_a_notebook_is_one(notebook: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_notebook()
    sys.modules["IPython"].get_ipython = lambda: SimpleNamespace()  # type: ignore[attr-defined]
    assert not in_notebook(), "a shell on a terminal has no kernel"
    monkeypatch.delitem(sys.modules, "IPython")
    assert not in_notebook()


@pytest.mark.parametrize(
    "model",
    [
        LowRankClassifier(verbose=1, ridge_penalty=0.1, tol=1e-2, random_state=0),
        LowRankRegressor(verbose=1, trace_penalty=0.1, ridge_penalty=0.1),
        PlugInClassifier(verbose=1, threshold="holdout", random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_fit_shows_a_bar_in_place_of_lines(
    model: Any, notebook: Output, capsys: pytest.CaptureFixture[str]
) -> None:
    model.fit(X, Y)
    assert capsys.readouterr().out == ""
    assert all(page.startswith(f"<div><b>{type(model).__name__}</b>: ") for page in notebook.pages)
    assert ": done<br>" in notebook.pages[-1]
    assert 'value="1.000"' in notebook.pages[-1]
    assert "elapsed" in notebook.pages[-1]


def test_the_bar_says_how_long_it_takes(notebook: Output) -> None:
    now = iter(np.arange(100.0))
    bar = NotebookBar("Model", "micro-f1", 1e-4, clock=lambda: float(next(now)))
    for round_ in range(3):
        bar(Progress(round_, 1.0, 10.0**-round_, 2, float(round_)))
    assert "time left about 2 s" in notebook.pages[-1]
    assert 'value="0.500"' in notebook.pages[-1]
    assert re.search(r"duality gap 1.0e-02 \(asked for 1.0e-04\)", notebook.pages[-1])


def test_pages_are_not_drawn_too_often(notebook: Output) -> None:
    bar = NotebookBar("Model", "micro-f1", 1e-4, clock=lambda: 7.0)
    for round_ in range(50):
        bar(Progress(round_, 1.0, 0.1, 2, 0.0))
    assert len(notebook.pages) == 2


def test_elsewhere_and_with_verbose_2_lines_are_printed(
    notebook: Output, capsys: pytest.CaptureFixture[str]
) -> None:
    LowRankRegressor(verbose=2, trace_penalty=0.1, ridge_penalty=0.1).fit(X, Y)
    assert "[LowRankRegressor] step" in capsys.readouterr().out
    assert notebook.pages == []


# -- log records -------------------------------------------------------------------------------------------

FIXED = {"trace_penalty": 0.1, "ridge_penalty": 0.1}
RATINGS = (*np.nonzero(~np.isnan(Y)), Y[~np.isnan(Y)])


def messages(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    assert {record.name for record in caplog.records} <= {"labelgap"}
    return [record.getMessage() for record in caplog.records if record.levelno == level]


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (LowRankClassifier(**FIXED, random_state=0), (X, Y)),
        (LowRankRegressor(**FIXED, random_state=0), (X, Y)),
        (Recommender(**FIXED, random_state=0), (RATINGS,)),
        (PlugInClassifier(threshold="holdout", random_state=0), (X, Y)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_fit_logs_its_stages_and_rounds_whatever_verbose_is(
    model: Any, data: Any, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG, logger="labelgap"):
        model.fit(*data)
    name = type(model).__name__
    stages, rounds = messages(caplog, logging.INFO), messages(caplog, logging.DEBUG)
    assert all(message.startswith(f"{name}: ") for message in (*stages, *rounds))
    assert any("fitting" in stage for stage in stages)
    if name != "PlugInClassifier":
        assert any("held-out metric" in stage for stage in stages)
        assert re.search(r"step \d+: objective .*, gap .*, rank ", rounds[-1])
    assert capsys.readouterr().out == ""


def test_records_say_what_is_printed(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG, logger="labelgap"):
        LowRankClassifier(**FIXED, verbose=2, random_state=0).fit(X, Y)
    printed = capsys.readouterr().out.splitlines()
    logged = [record.getMessage() for record in caplog.records]
    said = [line.replace("[LowRankClassifier] ", "LowRankClassifier: ") for line in printed]
    assert len(set(said)) == len(said) > 3
    assert [message for message in logged if message in said] == said


def test_a_level_that_nobody_hears_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="labelgap"):
        LowRankClassifier(**FIXED, random_state=0).fit(X, Y)
    assert messages(caplog, logging.INFO)
    assert not messages(caplog, logging.DEBUG)


def test_without_a_handler_nothing_is_written_twice() -> None:
    program = (
        "import labelgap, numpy as np\n"
        "X = np.random.default_rng(0).standard_normal((40, 2))\n"
        "labelgap.PlugInClassifier(verbose=1, threshold='train').fit(X, (X > 0).astype(float))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("[PlugInClassifier] fitting 2 labels")
    assert done.stdout.count("fitting 2 labels") == 1
    assert "fitting" not in done.stderr
