"""The page in a browser: what it shows is what the library says, and nothing leaves it.

Needs playwright and a Chromium: the one that ``LABELGAP_CHROMIUM`` names, or one on the path.
"""

from __future__ import annotations

import datetime
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_pages import at_entries, fitted, gappy, hostile_names, plug_in, small_problem, with_given_scores
from sklearn.metrics import average_precision_score, roc_auc_score

import labelgap
from labelgap import (
    LinearFractional,
    LowRankClassifier,
    LowRankRegressor,
    ObservedLabels,
    Recommender,
    best_threshold,
    get_metric,
)
from labelgap.report import write_report

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = os.environ.get("LABELGAP_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason=f"no browser: set LABELGAP_CHROMIUM, or install one of {', '.join(NAMES)}"
)
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PROBLEM = small_problem()
MODEL = fitted(PROBLEM)
LABELS = gappy(PROBLEM.Y_test, 0.6, seed=1, names=hostile_names(12))
WEIGHTED = LABELS.with_weights(np.random.RandomState(2).uniform(0.2, 3, LABELS.n_observed))
TITLE = "<b>A title</b> & </title><script>window.hacked = 3</script>"
OWN = LinearFractional(
    {"const": 1, "fn": -1, "fp": -0.25}, {"const": 1, "tp": 0.5}, average="instance", zero_division=0.5
)


def scores_of(model: Any, labels: ObservedLabels) -> Any:
    return at_entries(model.decision_function(PROBLEM.X_test), labels)


COMPARED = (
    "micro-f1",
    "micro-balanced-f2",
    "instance-jaccard",
    "instance-balanced-recall",
    "macro-precision",
    "macro-balanced-specificity",
)
SHOWN = ("theta", "metric", "fraction", "tp", "fp", "fn", "tn")
_SLIDE_ALONG = """([places, shown]) => places.map((place) => {
    const slider = document.getElementById("slider");
    slider.value = place;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    return Object.fromEntries(shown.map((key) => [key, document.getElementById(`out-${key}`).dataset.value]));
})"""


class Opened:
    """A page with everything it asked for and complained about."""

    def __init__(self, page: Any, path: Path) -> None:
        self.page, self.requests, self.complaints = page, [], []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.goto(path.as_uri())

    def number(self, selector: str) -> float:
        return float(self.page.locator(selector).get_attribute("data-value"))

    def numbers(self, selector: str) -> list[float]:
        found = self.page.eval_on_selector_all(selector, "all => all.map((one) => one.dataset.value)")
        return [float(value) for value in found]

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self.page.eval_on_selector_all(
            selector, "all => all.map((one) => one.textContent)"
        )
        return found

    def slide(self, place: int) -> None:
        self.slide_along([place])

    def slide_along(self, places: list[int]) -> list[dict[str, float]]:
        """What the read-out says at each place of the slider, moved as by hand."""
        found = self.page.evaluate(_SLIDE_ALONG, [places, SHOWN])
        return [{key: float(value) for key, value in one.items()} for one in found]

    def settle(self) -> None:
        """Wait for what is drawn with the next frame."""
        frames = "requestAnimationFrame(() => requestAnimationFrame(done))"
        self.page.evaluate(f"() => new Promise((done) => {frames})")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=BROWSER, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("pages")
    plain = {"compare": {"plug-in <i>": plug_in(PROBLEM)}, "title": TITLE, "metrics": [OWN]}
    write_report(place / "plain.html", MODEL, PROBLEM.X_test, LABELS, **plain)
    write_report(place / "weighted.html", MODEL, PROBLEM.X_test, WEIGHTED, metrics=[OWN])
    return place


@pytest.fixture(scope="module")
def context(browser: Any) -> Any:
    return browser.new_context(viewport={"width": 1200, "height": 900})


@pytest.fixture
def opened(context: Any, folder: Path) -> Iterator[Any]:
    pages = []

    def open_page(name: str, *, scheme: str = "light", width: int = 1200) -> Opened:
        page = context.new_page()
        pages.append(page)
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        return Opened(page, folder / name)

    yield open_page
    for page in pages:
        page.close()


