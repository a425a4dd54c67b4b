"""Predictions as frames with the names of labels, and what notebooks show of objects."""

from __future__ import annotations

import copy
import pickle
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import labelgap
from labelgap import (
    LowRankClassifier,
    LowRankRegressor,
    MetricThreshold,
    ObservedLabels,
    PlugInClassifier,
    Recommender,
)
from labelgap.data import read_label_table
from labelgap.exceptions import InvalidFeaturesError, UnknownNameError

RNG = np.random.RandomState(0)
FEATURES = pd.DataFrame(
    RNG.standard_normal((30, 3)), columns=["x", "y", "z"], index=[f"row {n}" for n in range(30)]
)
NAMES = ["<b>buys</b>", "calls", "churns"]
Y = pd.DataFrame((FEATURES.to_numpy() + RNG.standard_normal((30, 3)) > 0.3).astype(float), columns=NAMES)
Y.index = FEATURES.index
Y.iloc[::4, 1] = np.nan

MODELS = {
    "low-rank": lambda: LowRankClassifier(trace_penalty=0.01, ridge_penalty=0.1, threshold="train"),
    "plug-in": lambda: PlugInClassifier(LogisticRegression(), threshold="train"),
    "threshold": lambda: MetricThreshold(LogisticRegression(), threshold="train"),
    "regressor": lambda: LowRankRegressor(trace_penalty=0.01, ridge_penalty=0.1),
}


@pytest.fixture(params=MODELS)
def fitted(request: pytest.FixtureRequest) -> Any:
    return MODELS[request.param]().fit(FEATURES, Y)


def methods_of(model: Any) -> list[str]:
    return [name for name in ("predict", "predict_proba", "decision_function") if hasattr(model, name)]


def test_frames_of_pandas_hold_the_arrays_under_the_names_of_labels(fitted: Any) -> None:
    arrays = {name: getattr(fitted, name)(FEATURES) for name in methods_of(fitted)}
    assert all(isinstance(array, np.ndarray) for array in arrays.values())
    score = fitted.score(FEATURES, Y)
    assert fitted.set_output(transform="pandas") is fitted
    for name, array in arrays.items():
        frame = getattr(fitted, name)(FEATURES)
        assert frame.columns.tolist() == NAMES
        assert frame.index.tolist() == FEATURES.index.tolist()
        np.testing.assert_array_equal(frame.to_numpy(), array)
    # What is scored and judged does not change.
    assert fitted.score(FEATURES, Y) == score


def test_frames_of_polars_and_back(fitted: Any) -> None:
    array = fitted.predict(FEATURES)
    frame = fitted.set_output(transform="polars").predict(FEATURES)
    assert isinstance(frame, pl.DataFrame)
    assert frame.columns == NAMES
    np.testing.assert_array_equal(frame.to_numpy(), array)
    assert isinstance(fitted.set_output(transform=None).predict(FEATURES), pl.DataFrame)
    assert isinstance(fitted.set_output(transform="default").predict(FEATURES), np.ndarray)
    with pytest.raises(UnknownNameError, match="value of transform 'numpy'"):
        fitted.set_output(transform="numpy")


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_the_best_labels_come_with_their_names(container: str) -> None:
    model = MODELS["low-rank"]().fit(FEATURES, Y)
    places, scores = model.predict_topk(FEATURES, k=2, return_scores=True)
    names, framed = model.set_output(transform=container).predict_topk(FEATURES, k=2, return_scores=True)
    assert list(names.columns) == ["top_1", "top_2"]
    assert names.to_numpy().tolist() == [[NAMES[place] for place in row] for row in places]
    np.testing.assert_array_equal(framed.to_numpy(), scores)


def test_a_single_label_and_labels_without_names() -> None:
    single = (
        MODELS["low-rank"]()
        .fit(FEATURES, np.where(Y["calls"] == 1, "yes", "no"))
        .set_output(transform="pandas")
    )
    decided = single.predict(FEATURES)
    assert (type(decided), decided.index.tolist()) == (pd.Series, FEATURES.index.tolist())
    assert single.predict_proba(FEATURES).columns.tolist() == ["no", "yes"]
    unnamed = MODELS["low-rank"]().fit(FEATURES.to_numpy(), Y.to_numpy()).set_output(transform="pandas")
    frame = unnamed.predict(FEATURES.to_numpy())
    assert frame.columns.tolist() == ["label_0", "label_1", "label_2"]
    assert frame.index.tolist() == list(range(30))
    assert unnamed.predict(FEATURES.to_numpy(), output="sparse").shape == (30, 3)


