"""Pipelines around labelgap's estimators: what is saved is what is loaded, and what cannot be is named."""

from __future__ import annotations

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


def test_pipelines_within_estimators_and_classifiers_of_texts(tmp_path: Path) -> None:
    path, inner = tmp_path / "model.labelgap", make_pipeline(StandardScaler(), LogisticRegression())

    def of_words(last: Any) -> Any:
        return make_pipeline(TfidfVectorizer(), last)

    for model, given in (
        (PlugInClassifier(inner, threshold="train"), X),
        (MetricThreshold(inner, threshold="train"), X),
        (MetricThreshold(make_pipeline(StandardScaler(), classifier()), threshold="train"), X),
        (make_pipeline(StandardScaler(), LowRankRegressor(trace_penalty=0.01)), X),
        (PlugInClassifier(of_words(LogisticRegression()), threshold="train"), texts()),
        (MetricThreshold(of_words(LogisticRegression()), threshold="train"), texts()),
        (MetricThreshold(of_words(classifier()), threshold="train"), texts()),
    ):
        labelgap.save(model.fit(given, Y), path)
        again = labelgap.load(path)
        np.testing.assert_array_equal(dense(again.predict(given)), dense(model.predict(given)))
        np.testing.assert_array_equal(again.decision_function(given), model.decision_function(given))


# -- what cannot be saved ------------------------------------------------------------------------------


def shout(text: str) -> str:
    return text.upper()


def test_what_is_no_data_of_a_known_transformer_is_refused_by_name(tmp_path: Path) -> None:
    files = [tmp_path / f"{at}.txt" for at in range(len(X))]
    for file, text in zip(files, texts(), strict=True):
        file.write_text(text)
    norm = FunctionTransformer(np.linalg.norm, kw_args={"axis": 1, "keepdims": True})
    code = r"a function, numpy\.linalg\.norm, as 'func'. A file holds no code"
    polynomials = ColumnTransformer([("a", PolynomialFeatures(), [0])])
    split = {"tokenizer": str.split, "token_pattern": None}
    path = tmp_path / "model.labelgap"
    for step, given, words in (
        (PolynomialFeatures(), X, "a PolynomialFeatures"),
        (MyScaler(), X, "a MyScaler"),
        (norm, X, code),
        (polynomials, X, "a PolynomialFeatures"),
        (CountVectorizer(**split), texts(), r"a function, str\.split, as 'tokenizer'"),
        (
            CountVectorizer(preprocessor=shout),
            texts(),
            "a function, .*shout, as 'preprocessor'. .* such as token_pattern",
        ),
        (
            CountVectorizer(analyzer=lambda text: text.split()),
            texts(),
            "a function, .*<lambda>, as 'analyzer'",
        ),
        (CountVectorizer(input="filename"), files, "input='filename', so it would read files"),
        (CountVectorizer(vocabulary={"red", "blue"}), texts(), "a set as 'vocabulary'"),
    ):
        inner = PlugInClassifier(make_pipeline(step, LogisticRegression(max_iter=1000)), threshold="train")
        for model, said in (
            (Pipeline([("step", step), ("decide", classifier())]), f"its step 'step' holds {words}"),
            (inner, f"This PlugInClassifier cannot be saved: its parameter 'estimator' .*{words}"),
        ):
            with pytest.raises(InvalidInputError, match=said):
                labelgap.save(model.fit(given, Y), path)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, X[:, 0] > 0)
    with pytest.raises(InvalidInputError, match="it ends in a LogisticRegression, and not in one of"):
        labelgap.save(model, path)
    bad = make_pipeline(StandardScaler(), classifier()).fit(X, Y)
    bad[-1].loss = print
    with pytest.raises(InvalidInputError, match="parameter 'loss'"):
        labelgap.save(bad, path)
    assert not path.exists()


# -- made on purpose -----------------------------------------------------------------------------------

