"""Files that are not what ``save`` wrote: damaged, foreign, newer, or made on purpose."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from saved_models import ITEM_NAMES, MODELS, NAMES, STARS, USER_FEATURES, X, Y, fitted

import labelgap
from labelgap import LowRankClassifier, Recommender
from labelgap.exceptions import InvalidInputError, ModelFileError
from labelgap.persistence.container import read_file, write_file

Change = Callable[[dict[str, Any], dict[str, Any]], Any]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("saved")
    plain: dict[str, Any] = {"trace_penalty": 0.01, "threshold": "train"}
    rated: dict[str, Any] = {"positive": 3, "trace_penalty": 0.02, "threshold": "train"}
    models = {
        "classifier": LowRankClassifier(**plain).fit(X, Y),
        "recommender": Recommender(**rated).fit((NAMES, ITEM_NAMES, STARS), user_features=USER_FEATURES),
        "plug-in": MODELS["plug-in"](),
        "threshold": MODELS["threshold, of a classifier"](),
        "events": Recommender(aggregate="sum", **rated).fit((NAMES, ITEM_NAMES, STARS)),
    }
    for name, model in models.items():
        model.save(folder / name)
    fitted("classifier").save(folder / "with data", with_data=True)
    sample = LowRankClassifier(memory=20, random_state=0, **plain).partial_fit(X, Y)
    sample.save(folder / "sample", with_data=True)
    return {name: folder / name for name in (*models, "with data", "sample")}


def load_error(path: Path) -> str:
    with pytest.raises(ModelFileError) as caught:
        labelgap.load(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert message.endswith(".")
    return message


def changed(source: Path, target: Path, change: Change) -> Path:
    """The same model with something changed, the digest made anew."""
    document, arrays = copy.deepcopy(read_file(source, "model"))
    change(document, arrays)
    write_file(target, "model", document, arrays)
    return target


# -- damage and versions -------------------------------------------------------------------------------


def test_damaged_and_other_files_are_named_so(saved: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "file"
    for name in ("classifier", "recommender", "plug-in"):
        data = bytearray(saved[name].read_bytes())
        data[len(data) // 2] ^= 1
        for damaged in (data, data[: len(data) // 2]):
            path.write_bytes(damaged)
            assert "is damaged" in load_error(path), name
    write_file(path, "checkpoint", {}, {})
    assert "holds a checkpoint, not a model" in load_error(path)
    path.write_text("ann,Ran,5\n")
    assert "not a file that labelgap wrote" in load_error(path)
    with pytest.raises(FileNotFoundError):
        labelgap.load(tmp_path / "nothing")


def test_versions(saved: dict[str, Path], tmp_path: Path) -> None:
    document = read_file(saved["classifier"], "model").document
    version = document["version"]
    assert document["labelgap"] == labelgap.__version__
    assert list(document["model"]) == ["LowRankClassifier"]
    for wrong in (None, "1", 0, -1, 1.0, True):
        path = changed(saved["classifier"], tmp_path / "a", lambda d, _, wrong=wrong: d.update(version=wrong))
        assert "does not say which version" in load_error(path), wrong
    newer = {"version": version + 1, "labelgap": "9.9"}
    message = load_error(changed(saved["classifier"], tmp_path / "a", lambda d, _: d.update(newer)))
    assert f"version {version + 1}, and this labelgap reads versions up to {version}" in message
    assert "labelgap 9.9: upgrade" in message


# -- made on purpose -----------------------------------------------------------------------------------


def state(document: dict[str, Any]) -> Any:
    ((_, parts),) = document["model"].items()
    return parts


def put(name: str, value: Any) -> Change:
    return lambda document, _: state(document).update({name: value})


def inner(document: dict[str, Any]) -> Any:
    return document["shared"][0]["LogisticRegression"]


def wrong_inner_parameter(document: dict[str, Any], _: Any) -> None:
    found = next(one["LowRankClassifier"] for one in document["shared"] if "max_iter" in str(one))
    found["max_iter"] = "many"


def gone(document: dict[str, Any]) -> Any:
    return state(document)["_kept_data"]["kept_data"]["gone"]["feature_moments"]


def events(document: dict[str, Any]) -> Any:
    return state(document)["_events"]["kept_events"]


def random_state(**change: Any) -> Change:
    """A generator's state as ``save`` writes it, with something changed."""

    def apply(document: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays["key"] = change.get("key", np.random.RandomState(0).get_state(legacy=False)["state"]["key"])
        numbers = {"bit_generator": "MT19937", "has_gauss": 0, "gauss": 0.0} | change
        places = [["key", {"array": "key"}], ["pos", numbers.pop("pos", 624)]]
        numbers.pop("key", None)
        state(document)["random_state"] = {"random_state": numbers | {"state": {"dict": places}}}

    return apply


def doubled(times: int, width: int = 2) -> list[Any]:
    """Tuples that each hold the one before several times."""
    return [{"tuple": [0]}, *({"tuple": [{"shared": place}] * width} for place in range(times))]


def nested(levels: int) -> Any:
    node: Any = 1
    for _ in range(levels):
        node = {"tuple": [node]}
    return node


def swap_first_two(indices: Any) -> Any:
    return np.concatenate([indices[1::-1], indices[2:]])


# A model, an attribute of its, what is put there instead, and what the error says.
PUT: list[tuple[str, str, Any, str]] = [
    ("classifier", "colour", "red", "has no place for 'colour'"),
    ("classifier", "_score_rows", 1, "no place for '_score_rows'"),
    ("classifier", "threshold_probability_", 1, "no place for"),
    ("classifier", "__class__", "x", "no place for"),
    ("classifier", "intercept_", {"list": [1, 2, 3]}, "intercept_"),
    ("classifier", "metric_", {"eval": "1"}, "'eval' is no type of value"),
    ("classifier", "metric_", [1], "[1] is no value"),
    ("classifier", "metric_", {"tuple": [], "list": []}, "is no value"),
    ("classifier", "loss_", {"loss": {"name": "os"}}, "'os' is unknown or missing"),
    (
        "classifier",
        "metric_",
        {"metric": {"numerator": {"dict": []}, "denominator": {"dict": []}}},
        "denominator",
    ),
    ("classifier", "x_", {"penalties": {"trace": 1.0, "eval": 1}}, "eval"),
    ("classifier", "tol", {"float": "1e3"}, "1e3"),
    ("classifier", "history_", {"tuple": 5}, "5 is no list"),
    ("classifier", "x_", {"dict": [[1]]}, "length 1"),
    ("classifier", "history_", {"shared": 99}, "no shared value 99"),
    ("classifier", "history_", {"shared": "a"}, "no shared value 'a'"),
    ("classifier", "tol", {"numpy": {"type": "object", "value": 1}}, "'object'"),
    ("plug-in", "n_labels_", 7, "7 labels"),
    ("classifier", "x_", nested(100), "nested more than 20 levels"),
    ("classifier", "x_", {"metric": {"shared": 0, "numerator": nested(100)}}, "nested more than 20 levels"),
    ("classifier", "threshold_", {"float": "nan"}, "threshold_ is nan"),
    ("recommender", "threshold_", "abc", "threshold_ is str; a number"),
    ("classifier", "_single", 5, "_single is 5; True or False"),
    ("classifier", "_single", True, "a single label and has 3"),
    ("recommender", "answer_weight_", 0.0, "answer_weight_ is not a positive"),
    ("classifier", "rank_", 9, "rank_ or singular_values_ of another one"),
    ("classifier", "n_labels_", 3.0, "n_labels_ is 3.0; a whole number"),
    ("plug-in", "n_features_in_", -4, "n_features_in_ is -4"),
    ("classifier", "classes_", {"tuple": [0, 1]}, "classes_ is tuple; an array"),
    ("classifier", "metric_", "micro-f1", "metric_ is str; a metric"),
    ("classifier", "_unobserved", "lost", "_unobserved is str; one of missing"),
    ("classifier", "label_names_", {"list": ["a"]}, "label_names_ does not hold 3 names"),
    ("classifier", "feature_names_in_", {"list": ["a"]}, "feature_names_in_ does not hold 4 names"),
    ("classifier", "_metadata_request", 1, "has no place for '_metadata_request'"),
    ("classifier", "_sklearn_output_config", 1, "no place for '_sklearn_output_config'"),
    ("recommender", "user_ids_", {"tuple": list(range(11))}, "its user ids are not"),
    ("plug-in", "n_features_in_", 7, "coef_ has the shape"),
    ("threshold", "n_features_in_", 7, "n_features_in_ is not that of the LowRankClassifier inside"),
    ("classifier", "tol", "small", "the parameter 'tol' is of type str; a number"),
    ("classifier", "rank", {"list": [1]}, "the parameter 'rank' is of type list; a whole number or"),
    ("recommender", "metric", 7, "'metric' is of type int; a text or a LinearFractional"),
    ("classifier", "fit_intercept", "no", "'fit_intercept' is of type str; True or False"),
    ("plug-in", "random_state", {"tuple": [1]}, "'random_state' is of type tuple"),
    ("classifier", "flip_rate", {"list": ["much"]}, "'flip_rate' is of type list"),
    ("threshold", "estimator", "any", "'estimator' is of type str"),
    ("classifier", "trace_penalty_", "x", "trace_penalty_ is str; a finite number"),
    ("classifier", "intercept_penalty_", None, "intercept_penalty_ is NoneType"),
    ("recommender", "trace_penalty_", {"dict": []}, "trace_penalty_ is dict; a finite number"),
    ("recommender", "ridge_penalty_", {"float": "inf"}, "ridge_penalty_ is inf"),
]
# A model, an array of its, what becomes of it, and what the error says.
ARRAY: list[tuple[str, str, Callable[[Any], Any], str]] = [
    ("classifier", "coef_left_", lambda a: a[:, :1], "coef_right_ has the shape"),
    ("classifier", "coef_left_", lambda a: a[:, 0], "coef_left_ is no matrix"),
    ("classifier", "intercept_", lambda a: a[1:], "intercept_ has the shape"),
    ("classifier", "intercept_", lambda a: a.astype(str), "intercept_"),
    ("recommender", "answers_.indices", lambda a: a + 5, "labels do not fit"),
    ("recommender", "answers_.indices", lambda a: a - 1, "labels do not fit"),
    ("recommender", "answers_.indptr", lambda a: a[::-1].copy(), "labels do not fit"),
    ("recommender", "answers_.values", lambda a: a[1:], "labels do not fit"),
    ("recommender", "user_factors_", lambda a: a[1:], "user_factors_ has the shape"),
    ("recommender", "_users.matrix.indices", lambda a: a + 9, "ind"),
    (
        "recommender",
        "count_units_",
        lambda a: a + np.array([1e20, 0, 0]),
        "count_units_ holds 1e+20; a number from 0 to 1",
    ),
    ("recommender", "count_units_", lambda a: a * [1, 1e20, 1], "count_units_"),
    ("recommender", "count_units_", lambda a: a * [1, 1, 1e20], "count_units_"),
    ("recommender", "count_units_", lambda a: a * np.nan, "count_units_ holds nan"),
    ("recommender", "singular_values_", lambda a: a[1:], "singular_values_"),
    ("classifier", "intercept_", lambda a: np.zeros(3, dtype=[("a", float)]), "the array 'intercept_' holds"),
    ("recommender", "answers_.indices", swap_first_two, "labels do not fit"),
    ("recommender", "answers_.indices", lambda a: np.concatenate([a[:1], a[:1], a[2:]]), "labels do not fit"),
    ("classifier", "coef_left_", lambda a: a.astype(np.float16), "coef_left_ holds float16; float64"),
    (
        "recommender",
        "item_factors_",
        lambda a: a.astype(np.longdouble),
        f"item_factors_ holds {np.dtype(np.longdouble)}; float64",
    ),
    (
        "classifier",
        "singular_values_",
        lambda a: a.astype(np.complex128),
        "singular_values_ holds complex128; float64",
    ),
    (
        "plug-in",
        "_model.estimators.0.fitted.coef_",
        lambda a: a.astype(np.complex64),
        "coef_ of a LogisticRegression holds complex64; numbers",
    ),
    ("recommender", "answers_.indices", lambda a: a.astype(np.int16), "labels do not fit"),
    ("recommender", "answers_.values", lambda a: a.astype(np.float16), "labels do not fit"),
    ("sample", "_kept_data.gone.columns.mean", lambda a: a + np.inf, "mean of earlier data is not finite"),
    ("threshold", "_model.estimator.intercept_", lambda a: a[1:], "intercept_"),
]
# A model, any other change, and what the error says.
OTHER: list[tuple[str, Change, str]] = [
    ("classifier", lambda d, _: d.update(model={"os.system": {}}), "'os.system' is no model that is known"),
    ("classifier", lambda d, _: d.update(model={"loss": {}}), "no model"),
    ("classifier", lambda d, _: d.pop("model"), "'model'"),
    ("classifier", lambda d, _: d["model"].update(Other={}), "too many"),
    ("classifier", lambda d, _: d.update(model={"LowRankClassifier": {}}), "was not completed"),
    ("classifier", lambda d, _: state(d).pop("threshold_"), "has no threshold_"),
    ("classifier", lambda _, arrays: arrays.pop("coef_left_"), "'coef_left_' is missing"),
    ("plug-in", lambda d, _: inner(d)["parameters"]["dict"].append(["z", 1]), "no parameter 'z'"),
    ("plug-in", lambda d, _: inner(d)["fitted"]["dict"].append(["fit", 1]), "'fit' is not what a fit"),
    ("classifier", lambda d, _: d.update(shared=doubled(26)), "nested more than 20 levels"),
    ("classifier", lambda d, _: d.update(shared=doubled(6, 1000)), "the same values in too many places"),
    ("classifier", lambda d, _: d.update(shared=[{"dict": [[nested(3), 1]]}]), "key of a mapping"),
    ("threshold", wrong_inner_parameter, "'max_iter' is of type str"),
    ("plug-in", lambda d, _: state(d)["_model"]["label_models"].update(method="fit"), "'fit' is no method"),
    (
        "sample",
        lambda d, _: gone(d)["columns"]["column_moments"].update(mean=None),
        "mean of a column_moments is None; an array of numbers",
    ),
    ("sample", lambda d, _: gone(d).update(columns=7), "columns of earlier data are no moments"),
    ("sample", lambda d, _: gone(d).update(label_counts=None), "label_counts of a feature_moments"),
    (
        "events",
        lambda d, _: events(d).update(aggregate={"float": "nan"}),
        "the aggregate of its events is nan",
    ),
    ("events", lambda d, _: events(d).update(aggregate=3), "the aggregate of its events is 3"),
]
RANDOM_STATES: list[dict[str, Any]] = [
    *({"pos": wrong} for wrong in (10**9, 625, -1, 3.0)),
    *({"key": key} for key in (np.ones(623, np.uint32), np.ones(624, np.int64), np.zeros(624, np.uint32))),
    {"gauss": {"float": "nan"}},
    {"has_gauss": 2},
    {"bit_generator": "PCG64"},
]


def test_what_makes_no_sense_is_refused(saved: dict[str, Path], tmp_path: Path) -> None:
    def arrays_changed(name: str, change: Callable[[Any], Any]) -> Change:
        return lambda _, arrays: arrays.update({name: change(arrays[name])})

    cases = [
        *((source, put(name, value), said) for source, name, value, said in PUT),
        *((source, arrays_changed(name, change), said) for source, name, change, said in ARRAY),
        *(("classifier", random_state(**wrong), "is not one of MT19937's") for wrong in RANDOM_STATES),
        *OTHER,
    ]
    for source, change, said in cases:
        message = load_error(changed(saved[source], tmp_path / "forged", change))
        assert "not one that makes sense here" in message, said
        assert said in message


NO_COUNTS: list[Any] = [{"float": "nan"}, 1e20, 10**30, -1, 2.5, True, "4", None]
# Numbers that count something: which model has it, and where.
COUNTS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "rank_": ("classifier", ("model", "LowRankClassifier")),
    "n_iter_": ("recommender", ("model", "Recommender")),
    "n_features_in_": ("classifier", ("model", "LowRankClassifier")),
    "n_labels_": ("plug-in", ("model", "PlugInClassifier")),
    "n_folds": ("with data", ("model", "LowRankClassifier", "candidates_", "tuple", 0, "candidate")),
    "iteration": ("recommender", ("model", "Recommender", "history_", "tuple", 0, "progress")),
    "new_rows": ("with data", ("model", "LowRankClassifier", "batches_", "tuple", 0, "batch")),
    "n_rows": ("with data", ("model", "LowRankClassifier", "_kept_data", "kept_data", "rows", "row_ids")),
}


