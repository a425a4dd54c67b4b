"""Pipelines around labelgap's estimators: what is saved is what is loaded, and what cannot be is named."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from saved_models import X, Y, classifier
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

import labelgap
from labelgap import LowRankRegressor, MetricThreshold, PlugInClassifier
from labelgap.exceptions import InvalidInputError, LabelgapWarning, ModelFileError
from labelgap.persistence.container import read_file, write_file
from labelgap.persistence.transformers import TRANSFORMERS


class MyScaler(StandardScaler):  # type: ignore[misc]
    """A scaler of somebody's own."""


def gappy_features() -> Any:
    gaps = X.copy()
    gaps[3, 1] = np.nan
    return gaps


def mixed_features() -> pd.DataFrame:
    words = np.array(["red", "blue", "green"])[np.arange(len(X)) % 3]
    return pd.DataFrame({"a": gappy_features()[:, 1], "b": X[:, 0], "colour": words})


def by_column() -> ColumnTransformer:
    return ColumnTransformer(
        [
            ("number", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), ["a"]),
            ("word", OneHotEncoder(handle_unknown="ignore"), ["colour"]),
        ],
        remainder="passthrough",
    )


def dense(decisions: Any) -> Any:
    return decisions.toarray() if sp.issparse(decisions) else decisions


def texts() -> list[str]:
    words = np.array(["red", "blue", "green", "çay", "two words"])
    return [f"{words[at % 5]} and {words[at % 3]}, {at}" for at in range(len(X))]


def text_columns() -> pd.DataFrame:
    return pd.DataFrame({"title": texts(), "a": X[:, 0]})


STEPS: dict[str, tuple[Callable[[], list[Any]], Callable[[], Any]]] = {
    "scalers": (lambda: [StandardScaler(), MinMaxScaler(), MaxAbsScaler(), RobustScaler()], lambda: X),
    "imputer and PCA": (lambda: [SimpleImputer(add_indicator=True), PCA(3)], gappy_features),
    "SVD": (lambda: [TruncatedSVD(2, random_state=0), Normalizer()], lambda: X),
    "variance": (lambda: [VarianceThreshold(0.1)], lambda: X),
    "pipeline": (lambda: [make_pipeline(StandardScaler(), PCA(2))], lambda: X),
    "columns": (lambda: [by_column()], mixed_features),
    "words": (lambda: [TfidfVectorizer(), TruncatedSVD(3, random_state=0), Normalizer()], texts),
    "some words": (
        lambda: [
            CountVectorizer(ngram_range=(1, 2), max_features=9, stop_words=["and"], dtype=np.float32),
            TfidfTransformer(),
        ],
        texts,
    ),
    "given words": (lambda: [TfidfVectorizer(vocabulary={"blue": 1, "red": 0}, stop_words="english")], texts),
    "characters": (lambda: [TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 3), norm=None)], texts),
    "hashed words": (lambda: [HashingVectorizer(n_features=64, token_pattern=r"\w+")], texts),
    "words of a column": (
        lambda: [
            ColumnTransformer([("words", CountVectorizer(), "title"), ("number", StandardScaler(), ["a"])])
        ],
        text_columns,
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_loaded_pipeline_answers_as_the_saved_one(name: str, tmp_path: Path) -> None:
    steps, features = STEPS[name]
    model = make_pipeline(*steps(), classifier()).fit(features(), Y)
    labelgap.save(model, tmp_path / "model.labelgap")
    again = labelgap.load(tmp_path / "model.labelgap")
    assert isinstance(again, Pipeline)
    assert [part[0] for part in again.steps] == [part[0] for part in model.steps]
    np.testing.assert_array_equal(again.decision_function(features()), model.decision_function(features()))
    np.testing.assert_array_equal(dense(again.predict(features())), dense(model.predict(features())))
    # It can be fitted and saved again.
    labelgap.save(again.fit(features(), Y), tmp_path / "again.labelgap")


def test_pipelines_within_estimators(tmp_path: Path) -> None:
    path = tmp_path / "model.labelgap"
    inner = make_pipeline(StandardScaler(), LogisticRegression())
    outer = make_pipeline(StandardScaler(), classifier())
    for model in (
        PlugInClassifier(inner, threshold="train"),
        MetricThreshold(inner, threshold="train"),
        MetricThreshold(outer, threshold="train"),
        make_pipeline(StandardScaler(), LowRankRegressor(trace_penalty=0.01)),
    ):
        labelgap.save(model.fit(X, Y), path)
        np.testing.assert_array_equal(labelgap.load(path).predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (PolynomialFeatures(), "its step 'step' holds a PolynomialFeatures"),
        (MyScaler(), "its step 'step' holds a MyScaler"),
        (
            FunctionTransformer(np.linalg.norm, kw_args={"axis": 1, "keepdims": True}),
            r"its step 'step' holds a function, numpy\.linalg\.norm, as 'func'. A file holds no code",
        ),
        (ColumnTransformer([("a", PolynomialFeatures(), [0])]), "its step 'step' holds a PolynomialFeatures"),
    ],
    ids=["class", "derived", "function", "inside"],
)
def test_other_transformers_are_refused_by_name(step: Any, words: str, tmp_path: Path) -> None:
    model = Pipeline([("step", step), ("decide", classifier())]).fit(X, Y)
    with pytest.raises(InvalidInputError, match=words):
        labelgap.save(model, tmp_path / "model.labelgap")
    assert list(tmp_path.iterdir()) == []