# A kind of step, how it is made and what it takes; what is put where in its file, and what the error says.
WORDS = ("TfidfVectorizer", lambda: TfidfVectorizer(), texts)
HASHED = ("HashingVectorizer", lambda: HashingVectorizer(n_features=16), texts)
SCALER = ("StandardScaler", StandardScaler, lambda: X)
CODES = ("OneHotEncoder", OneHotEncoder, lambda: abs(X.round()))
IMPUTER = ("SimpleImputer", SimpleImputer, lambda: X)
NESTED = ("Pipeline", lambda: make_pipeline(StandardScaler()), lambda: X)
PARTS = (
    "ColumnTransformer",
    lambda: ColumnTransformer([("all", StandardScaler(), [0, 1])]),
    lambda: X,
)
BOTH = (
    "ColumnTransformer",
    lambda: ColumnTransformer([("words", CountVectorizer(), "title"), ("a", StandardScaler(), ["a"])]),
    text_columns,
)
TWO = (
    "ColumnTransformer",
    lambda: ColumnTransformer([("all", StandardScaler(), ["title_length", "a"])]),
    lambda: text_columns().assign(title_length=3.0),
)
FORGED: list[tuple[tuple[str, Callable[[], Any], Callable[[], Any]], str, Any, str]] = [
    (WORDS, "vocabulary_", {"list": ["a", "b", "c", "a"]}, "vocabulary_ has a word twice"),
    (WORDS, "vocabulary_", {"list": ["a", 2, "c", "d"]}, "vocabulary_ is no list of words"),
    (WORDS, "vocabulary_", {"dict": [["a", 10**9]]}, "vocabulary_ is no list of words"),
    (WORDS, "vocabulary_", {"list": ["a", "b"]}, "it has 2 words and weights for"),
    (
        WORDS,
        "vocabulary_",
        lambda words: words["list"].append("more"),
        "makes .* features, and the step after it takes|it has",
    ),
    (WORDS, "tokenizer", {"number_type": {"name": "<f8"}}, "tokenizer is .*; None was expected"),
    (WORDS, "preprocessor", "os.system", "preprocessor is 'os.system'; None was expected"),
    (WORDS, "analyzer", {"number_type": {"name": "<f8"}}, "analyzer is .*; a text was expected"),
    (WORDS, "analyzer", "shell", "'analyzer' parameter"),
    (WORDS, "input", "filename", "input is 'filename'; 'content' was expected"),
    (WORDS, "token_pattern", "(", "token_pattern is no regular expression"),
    (WORDS, "token_pattern", "(a)(b)", "token_pattern has more than one group"),
    (WORDS, "stop_words", {"list": [1]}, "stop_words is no list of words"),
    (WORDS, "ngram_range", {"tuple": [1, "2"]}, "ngram_range is"),
    (WORDS, "ngram_range", {"tuple": [3, 1]}, "ngram_range is"),
    (WORDS, "ngram_range", {"tuple": []}, "ngram_range is"),
    (WORDS, "dtype", "object", "dtype is 'object'; a type of numbers"),
    (WORDS, "decode_error", 7, "'decode_error' parameter"),
    (HASHED, "n_features", 2**30, "makes 1073741824 features, and the step after it takes 16"),
    (HASHED, "n_features", -1, "n_features"),
    (SCALER, "n_features_in_", {"float": "nan"}, "n_features_in_ is nan; a whole number"),
    (SCALER, "n_features_in_", 3, "scale_ of a StandardScaler|mean_ of a Standard"),
    (SCALER, "mean_", {"list": [0, 0, 0, 0]}, "mean_ of a StandardScaler is no array"),
    (SCALER, "mean_", None, "mean_ of a StandardScaler is no array"),
    (SCALER, "transform", 1, "StandardScaler has no place for 'transform'"),
    (("PCA", lambda: PCA(2), lambda: X), "n_components_", 10**30, "n_components_ is 10{30}; a whole number"),
    (("PCA", lambda: PCA(2), lambda: X), "n_components_", 1, "components_ of a PCA has the shape"),
    (("RobustScaler", RobustScaler, lambda: X), "center_", 5, "center_ of a RobustScaler is no array"),
    (CODES, "_n_features_outs", {"list": [1]}, "one value for each feature"),
    (CODES, "_n_features_outs", {"list": [1, 2, 2.5, 1]}, "_n_features_outs is list"),
    (CODES, "categories_", {"list": [None] * 4}, "does not hold an array for each"),
    (IMPUTER, "statistics_", None, "statistics_ of a SimpleImputer is no array"),
    (IMPUTER, "_fill_dtype", 2**40, "_fill_dtype of a SimpleImputer is no type"),
    (("Normalizer", Normalizer, lambda: X), "norm", "", "The 'norm' parameter of Normalizer"),
    (
        ("TfidfTransformer", TfidfTransformer, lambda: abs(X)),
        "norm",
        -1,
        "The 'norm' parameter of TfidfTransformer",
    ),
    (
        ("VarianceThreshold", VarianceThreshold, lambda: X),
        "threshold",
        {"list": ["a", "a"]},
        "The 'threshold' parameter of Varia",
    ),
    (
        ("Nystroem", lambda: Nystroem(n_components=5), lambda: X),
        "kernel",
        None,
        "The 'kernel' parameter of Nystroem",
    ),
    (
        NESTED,
        "steps",
        {"list": [{"tuple": ["standardscaler", 7]}]},
        "the step 'standardscaler' of a Pipeline is a int, no transformer",
    ),
    (NESTED, "steps", {"list": [7]}, "a step of a Pipeline is no tuple"),
    (PARTS, "transformers_", {"list": ["all"]}, "a part of a ColumnTransformer is no tuple"),
    (
        BOTH,
        "transformers_",
        lambda parts: parts["list"].pop(0),
        "a ColumnTransformer makes 1 features, and the step after it takes",
    ),
    (
        TWO,
        "transformers_",
        lambda parts: parts["list"][0]["tuple"][2]["list"].pop(),
        "the selection 'all' of columns makes 1 features, and the step after it takes 2",
    ),
]


