"""Small files and models that many tests of the command line need."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

try:
    from cli_runs import EXAMPLES, FILMS, FIXED, TABLE, run, write_ratings
except ImportError:
    # Without the extra there is nothing to test here; the modules say so.
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder with two files of articles."""
    monkeypatch.chdir(tmp_path)
    for name in ("articles.csv", "new_articles.csv"):
        shutil.copy(EXAMPLES / name, tmp_path)


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Saved models, fitted once: of articles, of their yes alone, of counts, and of films."""
    folder, before = tmp_path_factory.mktemp("models"), Path.cwd()
    shutil.copy(EXAMPLES / "articles.csv", folder)
    write_ratings(folder / "ratings.csv")
    os.chdir(folder)
    run(f"fit {TABLE} {FIXED} -q --out articles.labelgap")
    run(f"fit {TABLE} {FIXED} -q --unobserved unlabelled --flip-rate 0.5 --tol 0.01 --out positives.labelgap")
    counts = "--labels quotes,images --drop tag_*,id,words --family poisson -q --out counts.labelgap"
    run(f"fit articles.csv {counts} --trace-penalty 0.01 --ridge-penalty 0.01")
    run(f"fit ratings.csv {FILMS} --quiet --out films.labelgap")
    os.chdir(before)
    return {path.stem: path for path in folder.glob("*.labelgap")}


@pytest.fixture
def models(fitted: dict[str, Path], tmp_path: Path) -> None:
    """Copies of the models, and ratings.csv, in the folder of the test."""
    for path in fitted.values():
        shutil.copy(path, tmp_path)
    write_ratings(tmp_path / "ratings.csv")


@pytest.fixture(scope="session")
def positives(fitted: dict[str, Path]) -> Path:
    return fitted["positives"]


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    write_ratings(tmp_path / "ratings.csv")
    return tmp_path / "ratings.csv"
