"""A short campaign of bad inputs; ``python -m tests.hostile --cases 100000`` makes a long one."""

from __future__ import annotations

import pytest

from .campaign import run_campaign
from .cases import KINDS

# Most take two milliseconds; those with fits and models take more.
FEWER = {
    "classifier": 30,
    "regressor": 30,
    "recommender": 40,
    "sparse": 40,
    "model": 100,
    "model archive": 100,
}


@pytest.mark.parametrize("fraction", [0.3, pytest.param(1.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_bad_inputs_give_right_answers_or_clear_errors(kind: str, fraction: float) -> None:
    report = run_campaign(round(fraction * FEWER.get(kind, 200)), kinds=(kind,))
    assert not report.failures, "\n".join(report.lines())