def test_forged_transformers_are_refused(tmp_path: Path) -> None:
    path, saved = tmp_path / "model.labelgap", {}
    for (kind, make, given), attribute, value, words in FORGED:
        if kind not in saved or kind == "ColumnTransformer":
            labelgap.save(make_pipeline(make(), classifier()).fit(given(), Y), path)
            saved[kind] = path.read_bytes()
        path.write_bytes(saved[kind])
        contents = read_file(path, "model", ModelFileError)
        # The pipeline around it is not shared.
        (forged,) = [node[kind] for node in contents.document["shared"] if kind in node]
        if callable(value):
            value(forged[attribute])
        else:
            assert attribute in forged or attribute == "transform"
            forged[attribute] = value
        write_file(path, "model", contents.document, contents.arrays)
        with pytest.raises(ModelFileError, match=words):
            labelgap.load(path)


def test_steps_fit_together_and_are_told_from_another_scikit_learn(tmp_path: Path) -> None:
    path = tmp_path / "model.labelgap"
    labelgap.save(make_pipeline(TfidfVectorizer(), classifier()).fit(texts(), Y), path)
    document = read_file(path, "model", ModelFileError).document
    (words,) = [node["TfidfVectorizer"] for node in document["shared"] if "TfidfVectorizer" in node]
    # Words are data: the number of each is its place.
    assert words["vocabulary_"]["list"] == sorted(words["vocabulary_"]["list"])
    assert "_stop_words_id" not in words
    pipeline = make_pipeline(PCA(3), MaxAbsScaler(), classifier()).fit(X, Y)
    pipeline.steps[0] = ("pca", PCA(2).fit(X))
    labelgap.save(pipeline, path)
    with pytest.raises(ModelFileError, match="a PCA makes 2 features, and the step after it takes 3"):
        labelgap.load(path)
    labelgap.save(make_pipeline(StandardScaler(), classifier()).fit(X, Y), path)
    contents = read_file(path, "model", ModelFileError)
    steps = contents.document["model"]["Pipeline"]["steps"]["list"][0]["tuple"]
    whole = steps[1]
    for steps[1] in (7, "drop", {"LowRankClassifier": {}}):
        write_file(path, "model", contents.document, contents.arrays)
        with pytest.raises(ModelFileError, match=r"of a Pipeline is a .*no transformer"):
            labelgap.load(path)
    steps[1] = whole
    (scaler,) = [node for node in contents.document["shared"] if "StandardScaler" in node]
    scaler["StandardScaler"]["scikit-learn"] = "0.1.0"
    write_file(path, "model", contents.document, contents.arrays)
    with pytest.warns(LabelgapWarning, match=r"fitted with scikit-learn 0\.1\.0"):
        labelgap.load(path)