def shout(text: str) -> str:
    return text.upper()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tokenizer": str.split, "token_pattern": None}, r"holds a function, str\.split, as 'tokenizer'"),
        ({"preprocessor": shout}, r"a function, .*shout, as 'preprocessor'. .* such as token_pattern"),
        ({"analyzer": lambda text: text.split()}, "a function, .*<lambda>, as 'analyzer'"),
        ({"input": "filename"}, "holds input='filename', so it would read files"),
        ({"vocabulary": {"red", "blue"}}, "holds a set as 'vocabulary'"),
    ],
    ids=["tokenizer", "preprocessor", "analyzer", "input", "set"],
)
@pytest.mark.parametrize("within", [False, True])
def test_settings_of_vectorizers_that_are_no_data(
    within: bool, settings: dict[str, Any], words: str, tmp_path: Path
) -> None:
    given: list[Any] = texts()
    if "input" in settings:
        given = [tmp_path / f"{at}.txt" for at in range(len(given))]
        for path, text in zip(given, texts(), strict=True):
            path.write_text(text)
    vectorizer = CountVectorizer(**settings)
    if within:
        model: Any = PlugInClassifier(make_pipeline(vectorizer, LogisticRegression()), threshold="train")
        words = (
            f"This PlugInClassifier cannot be saved: its parameter 'estimator' .*{words.split('holds ')[-1]}"
        )
    else:
        model = Pipeline([("step", vectorizer), ("decide", classifier())])
    model.fit(given, Y)
    with pytest.raises(InvalidInputError, match=words):
        labelgap.save(model, tmp_path / "model.labelgap")
    assert not (tmp_path / "model.labelgap").exists()


VECTORIZERS: dict[str, tuple[str, Any, str]] = {
    "word twice": ("vocabulary_", {"list": ["a", "b", "c", "a"]}, "vocabulary_ has a word twice"),
    "no words": ("vocabulary_", {"list": ["a", 2, "c", "d"]}, "vocabulary_ is no list of words"),
    "numbered words": ("vocabulary_", {"dict": [["a", 10**9]]}, "vocabulary_ is no list of words"),
    "fewer words": ("vocabulary_", {"list": ["a", "b"]}, "it has 2 words and weights for"),
    "weights": ("_tfidf", None, "makes .* features, and the step after it takes|it has"),
    "tokenizer": ("tokenizer", {"number_type": {"name": "<f8"}}, "tokenizer is .*; None was expected"),
    "preprocessor": ("preprocessor", "os.system", "preprocessor is 'os.system'; None was expected"),
    "analyzer": ("analyzer", {"number_type": {"name": "<f8"}}, "analyzer is .*; a text was expected"),
    "another analyzer": ("analyzer", "shell", "'analyzer' parameter"),
    "input": ("input", "filename", "input is 'filename'; 'content' was expected"),
    "pattern": ("token_pattern", "(", "token_pattern is no regular expression"),
    "groups": ("token_pattern", "(a)(b)", "token_pattern has more than one group"),
    "stop words": ("stop_words", {"list": [1]}, "stop_words is no list of words"),
    "n-grams": ("ngram_range", {"tuple": [1, "2"]}, "ngram_range is"),
    "falling n-grams": ("ngram_range", {"tuple": [3, 1]}, "ngram_range is"),
    "no n-grams": ("ngram_range", {"tuple": []}, "ngram_range is"),
    "type": ("dtype", "object", "dtype is 'object'; a type of numbers"),
    "decoding": ("decode_error", 7, "'decode_error' parameter"),
}


