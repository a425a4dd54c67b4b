"""What the sections of a page look like in a browser: words, scales, whole rows, the winner, the foot.

Needs playwright and a Chromium, as ``test_report_browser``, whose fixtures it uses.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_pages import fitted, gappy, plug_in, small_problem, with_given_scores
from sklearn.metrics import average_precision_score, roc_auc_score
from test_report_browser import browser, close, context, folder, opened, pytestmark

import labelgap
from labelgap import LowRankClassifier, ObservedLabels, PlugInClassifier
from labelgap.report import write_report
from labelgap.report.judged import judge

__all__ = ["browser", "context", "folder", "opened", "pytestmark"]

PROBLEM = small_problem()
MODEL = fitted(PROBLEM)
NAMES = [f"label {j}" for j in range(12)]


@pytest.mark.slow
def test_what_is_fully_observed_is_said_in_words(opened: Any, folder: Path) -> None:
    write_report(folder / "full.html", MODEL, PROBLEM.X_test, PROBLEM.Y_test)
    page = opened("full.html")
    assert "every row has all 12 labels" in page.page.locator("#data-say").inner_text()
    assert page.page.locator("#pattern").is_hidden()
    assert page.page.locator("#histogram").is_hidden()
    # The bars are about what differs, and begin with the most yes.
    assert page.page.locator("#bars-title").inner_text() == "Known yes per label"
    shown = [int(text.split(" / ")[0]) for text in page.texts("#bars .figure")]
    assert shown == sorted(PROBLEM.Y_test.sum(axis=0).astype(int).tolist(), reverse=True)
    assert opened("plain.html").page.locator("#pattern").is_visible()
    assert page.complaints == []


@pytest.mark.slow
def test_one_bar_is_a_sentence(opened: Any, folder: Path) -> None:
    Y = PROBLEM.Y_test.copy()
    Y[np.arange(90), np.arange(90) % 12] = np.nan
    write_report(folder / "even.html", MODEL, PROBLEM.X_test, Y)
    page = opened("even.html")
    assert "Each of the 90 rows has 11 observed entries." in page.page.locator("#histogram").inner_text()
    assert page.page.locator("#histogram svg").count() == 0
    assert page.page.locator("#pattern").is_visible()


@pytest.mark.slow
def test_rare_labels_have_axes_of_log_odds(opened: Any, folder: Path) -> None:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((400, 5))
    Y = (X @ rng.standard_normal((5, 6)) + rng.standard_normal((400, 6)) > 4).astype(float)
    assert 0 < Y.mean() < 0.1
    model = LowRankClassifier(random_state=0, trace_penalty=3e-3, ridge_penalty=1e-3).fit(X, Y)
    write_report(folder / "rare.html", model, X, Y)
    page = opened("rare.html")
    assert page.page.locator("#calibration-scale").input_value() == "logit"
    text = "#calibration-chart .axis text[text-anchor='middle']:not(.name)"
    ticks = [float(tick) for tick in page.texts(text)]
    assert ticks == sorted(ticks)
    assert 0 < ticks[0] <= 0.01
    # Equal steps of log-odds, not of the probability, are equally wide; no dot is outside of the picture.
    heights = "all => all.map((one) => Number(one.getAttribute('cy')))"
    dots = page.page.eval_on_selector_all("#calibration-chart circle.dot", heights)
    assert max(dots) - min(dots) > 150
    page.page.select_option("#calibration-scale", "even")
    even = page.page.eval_on_selector_all("#calibration-chart circle.dot", heights)
    assert np.median(even) > np.median(dots)
    assert opened("plain.html").page.locator("#calibration-scale").input_value() == "even"
    assert page.complaints == []


@pytest.mark.slow
def test_a_bin_without_a_yes_is_drawn_at_the_edge(opened: Any, folder: Path) -> None:
    scores = np.linspace(-6, 6, 240).reshape(40, 6)
    model = PlugInClassifier(random_state=0).fit(scores, (scores > 4.6).astype(float))
    write_report(folder / "edge.html", model, scores, (scores > 4.6).astype(float))
    page = opened("edge.html")
    assert page.page.locator("#calibration-chart .dot.hollow").count() > 1
    assert "no yes in the bin" in page.page.locator("#calibration-chart .key").inner_text()
    assert page.complaints == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [1200, 420])
def test_no_table_that_scrolls_cuts_a_row(opened: Any, folder: Path, width: int) -> None:
    rng = np.random.RandomState(0)
    scores, labels = rng.standard_normal((80, 70)), (rng.uniform(size=(80, 70)) < 0.3) * 1.0
    write_report(folder / "tall.html", with_given_scores(scores, labels), scores, labels)
    page = opened("tall.html", width=width)
    page.settle()
    cut = """box => {
        const frame = box.getBoundingClientRect(), bottom = frame.top + box.clientTop + box.clientHeight;
        return [...box.querySelectorAll("tbody tr")].filter((row) => {
            const { top, bottom: end } = row.getBoundingClientRect();
            return top < bottom - 1 && end > bottom + 1;
        }).length;
    }"""
    for region in ("#labels-region", "#wrong .scroll"):
        box = page.page.locator(region)
        assert box.evaluate("box => box.scrollHeight > box.clientHeight + 40"), region
        assert box.evaluate(cut) == 0, region
        assert "below" in box.get_attribute("class")
    # Few rows need no box to scroll in, whatever was found before.
    page.page.fill("#filter", "label 6")
    assert page.page.locator("#labels-region").evaluate("box => box.scrollHeight - box.clientHeight") <= 1
    page.page.fill("#filter", "")
    assert page.page.locator("#labels-region").evaluate(cut) == 0


@pytest.mark.slow
def test_a_table_that_is_a_row_or_two_too_long_is_shown_whole(opened: Any, folder: Path) -> None:
    write_report(folder / "whole.html", MODEL, PROBLEM.X_test, gappy(PROBLEM.Y_test, 0.6, seed=1))
    page = opened("whole.html")
    page.settle()
    assert page.page.locator("#labels-table tbody tr").count() == 12
    assert page.page.locator("#labels-region").evaluate("box => box.scrollHeight - box.clientHeight") <= 1


@pytest.mark.slow
def test_the_winner_of_the_search_stands_out(opened: Any, folder: Path) -> None:
    small = small_problem(4)
    model = LowRankClassifier(random_state=0, trace_penalty="auto", ridge_penalty=1e-3, intercept_penalty=0.0)
    model.fit(small.X, small.Y_observed)
    write_report(folder / "search.html", model, small.X_test, small.Y_test)
    page = opened("search.html")
    assert page.texts("#candidates tbody tr.winner th") == ["chosen"]
    assert page.page.locator("#candidates tbody tr").first.get_attribute("class") == "winner"
    assert f"{model.candidates_[-1].metric_value:.4f}" in page.texts("#search .mark text")[0]
    radii = "all => all.map((one) => Number(one.getAttribute('r')))"
    others = page.page.eval_on_selector_all("#search circle.dot.c-blue", radii)
    assert len(others) >= 2
    (winner,) = page.page.eval_on_selector_all("#search .mark circle.c-orange", radii)
    assert winner > 1.5 * max(others)
    assert "held-out micro-f1" in page.texts("#search .axis .name")
    ticks = page.texts("#search .axis text[text-anchor='end']")
    assert len(set(ticks)) == len(ticks) > 2
    page.page.select_option("#search-axis", "order")
    assert page.page.locator("#search .mark circle.c-orange").count() == 1
    assert page.complaints == []


def test_labels_have_auc_and_average_precision(opened: Any, folder: Path) -> None:
    labels = gappy(PROBLEM.Y_test, 0.6, seed=1, names=NAMES)
    write_report(folder / "ranks.html", MODEL, PROBLEM.X_test, labels)
    page, judged = opened("ranks.html"), judge(MODEL, PROBLEM.X_test, labels)
    for label in (0, 5, 11):
        here = labels.indices == label
        y, scores = labels.values[here], judged.scores[here]
        row = f"#labels-table tr[data-label='{label}'] td[data-key='{{}}']"
        assert close(page.number(row.format("auc")), roc_auc_score(y, scores))
        assert close(page.number(row.format("ap")), average_precision_score(y, scores))
    assert np.isnan(page.number("#labels-table tr[data-label='2'] td[data-key='auc']"))


def test_rows_with_wrong_decisions_are_listed(opened: Any, folder: Path) -> None:
    labels = gappy(PROBLEM.Y_test, 0.6, seed=1, names=NAMES)
    named = ObservedLabels.from_dense(
        labels.to_dense(), label_names=NAMES, row_names=[f"document {i}" for i in range(90)]
    )
    write_report(folder / "wrong.html", MODEL, PROBLEM.X_test, named)
    page, judged = opened("wrong.html"), judge(MODEL, PROBLEM.X_test, named)
    wrong = np.bincount(named.rows[(judged.scores >= MODEL.threshold_) != (named.values == 1)], minlength=90)
    shown = page.texts("#wrong-table tbody th")
    assert shown[0] == f"document {int(np.argmax(wrong))}"
    counts = [int(text) for text in page.texts("#wrong-table tbody td:nth-child(2)")]
    assert counts == sorted(wrong[wrong > 0].tolist(), reverse=True)[: len(counts)]
    said = page.page.locator("#wrong-say").inner_text()
    assert f"{int((wrong == 0).sum()) - 1} of 89 rows have no wrong decision" in said
    assert "numbered from 0" not in said
    assert "Rows" in page.texts("#nav a")
    assert page.complaints == []


def test_labels_to_look_at_again(opened: Any, folder: Path) -> None:
    Y = PROBLEM.Y_test.copy()
    sure = np.unravel_index(np.argmax(MODEL.predict_proba(PROBLEM.X_test)), Y.shape)
    Y[sure] = 0
    write_report(folder / "doubtful.html", MODEL, PROBLEM.X_test, Y)
    page = opened("doubtful.html")
    assert page.texts("#doubtful-table tbody th")[0] == f"row {sure[0]}"
    first = page.texts("#doubtful-table tbody tr:first-child td")
    assert first[:3] == [f"label {sure[1]}", "no", "yes"]
    assert "an error of the model or an error of the label" in page.page.locator("#doubtful-say").inner_text()
    assert "Look again" in page.texts("#nav a")
    assert page.complaints == []
    scores = np.array([[2.0, -1.0], [1.0, -2.0]])
    write_report(folder / "right.html", with_given_scores(scores, scores > 0), scores, scores > 0)
    assert opened("right.html").page.locator("#doubtful").is_hidden()


@pytest.mark.slow
def test_the_foot_says_how_the_page_was_made(opened: Any, folder: Path) -> None:
    write_report(
        folder / "foot.html",
        MODEL,
        PROBLEM.X_test,
        PROBLEM.Y_test,
        compare={"older": plug_in(PROBLEM)},
        name="tags",
        data_name="new <b>.csv",
        date=datetime.date(2024, 2, 1),
    )
    page = opened("foot.html")
    assert page.texts("footer dd") == ["tags", "new <b>.csv", "2024-02-01", labelgap.__version__]
    settings = page.page.locator("#settings").inner_text()
    assert settings == "LowRankClassifier(random_state=0, ridge_penalty=0.001, trace_penalty=0.003)"
    page.page.click("footer summary")
    rows = page.page.locator("#settings-table tbody tr")
    # The table is made when the browser tells that it was opened, which may be after the click has returned.
    rows.first.wait_for()
    assert rows.count() == len(MODEL.get_params(deep=False))
    assert page.texts("#compare-table tbody th") == ["tags", "older"]
