"""AUC and average precision of each label against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from labelgap import ObservedLabels
from labelgap.report.label_ranking import rank_labels


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("levels", [4, 1000])
@pytest.mark.parametrize("seed", range(5))
def test_each_label_has_the_figures_of_scikit_learn(seed: int, levels: int, weighted: bool) -> None:
    rng = np.random.RandomState(seed)
    Y = (rng.uniform(size=(60, 9)) < 0.3).astype(float)
    Y[rng.uniform(size=Y.shape) < 0.4] = np.nan
    # A label with nothing observed at either end and in the middle, and two with one class.
    Y[:, [0, 4, 8]] = np.nan
    Y[:, 2], Y[:, 3] = np.where(np.isnan(Y[:, 2]), np.nan, 1.0), np.where(np.isnan(Y[:, 3]), np.nan, 0.0)
    labels = ObservedLabels.from_dense(Y)
    if weighted:
        labels = labels.with_weights(rng.uniform(0.1, 3.0, labels.n_observed))
    # Few levels make many ties.
    scores = rng.randint(levels, size=labels.n_observed) / levels - 0.5
    found = rank_labels(labels, scores)
    for label in range(9):
        here = labels.cols == label
        y, weights = labels.values[here], None if labels.weights is None else labels.weights[here]
        if len(np.unique(y)) < 2:
            assert np.isnan(found.auc[label])
            assert np.isnan(found.average_precision[label])
            continue
        auc = roc_auc_score(y, scores[here], sample_weight=weights)
        precision = average_precision_score(y, scores[here], sample_weight=weights)
        assert found.auc[label] == pytest.approx(auc, abs=1e-12)
        assert found.average_precision[label] == pytest.approx(precision, abs=1e-12)


def test_the_order_of_entries_and_a_monotone_change_of_scores_do_not_matter() -> None:
    rng = np.random.RandomState(0)
    labels = ObservedLabels.from_dense(rng.randint(2, size=(40, 3)).astype(float))
    scores = rng.standard_normal(labels.n_observed)
    plain, bent = rank_labels(labels, scores), rank_labels(labels, np.exp(scores))
    np.testing.assert_allclose(plain.auc, bent.auc)
    np.testing.assert_allclose(rank_labels(labels, -scores).auc, 1 - plain.auc)
    order = rng.permutation(40)
    turned = ObservedLabels.from_dense(labels.to_dense()[order])
    again = rank_labels(turned, scores.reshape(40, 3)[order].ravel())
    np.testing.assert_allclose(again.average_precision, plain.average_precision)
