"""The pictures of the report in the documents: ``python -m experiments.report_pictures``.

Writes the pages of docs/report.md and of the README, opens them in a browser without a screen, and saves what
it shows. Needs playwright and a Chromium: the one that ``LABELGAP_CHROMIUM`` names, or one on the path.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from labelgap import LowRankClassifier, PlugInClassifier
from labelgap.data import make_low_rank_labels, read_label_table
from labelgap.report import write_report

ROOT = Path(__file__).parents[1]
_DATE = "2024-01-01"


def write_thirty_labels(path: Path) -> None:
    """The page of docs/report.md."""
    problem = make_low_rank_labels(n=400, n_labels=30, observed=0.2, noise=True, random_state=0)
    clf, plug_in = (
        make(metric="micro-f1", random_state=0).fit(problem.X, problem.Y_observed)
        for make in (LowRankClassifier, PlugInClassifier)
    )
    title, compare = "Thirty labels, a fifth of them observed", {"one classifier per label": plug_in}
    write_report(path, clf, problem.X_test, problem.Y_test, compare=compare, title=title, date=_DATE)


def write_articles(path: Path) -> None:
    """The page that the commands of the README make."""
    known, new = (
        read_label_table(ROOT / "examples" / "data" / name, labels="tag_*", ids="id")
        for name in ("articles.csv", "new_articles.csv")
    )
    clf = LowRankClassifier(random_state=0).fit(known.X, known.labels)
    names = {"title": "articles", "name": "articles", "data_name": "new_articles.csv"}
    write_report(path, clf, new.X, new.labels, feature_names=new.feature_names, date=_DATE, **names)


def take(page: Any, source: Path, out: Path, *, part: str | None = None, height: int = 960) -> None:
    """Save the top of a page, or one section of it."""
    page.set_viewport_size({"width": 1200, "height": height})
    page.goto(source.as_uri())
    page.wait_for_timeout(500)
    if part is None:
        page.screenshot(path=out)
    else:
        # Without the bar, which would lie over a section.
        page.evaluate("document.querySelector('.bar').style.display = 'none'")
        page.locator(part).screenshot(path=out)
    print(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    out = parser.parse_args().out
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome")
    browser = os.environ.get("LABELGAP_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as running:
        thirty, articles = Path(folder) / "thirty.html", Path(folder) / "articles.html"
        write_thirty_labels(thirty)
        write_articles(articles)
        started = running.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        page = started.new_page()
        take(page, thirty, out / "report.png")
        take(page, articles, out / "report-articles.png")
        take(page, articles, out / "report-rows.png", part="#wrong")
        take(page, thirty, out / "report-search.png", part="#candidates-part")
        started.close()


if __name__ == "__main__":
    main()