def close(value: float, expected: float) -> bool:
    return value == expected or abs(value - expected) <= 1e-9 * max(1.0, abs(expected))


@pytest.mark.parametrize(("name", "labels"), [("plain.html", LABELS), ("weighted.html", WEIGHTED)])
@pytest.mark.slow
def test_every_place_of_the_slider_shows_what_python_says(
    opened: Any, name: str, labels: ObservedLabels
) -> None:
    page, scores = opened(name), scores_of(MODEL, labels)
    true, weights = labels.values == 1, np.ones(len(scores)) if labels.weights is None else labels.weights
    assert page.number("#out-theta") == MODEL.threshold_
    assert close(page.number("#out-metric"), MODEL.score(PROBLEM.X_test, labels))
    last = int(page.page.locator("#slider").get_attribute("max"))
    metrics = [*map(get_metric, COMPARED), OWN]
    for metric in metrics:
        label = metric.name or page.page.locator("#metric option", has_text="instance (").first.inner_text()
        page.page.select_option("#metric", label=label)
        # Every place for one metric, every tenth and the ends for the others.
        places = list(range(last + 1)) if metric is metrics[0] else [*range(0, last, 10), last - 1, last]
        for shown in page.slide_along(places):
            yes = scores >= shown["theta"]
            assert close(shown["metric"], metric(labels, yes)), (label, shown)
            cells = {"tp": yes & true, "fp": yes & ~true, "fn": ~yes & true, "tn": ~yes & ~true}
            for key, cell in cells.items():
                assert close(shown[key], float(weights[cell].sum())), key
            assert close(shown["fraction"], float(weights[yes].sum() / weights.sum()))
        page.page.click("#go-best")
        assert close(page.number("#out-metric"), best_threshold(scores, labels, metric).value)
        page.page.click("#go-model")
        assert page.number("#out-theta") == MODEL.threshold_
    assert page.complaints == []


def test_the_slider_moves_by_keyboard(opened: Any) -> None:
    page, scores = opened("plain.html"), scores_of(MODEL, LABELS)
    page.page.focus("#slider")
    seen = [page.number("#out-theta")]
    for key in ("ArrowRight", "ArrowRight", "PageDown", "Home", "ArrowRight", "End"):
        page.page.keyboard.press(key)
        theta = page.number("#out-theta")
        assert close(page.number("#out-metric"), get_metric("micro-f1")(LABELS, scores >= theta))
        assert "micro-f1" in page.page.locator("#slider").get_attribute("aria-valuetext")
        seen.append(theta)
    assert seen[0] < seen[1] < seen[2]
    assert (seen[4], seen[6]) == (-np.inf, np.inf)


@pytest.mark.slow
def test_typed_coefficients(opened: Any) -> None:
    page, scores = opened("weighted.html"), scores_of(MODEL, WEIGHTED)
    page.page.click("details.formula summary")
    typed = {
        "numerator": {"tp": 3.0, "tn": 0.5},
        "denominator": {"const": 0.25, "tp": 3.0, "fp": 1.5, "fn": 1.0},
    }
    for part, coefficients in typed.items():
        for key in ("const", "tp", "fp", "fn", "tn"):
            page.page.fill(f"#own-{part}-{key}", str(coefficients.get(key, 0)))
    for average in ("micro", "instance", "macro"):
        page.page.select_option("#own-average", average)
        page.page.set_checked("#own-balanced", average == "macro")
        metric = LinearFractional(**typed, average=average, balanced=average == "macro")
        for shown in page.slide_along([0, 40, 200, 333]):
            assert close(shown["metric"], metric(WEIGHTED, scores >= shown["theta"]))
    assert page.page.locator("#metric").input_value() == "own"
    before = page.number("#out-metric")
    page.page.fill("#own-denominator-fp", "-2")
    assert "can vanish" in page.page.locator("#own-error").inner_text()
    page.page.fill("#own-denominator-fp", "abc")
    assert "must be a number" in page.page.locator("#own-error").inner_text()
    assert page.number("#out-metric") == before
    # The value of 0/0.
    page.page.select_option("#metric", label="macro-precision")
    page.page.fill("#own-zero", "0.75")
    page.slide(int(page.page.locator("#slider").get_attribute("max")))
    assert page.number("#out-metric") == 0.75
    # Pointing at the curve moves the threshold.
    page.page.click("#go-model")
    page.page.locator("#curve").scroll_into_view_if_needed()
    box = page.page.locator("#curve svg").bounding_box()
    page.page.mouse.click(box["x"] + box["width"] * 0.8, box["y"] + box["height"] / 2)
    assert page.number("#out-theta") > MODEL.threshold_


