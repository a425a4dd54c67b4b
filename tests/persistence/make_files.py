"""Write the model files of this version beside the answers that they must give for ever.

Run it once, by hand, when a new version of the document is made:

    python tests/persistence/make_files.py

It writes ``files/v<VERSION>/<name>.labelgap`` and ``files/v<VERSION>/expected.json``, and stops if they are
there. The folders of older versions stay as they are: they are how we know that old files can still be read.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from saved_models import (
    ITEM_FEATURES,
    ITEM_NAMES,
    MODELS,
    NAMES,
    STARS,
    USER_FEATURES,
    X,
    Y,
    answers,
)

from labelgap import LowRankClassifier, PlugInClassifier, Recommender
from labelgap.persistence.saving import VERSION

FILES = Path(__file__).parent / "files"

KEPT: dict[str, Any] = {
    "low_rank_classifier": lambda: LowRankClassifier(
        trace_penalty=0.01, ridge_penalty=0.0, threshold="train", random_state=0
    ).fit(X, Y),
    "low_rank_regressor": MODELS["regressor, poisson"],
    "metric_threshold": MODELS["threshold of scores"],
    "plug_in_classifier": lambda: PlugInClassifier(threshold="train", random_state=0).fit(X, Y),
    "recommender": lambda: Recommender(positive=3, trace_penalty=0.05, threshold="train", random_state=0).fit(
        (NAMES, ITEM_NAMES, STARS), user_features=USER_FEATURES, item_features=ITEM_FEATURES
    ),
    "recommender_lists": lambda: Recommender(unobserved="negative", trace_penalty=0.3, random_state=0).fit(
        (NAMES, ITEM_NAMES)
    ),
    "recommender_unlabelled": MODELS["recommender, unlabelled"],
}


def inputs(model: Any) -> dict[str, Any]:
    """What the answers are about, in JSON."""
    if isinstance(model, Recommender):
        users, items = model.user_ids_[:3], model.item_ids_
        return {"users": list(users), "items": [list(item) for item in items]}
    return {"X": X[:5, : model.n_features_in_].tolist()}


def replies(model: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The answers to :func:`inputs`, in JSON."""
    if isinstance(model, Recommender):
        items = [tuple(item) for item in given["items"]]
        folded = model
        if model._users.matrix is not None:
            # As earlier versions folded in.
            folded = model.fold_in(user_features={"eve": [1.0, -1.0]}, prior="fit")
        user = "eve" if folded is not model else given["users"][0]
        return {
            "scores": [model.decision_function(user, items).tolist() for user in given["users"]],
            "decisions": [model.predict(user, items).tolist() for user in given["users"]],
            "folded": folded.predict_proba(user, items).tolist(),
        }
    rows = np.array(given["X"])
    return {"scores": model.decision_function(rows).tolist(), "decisions": model.predict(rows).tolist()}


def main() -> None:
    folder = FILES / f"v{VERSION}"
    folder.mkdir(parents=True)
    expected = {}
    for name, make in KEPT.items():
        model = make()
        assert answers(model)
        model.save(folder / f"{name}.labelgap")
        given = inputs(model)
        expected[name] = {"class": type(model).__name__, "given": given, "replies": replies(model, given)}
    text = json.dumps(expected, ensure_ascii=False, indent=1)
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
