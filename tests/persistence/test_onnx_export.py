"""Exported models answer in onnxruntime as the models do here."""

from __future__ import annotations

import copy
import datetime
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from saved_models import COUNTS, MODELS, STARS, TRUTH, USERS, X, Y, classifier, fitted
from sklearn.exceptions import NotFittedError
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

import labelgap
from labelgap import (
    LowRankClassifier,
    LowRankRegressor,
    MetricThreshold,
    PlugInClassifier,
    Recommender,
    onnx_export,
)
from labelgap.exceptions import InvalidInputError, MissingExtraError, UnknownNameError
from labelgap.losses import CustomFamily, Logistic
from labelgap.onnx_export import to_onnx

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

WITH_FEATURES = [
    name
    for name in MODELS
    if name.startswith(("classifier", "regressor", "plug-in", "threshold,"))
    and name != "regressor, no features"
]
RECOMMENDERS = [name for name in MODELS if name.startswith("recommender")]
OUTPUTS = ("scores", "probabilities", "decisions")


def session(exported: Any) -> Any:
    data = exported if isinstance(exported, bytes) else exported.SerializeToString()
    return onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])


def run(exported: Any, **inputs: Any) -> dict[str, Any]:
    runner = session(exported)
    names = [output.name for output in runner.get_outputs()]
    return dict(zip(names, runner.run(names, inputs), strict=True))


def expected(model: Any, rows: Any) -> dict[str, Any]:
    """What the model itself says, as n x L."""

    def columns(values: Any) -> Any:
        return np.asarray(values).reshape(len(rows), -1)

    scores = columns(model.decision_function(rows))
    if isinstance(model, LowRankRegressor):
        return {"scores": scores, "means": columns(model.predict(rows))}
    probabilities = model.predict_proba(rows)
    if model._single:
        probabilities, decisions = probabilities[:, 1], model.predict(rows) == model.classes_[1]
    else:
        decisions = model.predict(rows, output="dense")
    return {"scores": scores, "probabilities": columns(probabilities), "decisions": columns(decisions)}


def assert_alike(found: dict[str, Any], wanted: dict[str, Any], threshold: float | None) -> None:
    assert list(found) == list(wanted)
    for name in found:
        assert found[name].shape == wanted[name].shape
        if name != "decisions":
            np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-5, err_msg=name)
    if "decisions" in found:
        assert found["decisions"].dtype == np.int64
        clear = np.abs(wanted["scores"] - threshold) >= 1e-6
        assert clear.mean() > 0.9
        np.testing.assert_array_equal(found["decisions"][clear], wanted["decisions"][clear])


@pytest.mark.parametrize("name", WITH_FEATURES)
def test_models_with_features(name: str) -> None:
    model = fitted(name)
    rows = X.astype(np.float32)
    found = run(to_onnx(model, dtype="float32"), features=rows)
    assert found["scores"].dtype == np.float32
    assert_alike(found, expected(model, rows), getattr(model, "threshold_", None))
    # In double precision outputs agree to rounding, and large scores neither overflow nor differ.
    exported, large = to_onnx(model), X * np.logspace(0, 4, len(X))[:, None]
    for rows, tolerance in ((X, 1e-12), (large, 1e-9)):
        found, wanted = run(exported, features=rows), expected(model, rows)
        assert_alike(found, wanted, getattr(model, "threshold_", None))
        for output in wanted:
            np.testing.assert_allclose(found[output], wanted[output], rtol=tolerance, atol=tolerance)


def test_thresholds_of_scores_of_plug_ins_and_at_the_ends() -> None:
    model, rows = fitted("threshold of scores"), X[:, :3]
    found = run(to_onnx(model), features=rows)
    assert list(found) == ["scores", "decisions"]
    np.testing.assert_array_equal(found["scores"], rows)
    np.testing.assert_array_equal(found["decisions"], model.predict(rows))
    model = MetricThreshold(PlugInClassifier(random_state=0), random_state=0).fit(X, Y)
    assert_alike(run(to_onnx(model), features=X), expected(model, X), model.threshold_)
    model = classifier(trace_penalty=100.0, threshold="train").fit(X, Y)
    assert model.rank_ == 0
    assert_alike(run(to_onnx(model), features=X), expected(model, X), np.inf)
    model = copy.copy(fitted("classifier"))
    for model.threshold_ in (np.inf, -np.inf):
        decisions = run(to_onnx(model), features=X)["decisions"]
        assert (decisions == (model.threshold_ < 0)).all()
    # Any number of rows.
    for n in (0, 1, 7):
        assert run(to_onnx(model), features=X[:n])["decisions"].shape == (n, 3)
        pairs = np.zeros(n, dtype=np.int64)
        assert run(to_onnx(fitted("recommender")), users=pairs, items=pairs)["scores"].shape == (n,)


@pytest.mark.parametrize("name", RECOMMENDERS)
def test_recommenders(name: str) -> None:
    model = fitted(name)
    n, n_items = len(model.user_ids_), len(model.item_ids_)
    users, items = np.divmod(np.arange(n * n_items), n_items)
    pairs = [model.user_ids_[user] for user in users], [model.item_ids_[item] for item in items]
    answers = model.decision_function(*pairs), model.predict_proba(*pairs), model.predict(*pairs)
    found = run(to_onnx(model), users=users, items=items)
    assert_alike(found, dict(zip(OUTPUTS, answers, strict=True)), model.threshold_)