def test_what_is_counted_is_a_whole_number(saved: dict[str, Path], tmp_path: Path) -> None:
    def at(place: tuple[Any, ...], name: str, value: Any) -> Change:
        def change(document: Any, _: Any) -> None:
            for part in place:
                document = document[part]
            assert name in document
            document[name] = value

        return change

    def of_inner(value: Any) -> Change:
        def change(document: Any, _: Any) -> None:
            pairs = inner(document)["fitted"]["dict"]
            pairs[:] = [[name, value if name == "n_features_in_" else old] for name, old in pairs]

        return change

    for value in NO_COUNTS:
        for name, (source, place) in COUNTS.items():
            assert name in load_error(changed(saved[source], tmp_path / "forged", at(place, name, value)))
        assert "n_features_in_" in load_error(changed(saved["plug-in"], tmp_path / "forged", of_inner(value)))
    message = load_error(changed(saved["plug-in"], tmp_path / "forged", of_inner(3)))
    assert "coef_ of a LogisticRegression has the shape" in message


def test_what_makes_sense_is_read(saved: dict[str, Path], tmp_path: Path) -> None:
    def loaded(change: Change, source: str = "classifier") -> Any:
        return labelgap.load(changed(saved[source], tmp_path / "a", change))

    # A parameter that came later has its default, and one that scikit-learn drops is dropped.
    assert loaded(lambda d, _: state(d).pop("feature_scaling")).feature_scaling == "auto"
    dropped = loaded(lambda d, _: inner(d)["parameters"]["dict"].append(["gone", "deprecated"]), "plug-in")
    assert dropped.predict(X).shape == (40, 3)
    for pos in (0, 1, 624):
        assert 0 <= loaded(random_state(pos=pos)).random_state.uniform() < 1
    for threshold in ("inf", "-inf"):
        decisions = loaded(put("threshold_", {"float": threshold})).predict(X)
        assert (decisions == (threshold == "-inf")).all()
    pairs = {"dict": [[{"tuple": ["a", 1]}, 2], [{"numpy": {"type": "int64", "value": 3}}, 4]]}
    assert loaded(put("x_", pairs)).x_ == {("a", 1): 2, 3: 4}


def test_a_parameter_of_a_wrong_kind_is_not_saved(tmp_path: Path) -> None:
    model = copy.deepcopy(fitted("classifier")).set_params(tol=[1e-3])
    with pytest.raises(InvalidInputError, match="cannot be saved: the parameter 'tol' is of type list"):
        model.save(tmp_path / "a")
    model.set_params(tol=np.float32(1e-3), verbose=True, fit_intercept=np.True_, rank=np.int64(3))
    model.save(tmp_path / "a")
    assert labelgap.load(tmp_path / "a").rank == 3
