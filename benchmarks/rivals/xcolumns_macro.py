"""xCOLUMNs: decisions that maximise macro-F1, without a budget of labels per row (its ``k = 0``).

It has two methods. Frank-Wolfe mixes classifiers of the form "a·p + b > 0" on rows with known labels; block
coordinate ascent decides the rows of a set from their probabilities alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.rivals import why_missing

NAME = "xCOLUMNs (macro-F1)"


def unavailable() -> str | None:
    """Why it cannot run here."""
    return why_missing(NAME, "xcolumns.frank_wolfe", "xcolumns.block_coordinate")


def find_classifier(labels: NDArray[np.float32], probabilities: NDArray[np.float32]) -> Any:
    """By Frank-Wolfe, with its defaults but for the start, which is p > 1/2 and not random."""
    # Its ready-made search for macro-F1 hands over a function of other arguments (version 0.0.2).
    from xcolumns.frank_wolfe import find_classifier_using_fw
    from xcolumns.metrics import macro_f1_score_on_conf_matrix

    return find_classifier_using_fw(
        labels,
        probabilities,
        macro_f1_score_on_conf_matrix,
        k=0,
        init_classifier="top",
        skip_tn=True,
        seed=0,
    )


def decide(classifier: Any, probabilities: NDArray[np.float32]) -> NDArray[np.float32]:
    """The decisions of a classifier, which draws the part of its mixture that decides a row."""
    return np.asarray(classifier.predict(probabilities, seed=0))


def decide_together(probabilities: NDArray[np.float32]) -> NDArray[np.float32]:
    """By block coordinate ascent on the expected macro-F1 of these rows."""
    from xcolumns.block_coordinate import predict_optimizing_macro_f1_score_using_bc as predict

    return np.asarray(predict(probabilities, k=0, seed=0))
