"""What cannot be saved is said before anything is written."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from saved_models import COUNTS, STARS, USERS, X, Y
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from labelgap import (
    LowRankClassifier,
    LowRankRegressor,
    MetricThreshold,
    PlugInClassifier,
    Recommender,
    load,
)
from labelgap.exceptions import InvalidInputError
from labelgap.losses import CustomFamily, Logistic

FAST: dict[str, Any] = {"trace_penalty": 0.02, "threshold": "train"}
DAYS = [datetime.date(2020, 1, 1 + user) for user in USERS]


class MyLoss(Logistic):
    """A loss of somebody's own."""


class MyClassifier(LowRankClassifier):
    """A class of somebody's own."""


class MyLogistic(LogisticRegression):
    """A class derived from scikit-learn's."""


def custom_family() -> CustomFamily:
    return CustomFamily(np.exp, np.exp, np.exp, name="counts", low=0)


def with_a_note() -> PlugInClassifier:
    model = PlugInClassifier(threshold="train").fit(X, Y)
    model.note = "mine"
    return model


def with_deep_ids() -> Recommender:
    deep: Any = 1
    for _ in range(30):
        deep = (deep,)
    ids = [("a", deep), ("a", deep), "bob", "bob"]
    return Recommender(**FAST).fit((ids, ["x", "y", "x", "y"], [1, 0, 0, 1]))


def with_something_added() -> PlugInClassifier:
    model = PlugInClassifier(threshold="train").fit(X, Y)
    model.estimators_[0].extra_ = 1
    return model


REFUSED: dict[str, tuple[Any, list[str]]] = {
    "positive": (
        lambda: Recommender(positive=lambda value: value > 3, **FAST).fit((USERS, np.arange(40), STARS)),
        ["parameter 'positive' is a function", "positive=4"],
    ),
    "loss": (
        lambda: LowRankClassifier(loss=MyLoss(), **FAST).fit(X, Y),
        ["parameter 'loss' is a MyLoss", "'logistic'"],
    ),
    "family": (
        lambda: LowRankRegressor(custom_family(), trace_penalty=0.02).fit(X, COUNTS),
        ["parameter 'family' is a CustomFamily", "'poisson'"],
    ),
    "forest": (
        lambda: PlugInClassifier(RandomForestClassifier(3), threshold="train").fit(X, Y),
        ["parameter 'estimator' holds a RandomForestClassifier", "LogisticRegression", "skops"],
    ),
    "derived": (
        lambda: PlugInClassifier(MyLogistic(), threshold="train").fit(X, Y),
        ["parameter 'estimator' holds a MyLogistic"],
    ),
    "naive Bayes": (
        lambda: MetricThreshold(GaussianNB(), threshold="train").fit(X, Y),
        ["parameter 'estimator' holds a GaussianNB"],
    ),
    "pipeline": (
        lambda: MetricThreshold(
            make_pipeline(PolynomialFeatures(), LogisticRegression(max_iter=1000)), threshold="train"
        ).fit(X, Y),
        ["parameter 'estimator' holds a PolynomialFeatures"],
    ),
    "user ids": (
        lambda: Recommender(positive=3, **FAST).fit((DAYS, np.arange(40), STARS)),
        ["the id or name datetime.date(2020, 1, 1) of type date", "text"],
    ),
    "own class": (
        lambda: MyClassifier(**FAST).fit(X, Y),
        ["This MyClassifier cannot be saved", "a class of your own"],
    ),
    "random module": (
        lambda: LowRankClassifier(random_state=np.random, trace_penalty=0.02, threshold="holdout").fit(X, Y),
        ["parameter 'random_state' holds something of type module"],
    ),
    "a note": (with_a_note, ["its attribute 'note' is not one of labelgap's", "del model.note"]),
    "deep ids": (with_deep_ids, ["nested more than 20 levels deep"]),
    "a key within a key": (
        lambda: PlugInClassifier(
            LogisticRegression(class_weight={0: 1.0, 1: 2.0, ((2,),): 1.0}), threshold="train"
        ).fit(X, Y),
        ["parameter 'estimator' holds something of type tuple"],
    ),
    "something added inside": (with_something_added, ["attribute '_model' holds something of type int"]),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_cannot_be_saved_is_named_and_nothing_is_written(name: str, tmp_path: Path) -> None:
    make, expected = REFUSED[name]
    model, path = make(), tmp_path / "model"
    path.write_bytes(b"what was there")
    with pytest.raises(InvalidInputError) as caught:
        model.save(path)
    message = str(caught.value)
    assert message.startswith(f"This {type(model).__name__} cannot be saved")
    assert message.endswith(".")
    for part in expected:
        assert part in message
    assert path.read_bytes() == b"what was there"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "kind", [LowRankClassifier, LowRankRegressor, MetricThreshold, PlugInClassifier, Recommender]
)
def test_a_model_that_is_not_fitted(kind: Any, tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        kind().save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_fit_that_did_not_come_to_its_end(tmp_path: Path) -> None:
    model = LowRankClassifier()
    with pytest.raises(InvalidInputError):
        model.fit(X, np.full(Y.shape, np.nan))
    with pytest.raises(NotFittedError):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


WIDE = np.column_stack([X, X[:, :2]])
NOTHING = np.full(Y.shape, np.nan)

# A fitted model, and data that a second fit refuses once it has begun to read them.
REFITS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "classifier": (lambda: LowRankClassifier(**FAST).fit(X, Y), (WIDE, NOTHING)),
    "regressor": (lambda: LowRankRegressor(trace_penalty=0.02).fit(X, COUNTS), (WIDE, NOTHING)),
    "recommender": (
        lambda: Recommender(positive=3, **FAST).fit((USERS, np.arange(40) % 6, STARS)),
        (([f"user {user}" for user in USERS], np.arange(40) % 6, np.full(40, 5)),),
    ),
    "plug-in": (lambda: PlugInClassifier(threshold="train").fit(X, Y), (WIDE, NOTHING)),
    "threshold of scores": (lambda: MetricThreshold().fit(X[:, :3], Y), (X, Y)),
    "threshold of a classifier": (
        lambda: MetricThreshold(LogisticRegression(), threshold="train").fit(X, Y),
        (WIDE, NOTHING),
    ),
}