def test_the_table_of_labels_is_live_sorted_and_searched(opened: Any) -> None:
    page, scores = opened("plain.html"), scores_of(MODEL, LABELS)
    page.slide(100)
    page.settle()
    yes = scores >= page.number("#out-theta")
    for label in (0, 4, 11):
        here = LABELS.indices == label
        row = f"#labels-table tr[data-label='{label}'] td[data-key='{{}}']"
        assert page.number(row.format("observed")) == here.sum()
        assert page.number(row.format("tp")) == (yes & here & (LABELS.values == 1)).sum()
        assert page.number(row.format("fn")) == (~yes & here & (LABELS.values == 1)).sum()
        alone = LABELS.select(here)
        assert close(page.number(row.format("f1")), get_metric("micro-f1")(alone, yes[here]))
    assert np.isnan(page.number("#labels-table tr[data-label='2'] td[data-key='f1']"))
    column = "#labels-table td[data-key='recall']"
    header = page.page.locator("#labels-table th[data-key='recall']")
    header.locator("button").focus()
    for direction, sign in (("descending", -1), ("ascending", 1)):
        page.page.keyboard.press("Enter")
        assert header.get_attribute("aria-sort") == direction
        values = [value for value in page.numbers(column) if not np.isnan(value)]
        assert values == sorted(values, key=lambda value: sign * value)
        assert np.isnan(page.numbers(column)[-1])
    page.page.fill("#filter", "EMOJI")
    assert page.page.locator("#labels-table tbody tr").count() == 1
    assert "1 of 1 label shown" in page.page.locator("#labels-count").inner_text()


def test_hostile_names_are_only_names(opened: Any) -> None:
    page = opened("plain.html")
    for label in range(8):
        page.page.locator(f"#labels-table tr[data-label='{label}'] button.pick").dispatch_event("click")
    assert page.page.evaluate("window.hacked") is None
    assert page.page.locator("main img, main b, main i i").count() == 0
    assert page.page.locator("#title").inner_text() == TITLE
    assert page.page.title() == TITLE
    names = page.page.eval_on_selector_all("#labels-table bdi", "all => all.map((one) => one.textContent)")
    assert set(names) == {name or "(no name)" for name in hostile_names(12)}
    assert page.complaints == []


def test_nothing_leaves_the_page(opened: Any, folder: Path) -> None:
    page = opened("plain.html")
    page.page.select_option("#metric", label="macro-f1")
    page.page.click("#theme")
    assert page.requests == [(folder / "plain.html").as_uri()]
    blocked = "fetch('data:text/plain,x').then(() => 'loaded', () => 'refused')"
    assert page.page.evaluate(blocked) == "refused"


