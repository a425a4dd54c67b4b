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
from labelgap.persistence import loading, saving
from labelgap.persistence.container import Contents, read_file, write_file


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("saved")
    models = {
        "classifier": LowRankClassifier(trace_penalty=0.01, threshold="train").fit(X, Y),
        "recommender": Recommender(positive=3, trace_penalty=0.02, threshold="train").fit(
            (NAMES, ITEM_NAMES, STARS), user_features=USER_FEATURES
        ),
        "plug-in": MODELS["plug-in"](),
        "threshold": MODELS["threshold, of a classifier"](),
    }
    for name, model in models.items():
        model.save(folder / name)
    fitted("classifier").save(folder / "with data", with_data=True)
    LowRankClassifier(trace_penalty=0.01, threshold="train", memory=20, random_state=0).partial_fit(
        X, Y
    ).save(folder / "sample", with_data=True)
    Recommender(positive=3, trace_penalty=0.02, threshold="train", aggregate="sum").fit(
        (NAMES, ITEM_NAMES, STARS)
    ).save(folder / "events")
    return {name: folder / name for name in (*models, "with data", "sample", "events")}


def load_error(path: Path) -> str:
    with pytest.raises(ModelFileError) as caught:
        labelgap.load(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert message.endswith(".")
    return message


def changed(source: Path, target: Path, change: Callable[[dict[str, Any], dict[str, Any]], Any]) -> Path:
    """The same model with something changed, the digest made anew."""
    document, arrays = copy.deepcopy(read_file(source, "model"))
    change(document, arrays)
    write_file(target, "model", document, arrays)
    return target


# -- damage --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["classifier", "recommender", "plug-in"])
def test_damage_is_always_noticed(saved: dict[str, Path], tmp_path: Path, name: str) -> None:
    data = saved[name].read_bytes()
    path = tmp_path / "damaged"
    rng = np.random.RandomState(0)
    for place in rng.randint(len(data), size=20):
        flipped = bytearray(data)
        flipped[place] ^= 1 << rng.randint(8)
        path.write_bytes(flipped)
        assert "is damaged" in load_error(path)
        path.write_bytes(data[:place])
        load_error(path)


def test_other_files_are_named_so(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_file(path, "checkpoint", {}, {})
    assert "holds a checkpoint, not a model" in load_error(path)
    path.write_text("ann,Ran,5\n")
    assert "not a file that labelgap wrote" in load_error(path)
    with pytest.raises(FileNotFoundError):
        labelgap.load(tmp_path / "nothing")


# -- versions ------------------------------------------------------------------------------------------


def test_the_document_says_who_wrote_it(saved: dict[str, Path]) -> None:
    document = read_file(saved["classifier"], "model").document
    assert document["version"] == saving.VERSION
    assert document["labelgap"] == labelgap.__version__
    assert list(document["model"]) == ["LowRankClassifier"]


@pytest.mark.parametrize("version", [None, "1", 0, -1, 1.0, True])
def test_a_model_without_a_version(saved: dict[str, Path], tmp_path: Path, version: Any) -> None:
    path = changed(saved["classifier"], tmp_path / "a", lambda document, _: document.update(version=version))
    assert "does not say which version" in load_error(path)


def test_a_newer_model_asks_for_an_upgrade(saved: dict[str, Path], tmp_path: Path) -> None:
    newer = saving.VERSION + 1
    path = changed(
        saved["classifier"],
        tmp_path / "a",
        lambda document, _: document.update(version=newer, labelgap="9.9"),
    )
    message = load_error(path)
    assert f"version {newer}, and this labelgap reads versions up to {saving.VERSION}" in message
    assert "labelgap 9.9: upgrade" in message


def test_an_older_model_is_brought_up_step_by_step(
    saved: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rename(document: dict[str, Any], arrays: dict[str, Any]) -> None:
        state = document["model"].pop("LowRankClassifier")
        document["version"] = 1
        document["model"]["TagModel"] = state
        state["cut_"] = state.pop("threshold_")

    def class_name(contents: Contents) -> Contents:
        model = contents.document["model"]
        return Contents(
            contents.document | {"model": {"LowRankClassifier": model["TagModel"]}}, contents.arrays
        )

    def threshold(contents: Contents) -> Contents:
        state = contents.document["model"]["LowRankClassifier"]
        state["threshold_"] = state.pop("cut_")
        return contents

    path = changed(saved["classifier"], tmp_path / "old", rename)
    monkeypatch.setattr(loading, "VERSION", 3)
    monkeypatch.setattr(loading, "_UPGRADES", {1: class_name, 2: threshold})
    threshold_ = labelgap.load(path).threshold_
    monkeypatch.undo()
    assert threshold_ == labelgap.load(saved["classifier"]).threshold_


def test_there_is_an_upgrade_from_every_older_version() -> None:
    assert set(loading._UPGRADES) == set(range(1, saving.VERSION))


# -- made on purpose -----------------------------------------------------------------------------------


def state(document: dict[str, Any]) -> Any:
    ((_, parts),) = document["model"].items()
    return parts


def put(name: str, value: Any) -> Callable[[dict[str, Any], dict[str, Any]], Any]:
    return lambda document, _: state(document).update({name: value})


def without(name: str) -> Callable[[dict[str, Any], dict[str, Any]], Any]:
    return lambda document, _: state(document).pop(name)


def array(name: str, change: Callable[[Any], Any]) -> Callable[[dict[str, Any], dict[str, Any]], Any]:
    return lambda _, arrays: arrays.update({name: change(arrays[name])})


def random_state(**change: Any) -> Callable[[dict[str, Any], dict[str, Any]], Any]:
    """A generator's state as ``save`` writes it, with something changed."""

    def apply(document: dict[str, Any], arrays: dict[str, Any]) -> None:
        numbers = np.random.RandomState(0).get_state(legacy=False)
        key = change.pop("key", numbers["state"]["key"])
        arrays["key"] = key
        inner = {"key": {"array": "key"}, "pos": 624} | change
        state(document)["random_state"] = {
            "random_state": {
                "bit_generator": inner.pop("bit_generator", "MT19937"),
                "has_gauss": inner.pop("has_gauss", 0),
                "gauss": inner.pop("gauss", 0.0),
                "state": {"dict": [[name, value] for name, value in inner.items()]},
            }
        }

    return apply


NO_STATE = "random state is not one of MT19937's"


def doubled(times: int, width: int = 2) -> list[Any]:
    """Tuples that each hold the one before several times."""
    return [{"tuple": [0]}, *({"tuple": [{"shared": place}] * width} for place in range(times))]


def share(values: list[Any]) -> Callable[[dict[str, Any], dict[str, Any]], Any]:
    return lambda document, _: document.update(shared=values)


def nested(levels: int) -> Any:
    node: Any = 1
    for _ in range(levels):
        node = {"tuple": [node]}
    return node


def swap_first_two(indices: Any) -> Any:
    return np.concatenate([indices[1::-1], indices[2:]])


def gone(document: dict[str, Any]) -> Any:
    return state(document)["_kept_data"]["kept_data"]["gone"]["feature_moments"]


def moments(name: str, value: Any) -> Callable[[dict[str, Any], dict[str, Any]], Any]:
    return lambda document, _: gone(document)["columns"]["column_moments"].update({name: value})


def aggregate(value: Any) -> Callable[[dict[str, Any], dict[str, Any]], Any]:
    return lambda document, _: state(document)["_events"]["kept_events"].update(aggregate=value)


NONSENSE: dict[str, tuple[str, Callable[[dict[str, Any], dict[str, Any]], Any], str]] = {
    "unknown class": (
        "classifier",
        lambda document, _: document.update(model={"os.system": {}}),
        "'os.system' is no model that is known",
    ),
    "not a model": ("classifier", lambda document, _: document.update(model={"loss": {}}), "no model"),
    "no model": ("classifier", lambda document, _: document.pop("model"), "'model'"),
    "two models": ("classifier", lambda document, _: document["model"].update(Other={}), "too many"),
    "nothing fitted": (
        "classifier",
        lambda document, _: document.update(model={"LowRankClassifier": {}}),
        "was not completed",
    ),
    "unknown parameter": ("classifier", put("colour", "red"), "has no place for 'colour'"),
    "a method": ("classifier", put("_score_rows", 1), "no place for '_score_rows'"),
    "a property": ("classifier", put("threshold_probability_", 1), "no place for"),
    "dunder": ("classifier", put("__class__", "x"), "no place for"),
    "missing attribute": ("classifier", without("threshold_"), "has no threshold_"),
    "missing array": ("classifier", lambda _, arrays: arrays.pop("coef_left_"), "'coef_left_' is missing"),
    "wrong width": ("classifier", array("coef_left_", lambda a: a[:, :1]), "coef_right_ has the shape"),
    "no matrix": ("classifier", array("coef_left_", lambda a: a[:, 0]), "coef_left_ is no matrix"),
    "wrong length": ("classifier", array("intercept_", lambda a: a[1:]), "intercept_ has the shape"),
    "not numbers": ("classifier", array("intercept_", lambda a: a.astype(str)), "intercept_"),
    "a list for an array": ("classifier", put("intercept_", {"list": [1, 2, 3]}), "intercept_"),
    "unknown tag": ("classifier", put("metric_", {"eval": "1"}), "'eval' is no type of value"),
    "bare list": ("classifier", put("metric_", [1]), "[1] is no value"),
    "two tags": ("classifier", put("metric_", {"tuple": [], "list": []}), "is no value"),
    "unknown loss": ("classifier", put("loss_", {"loss": {"name": "os"}}), "'os' is unknown or missing"),
    "impossible metric": (
        "classifier",
        put("metric_", {"metric": {"numerator": {"dict": []}, "denominator": {"dict": []}}}),
        "denominator",
    ),
    "unknown field": ("classifier", put("x_", {"penalties": {"trace": 1.0, "eval": 1}}), "eval"),
    "bad float": ("classifier", put("tol", {"float": "1e3"}), "1e3"),
    "no list": ("classifier", put("history_", {"tuple": 5}), "5 is no list"),
    "no pairs": ("classifier", put("x_", {"dict": [[1]]}), "length 1"),
    "shared": ("classifier", put("history_", {"shared": 99}), "no shared value 99"),
    "shared by name": ("classifier", put("history_", {"shared": "a"}), "no shared value 'a'"),
    "numpy type": ("classifier", put("tol", {"numpy": {"type": "object", "value": 1}}), "'object'"),
    "entry outside": ("recommender", array("answers_.indices", lambda a: a + 5), "labels do not fit"),
    "negative entry": ("recommender", array("answers_.indices", lambda a: a - 1), "labels do not fit"),
    "pointers": ("recommender", array("answers_.indptr", lambda a: a[::-1].copy()), "labels do not fit"),
    "fewer values": ("recommender", array("answers_.values", lambda a: a[1:]), "labels do not fit"),
    "fewer users": ("recommender", array("user_factors_", lambda a: a[1:]), "user_factors_ has the shape"),
    "sparse": ("recommender", array("_users.matrix.indices", lambda a: a + 9), "ind"),
    "unknown inner parameter": (
        "plug-in",
        lambda document, _: document["shared"][0]["LogisticRegression"]["parameters"]["dict"].append(
            ["z", 1]
        ),
        "no parameter 'z'",
    ),
    "unknown inner attribute": (
        "plug-in",
        lambda document, _: document["shared"][0]["LogisticRegression"]["fitted"]["dict"].append(["fit", 1]),
        "'fit' is not what a fit",
    ),
    "labels of the plug-in": ("plug-in", put("n_labels_", 7), "7 labels"),
    "random state, far outside": ("classifier", random_state(pos=10**9), NO_STATE),
    "random state, one outside": ("classifier", random_state(pos=625), NO_STATE),
    "random state, before": ("classifier", random_state(pos=-1), NO_STATE),
    "random state, real place": ("classifier", random_state(pos=3.0), NO_STATE),
    "random state, short key": ("classifier", random_state(key=np.ones(623, np.uint32)), NO_STATE),
    "random state, wide key": ("classifier", random_state(key=np.ones(624, np.int64)), NO_STATE),
    "random state, no bit set": ("classifier", random_state(key=np.zeros(624, np.uint32)), NO_STATE),
    "random state, gauss": ("classifier", random_state(gauss={"float": "nan"}), NO_STATE),
    "random state, has_gauss": ("classifier", random_state(has_gauss=2), NO_STATE),
    "random state, other": ("classifier", random_state(bit_generator="PCG64"), NO_STATE),
    "tuples of tuples": ("classifier", share(doubled(26)), "nested more than 20 levels"),
    "wide tuples of tuples": ("classifier", share(doubled(6, 1000)), "the same values in too many places"),
    "deep as a key": ("classifier", share([{"dict": [[nested(3), 1]]}]), "key of a mapping"),
    "deep": ("classifier", put("x_", nested(100)), "nested more than 20 levels"),
    "deep beside something shared": (
        "classifier",
        put("x_", {"metric": {"shared": 0, "numerator": nested(100)}}),
        "nested more than 20 levels",
    ),
    "threshold is NaN": ("classifier", put("threshold_", {"float": "nan"}), "threshold_ is nan"),
    "threshold is text": ("recommender", put("threshold_", "abc"), "threshold_ is str; a number"),
    "single": ("classifier", put("_single", 5), "_single is 5; True or False"),
    "single of three": ("classifier", put("_single", True), "a single label and has 3"),
    "power of the count units": (
        "recommender",
        array("count_units_", lambda a: a + np.array([1e20, 0, 0])),
        "count_units_ holds 1e+20; a number from 0 to 1",
    ),
    "count units of users": (
        "recommender",
        array("count_units_", lambda a: a * [1, 1e20, 1]),
        "count_units_",
    ),
    "count units of items": (
        "recommender",
        array("count_units_", lambda a: a * [1, 1, 1e20]),
        "count_units_",
    ),
    "count units, NaN": (
        "recommender",
        array("count_units_", lambda a: a * np.nan),
        "count_units_ holds nan",
    ),
    "weight of a rating": ("recommender", put("answer_weight_", 0.0), "answer_weight_ is not a positive"),
    "another rank": ("classifier", put("rank_", 9), "rank_ or singular_values_ of another one"),
    "fewer singular values": ("recommender", array("singular_values_", lambda a: a[1:]), "singular_values_"),
    "inner parameter": (
        "threshold",
        lambda document, _: next(
            one["LowRankClassifier"] for one in document["shared"] if "max_iter" in str(one)
        ).update(max_iter="many"),
        "'max_iter' is of type str",
    ),
    "real number of labels": ("classifier", put("n_labels_", 3.0), "n_labels_ is 3.0; a whole number"),
    "negative number of features": ("plug-in", put("n_features_in_", -4), "n_features_in_ is -4"),
    "classes": ("classifier", put("classes_", {"tuple": [0, 1]}), "classes_ is tuple; an array"),
    "metric": ("classifier", put("metric_", "micro-f1"), "metric_ is str; a metric"),
    "unobserved": ("classifier", put("_unobserved", "lost"), "_unobserved is str; one of missing"),
    "label names": ("classifier", put("label_names_", {"list": ["a"]}), "label_names_ does not hold 3 names"),
    "feature names": (
        "classifier",
        put("feature_names_in_", {"list": ["a"]}),
        "feature_names_in_ does not hold 4 names",
    ),
    "request": ("classifier", put("_metadata_request", 1), "has no place for '_metadata_request'"),
    "output": ("classifier", put("_sklearn_output_config", 1), "no place for '_sklearn_output_config'"),
    "array of records": (
        "classifier",
        array("intercept_", lambda a: np.zeros(3, dtype=[("a", float)])),
        "the array 'intercept_' holds",
    ),
    "entries not in order": ("recommender", array("answers_.indices", swap_first_two), "labels do not fit"),
    "entry twice": (
        "recommender",
        array("answers_.indices", lambda a: np.concatenate([a[:1], a[:1], a[2:]])),
        "labels do not fit",
    ),
    "other users": ("recommender", put("user_ids_", {"tuple": list(range(11))}), "its user ids are not"),
    "features of the plug-in": ("plug-in", put("n_features_in_", 7), "coef_ has the shape"),
    "features of the inner model": (
        "threshold",
        put("n_features_in_", 7),
        "n_features_in_ is not that of the LowRankClassifier inside",
    ),
    "method of the plug-in": (
        "plug-in",
        lambda document, _: state(document)["_model"]["label_models"].update(method="fit"),
        "'fit' is no method",
    ),
    "half precision": (
        "classifier",
        array("coef_left_", lambda a: a.astype(np.float16)),
        "coef_left_ holds float16; float64",
    ),
    "long doubles": (
        "recommender",
        array("item_factors_", lambda a: a.astype(np.longdouble)),
        f"item_factors_ holds {np.dtype(np.longdouble)}; float64",
    ),
    "complex numbers": (
        "classifier",
        array("singular_values_", lambda a: a.astype(np.complex128)),
        "singular_values_ holds complex128; float64",
    ),
    "complex classifier": (
        "plug-in",
        array("_model.estimators.0.fitted.coef_", lambda a: a.astype(np.complex64)),
        "coef_ of a LogisticRegression holds complex64; numbers",
    ),
    "entries of a short type": (
        "recommender",
        array("answers_.indices", lambda a: a.astype(np.int16)),
        "labels do not fit",
    ),
    "values of half precision": (
        "recommender",
        array("answers_.values", lambda a: a.astype(np.float16)),
        "labels do not fit",
    ),
    "tolerance": ("classifier", put("tol", "small"), "the parameter 'tol' is of type str; a number"),
    "rank": (
        "classifier",
        put("rank", {"list": [1]}),
        "the parameter 'rank' is of type list; a whole number or",
    ),
    "metric by number": (
        "recommender",
        put("metric", 7),
        "'metric' is of type int; a text or a LinearFractional",
    ),
    "intercept": ("classifier", put("fit_intercept", "no"), "'fit_intercept' is of type str; True or False"),
    "seed": ("plug-in", put("random_state", {"tuple": [1]}), "'random_state' is of type tuple"),
    "flip rate": ("classifier", put("flip_rate", {"list": ["much"]}), "'flip_rate' is of type list"),
    "estimator": ("threshold", put("estimator", "any"), "'estimator' is of type str"),
    "trace penalty": ("classifier", put("trace_penalty_", "x"), "trace_penalty_ is str; a finite number"),
    "penalty of intercepts": (
        "classifier",
        put("intercept_penalty_", None),
        "intercept_penalty_ is NoneType",
    ),
    "penalty of a recommender": (
        "recommender",
        put("trace_penalty_", {"dict": []}),
        "trace_penalty_ is dict; a finite number",
    ),
    "infinite penalty": ("recommender", put("ridge_penalty_", {"float": "inf"}), "ridge_penalty_ is inf"),
    "moments": ("sample", moments("mean", None), "mean of a column_moments is None; an array of numbers"),
    "infinite moments": (
        "sample",
        array("_kept_data.gone.columns.mean", lambda a: a + np.inf),
        "mean of earlier data is not finite",
    ),
    "no columns": (
        "sample",
        lambda d, _: gone(d).update(columns=7),
        "columns of earlier data are no moments",
    ),
    "counts": ("sample", lambda d, _: gone(d).update(label_counts=None), "label_counts of a feature_moments"),
    "aggregate": ("events", aggregate({"float": "nan"}), "the aggregate of its events is nan"),
    "number as aggregate": ("events", aggregate(3), "the aggregate of its events is 3"),
    "inner model": ("threshold", array("_model.estimator.intercept_", lambda a: a[1:]), "intercept_"),
}


@pytest.mark.parametrize("name", list(NONSENSE))
def test_what_makes_no_sense_is_refused(saved: dict[str, Path], tmp_path: Path, name: str) -> None:
    source, change, expected = NONSENSE[name]
    message = load_error(changed(saved[source], tmp_path / "forged", change))
    assert "not one that makes sense here" in message
    assert expected in message


NO_COUNTS: dict[str, Any] = {
    "nan": {"float": "nan"},
    "large": 1e20,
    "larger": 10**30,
    "negative": -1,
    "real": 2.5,
    "true": True,
    "text": "4",
    "nothing": None,
}
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


@pytest.mark.parametrize("value", NO_COUNTS)
@pytest.mark.parametrize("name", COUNTS)
def test_what_is_counted_is_a_whole_number(
    saved: dict[str, Path], tmp_path: Path, name: str, value: str
) -> None:
    source, place = COUNTS[name]

    def change(document: Any, _: Any) -> None:
        for part in place:
            document = document[part]
        assert name in document
        document[name] = NO_COUNTS[value]

    assert name in load_error(changed(saved[source], tmp_path / "forged", change))


@pytest.mark.parametrize("value", [*NO_COUNTS, "another"])
def test_counts_of_wrapped_classifiers_are_whole_numbers(
    saved: dict[str, Path], tmp_path: Path, value: str
) -> None:
    def change(document: Any, _: Any) -> None:
        fitted = dict(document["shared"][0]["LogisticRegression"]["fitted"]["dict"])
        fitted["n_features_in_"] = (NO_COUNTS | {"another": 3})[value]
        document["shared"][0]["LogisticRegression"]["fitted"]["dict"] = [
            list(pair) for pair in fitted.items()
        ]

    message = load_error(changed(saved["plug-in"], tmp_path / "forged", change))
    assert (
        "coef_ of a LogisticRegression has the shape" if value == "another" else "n_features_in_"
    ) in message


def test_a_parameter_that_came_later_has_its_default(saved: dict[str, Path], tmp_path: Path) -> None:
    path = changed(saved["classifier"], tmp_path / "a", without("feature_scaling"))
    assert labelgap.load(path).feature_scaling == "auto"


def test_a_parameter_that_scikit_learn_drops_is_dropped(saved: dict[str, Path], tmp_path: Path) -> None:
    def deprecated(document: dict[str, Any], _: Any) -> None:
        document["shared"][0]["LogisticRegression"]["parameters"]["dict"].append(["gone", "deprecated"])

    assert labelgap.load(changed(saved["plug-in"], tmp_path / "a", deprecated)).predict(X).shape == (40, 3)


def test_a_random_state_may_be_anywhere_in_its_key(saved: dict[str, Path], tmp_path: Path) -> None:
    for pos in (0, 1, 624):
        loaded = labelgap.load(changed(saved["classifier"], tmp_path / "a", random_state(pos=pos)))
        assert 0 <= loaded.random_state.uniform() < 1


@pytest.mark.parametrize("threshold", ["inf", "-inf"])
def test_a_threshold_may_be_infinite(saved: dict[str, Path], tmp_path: Path, threshold: str) -> None:
    path = changed(saved["classifier"], tmp_path / "a", put("threshold_", {"float": threshold}))
    assert (labelgap.load(path).predict(X) == (threshold == "-inf")).all()


def test_a_parameter_of_a_wrong_kind_is_not_saved(tmp_path: Path) -> None:
    model = copy.deepcopy(fitted("classifier")).set_params(tol=[1e-3])
    with pytest.raises(InvalidInputError, match="cannot be saved: the parameter 'tol' is of type list"):
        model.save(tmp_path / "a")
    model.set_params(tol=np.float32(1e-3), verbose=True, fit_intercept=np.True_, rank=np.int64(3))
    model.save(tmp_path / "a")
    assert labelgap.load(tmp_path / "a").rank == 3


def test_keys_may_be_tuples(saved: dict[str, Path], tmp_path: Path) -> None:
    pairs = {"dict": [[{"tuple": ["a", 1]}, 2], [{"numpy": {"type": "int64", "value": 3}}, 4]]}
    path = changed(saved["classifier"], tmp_path / "a", put("x_", pairs))
    assert labelgap.load(path).x_ == {("a", 1): 2, 3: 4}