def test_the_switch_is_kept_by_clones_and_files(tmp_path: Any) -> None:
    model = MODELS["low-rank"]().set_output(transform="pandas").fit(FEATURES, Y)
    assert isinstance(clone(model).fit(FEATURES, Y).predict(FEATURES), pd.DataFrame)
    model.save(tmp_path / "model.labelgap")
    assert isinstance(labelgap.load(tmp_path / "model.labelgap").predict(FEATURES), pd.DataFrame)


# -- notebooks ----------------------------------------------------------------------------------------------


class _Texts(HTMLParser):
    """The texts of a page, and whether every element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        if tag not in ("br", "input", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def texts_of(page: str) -> list[str]:
    parser = _Texts()
    parser.feed(page)
    assert parser.open == []
    return parser.texts


def test_labels_show_their_counts() -> None:
    labels = ObservedLabels.from_frame(Y)
    texts = texts_of(labels._repr_html_())
    assert texts[0] == repr(labels)
    assert "<b>buys</b>" in texts, "a name is text and no markup"
    assert str(int(labels.label_counts()[1])) in texts
    many = ObservedLabels.from_dense(np.ones((2, 500)))
    assert many._repr_html_().count("<tr>") == 11


def test_a_fitted_model_shows_its_threshold_and_its_certificate() -> None:
    model = MODELS["low-rank"]()
    assert "<caption>Fitted" not in model._repr_html_()
    model.fit(FEATURES, Y)
    for page in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        assert "Fitted LowRankClassifier" in page
        assert "of the best possible objective" in page
        assert f"probability {model.threshold_probability_:.3f}" in page
    with config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()


def test_other_models_show_what_they_have() -> None:
    threshold = MetricThreshold().fit(Y.fillna(0.0).to_numpy(), Y.fillna(0.0).to_numpy())
    assert f"score {threshold.threshold_:.4g}" in threshold._repr_html_()
    regressor = MODELS["regressor"]().fit(FEATURES, Y)
    assert "gaussian" in regressor._repr_html_()
    users, items = ["ann", "ann", "bob", "bob", "eve"], ["Ran", "Jaws", "Ran", "Jaws", "Ran"]
    films = Recommender(trace_penalty=0.02, threshold="train").fit((users, items, [1, 0, 1, 1, 0]))
    assert "Fitted Recommender" in films._repr_html_()
    one = films.recommend("eve", n=1)
    columns = ["rank", "item", "score", "probability", "decision"]
    assert texts_of(one._repr_html_())[:7] == [*columns, "1", "Jaws"]
    several = films.recommend_batch(["eve", "ann"], n=1, exclude_seen=False)
    assert "Ran" in texts_of(several._repr_html_())


# -- tables of files ---------------------------------------------------------------------------------------


def named_table(folder: Path, form: str, columns: list[str]) -> Any:
    """A file with the features in this order, as it is read."""
    X = FEATURES[columns]
    if form == "npz":
        S = sp.csr_array(np.where(np.abs(X) > 0.5, X, 0.0))
        parts = {f"X_{name}": np.asarray(getattr(S, name)) for name in ("data", "indices", "indptr", "shape")}
        np.savez(folder / "a.npz", Y=Y.to_numpy(), feature_names=columns, **parts)
        return read_label_table(folder / "a.npz")
    if form == "sparse arff":
        head = "".join(f"@attribute {name} numeric\n" for name in (*columns, "label"))
        rows = zip(X.to_numpy(), Y["calls"].fillna(1.0), strict=True)
        body = ("".join(f"{at} {v!r}, " for at, v in enumerate(x.tolist())) + f"3 {y:g}" for x, y in rows)
        text = f"@relation r\n{head}@data\n" + "".join(f"{{{line}}}\n" for line in body)
        (folder / "a.arff").write_text(text)
        return read_label_table(folder / "a.arff", labels="label")
    labels = [f"label_{at}" for at in range(3)]
    pd.concat([X, Y.set_axis(labels, axis=1)], axis=1).to_csv(folder / "a.csv", index=False)
    return read_label_table(folder / "a.csv", labels="label_*")


@pytest.mark.parametrize("form", ["csv", "npz", "sparse arff"])
@pytest.mark.parametrize("name", ["low-rank", "plug-in", "threshold", "regressor"])
def test_features_of_files_are_matched_by_name(form: str, name: str, tmp_path: Path) -> None:
    table = named_table(tmp_path, form, ["x", "y", "z"])
    model = MODELS[name]().fit(table.X, table.labels)
    assert model.feature_names_in_.tolist() == ["x", "y", "z"]
    labelgap.save(model, tmp_path / "model")
    loaded, other = labelgap.load(tmp_path / "model"), named_table(tmp_path, form, ["z", "x", "y"])
    assert other.X.feature_names == other.feature_names == ("z", "x", "y")
    np.testing.assert_array_equal(loaded.decision_function(other.X), model.decision_function(table.X))
    # Rows and columns keep their names, also in another order.
    part = loaded.decision_function(other.X[5:9])
    np.testing.assert_array_equal(part, model.decision_function(table.X[5:9]))
    again = other.X[:, [1, 0, 2]]
    assert again.feature_names == ("x", "z", "y")
    assert loaded.score(again, other.labels) == model.score(table.X, table.labels)
    with pytest.raises(
        InvalidFeaturesError, match=r"X lacks 1 of the 3 features of the fit: 'x'\. It has 'z', 'y'"
    ):
        loaded.predict(other.X[:, [0, 2]])
    # Plain arrays have no names to match, which scikit-learn says.
    plain = sp.csr_array(table.X) if sp.issparse(table.X) else np.asarray(table.X)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        loaded.predict(plain)
    # What was fitted without names is not asked for any.
    MODELS[name]().fit(plain, table.labels).predict(other.X)


@pytest.mark.parametrize("form", ["csv", "npz"])
def test_names_of_columns_stay_with_a_pickled_table(form: str, tmp_path: Path) -> None:
    X = named_table(tmp_path, form, ["x", "y", "z"]).X
    assert pickle.loads(pickle.dumps(X)).feature_names == ("x", "y", "z")
    train, test = train_test_split(X, random_state=0)
    assert train.feature_names == test.feature_names == ("x", "y", "z")


@pytest.mark.parametrize("form", ["csv", "npz"])
def test_names_are_those_of_the_columns_that_are_there(form: str, tmp_path: Path) -> None:
    X = named_table(tmp_path, form, ["x", "y", "z"]).X
    assert X[..., :, ::-1].feature_names == X[..., [2, 1, 0]].feature_names == ("z", "y", "x")
    assert X[..., :, [2, 0, 1]].feature_names == ("z", "x", "y")
    assert X[:2, ...].feature_names == X[[0, 1]].feature_names == ("x", "y", "z")
    assert getattr(X[:3][None, :, 0], "feature_names", None) is None


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_an_array_that_was_reshaped_in_place_has_lost_its_names(tmp_path: Path) -> None:
    table = named_table(tmp_path, "csv", ["x", "y", "z"])
    model = MODELS["low-rank"]().fit(table.X, table.labels)
    X = table.X[:4]
    X.shape = (2, 6)
    with pytest.raises(ValueError, match="X has 6 features, but LowRankClassifier is expecting 3 features"):
        model.predict(X)
    assert X[:, :3].feature_names is None


@pytest.mark.filterwarnings("error:X does not have valid feature names")
@pytest.mark.parametrize("form", ["csv", "npz"])
def test_copies_keep_the_names_of_columns(form: str, tmp_path: Path) -> None:
    table = named_table(tmp_path, form, ["x", "y", "z"])
    model = MODELS["low-rank"]().fit(table.X, table.labels)
    X = table.X[:, ::-1]
    expected = model.decision_function(table.X)
    for made in (X.copy(), copy.copy(X), copy.deepcopy(X), X.astype(np.float64)):
        assert made.feature_names == ("z", "y", "x")
        np.testing.assert_array_equal(model.decision_function(made), expected)
    assert X.astype(np.float32).feature_names == ("z", "y", "x")
    # A copy is another array.
    other = X.copy()
    other[0, 0] = 7.0
    assert X[0, 0] != 7.0
    # What is computed has none.
    assert getattr(2 * X, "feature_names", None) is None
