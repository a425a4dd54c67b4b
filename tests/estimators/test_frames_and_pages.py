"""What notebooks show of objects, and features of files that are matched by their names."""

from __future__ import annotations

import copy
import pickle
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.model_selection import train_test_split

import labelgap
from labelgap import MetricThreshold, ObservedLabels
from labelgap.data import read_label_table
from labelgap.exceptions import InvalidFeaturesError
from quick_estimators import ONE_FIT, cut, low_rank, plug_in, recommender, regressor

RNG = np.random.RandomState(0)
FEATURES = pd.DataFrame(RNG.standard_normal((30, 3)), columns=["x", "y", "z"])
NAMES = ["<b>buys</b>", "calls", "churns"]
Y = pd.DataFrame((FEATURES.to_numpy() + RNG.standard_normal((30, 3)) > 0.3).astype(float), columns=NAMES)
Y.iloc[::4, 1] = np.nan
MODELS = {
    "low-rank": lambda: low_rank(**ONE_FIT),
    "plug-in": lambda: plug_in(**ONE_FIT),
    "threshold": lambda: cut(**ONE_FIT),
    "regressor": regressor,
}


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
    films = recommender(**ONE_FIT).fit((users, items, [1, 0, 1, 1, 0]))
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
@pytest.mark.parametrize("name", MODELS)
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


@pytest.mark.filterwarnings("error:X does not have valid feature names")
@pytest.mark.parametrize("form", ["csv", "npz"])
def test_names_of_columns_stay_with_what_is_made_of_a_table(form: str, tmp_path: Path) -> None:
    table = named_table(tmp_path, form, ["x", "y", "z"])
    model = MODELS["low-rank"]().fit(table.X, table.labels)
    X, expected = table.X, model.decision_function(table.X)
    train, test = train_test_split(X, random_state=0)
    turned = X[:, ::-1]
    whole = [pickle.loads(pickle.dumps(X)), turned.copy(), copy.copy(turned), copy.deepcopy(turned)]
    for made in (*whole, turned.astype(np.float64)):
        assert made.feature_names == (("x", "y", "z") if made is whole[0] else ("z", "y", "x"))
        np.testing.assert_array_equal(model.decision_function(made), expected)
    for part, names in {
        "train": (train, "xyz"),
        "test": (test, "xyz"),
        "single": (turned.astype(np.float32), "zyx"),
        "reversed": (X[..., :, ::-1], "zyx"),
        "by number": (X[..., [2, 1, 0]], "zyx"),
        "in another order": (X[..., :, [2, 0, 1]], "zxy"),
        "some rows": (X[:2, ...], "xyz"),
        "some rows by number": (X[[0, 1]], "xyz"),
    }.items():
        found, expected_names = names
        assert found.feature_names == tuple(expected_names), part
    assert getattr(X[:3][None, :, 0], "feature_names", None) is None
    # A copy is another array, and what is computed has no names.
    other = X.copy()
    other[0, 0] = 7.0
    assert X[0, 0] != 7.0
    assert getattr(2 * X, "feature_names", None) is None


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_an_array_that_was_reshaped_in_place_has_lost_its_names(tmp_path: Path) -> None:
    table = named_table(tmp_path, "csv", ["x", "y", "z"])
    model = MODELS["low-rank"]().fit(table.X, table.labels)
    X = table.X[:4]
    X.shape = (2, 6)
    with pytest.raises(ValueError, match="X has 6 features, but LowRankClassifier is expecting 3 features"):
        model.predict(X)
    assert X[:, :3].feature_names is None
