"""Small files and models that many tests of the command line need."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

try:
    from cli_runs import EXAMPLES, QUICK, run
except ImportError:
    # Without the extra there is nothing to test here; the modules say so.
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("articles.csv", "new_articles.csv"):
        shutil.copy(EXAMPLES / name, tmp_path)


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Saved models by kind, fitted once."""
    folder = tmp_path_factory.mktemp("models")
    paths = {name: folder / f"{name}.labelgap" for name in ("articles", "films", "counts")}
    run(
        "fit",
        EXAMPLES / "articles.csv",
        "--labels",
        "tag_*",
        "--id",
        "id",
        "--out",
        paths["articles"],
        *QUICK,
    )
    write_ratings(folder / "ratings.csv")
    films = ("--positive", "4", "--trace-penalty", "0.02", "--threshold", "train", "--quiet")
    run("fit", folder / "ratings.csv", "--out", paths["films"], *films)
    counted = ("--family", "poisson", "--trace-penalty", "0.01", "--ridge-penalty", "0.01", "--quiet")
    run(
        "fit",
        EXAMPLES / "articles.csv",
        "--labels",
        "quotes,images",
        "--drop",
        "tag_*,id,words",
        "--out",
        paths["counts"],
        *counted,
    )
    return paths


@pytest.fixture(scope="session")
def positives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved model of articles of which only the tags with a yes are recorded."""
    path = tmp_path_factory.mktemp("positives") / "positives.labelgap"
    options = ("--unobserved", "unlabelled", "--flip-rate", "0.5", "--tol", "0.01")
    run("fit", EXAMPLES / "articles.csv", "--labels", "tag_*", "--id", "id", "--out", path, *options, *QUICK)
    return path


def write_ratings(path: Path) -> None:
    """Stars of 12 users about 8 films, two tastes, with gaps."""
    rng = np.random.RandomState(0)
    lines = ["user,item,value"]
    for user in range(12):
        for item in range(8):
            if rng.uniform() < 0.7:
                liked = (user + item) % 2 == 0
                lines.append(f"u{user},film {item},{rng.randint(4, 6) if liked else rng.randint(1, 4)}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    write_ratings(tmp_path / "ratings.csv")
    return tmp_path / "ratings.csv"