def test_a_recorded_like_is_a_yes_however_low_its_score() -> None:
    rng = np.random.RandomState(1)
    users, items = np.nonzero(rng.uniform(size=(30, 23)) < rng.uniform(size=(30, 1)) ** 2)
    model = Recommender(
        unobserved="unlabelled", flip_rate=0.0, trace_penalty=0.3, threshold="train", random_state=0
    )
    model.fit((users, items))
    model.threshold_ = np.inf
    rows, columns = np.divmod(np.arange(len(model.user_ids_) * len(model.item_ids_)), len(model.item_ids_))
    found = run(to_onnx(model), users=rows, items=columns)["decisions"]
    assert found.sum() == len(users)
    wanted = model.predict([model.user_ids_[u] for u in rows], [model.item_ids_[i] for i in columns])
    np.testing.assert_array_equal(found, wanted)


def test_the_factors_are_not_multiplied_out() -> None:
    rng = np.random.RandomState(0)
    wide, many = rng.standard_normal((60, 50)), (rng.uniform(size=(60, 80)) < 0.5).astype(float)
    model = LowRankClassifier(trace_penalty=1e-3, rank=2, threshold="train", random_state=0)
    exported = to_onnx(model.fit(wide, many))
    sizes = [int(np.prod(constant.dims)) for constant in exported.graph.initializer]
    assert max(sizes) <= 160
    assert [node.op_type for node in exported.graph.node].count("MatMul") == 2


# -- the file ------------------------------------------------------------------------------------------


def test_the_file_is_the_model_and_replaces_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"old")
    exported = to_onnx(fitted("classifier"), path)
    assert list(tmp_path.iterdir()) == [path]
    onnx.checker.check_model(onnx.load(path), full_check=True)
    np.testing.assert_array_equal(
        run(path.read_bytes(), features=X)["scores"], run(exported, features=X)["scores"]
    )
    assert exported.ir_version == onnx_export.IR_VERSION
    assert [(opset.domain, opset.version) for opset in exported.opset_import] == [("", onnx_export.OPSET)]


def test_the_metadata_say_what_the_model_is() -> None:
    def metadata(name: str) -> dict[str, str]:
        return dict(session(to_onnx(fitted(name))).get_modelmeta().custom_metadata_map)

    model, found = fitted("classifier, label names"), metadata("classifier, label names")
    assert found["labelgap_version"] == labelgap.__version__
    assert (found["estimator"], found["loss"]) == ("LowRankClassifier", "logistic")
    assert float(found["threshold"]) == model.threshold_
    assert json.loads(found["label_names"]) == ["red", "grün", "blue"]
    assert json.loads(found["metric"])["name"] == "costs"
    assert json.loads(found["metric"])["numerator"] == {"const": 1.0, "fp": -0.25, "fn": -1.0}
    assert json.loads(metadata("classifier, 1-d text")["classes"]) == ["nö", "yes"]
    assert metadata("regressor, poisson")["family"] == "poisson"
    model, found = fitted("recommender"), metadata("recommender")
    assert json.loads(found["user_ids"]) == list(model.user_ids_)
    assert json.loads(found["item_ids"]) == [list(item) for item in model.item_ids_]
    assert json.loads(found["metric"])["name"] == model.metric_.name


# -- what cannot be exported ---------------------------------------------------------------------------


class MyLoss(Logistic):
    """A loss of somebody's own."""


FAST: dict[str, Any] = {"trace_penalty": 0.02, "threshold": "train"}
DAYS = [datetime.date(2020, 1, 1 + user) for user in USERS]

REFUSED: dict[str, tuple[Any, str]] = {
    "threshold": (
        lambda: MetricThreshold(GaussianNB(), threshold="train").fit(X, Y),
        "A MetricThreshold of GaussianNB cannot be exported",
    ),
    "rows": (
        lambda: MetricThreshold(KNeighborsClassifier(3), threshold="train").fit(X, TRUTH),
        "A MetricThreshold of KNeighborsClassifier cannot be exported",
    ),
    "no features": (lambda: fitted("regressor, no features"), "fitted without features"),
    "naive Bayes": (
        lambda: PlugInClassifier(GaussianNB(), threshold="train").fit(X, TRUTH),
        "PlugInClassifier of GaussianNB cannot be exported",
    ),
    "family": (
        lambda: LowRankRegressor(
            CustomFamily(np.exp, np.exp, np.exp, name="counts", low=0), trace_penalty=0.02, random_state=0
        ).fit(X, COUNTS),
        "made of functions",
    ),
    "loss": (lambda: LowRankClassifier(loss=MyLoss(), **FAST).fit(X, Y), "made of functions"),
    "ids": (
        lambda: Recommender(positive=3, **FAST).fit((DAYS, np.arange(40), STARS)),
        r"user_ids_ of the model cannot be written as JSON",
    ),
    "something else": (lambda: GaussianNB(), "A GaussianNB cannot be exported"),
}


def test_what_cannot_be_exported_says_why(tmp_path: Path) -> None:
    for make, message in REFUSED.values():
        with pytest.raises(InvalidInputError, match=message):
            to_onnx(make(), tmp_path / "model.onnx")
    with pytest.raises(NotFittedError):
        to_onnx(LowRankClassifier(), tmp_path / "model.onnx")
    with pytest.raises(UnknownNameError, match="float64"):
        to_onnx(fitted("classifier"), tmp_path / "model.onnx", dtype="float46")
    assert list(tmp_path.iterdir()) == []


def test_a_model_beyond_what_a_file_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_export, "_LARGEST", 100)
    with pytest.raises(InvalidInputError, match="an ONNX file holds 2"):
        to_onnx(fitted("classifier"))


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'labelgap\[onnx\]'"):
        to_onnx(fitted("classifier"))
