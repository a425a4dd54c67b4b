"""Real data sets, where the folder that LABELGAP_DATA names holds them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labelgap import LowRankClassifier, ObservedLabels
from labelgap.data import data_folder, load_multilabel
from labelgap.exceptions import InvalidInputError

needs_data = pytest.mark.skipif(
    data_folder() is None, reason="LABELGAP_DATA names no folder with the data sets (see docs/data.md)"
)


@needs_data
@pytest.mark.slow
def test_emotions_at_a_fifth_of_the_labels() -> None:
    data = load_multilabel("emotions")
    assert data.train is not None
    assert data.test is not None
    Y = data.Y.toarray()
    mask = np.random.default_rng(0).random(Y[data.train].shape) < 0.2
    model = make_pipeline(StandardScaler(), LowRankClassifier(random_state=0))
    model.fit(data.X[data.train], ObservedLabels.from_mask(Y[data.train], mask))
    last = model[-1]
    assert last.duality_gap_ <= 1e-3 * last.objective_
    # Saying yes to everything reaches 0.48 here.
    assert model.score(data.X[data.test], Y[data.test]) > 0.55


@needs_data
@pytest.mark.slow
def test_bibtex_at_a_fixed_penalty_is_certified() -> None:
    data = load_multilabel("bibtex")
    assert data.train is not None
    Y = data.Y[data.train].toarray()
    mask = np.random.default_rng(0).random(Y.shape) < 0.2
    clf = LowRankClassifier(
        trace_penalty=1e-4, ridge_penalty=0.0, intercept_penalty=0.0, threshold="train"
    ).fit(data.X[data.train], ObservedLabels.from_mask(Y, mask))
    assert clf.duality_gap_ <= 1e-3 * clf.objective_
    assert 1 <= clf.rank_ < 159


def test_a_missing_folder_or_file_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.delenv("LABELGAP_DATA", raising=False)
    with pytest.raises(InvalidInputError, match="LABELGAP_DATA"):
        load_multilabel("bibtex")
    monkeypatch.setenv("LABELGAP_DATA", str(tmp_path))
    with pytest.raises(InvalidInputError, match=r"no \.npz file"):
        load_multilabel("bibtex")
