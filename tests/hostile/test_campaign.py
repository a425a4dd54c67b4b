"""A short campaign of bad inputs; ``python -m tests.hostile --cases 100000`` makes a long one."""

from __future__ import annotations

import pytest

from .campaign import run_campaign
from .cases import KINDS

# Files are quick to read; a fit takes some milliseconds.
FITS = ("classifier", "regressor", "recommender", "sparse")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_bad_inputs_give_right_answers_or_clear_errors(kind: str) -> None:
    report = run_campaign(40 if kind in FITS else 250, kinds=(kind,))
    assert not report.failures, "\n".join(report.lines())
