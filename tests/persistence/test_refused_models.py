"""What cannot be saved is said before anything is written."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from saved_models import COUNTS, STARS, USERS, X, Y, fitted
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


DEEP: Any = 1
for _ in range(30):
    DEEP = (DEEP,)


def plug_in(given: Any = None, **attributes: Any) -> PlugInClassifier:
    model = PlugInClassifier(given, threshold="train").fit(X, Y)
    vars(model).update(attributes)
    return model


def of_ids(ids: list[Any]) -> Recommender:
    return Recommender(**FAST).fit((ids, ["x", "y", "x", "y"], [1, 0, 0, 1]))


def with_something_added() -> PlugInClassifier:
    model = plug_in()
    model.estimators_[0].extra_ = 1
    return model


def cut(given: Any) -> MetricThreshold:
    return MetricThreshold(given, threshold="train").fit(X, Y)


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
        lambda: LowRankRegressor(
            CustomFamily(np.exp, np.exp, np.exp, name="counts", low=0), trace_penalty=0.02
        ).fit(X, COUNTS),
        ["parameter 'family' is a CustomFamily", "'poisson'"],
    ),
    "forest": (
        lambda: plug_in(RandomForestClassifier(3)),
        ["parameter 'estimator' holds a RandomForestClassifier", "LogisticRegression", "skops"],
    ),
    "derived": (lambda: plug_in(MyLogistic()), ["parameter 'estimator' holds a MyLogistic"]),
    "naive Bayes": (lambda: cut(GaussianNB()), ["parameter 'estimator' holds a GaussianNB"]),
    "pipeline": (
        lambda: cut(make_pipeline(PolynomialFeatures(), LogisticRegression(max_iter=1000))),
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
    "a note": (
        lambda: plug_in(note="mine"),
        ["its attribute 'note' is not one of labelgap's", "del model.note"],
    ),
    "deep ids": (
        lambda: of_ids([("a", DEEP), ("a", DEEP), "bob", "bob"]),
        ["nested more than 20 levels deep"],
    ),
    "a key within a key": (
        lambda: plug_in(LogisticRegression(class_weight={0: 1.0, 1: 2.0, ((2,),): 1.0})),
        ["parameter 'estimator' holds something of type tuple"],
    ),
    "something added inside": (with_something_added, ["attribute '_model' holds something of type int"]),
}


def test_what_cannot_be_saved_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"what was there")
    for name, (make, expected) in REFUSED.items():
        model = make()
        with pytest.raises(InvalidInputError) as caught:
            model.save(path)
        message = str(caught.value)
        assert message.startswith(f"This {type(model).__name__} cannot be saved"), name
        assert message.endswith("."), name
        for part in expected:
            assert part in message, name
        assert path.read_bytes() == b"what was there", name
        assert list(tmp_path.iterdir()) == [path], name


WIDE = np.column_stack([X, X[:, :2]])


NOTHING = np.full(Y.shape, np.nan)


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


def test_a_model_without_a_fit_that_came_to_its_end(tmp_path: Path) -> None:
    def fail(progress: Any) -> None:
        raise RuntimeError("enough")

    path = tmp_path / "model"
    unfinished = LowRankClassifier()
    with pytest.raises(InvalidInputError):
        unfinished.fit(X, np.full(Y.shape, np.nan))
    ended = LowRankClassifier(**FAST).fit(X, Y)
    with pytest.raises(RuntimeError, match="enough"):
        ended.fit(WIDE, Y, callback=fail)
    kinds = (LowRankClassifier, LowRankRegressor, MetricThreshold, PlugInClassifier, Recommender)
    for model in (unfinished, ended, *(kind() for kind in kinds)):
        with pytest.raises(NotFittedError):
            model.save(path)
    assert list(tmp_path.iterdir()) == []
    # A second fit that failed on the way.
    for name, (make, data) in REFITS.items():
        model = make()
        model.save(path)
        before = path.read_bytes()
        with pytest.raises(InvalidInputError):
            model.fit(*data)
        with pytest.raises(NotFittedError, match=r"Its last fit was not completed; fit it again\.$"):
            model.save(path)
        assert path.read_bytes() == before, name


def test_a_missing_folder_and_a_folder_in_place_of_a_file_are_named(tmp_path: Path) -> None:
    (tmp_path / "a file").touch()
    model, said = fitted("plug-in"), "no such folder to save the model in; make it first"
    for place in ("nowhere", "nowhere/deeper", "a file"):
        with pytest.raises(FileNotFoundError, match=said) as caught:
            model.save(tmp_path / place / "model")
        assert caught.value.filename == str(tmp_path / place)
        assert str(tmp_path / place) in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["a file"]
    for ask in (model.save, load):
        with pytest.raises(IsADirectoryError, match="This is a folder; give the name of a file in it"):
            ask(tmp_path)