@pytest.mark.slow
def test_light_dark_paper_and_words_for_everything(opened: Any) -> None:
    ink = "getComputedStyle(document.body).color"
    page, night = opened("plain.html"), opened("plain.html", scheme="dark")
    light, dark = page.page.evaluate(ink), night.page.evaluate(ink)
    assert light != dark
    button = page.page.locator("#theme")
    # The button says what it will do.
    assert "Switch to dark" in button.inner_text()
    for says, color in (("Switch to light", dark), ("Switch to dark", light)):
        button.press("Enter")
        assert says in button.inner_text()
        assert page.page.evaluate(ink) == color
    # On paper everything is light, and there are no controls. Of the fourth row nothing is observed.
    corner = "() => [...document.getElementById('pattern').getContext('2d').getImageData(0, 3, 1, 1).data]"
    before = night.page.evaluate(corner)
    night.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    on_paper = night.page.evaluate(corner)
    night.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert night.page.evaluate(corner) == before
    assert sum(on_paper) > sum(before)
    night.page.emulate_media(media="print")
    for control in ("#metric", "#axis", "#filter", "#fit-axis", "#compare-axis", "#slider"):
        assert not night.page.locator(control).is_visible(), control
    # Every control has a name, and every picture words.
    unnamed = """() => [...document.querySelectorAll('input, select, button')].filter((one) =>
        !(one.labels && one.labels.length) && !one.getAttribute('aria-label') && !one.textContent.trim()
        && one.tagName + one.className !== 'BUTTONpick').length"""
    assert page.page.evaluate(unnamed) == 0
    assert page.page.locator("svg[role='img']:not([aria-label])").count() == 0
    assert page.page.locator("svg[role='img']").count() >= 6


@pytest.mark.slow
def test_models_side_by_side_and_the_features_of_a_label(opened: Any) -> None:
    page, other = opened("plain.html"), plug_in(PROBLEM)
    scores = scores_of(other, LABELS)
    for name in ("micro-f1", "instance-jaccard"):
        page.page.select_option("#metric", label=name)
        own = get_metric(name)(LABELS, scores >= other.threshold_)
        assert close(page.numbers("#compare-table [data-key='own']")[1], own)
        best = best_threshold(scores, LABELS, name).value
        assert close(page.numbers("#compare-table [data-key='best']")[1], best)
    page.page.locator("#labels-table tr[data-label='1'] button.pick").press("Enter")
    assert hostile_names(12)[1] in page.page.locator("#detail h3").inner_text()
    effect = MODEL.coef_[:, 1] * PROBLEM.X_test.std(axis=0)
    shown = page.numbers("#detail .figure")
    np.testing.assert_allclose(shown, effect[np.argsort(-np.abs(effect))], rtol=1e-9)


@pytest.mark.slow
def test_a_phone_scrolls_downwards_only(opened: Any) -> None:
    page = opened("plain.html", width=360)
    page.page.locator("#labels-table tr[data-label='0'] button.pick").dispatch_event("click")
    page.page.eval_on_selector_all("details", "all => all.forEach((one) => { one.open = true; })")
    page.settle()
    assert page.page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.page.locator("#curve-table tbody tr").count() > 20
    # No word of the typed formula is wider than its place, and a long name leaves room for the figures.
    tight = "all => all.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent)"
    assert page.page.eval_on_selector_all("#formula .own > span:not(:empty)", tight) == []
    widths = "all => all.map((one) => one.getBoundingClientRect().width)"
    assert max(page.page.eval_on_selector_all("#labels-table tbody th", widths)) <= 150


