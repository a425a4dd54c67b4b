"""A loaded model is the model that was saved."""

from __future__ import annotations

import math
import os
import pickle
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from saved_models import (
    COUNTS,
    ITEM_FEATURES,
    ITEM_NAMES,
    MODELS,
    NAMES,
    STARS,
    USER_FEATURES,
    X,
    Y,
    answers,
    fitted,
)
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression

import labelgap
from labelgap import LowRankClassifier, LowRankRegressor, MetricThreshold, PlugInClassifier, Recommender
from labelgap.persistence.codec import Encoder
from labelgap.persistence.registry import estimator_names, kind_of


def assert_same(one: Any, other: Any, where: str = "") -> None:
    """Equal in type, bit for bit, all the way down."""
    assert type(one) is type(other), where
    if isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape), where
        assert one.flags.f_contiguous == other.flags.f_contiguous, where
        assert one.tolist() == other.tolist() if one.dtype == object else one.tobytes() == other.tobytes(), (
            where
        )
    elif sp.issparse(one):
        for part in ("data", "indices", "indptr"):
            assert_same(getattr(one, part), getattr(other, part), f"{where}.{part}")
    elif isinstance(one, np.random.RandomState):
        assert_same(one.get_state(), other.get_state(), where)
    elif isinstance(one, tuple | list):
        assert len(one) == len(other), where
        for place, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_same(a, b, f"{where}[{place}]")
    elif isinstance(one, dict):
        assert list(one) == list(other), where
        for key in one:
            assert_same(one[key], other[key], f"{where}.{key}")
    elif is_dataclass(one):
        for field in fields(one):
            assert_same(getattr(one, field.name), getattr(other, field.name), f"{where}.{field.name}")
    elif isinstance(one, BaseEstimator):
        assert_same(one.__getstate__(), other.__getstate__(), where)
    elif isinstance(one, float):
        assert one == other or (math.isnan(one) and math.isnan(other)), where
    else:
        assert one == other, where


@pytest.fixture(params=list(MODELS))
def model(request: pytest.FixtureRequest) -> Any:
    return fitted(request.param)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.labelgap"


def there_and_back(model: Any, path: Path) -> Any:
    model.save(path)
    return labelgap.load(path)


# -- the same model ------------------------------------------------------------------------------------


def test_attributes_and_answers_are_the_same_bit_for_bit(model: Any, path: Path) -> None:
    loaded = there_and_back(model, path)
    assert type(loaded) is type(model)
    assert_same(model, loaded)
    assert_same(model.get_params(deep=False), loaded.get_params(deep=False))
    assert_same(answers(model), answers(loaded))


def test_it_can_be_saved_again_to_the_same_bytes(model: Any, path: Path) -> None:
    loaded = there_and_back(model, path)
    first = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == first


def test_it_can_be_pickled_and_cloned(model: Any, path: Path) -> None:
    loaded = there_and_back(model, path)
    assert_same(model, pickle.loads(pickle.dumps(loaded)))
    assert_same(clone(model).__getstate__(), clone(loaded).__getstate__())


@pytest.mark.parametrize(
    "name", ["classifier", "regressor, poisson", "plug-in", "threshold, of a classifier"]
)
def test_it_can_be_fitted_again(name: str, path: Path) -> None:
    loaded = there_and_back(fitted(name), path)
    loaded.fit(X, COUNTS if isinstance(loaded, LowRankRegressor) else Y)
    # history_ has times in it, which differ.
    assert_same(answers(fitted(name)), answers(loaded))


def test_a_loaded_random_state_goes_on_where_it_was(path: Path) -> None:
    loaded = there_and_back(fitted("classifier, random state"), path)
    saved = pickle.loads(pickle.dumps(fitted("classifier, random state").random_state))
    assert saved.uniform() == loaded.random_state.uniform()


def test_the_same_object_stays_the_same_object(path: Path) -> None:
    loaded = there_and_back(fitted("recommender, features"), path)
    assert loaded.user_ids_ is loaded._users.ids
    assert loaded.user_ids_ is loaded.answers_.row_names
    plug_in = there_and_back(fitted("plug-in"), path)
    assert plug_in.estimators_[1] is plug_in._model.estimators[1]
    cut = there_and_back(fitted("threshold, of a classifier"), path)
    assert cut.estimator_ is cut._model.estimator


