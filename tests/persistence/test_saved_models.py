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

REFITTED = ("classifier", "regressor, poisson", "plug-in", "threshold, of a classifier")


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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.labelgap"


def there_and_back(model: Any, path: Path) -> Any:
    model.save(path)
    return labelgap.load(path)


@pytest.mark.parametrize("name", list(MODELS))
def test_a_loaded_model_is_the_same_bit_for_bit(name: str, path: Path) -> None:
    """In attributes, settings and answers; saved again, pickled, cloned and fitted again.

    A fit that leaves something new behind must be saved with it: add its type to the list of kinds.
    """
    model = fitted(name)
    loaded = there_and_back(model, path)
    assert type(loaded) is type(model)
    assert_same(model, loaded)
    assert_same(model.get_params(deep=False), loaded.get_params(deep=False))
    assert_same(answers(model), answers(loaded))
    first = path.read_bytes()
    loaded.save(path)
    assert path.read_bytes() == first
    assert_same(model, pickle.loads(pickle.dumps(loaded)))
    assert_same(clone(model).__getstate__(), clone(loaded).__getstate__())
    if name in REFITTED:
        loaded.fit(X, COUNTS if isinstance(loaded, LowRankRegressor) else Y)
        # history_ has times in it, which differ.
        assert_same(answers(model), answers(loaded))


def test_every_estimator_has_models_here() -> None:
    public = {getattr(labelgap, name) for name in labelgap.__all__}
    estimators = {kind for kind in public if isinstance(kind, type) and issubclass(kind, BaseEstimator)}
    assert estimators == {type(fitted(name)) for name in MODELS}


def test_a_loaded_random_state_goes_on_where_it_was_and_one_object_stays_one(path: Path) -> None:
    loaded = there_and_back(fitted("classifier, random state"), path)
    saved = pickle.loads(pickle.dumps(fitted("classifier, random state").random_state))
    assert saved.uniform() == loaded.random_state.uniform()
    loaded = there_and_back(fitted("recommender, features"), path)
    assert loaded.user_ids_ is loaded.answers_.row_names
    plug_in = there_and_back(fitted("plug-in"), path)
    assert_same(plug_in.estimators_[1].coef_, fitted("plug-in").estimators_[1].coef_)


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
    # Names that a fit with features left do not matter without.
    model = LowRankRegressor(trace_penalty=0.02).fit(frame, COUNTS).fit(None, COUNTS)
    assert_same(model.predict(), there_and_back(model, path).predict())


def test_ids_of_many_types(path: Path) -> None:
    for users in (
        ["ann", "bob"],
        ["half a pair \ud800", "nul \0"],
        [7, -(2**70)],
        [1.5, float("inf")],
        [True, False],
        [("a", 1, (2.5, None)), ("a", 2, (2.5, None))],
        ["7", 7],
    ):
        pairs = ([users[0], users[0], users[1], users[1]], ["x", "y", "x", "y"], [1, 0, 0, 1])
        model = Recommender(trace_penalty=0.05, threshold="train").fit(pairs)
        loaded = there_and_back(model, path)
        assert_same(loaded.user_ids_, model.user_ids_)
        assert loaded.predict(users[1], "y") == 1, users


def test_the_path_may_be_a_string_and_replaces_what_is_there(path: Path) -> None:
    path.write_text("something else")
    fitted("classifier").save(str(path))
    assert_same(labelgap.load(os.fspath(path)), fitted("classifier"))
    assert list(path.parent.iterdir()) == [path]


def test_what_scikit_learn_adds_is_kept_where_it_is_plain(path: Path) -> None:
    with config_context(enable_metadata_routing=True):
        inner = LogisticRegression().set_fit_request(sample_weight=True)
        model = MetricThreshold(inner, threshold="train").fit(X, Y).set_score_request(unobserved=True)
        loaded = there_and_back(model, path)
    for one, other in ((model, loaded), (model.estimator, loaded.estimator)):
        assert "_metadata_request" in vars(one)
        assert "_metadata_request" not in vars(other)
    assert_same(model.predict(X), loaded.predict(X))
    model = PlugInClassifier(threshold="train").fit(X, Y)
    for config, kept in (({"transform": "pandas"}, True), ({"transform": print}, False)):
        model._sklearn_output_config = config
        loaded = there_and_back(model, path)
        assert vars(loaded).get("_sklearn_output_config") == (config if kept else None)
        assert_same(np.asarray(model.predict(X)), np.asarray(loaded.predict(X)))