@pytest.mark.parametrize("name", VECTORIZERS)
def test_forged_vectorizers_are_refused(name: str, tmp_path: Path) -> None:
    attribute, value, words = VECTORIZERS[name]
    path = tmp_path / "model.labelgap"
    labelgap.save(make_pipeline(TfidfVectorizer(), classifier()).fit(texts(), Y), path)
    contents = read_file(path, "model", ModelFileError)
    (forged,) = [node["TfidfVectorizer"] for node in contents.document["shared"] if "TfidfVectorizer" in node]
    # Words are data: the number of each is its place.
    assert forged["vocabulary_"]["list"] == sorted(forged["vocabulary_"]["list"])
    assert "_stop_words_id" not in forged
    if name == "weights":
        forged["vocabulary_"]["list"].append("more")
    else:
        forged[attribute] = value
    write_file(path, "model", contents.document, contents.arrays)
    with pytest.raises(ModelFileError, match=words):
        labelgap.load(path)


def test_a_forged_width_of_hashed_words_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.labelgap"
    labelgap.save(make_pipeline(HashingVectorizer(n_features=16), classifier()).fit(texts(), Y), path)
    contents = read_file(path, "model", ModelFileError)
    (forged,) = [
        node["HashingVectorizer"] for node in contents.document["shared"] if "HashingVectorizer" in node
    ]
    for value, words in (
        (2**30, "makes 1073741824 features, and the step after it takes 16"),
        (-1, "n_features"),
    ):
        forged["n_features"] = value
        write_file(path, "model", contents.document, contents.arrays)
        with pytest.raises(ModelFileError, match=words):
            labelgap.load(path)


def test_classifiers_of_texts_are_saved(tmp_path: Path) -> None:
    for wrapper, last in (
        (PlugInClassifier, LogisticRegression()),
        (MetricThreshold, LogisticRegression()),
        (MetricThreshold, classifier()),
    ):
        model = wrapper(make_pipeline(TfidfVectorizer(), last), threshold="train")
        model.fit(texts(), Y).save(tmp_path / "model")
        again = labelgap.load(tmp_path / "model")
        np.testing.assert_array_equal(again.predict_proba(texts()), model.predict_proba(texts()))


def test_other_pipelines_are_refused(tmp_path: Path) -> None:
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, X[:, 0] > 0)
    with pytest.raises(InvalidInputError, match="it ends in a LogisticRegression, and not in one of"):
        labelgap.save(model, tmp_path / "model.labelgap")
    bad = make_pipeline(StandardScaler(), classifier()).fit(X, Y)
    bad[-1].loss = print
    with pytest.raises(InvalidInputError, match="parameter 'loss'"):
        labelgap.save(bad, tmp_path / "model.labelgap")


