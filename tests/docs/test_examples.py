"""Every example is short, runs as it stands, and says something."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


def test_there_is_one_for_every_setting() -> None:
    assert [path.stem for path in EXAMPLES] == [
        "assay_matrix",
        "biased_sampling",
        "counts",
        "half_annotated",
        "likes_and_dislikes",
        "likes_and_silence",
        "on_a_cluster",
        "only_positives",
        "rival_methods",
    ]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_is_short_and_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) < 40
    assert source.startswith('"""'), "the first lines say what it shows"
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) >= 2
    if path.stem == "biased_sampling":
        weights_correct_what_a_biased_sample_promises(printed)


def weights_correct_what_a_biased_sample_promises(printed: list[str]) -> None:
    """What the example and its page say in words, in numbers."""
    *_, plain, weighted = printed
    found = [[float(number) for number in re.findall(r"0\.\d{3}", line)] for line in (plain, weighted)]
    (promised, _, reached), (weighted_promise, error, weighted_reached) = found
    assert promised - reached > 0.04
    assert abs(weighted_promise - weighted_reached) <= 2 * error < 0.02
    assert reached > weighted_reached > reached - 0.02