@pytest.mark.slow
def test_large_data_keeps_what_is_exact(opened: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labelgap.report.collect.MOST_ENTRIES", 10)
    write_report(folder / "large.html", MODEL, PROBLEM.X_test, WEIGHTED)
    page, scores = opened("large.html"), scores_of(MODEL, WEIGHTED)
    assert "instance" in page.page.locator("#judged").inner_text()
    for name in ("micro-f1", "macro-f1", "macro-balanced-jaccard"):
        page.page.select_option("#metric", label=name)
        for shown in page.slide_along([0, 50, 300]):
            assert close(shown["metric"], get_metric(name)(WEIGHTED, scores >= shown["theta"]))
    assert page.page.locator("#metric option", has_text="instance-f1").first.is_disabled()


@pytest.mark.slow
def test_recommenders_and_regressors_have_pages(opened: Any, folder: Path) -> None:
    rng = np.random.RandomState(0)
    X, hours = rng.standard_normal((60, 3)), rng.uniform(1, 9, size=60)
    users, items = np.nonzero(rng.uniform(size=(25, 10)) < 0.6)
    answers = (users.tolist(), items.tolist(), rng.randint(2, size=len(users)).tolist())
    model = Recommender(trace_penalty=0.02, random_state=0).fit(answers)
    write_report(folder / "recommender.html", model, None, answers)
    page = opened("recommender.html")
    assert close(page.number("#out-metric"), model.score(answers))
    page.page.locator("button.pick").first.click()
    assert page.page.locator("#detail .figure").count() == 9
    assert page.page.locator("#ranking").is_hidden()
    Y = rng.poisson(np.exp(X @ rng.standard_normal((3, 4))) * hours[:, None]).astype(float)
    regressor = LowRankRegressor("poisson", trace_penalty=0.01, ridge_penalty=0.01, random_state=0)
    write_report(folder / "regressor.html", regressor.fit(X, Y, exposure=hours), X, Y, exposure=hours)
    other = opened("regressor.html")
    assert close(other.number(".tile .big >> nth=0"), regressor.score(X, Y, exposure=hours))
    assert "exposures" in other.page.locator("#judged").inner_text()
    assert other.page.locator("#threshold").is_hidden()
    assert other.page.locator("#labels-table tbody tr").count() == 4
    # Two tastes: popularity cannot tell them apart.
    likes = [(user, item) for user in range(8) for item in range(8) if (user + item) % 2 == 0]
    users, items = zip(*likes, strict=True)
    model = Recommender(unobserved="negative", random_state=0)
    model.fit(([*users[:14], *users[16:]], [*items[:14], *items[16:]]))
    held = (users[14:16], items[14:16])
    write_report(folder / "lists.html", model, None, held)
    judged, lists = model.evaluate_ranking(held), opened("lists.html")
    assert lists.texts("#ranking-table tbody th") == [name for name, _, _ in judged.rows()]
    shown = lists.numbers("#ranking-table [data-key=model]")
    assert all(close(one, own) for one, (_, own, _) in zip(shown, judged.rows(), strict=True))
    assert close(lists.number("#ranking-table tr:nth-child(3) [data-key=popularity]"), judged.popularity.ndcg)
    assert not judged.popularity_wins
    assert str(model.list_settings_) in lists.page.locator("#candidates tr.winner").inner_text()
    assert lists.page.locator("#ranking-warning").is_hidden()
    assert page.complaints == other.complaints == lists.complaints == []


@pytest.mark.slow
def test_fits_that_did_not_end_or_found_nothing_say_so(opened: Any, folder: Path) -> None:
    assert opened("plain.html").page.locator("#ended").is_hidden()
    model = fitted(PROBLEM)
    for name, said in (("interrupted", "was interrupted"), ("short", "max_iter"), ("capped", "its cap of 2")):
        model.interrupted_ = name == "interrupted"
        model.relative_gap_, model.rank, model.rank_ = 0.05, (2 if name == "capped" else None), 2
        write_report(folder / f"{name}.html", model, PROBLEM.X_test, LABELS)
        text = opened(f"{name}.html").page.locator("#ended").inner_text()
        assert said in text
        assert "5\u00a0%" in text
    rng = np.random.RandomState(0)
    X, Y = rng.standard_normal((40, 3)), rng.standard_normal((40, 2))
    model = LowRankRegressor(trace_penalty=100.0, ridge_penalty=0.1, tol=0.5, random_state=0).fit(X, Y)
    assert model.rank_ == 0
    # One step, and a gap below what the axis of the tolerance begins with.
    model.history_ = (replace(model.history_[0], gap=1e-3),)
    write_report(folder / "rank0.html", model, X, Y)
    page = opened("rank0.html")
    page.page.locator("button.pick").first.click()
    assert "No feature moves this label" in page.page.locator("#detail").inner_text()
    assert page.page.locator("#detail .figure").count() == 0
    ticks = page.texts("#objective .axis text[text-anchor='middle']:not(.name)")
    only = model.history_[0].iteration
    assert [int(tick.replace("−", "-")) for tick in ticks] == [only - 1, only, only + 1]
    box = "one => one.getBoundingClientRect().top"
    line, top = (page.page.eval_on_selector(f"#gap {part}", box) for part in ("path.dashed", "svg"))
    assert line > top + 20
    assert page.complaints == []


# -- what sections look like ---------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_fully_observed_is_said_in_words(opened: Any, folder: Path) -> None:
    write_report(folder / "full.html", MODEL, PROBLEM.X_test, PROBLEM.Y_test)
    page = opened("full.html")
    assert "every row has all 12 labels" in page.page.locator("#data-say").inner_text()
    assert page.page.locator("#pattern").is_hidden()
    assert page.page.locator("#histogram").is_hidden()
    # The bars are about what differs, and begin with the most yes.
    shown = [int(text.split(" / ")[0]) for text in page.texts("#bars .figure")]
    assert shown == sorted(PROBLEM.Y_test.sum(axis=0).astype(int).tolist(), reverse=True)
    assert opened("plain.html").page.locator("#pattern").is_visible()
    # A table that is a row or two too long is shown whole.
    assert page.page.locator("#labels-table tbody tr").count() == 12
    assert page.page.locator("#labels-region").evaluate("box => box.scrollHeight - box.clientHeight") <= 1
    assert page.complaints == []


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
@pytest.mark.parametrize("width", [1200, 420])
def test_long_tables_come_a_page_at_a_time_and_cut_no_row(opened: Any, folder: Path, width: int) -> None:
    rng = np.random.RandomState(0)
    scores, labels = rng.standard_normal((80, 450)), (rng.uniform(size=(80, 450)) < 0.3) * 1.0
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
    for count in (200, 400, 450):
        assert page.page.locator("#labels-table tbody tr").count() == count
        if count < 450:
            page.page.click("#more")
    assert not page.page.locator("#more").is_visible()
    assert page.page.locator("#fit").is_hidden()
    # Few rows need no box to scroll in, whatever was found before.
    page.page.fill("#filter", "label 449")
    assert page.page.locator("#labels-region").evaluate("box => box.scrollHeight - box.clientHeight") <= 1
    assert page.complaints == []


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


def test_ranks_wrong_rows_and_labels_to_look_at_again_are_listed(opened: Any, folder: Path) -> None:
    names, rows = [f"label {j}" for j in range(12)], [f"document {i}" for i in range(90)]
    labels = ObservedLabels.from_dense(LABELS.to_dense(), label_names=names, row_names=rows)
    write_report(folder / "wrong.html", MODEL, PROBLEM.X_test, labels)
    page, scores = opened("wrong.html"), scores_of(MODEL, labels)
    for label in (0, 5, 11):
        here = labels.indices == label
        row = f"#labels-table tr[data-label='{label}'] td[data-key='{{}}']"
        for key, figure in (("auc", roc_auc_score), ("ap", average_precision_score)):
            assert close(page.number(row.format(key)), figure(labels.values[here], scores[here]))
    assert np.isnan(page.number("#labels-table tr[data-label='2'] td[data-key='auc']"))
    wrong = np.bincount(labels.rows[(scores >= MODEL.threshold_) != (labels.values == 1)], minlength=90)
    assert page.texts("#wrong-table tbody th")[0] == f"document {int(np.argmax(wrong))}"
    counts = [int(text) for text in page.texts("#wrong-table tbody td:nth-child(2)")]
    assert counts == sorted(wrong[wrong > 0].tolist(), reverse=True)[: len(counts)]
    said = page.page.locator("#wrong-say").inner_text()
    assert f"{int((wrong == 0).sum()) - 1} of 89 rows have no wrong decision" in said
    Y = PROBLEM.Y_test.copy()
    sure = np.unravel_index(np.argmax(MODEL.predict_proba(PROBLEM.X_test)), Y.shape)
    Y[sure] = 0
    write_report(folder / "doubtful.html", MODEL, PROBLEM.X_test, Y)
    other = opened("doubtful.html")
    assert other.texts("#doubtful-table tbody th")[0] == f"row {sure[0]}"
    assert other.texts("#doubtful-table tbody tr:first-child td")[:3] == [f"label {sure[1]}", "no", "yes"]
    assert {"Rows", "Look again"} <= set(other.texts("#nav a"))
    assert page.complaints == other.complaints == []
    right = np.array([[2.0, -1.0], [1.0, -2.0]])
    write_report(folder / "right.html", with_given_scores(right, right > 0), right, right > 0)
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