@pytest.mark.parametrize("name", list(REFITS))
def test_a_second_fit_that_failed_on_the_way(name: str, tmp_path: Path) -> None:
    make, data = REFITS[name]
    model, path = make(), tmp_path / "model"
    model.save(path)
    before = path.read_bytes()
    with pytest.raises(InvalidInputError):
        model.fit(*data)
    with pytest.raises(NotFittedError, match=r"Its last fit was not completed; fit it again\.$"):
        model.save(path)
    assert path.read_bytes() == before


def test_a_second_fit_that_its_callback_ended(tmp_path: Path) -> None:
    def fail(progress: Any) -> None:
        raise RuntimeError("enough")

    model = LowRankClassifier(**FAST).fit(X, Y)
    with pytest.raises(RuntimeError, match="enough"):
        model.fit(WIDE, Y, callback=fail)
    with pytest.raises(NotFittedError):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["nowhere", "nowhere/deeper", "a file"])
def test_a_folder_that_is_missing_is_named(place: str, tmp_path: Path) -> None:
    (tmp_path / "a file").touch()
    model = PlugInClassifier(threshold="train").fit(X, Y)
    with pytest.raises(
        FileNotFoundError, match="no such folder to save the model in; make it first"
    ) as caught:
        model.save(tmp_path / place / "model")
    assert caught.value.filename == str(tmp_path / place)
    assert str(tmp_path / place) in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["a file"]


def test_a_folder_in_place_of_a_file_is_said_to_be_one(tmp_path: Path) -> None:
    model = PlugInClassifier(threshold="train").fit(X, Y)
    with pytest.raises(IsADirectoryError, match="This is a folder; give the name of a file in it, such as"):
        model.save(tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(IsADirectoryError, match="This is a folder; give the name of a file in it"):
        load(tmp_path)
