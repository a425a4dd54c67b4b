"""Makes the example files of the command line: ``python make_articles.py``.

articles.csv has 300 articles with 8 numbers that a program can count in any text, and 6 tags of which about
half were never filled in: these entries are blank. Numbers and tags depend on the same three themes. The
200 articles of new_articles.csv have all their tags, so that decisions about them can be judged.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

FEATURES = {
    # The mean logarithm of each number, and what each theme (money, games, places) adds to it.
    "words": (6.4, 0.3, -0.1, 0.3),
    "quotes": (2.2, 0.4, 0.5, -0.3),
    "links": (2.4, 0.5, -0.4, 0.1),
    "images": (2.0, -0.6, 0.3, 0.7),
    "money_terms": (2.3, 1.0, -0.2, -0.2),
    "team_terms": (2.2, -0.3, 1.1, -0.1),
    "place_names": (2.5, -0.1, 0.1, 0.9),
    "numbers": (2.9, 0.6, 0.5, -0.4),
}
TAGS = {
    # The log-odds of a yes at no theme at all, and what each theme adds to them.
    "tag_business": (-1.6, 2.6, -0.8, -0.4),
    "tag_politics": (-1.8, 1.6, -1.2, 0.8),
    "tag_sport": (-2.2, -0.6, 3.0, -0.2),
    "tag_travel": (-2.4, -0.8, -0.4, 2.8),
    "tag_culture": (-1.5, -1.4, 0.4, 1.2),
    "tag_data": (-2.6, 1.8, 1.6, -0.8),
}
Row = dict[str, Any]


def articles(count: int, first: int, observed: float, rng: np.random.RandomState) -> list[Row]:
    """Rows with the fraction ``observed`` of the tags filled in."""
    themes = rng.standard_normal((count, 3))
    counts = {
        name: rng.poisson(np.exp(mean + 0.5 * themes @ weights))
        for name, (mean, *weights) in FEATURES.items()
    }
    odds = {name: mean + themes @ weights for name, (mean, *weights) in TAGS.items()}
    tags = {name: rng.uniform(size=count) < 1 / (1 + np.exp(-z)) for name, z in odds.items()}
    known = {name: rng.uniform(size=count) < observed for name in TAGS}
    return [
        {"id": f"A{first + at:03d}"}
        | {name: int(numbers[at]) for name, numbers in counts.items()}
        | {name: int(tags[name][at]) if known[name][at] else "" for name in TAGS}
        for at in range(count)
    ]


def write(path: Path, rows: list[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["id", *FEATURES, *TAGS], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main(folder: Path) -> None:
    """Write both files."""
    rng = np.random.RandomState(0)
    write(folder / "articles.csv", articles(300, 1, 0.5, rng))
    write(folder / "new_articles.csv", articles(200, 301, 1.0, rng))


if __name__ == "__main__":
    main(Path(__file__).parent)