def test_a_loaded_recommender_takes_in_features_of_new_ones(path: Path) -> None:
    model = fitted("recommender, features")
    loaded = there_and_back(model, path)
    new: dict[str, Any] = {
        "user_features": {"eve": [0.5, 1.0]},
        "item_features": {("film", 77): [1.0, 0.0, -1.0]},
    }
    one, other = model.fold_in(**new), loaded.fold_in(**new)
    assert_same(answers(one), answers(other))
    assert one.predict_proba("eve", ("film", 77)) == other.predict_proba("eve", ("film", 77))
    assert loaded.similar_users("üser 1").ids == model.similar_users("üser 1").ids
    refitted = loaded.fit(
        (NAMES, ITEM_NAMES, STARS), user_features=USER_FEATURES, item_features=ITEM_FEATURES
    )
    assert_same(answers(model), answers(refitted))


def test_frames_remember_their_columns(path: Path) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "c", "größe"])
    labels = pd.DataFrame(Y, columns=["red", "green", "blue"])
    loaded = there_and_back(LowRankClassifier(trace_penalty=0.01, threshold="train").fit(frame, labels), path)
    assert loaded.feature_names_in_.tolist() == list(frame.columns)
    assert loaded.label_names_.tolist() == ["red", "green", "blue"]
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename(columns={"a": "z"}))


@pytest.mark.parametrize(
    "users",
    [
        ["ann", "bob"],
        ["half a pair \ud800", "nul \0"],
        [7, -(2**70)],
        [1.5, float("inf")],
        [True, False],
        [("a", 1, (2.5, None)), ("a", 2, (2.5, None))],
        ["7", 7],
    ],
    ids=["text", "odd text", "whole", "real", "bool", "tuples", "mixed"],
)
def test_ids_of_many_types(users: list[Any], path: Path) -> None:
    pairs = ([users[0], users[0], users[1], users[1]], ["x", "y", "x", "y"], [1, 0, 0, 1])
    model = Recommender(trace_penalty=0.05, threshold="train").fit(pairs)
    loaded = there_and_back(model, path)
    assert_same(loaded.user_ids_, model.user_ids_)
    assert loaded.predict(users[1], "y") == 1


def test_the_path_may_be_a_string_and_replaces_what_is_there(path: Path) -> None:
    path.write_text("something else")
    fitted("classifier").save(str(path))
    assert_same(labelgap.load(os.fspath(path)), fitted("classifier"))
    assert list(path.parent.iterdir()) == [path]


def test_requests_of_scikit_learn_are_left_out(path: Path) -> None:
    with config_context(enable_metadata_routing=True):
        inner = LogisticRegression().set_fit_request(sample_weight=True)
        model = MetricThreshold(inner, threshold="train").fit(X, Y).set_score_request(unobserved=True)
        assert "_metadata_request" in vars(model)
        assert "_metadata_request" in vars(model.estimator)
        loaded = there_and_back(model, path)
    assert "_metadata_request" not in vars(loaded)
    assert "_metadata_request" not in vars(loaded.estimator)
    assert_same(model.predict(X), loaded.predict(X))


def test_settings_of_output_are_kept_where_they_are_plain(path: Path) -> None:
    model = PlugInClassifier(threshold="train").fit(X, Y)
    model._sklearn_output_config = {"transform": "pandas"}
    loaded = there_and_back(model, path)
    assert loaded._sklearn_output_config == {"transform": "pandas"}
    model._sklearn_output_config = {"transform": print}
    loaded = there_and_back(model, path)
    assert "_sklearn_output_config" not in vars(loaded)
    assert_same(model.predict(X), loaded.predict(X))


def test_names_that_a_fit_with_features_left_do_not_matter_without(path: Path) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    model = LowRankRegressor(trace_penalty=0.02).fit(frame, COUNTS).fit(None, COUNTS)
    assert_same(model.predict(), there_and_back(model, path).predict())


# -- nothing is forgotten ------------------------------------------------------------------------------


def test_every_estimator_has_models_here() -> None:
    public = {getattr(labelgap, name) for name in labelgap.__all__}
    estimators = {
        kind.__name__ for kind in public if isinstance(kind, type) and issubclass(kind, BaseEstimator)
    }
    assert estimators == set(estimator_names()) == {type(fitted(name)).__name__ for name in MODELS}


def test_every_attribute_has_a_place_in_a_file(model: Any) -> None:
    """A fit that leaves something new behind must be saved with it: add its type to the list of kinds."""
    encoder = Encoder(kind_of)
    for name, value in model.__getstate__().items():
        encoder.encode(value, name)


def test_the_index_of_ids_is_not_saved(path: Path) -> None:
    model = fitted("recommender")
    model.predict("üser 1", ("film", 1))
    assert "_indices" in vars(model)
    assert "_indices" not in vars(there_and_back(model, path))
