from __future__ import annotations

from pathlib import Path

import pytest

from labelgap import demo
from labelgap.data import make_low_rank_labels


@pytest.mark.filterwarnings("error")
def test_demo_prints_both_methods_and_saves_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "curve.png"
    problem = make_low_rank_labels(
        n=60, n_labels=6, n_features=6, rank=2, observed=0.5, n_test=100, random_state=0
    )
    demo.run(problem, picture, seed=0)
    printed = capsys.readouterr().out
    assert "low-rank (labelgap)" in printed
    assert "plug-in" in printed
    assert "curve.png" in printed
    assert picture.read_bytes().startswith(b"\x89PNG")