FORGED: dict[str, tuple[Any, str, Any, str]] = {
    "no count": (
        StandardScaler(),
        "n_features_in_",
        {"float": "nan"},
        "n_features_in_ is nan; a whole number",
    ),
    "other width": (StandardScaler(), "n_features_in_", 3, "scale_ of a StandardScaler|mean_ of a Standard"),
    "another array": (
        StandardScaler(),
        "mean_",
        {"list": [0, 0, 0, 0]},
        "mean_ of a StandardScaler is no array",
    ),
    "components": (PCA(2), "n_components_", 10**30, "n_components_ is 10{30}; a whole number"),
    "fewer components": (PCA(2), "n_components_", 1, "components_ of a PCA has the shape"),
    "rows": (RobustScaler(), "center_", 5, "center_ of a RobustScaler is no array"),
    "categories": (OneHotEncoder(), "_n_features_outs", {"list": [1]}, "one value for each feature"),
    "sizes": (OneHotEncoder(), "_n_features_outs", {"list": [1, 2, 2.5, 1]}, "_n_features_outs is list"),
    "no category": (OneHotEncoder(), "categories_", {"list": [None] * 4}, "does not hold an array for each"),
    "no statistics": (SimpleImputer(), "statistics_", None, "statistics_ of a SimpleImputer is no array"),
    "no mean": (StandardScaler(), "mean_", None, "mean_ of a StandardScaler is no array"),
    "type": (SimpleImputer(), "_fill_dtype", 2**40, "_fill_dtype of a SimpleImputer is no type"),
    "norm": (Normalizer(), "norm", "", "The 'norm' parameter of Normalizer"),
    "norm of words": (TfidfTransformer(), "norm", -1, "The 'norm' parameter of TfidfTransformer"),
    "least variance": (
        VarianceThreshold(),
        "threshold",
        {"list": ["a", "a"]},
        "The 'threshold' parameter of Varia",
    ),
    "kernel": (Nystroem(n_components=5), "kernel", None, "The 'kernel' parameter of Nystroem"),
    "number as step": (
        make_pipeline(StandardScaler()),
        "steps",
        {"list": [{"tuple": ["standardscaler", 7]}]},
        "the step 'standardscaler' of a Pipeline is a int, no transformer",
    ),
    "no tuple": (make_pipeline(StandardScaler()), "steps", {"list": [7]}, "a step of a Pipeline is no tuple"),
    "parts": (
        ColumnTransformer([("all", StandardScaler(), [0, 1])]),
        "transformers_",
        {"list": ["all"]},
        "a part of a ColumnTransformer is no tuple",
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_transformers_whose_parts_do_not_fit_are_refused(name: str, tmp_path: Path) -> None:
    step, attribute, value, words = FORGED[name]
    path = tmp_path / "model.labelgap"
    labelgap.save(make_pipeline(step, classifier()).fit(abs(X.round()), Y), path)
    contents = read_file(path, "model", ModelFileError)
    # The pipeline around it is not shared.
    (forged,) = [node for node in contents.document["shared"] if type(step).__name__ in node]
    assert attribute in forged[type(step).__name__]
    forged[type(step).__name__][attribute] = value
    write_file(path, "model", contents.document, contents.arrays)
    with pytest.raises(ModelFileError, match=words):
        labelgap.load(path)


WIDTHS: dict[str, tuple[Callable[[], list[Any]], Callable[[], Any], str, str, Any, str]] = {
    "selection": (
        lambda: [ColumnTransformer([("words", CountVectorizer(), "title"), ("a", StandardScaler(), ["a"])])],
        text_columns,
        "ColumnTransformer",
        "transformers_",
        lambda parts: parts["list"].pop(0),
        "a ColumnTransformer makes 1 features, and the step after it takes",
    ),
    "columns": (
        lambda: [ColumnTransformer([("all", StandardScaler(), ["title_length", "a"])])],
        lambda: text_columns().assign(title_length=3.0),
        "ColumnTransformer",
        "transformers_",
        lambda parts: parts["list"][0]["tuple"][2]["list"].pop(),
        "the selection 'all' of columns makes 1 features, and the step after it takes 2",
    ),
}


@pytest.mark.parametrize("name", WIDTHS)
def test_steps_take_what_the_steps_before_make(name: str, tmp_path: Path) -> None:
    steps, given, kind, attribute, forge, words = WIDTHS[name]
    path = tmp_path / "model.labelgap"
    labelgap.save(make_pipeline(*steps(), classifier()).fit(given(), Y), path)
    contents = read_file(path, "model", ModelFileError)
    (forged,) = [node[kind] for node in contents.document["shared"] if kind in node]
    forge(forged[attribute])
    write_file(path, "model", contents.document, contents.arrays)
    with pytest.raises(ModelFileError, match=words):
        labelgap.load(path)


@pytest.mark.parametrize("step", [7, "drop", {"LowRankClassifier": {}}])
def test_steps_of_a_forged_pipeline_are_transformers(step: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.labelgap"
    labelgap.save(make_pipeline(StandardScaler(), classifier()).fit(X, Y), path)
    contents = read_file(path, "model", ModelFileError)
    contents.document["model"]["Pipeline"]["steps"]["list"][0]["tuple"][1] = step
    write_file(path, "model", contents.document, contents.arrays)
    with pytest.raises(
        ModelFileError, match=r"the step 'standardscaler' of a Pipeline is a .*no transformer"
    ):
        labelgap.load(path)


def test_two_steps_of_other_fits_do_not_fit_together(tmp_path: Path) -> None:
    pipeline = make_pipeline(PCA(3), MaxAbsScaler(), classifier()).fit(X, Y)
    pipeline.steps[0] = ("pca", PCA(2).fit(X))
    labelgap.save(pipeline, tmp_path / "model.labelgap")
    with pytest.raises(ModelFileError, match="a PCA makes 2 features, and the step after it takes 3"):
        labelgap.load(tmp_path / "model.labelgap")


def test_every_transformer_in_the_list_is_scikit_learns() -> None:
    for name, module in TRANSFORMERS.items():
        assert getattr(__import__(module, fromlist=[name]), name).__module__.startswith(module)


def test_another_scikit_learn_is_told_and_unknown_parts_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.labelgap"
    labelgap.save(make_pipeline(StandardScaler(), classifier()).fit(X, Y), path)
    with zipfile.ZipFile(path) as archive:
        assert "StandardScaler" in json.dumps(json.loads(archive.read("document.json")))
    contents = read_file(path, "model", ModelFileError)
    (scaler,) = [node for node in contents.document["shared"] if "StandardScaler" in node]
    scaler["StandardScaler"]["scikit-learn"] = "0.1.0"
    write_file(path, "model", contents.document, contents.arrays)
    with pytest.warns(LabelgapWarning, match=r"fitted with scikit-learn 0\.1\.0"):
        labelgap.load(path)
    scaler["StandardScaler"]["transform"] = 1
    write_file(path, "model", contents.document, contents.arrays)
    with pytest.raises(ModelFileError, match="StandardScaler has no place for 'transform'"):
        labelgap.load(path)
