"""The page in a browser: what it shows is what the library says, and nothing leaves it.

Needs playwright and a Chromium: the one that ``LABELGAP_CHROMIUM`` names, or one on the path.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_pages import fitted, gappy, hostile_names, plug_in, small_problem, with_given_scores

from labelgap import (
    LinearFractional,
    LowRankRegressor,
    ObservedLabels,
    Recommender,
    best_threshold,
    get_metric,
)
from labelgap.report import collect as collect_module
from labelgap.report import write_report
from labelgap.report.judged import Judged, judge

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


def assert_counts(shown: dict[str, float], judged: Judged) -> None:
    """What the read-out says about right and wrong at its own threshold."""
    yes, true = judged.scores >= shown["theta"], judged.labels.values == 1
    weights = judged.labels.weights if judged.labels.weights is not None else np.ones(len(yes))
    expected = {"tp": yes & true, "fp": yes & ~true, "fn": ~yes & true, "tn": ~yes & ~true}
    for key, cell in expected.items():
        assert close(shown[key], float(weights[cell].sum())), key
    assert close(shown["fraction"], float(weights[yes].sum() / weights.sum()))


@pytest.mark.parametrize(("name", "labels"), [("plain.html", LABELS), ("weighted.html", WEIGHTED)])
@pytest.mark.slow
def test_every_place_of_the_slider_shows_what_python_says(
    opened: Any, name: str, labels: ObservedLabels
) -> None:
    page, judged = opened(name), judge(MODEL, PROBLEM.X_test, labels)
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
            expected = metric(labels, judged.scores >= shown["theta"])
            assert close(shown["metric"], expected), (label, shown)
            assert_counts(shown, judged)
        page.page.click("#go-best")
        best = best_threshold(judged.scores, labels, metric)
        assert close(page.number("#out-metric"), best.value)
        page.page.click("#go-model")
        assert page.number("#out-theta") == MODEL.threshold_
    assert page.complaints == []


def test_the_slider_moves_by_keyboard(opened: Any) -> None:
    page, judged = opened("plain.html"), judge(MODEL, PROBLEM.X_test, LABELS)
    page.page.focus("#slider")
    seen = [page.number("#out-theta")]
    for key in ("ArrowRight", "ArrowRight", "PageDown", "Home", "ArrowRight", "End"):
        page.page.keyboard.press(key)
        theta = page.number("#out-theta")
        assert close(page.number("#out-metric"), get_metric("micro-f1")(LABELS, judged.scores >= theta))
        assert "micro-f1" in page.page.locator("#slider").get_attribute("aria-valuetext")
        seen.append(theta)
    assert seen[0] < seen[1] < seen[2]
    assert (seen[4], seen[6]) == (-np.inf, np.inf)


@pytest.mark.slow
def test_typed_coefficients(opened: Any) -> None:
    page, judged = opened("weighted.html"), judge(MODEL, PROBLEM.X_test, WEIGHTED)
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
            assert close(shown["metric"], metric(WEIGHTED, judged.scores >= shown["theta"]))
    assert page.page.locator("#metric").input_value() == "own"
    before = page.number("#out-metric")
    page.page.fill("#own-denominator-fp", "-2")
    assert "can vanish" in page.page.locator("#own-error").inner_text()
    page.page.fill("#own-denominator-fp", "abc")
    assert "must be a number" in page.page.locator("#own-error").inner_text()
    assert page.number("#out-metric") == before


@pytest.mark.slow
def test_the_value_of_zero_over_zero(opened: Any) -> None:
    page = opened("plain.html")
    page.page.click("details.formula summary")
    page.page.select_option("#metric", label="macro-precision")
    page.page.fill("#own-zero", "0.75")
    page.slide(int(page.page.locator("#slider").get_attribute("max")))
    assert page.number("#out-metric") == 0.75


@pytest.mark.slow
def test_pointing_at_the_curve_moves_the_threshold(opened: Any) -> None:
    page = opened("plain.html")
    page.page.locator("#curve").scroll_into_view_if_needed()
    box = page.page.locator("#curve svg").bounding_box()
    page.page.mouse.click(box["x"] + box["width"] * 0.8, box["y"] + box["height"] / 2)
    assert page.number("#out-theta") > MODEL.threshold_
    page.page.select_option("#axis", "fraction")
    page.page.mouse.click(box["x"] + box["width"] * 0.95, box["y"] + box["height"] / 2)
    assert page.number("#out-theta") < MODEL.threshold_


def test_the_table_of_labels_is_live_sorted_and_searched(opened: Any) -> None:
    page, judged = opened("plain.html"), judge(MODEL, PROBLEM.X_test, LABELS)
    page.slide(100)
    page.settle()
    yes = judged.scores >= page.number("#out-theta")
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


@pytest.mark.slow
def test_choosing_a_label_shows_its_features(opened: Any) -> None:
    page = opened("plain.html")
    page.page.locator("#labels-table tr[data-label='1'] button.pick").press("Enter")
    assert hostile_names(12)[1] in page.page.locator("#detail h3").inner_text()
    effect = MODEL.coef_[:, 1] * PROBLEM.X_test.std(axis=0)
    shown = page.numbers("#detail .figure")
    np.testing.assert_allclose(shown, effect[np.argsort(-np.abs(effect))], rtol=1e-9)


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
def test_light_and_dark(opened: Any) -> None:
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
    assert "Switch to light" in night.page.locator("#theme").inner_text()


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
def test_models_side_by_side(opened: Any) -> None:
    page, other = opened("plain.html"), judge(plug_in(PROBLEM), PROBLEM.X_test, LABELS)
    for name in ("micro-f1", "instance-jaccard"):
        page.page.select_option("#metric", label=name)
        own = get_metric(name)(LABELS, other.scores >= other.threshold)
        assert close(page.numbers("#compare-table [data-key='own']")[1], own)
        best = best_threshold(other.scores, LABELS, name).value
        assert close(page.numbers("#compare-table [data-key='best']")[1], best)


@pytest.mark.slow
def test_every_control_has_a_name_and_every_picture_words(opened: Any) -> None:
    page = opened("plain.html")
    unnamed = """() => [...document.querySelectorAll('input, select, button')].filter((one) =>
        !(one.labels && one.labels.length) && !one.getAttribute('aria-label') && !one.textContent.trim()
        && one.tagName + one.className !== 'BUTTONpick').length"""
    assert page.page.evaluate(unnamed) == 0
    assert page.page.locator("svg[role='img']:not([aria-label])").count() == 0
    assert page.page.locator("svg[role='img']").count() >= 6


@pytest.mark.slow
def test_large_data_keeps_what_is_exact(opened: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect_module, "MOST_ENTRIES", 10)
    write_report(folder / "large.html", MODEL, PROBLEM.X_test, WEIGHTED)
    page, judged = opened("large.html"), judge(MODEL, PROBLEM.X_test, WEIGHTED)
    assert "instance" in page.page.locator("#judged").inner_text()
    for name in ("micro-f1", "macro-f1", "macro-balanced-jaccard"):
        page.page.select_option("#metric", label=name)
        for shown in page.slide_along([0, 50, 300]):
            assert close(shown["metric"], get_metric(name)(WEIGHTED, judged.scores >= shown["theta"]))
    assert page.page.locator("#metric option", has_text="instance-f1").first.is_disabled()


@pytest.mark.slow
def test_many_labels_come_a_page_at_a_time(opened: Any, folder: Path) -> None:
    rng = np.random.RandomState(0)
    scores, labels = rng.standard_normal((20, 450)), (rng.uniform(size=(20, 450)) < 0.3) * 1.0
    write_report(folder / "many.html", with_given_scores(scores, labels), scores, labels)
    page = opened("many.html")
    assert page.page.locator("#labels-table tbody tr").count() == 200
    page.page.click("#more")
    page.page.click("#more")
    assert page.page.locator("#labels-table tbody tr").count() == 450
    assert not page.page.locator("#more").is_visible()
    assert page.page.locator("#fit").is_hidden()
    assert page.complaints == []


@pytest.mark.slow
def test_recommenders_and_regressors_have_pages(opened: Any, folder: Path) -> None:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((60, 3))
    Y = X @ rng.standard_normal((3, 4))
    users, items = np.nonzero(rng.uniform(size=(25, 10)) < 0.6)
    answers = (users.tolist(), items.tolist(), rng.randint(2, size=len(users)).tolist())
    model = Recommender(trace_penalty=0.02, random_state=0).fit(answers)
    write_report(folder / "recommender.html", model, None, answers)
    regressor = LowRankRegressor(trace_penalty=0.01, ridge_penalty=0.01, random_state=0).fit(X, Y)
    write_report(folder / "regressor.html", regressor, X, Y)
    page = opened("recommender.html")
    assert close(page.number("#out-metric"), model.score(answers))
    page.page.locator("button.pick").first.click()
    assert page.page.locator("#detail .figure").count() == 9
    assert page.page.locator("#ranking").is_hidden()
    other = opened("regressor.html")
    assert close(other.number(".tile .big >> nth=0"), regressor.score(X, Y))
    assert other.page.locator("#threshold").is_hidden()
    assert other.page.locator("#labels-table tbody tr").count() == 4
    assert page.complaints == other.complaints == []


@pytest.mark.slow
def test_lists_of_a_recommender_stand_beside_popularity(opened: Any, folder: Path) -> None:
    # Two tastes: popularity cannot tell them apart.
    likes = [(user, item) for user in range(8) for item in range(8) if (user + item) % 2 == 0]
    users, items = zip(*likes, strict=True)
    model = Recommender(unobserved="negative", trace_penalty=0.005, random_state=0)
    model.fit(([*users[:14], *users[16:]], [*items[:14], *items[16:]]))
    held = (users[14:16], items[14:16])
    write_report(folder / "lists.html", model, None, held)
    judged = model.evaluate_ranking(held)
    page = opened("lists.html")
    assert page.texts("#ranking-table tbody th") == [name for name, _, _ in judged.rows()]
    shown = page.numbers("#ranking-table [data-key=model]")
    assert all(close(one, own) for one, (_, own, _) in zip(shown, judged.rows(), strict=True))
    assert close(page.number("#ranking-table tr:nth-child(3) [data-key=popularity]"), judged.popularity.ndcg)
    assert not judged.popularity_wins
    assert page.page.locator("#ranking-warning").is_hidden()
    assert page.complaints == []


@pytest.mark.slow
def test_the_table_of_the_curve_has_its_ends_the_models_threshold_and_the_best(opened: Any) -> None:
    page = opened("plain.html")
    page.page.eval_on_selector("details.figures", "one => { one.open = true; }")
    page.settle()
    first = page.texts("#curve-table tbody th")
    assert (first[0], first[-1]) == ("−∞", "∞")
    assert sum("model’s θ" in text for text in first) == sum("best" in text for text in first) == 1


@pytest.mark.slow
def test_printing_shows_a_light_page_without_controls(opened: Any) -> None:
    page = opened("plain.html", scheme="dark")
    picture = "document.getElementById('pattern').getContext('2d')"
    # Of the fourth row nothing is observed.
    corner = f"() => [...{picture}.getImageData(0, 3, 1, 1).data]"
    dark = page.page.evaluate(corner)
    page.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    on_paper = page.page.evaluate(corner)
    page.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.page.evaluate(corner) == dark
    assert sum(on_paper) > sum(dark)
    page.page.emulate_media(media="print")
    for control in ("#metric", "#axis", "#filter", "#fit-axis", "#compare-axis", "#slider"):
        assert not page.page.locator(control).is_visible(), control


@pytest.mark.slow
def test_a_fit_that_did_not_end_says_so(opened: Any, folder: Path) -> None:
    assert opened("plain.html").page.locator("#ended").is_hidden()
    model = fitted(PROBLEM)
    for name, said in (("interrupted", "was interrupted"), ("short", "max_iter"), ("capped", "its cap of 2")):
        model.interrupted_ = name == "interrupted"
        model.relative_gap_, model.rank, model.rank_ = 0.05, (2 if name == "capped" else None), 2
        write_report(folder / f"{name}.html", model, PROBLEM.X_test, LABELS)
        text = opened(f"{name}.html").page.locator("#ended").inner_text()
        assert said in text
        assert "5\u00a0%" in text


@pytest.mark.slow
def test_a_model_of_rank_0_and_one_step(opened: Any, folder: Path) -> None:
    rng = np.random.RandomState(0)
    X, Y = rng.standard_normal((40, 3)), rng.standard_normal((40, 2))
    model = LowRankRegressor(trace_penalty=100.0, ridge_penalty=0.1, tol=0.5, random_state=0).fit(X, Y)
    assert model.rank_ == 0
    # A gap of exactly 0 has no place on the axis.
    model.history_ = (replace(model.history_[0], gap=1e-3),)
    write_report(folder / "rank0.html", model, X, Y)
    page = opened("rank0.html")
    page.page.locator("button.pick").first.click()
    assert "No feature moves this label" in page.page.locator("#detail").inner_text()
    assert page.page.locator("#detail .figure").count() == 0
    assert "nothing is known" not in page.page.locator("#data-say").inner_text()
    ticks = page.texts("#objective .axis text[text-anchor='middle']:not(.name)")
    only = model.history_[0].iteration
    assert [int(tick.replace("−", "-")) for tick in ticks] == [only - 1, only, only + 1]
    # The tol is far above the gap, and yet in the picture.
    box = "one => one.getBoundingClientRect().top"
    line, top = (page.page.eval_on_selector(f"#gap {part}", box) for part in ("path.dashed", "svg"))
    assert model.history_[0].gap < 0.1
    assert line > top + 20
    assert page.complaints == []


@pytest.mark.slow
def test_words_fit_what_was_judged(opened: Any, folder: Path) -> None:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((60, 3))
    hours = rng.uniform(1, 9, size=60)
    Y = rng.poisson(np.exp(X @ rng.standard_normal((3, 2))) * hours[:, None]).astype(float)
    model = LowRankRegressor("poisson", trace_penalty=0.01, ridge_penalty=0.01, random_state=0)
    write_report(folder / "hours.html", model.fit(X, Y, exposure=hours), X, Y, exposure=hours)
    page = opened("hours.html")
    assert close(page.number(".tile .big >> nth=0"), model.score(X, Y, exposure=hours))
    assert "exposures" in page.page.locator("#judged").inner_text()
    page.page.locator("button.pick").first.click()
    assert "to the right for more" in page.page.locator("#detail").inner_text()
    one = ObservedLabels.from_triplets([0], [0], [0], shape=(1, 1))
    write_report(folder / "one.html", with_given_scores([[0.9], [0.1]], [[1], [0]]), [[0.7]], one)
    page = opened("one.html")
    assert "1 observed entry given" in page.page.locator("#lead").inner_text()
    assert "0/0" in page.page.locator("#labels-say").inner_text()
    negative = fitted(PROBLEM, unobserved="negative")
    write_report(folder / "negative.html", negative, PROBLEM.X_test, PROBLEM.Y_test)
    assert "read as a no" in opened("negative.html").page.locator("#judged").inner_text()
    recorded = np.nan_to_num(PROBLEM.Y_observed)
    alone = fitted(replace(PROBLEM, Y_observed=recorded), unobserved="unlabelled", flip_rate=0.4)
    write_report(folder / "alone.html", alone, PROBLEM.X_test, PROBLEM.Y_test)
    page = opened("alone.html")
    assert "not comparable" in page.page.locator("#judged").inner_text()
    assert "corrected" in page.page.locator("#tiles").inner_text()


@pytest.mark.slow
def test_a_threshold_beyond_the_ends_of_its_link_is_shown_by_scores(opened: Any, folder: Path) -> None:
    model = fitted(PROBLEM, loss="squared")
    model.threshold_ = -1.5
    assert model.threshold_probability_ == 0.0
    write_report(folder / "clipped.html", model, PROBLEM.X_test, LABELS)
    assert opened("clipped.html").page.locator("#axis").input_value() == "score"
