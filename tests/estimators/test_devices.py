"""Fits and predictions of the estimators on a device: the same model, certificate and decisions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from labelgap import LowRankClassifier, LowRankRegressor, Recommender
from labelgap.data import make_low_rank_labels
from labelgap.exceptions import DeviceMemoryError, InvalidParameterError, MissingExtraError
from labelgap.kernels.gpu import device as devices
from labelgap.losses import CustomFamily

torch = pytest.importorskip("torch", reason="no torch here, so there is no device to fit on")

DEVICES = ["torch-cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
GIVEN: dict[str, Any] = {"trace_penalty": 0.01, "ridge_penalty": 0.0, "random_state": 0, "n_jobs": 1}
FREE = {"intercept_penalty": 0.0}
PROBLEM = make_low_rank_labels(n=60, n_labels=8, observed=0.5, random_state=0)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> None:
    torch.set_num_threads(1)


def classifiers(device: str, **settings: Any) -> tuple[LowRankClassifier, LowRankClassifier]:
    """Fitted on the CPU and on the device."""
    options = {**GIVEN, **FREE, "threshold": "train", **settings}
    return tuple(
        LowRankClassifier(device=where, **options).fit(PROBLEM.X, PROBLEM.Y_observed)
        for where in ("cpu", device)
    )  # type: ignore[return-value]


@pytest.mark.parametrize("device", DEVICES)
def test_a_classifier(device: str) -> None:
    plain, moved = classifiers(device, tol=1e-6)
    assert isinstance(moved.coef_left_, np.ndarray)
    assert abs(moved.objective_ - plain.objective_) <= 2e-6 * plain.objective_
    assert moved.relative_gap_ <= 1e-6
    assert_allclose(moved.coef_, plain.coef_, atol=1e-3)
    X = PROBLEM.X_test
    # Of one model, on either device: the same to rounding.
    plain.set_params(device=device)
    scores = plain.decision_function(X)
    plain.set_params(device="cpu")
    assert_allclose(scores, plain.decision_function(X), atol=1e-12)
    plain.set_params(device=device)
    decisions, best, sparse = plain.predict(X), plain.predict_topk(X, k=3), plain.predict(X, output="sparse")
    with_scores = plain.predict_topk(X, k=3, return_scores=True)
    plain.set_params(device="cpu")
    assert_array_equal(decisions, plain.predict(X))
    assert_array_equal(best, plain.predict_topk(X, k=3))
    assert_array_equal(with_scores[0], best)
    assert_array_equal(sparse.toarray(), plain.predict(X))


@pytest.mark.parametrize("device", DEVICES)
def test_a_regressor(device: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 4))
    Y = X @ rng.standard_normal((4, 5)) + 0.1 * rng.standard_normal((50, 5))
    Y[rng.random(Y.shape) < 0.4] = np.nan
    plain, moved = (
        LowRankRegressor(**GIVEN, **FREE, tol=1e-6, device=where).fit(X, Y) for where in ("cpu", device)
    )
    assert abs(moved.objective_ - plain.objective_) <= 2e-6 * plain.objective_
    assert_allclose(moved.predict(X), plain.predict(X), atol=1e-3)
    plain.set_params(device=device)
    scores = plain.decision_function(X)
    assert_allclose(scores, plain.set_params(device="cpu").decision_function(X), atol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
def test_a_recommender(device: str) -> None:
    for unobserved, share in (("missing", 0.5), ("negative", 0.8)):
        rng = np.random.default_rng(0)
        pairs = np.argwhere(rng.random((25, 20)) < 0.5)
        ratings = (pairs[:, 0], pairs[:, 1], (rng.random(len(pairs)) < share).astype(int))
        options: dict[str, Any] = {**GIVEN, "unobserved": unobserved, "threshold": "train", "tol": 1e-4}
        plain, moved = (Recommender(**options, device=where).fit(ratings) for where in ("cpu", device))
        assert isinstance(moved.user_factors_, np.ndarray)
        assert moved.relative_gap_ <= 1e-4
        assert abs(moved.objective_ - plain.objective_) <= plain.duality_gap_ + moved.duality_gap_
        if unobserved == "negative":
            scores = (model.decision_function(pairs[:, 0], pairs[:, 1]) for model in (plain, moved))
            assert_allclose(*scores, atol=1e-2)
        else:
            one, other = plain.recommend_batch(n=4), plain.set_params(device=device).recommend_batch(n=4)
            assert_array_equal(other.items, one.items)
            assert_array_equal(other.scores, one.scores)


@pytest.mark.parametrize("device", DEVICES)
def test_penalties_of_lists_are_chosen_there(device: str) -> None:
    rng = np.random.default_rng(0)
    pairs = np.argwhere(rng.random((24, 8)) < 0.4)
    likes = (pairs[:, 0], pairs[:, 1])
    settings: dict[str, Any] = {"unobserved": "negative", "count_powers": (0.25, 0.5)}
    plain, moved = (
        Recommender(**settings, random_state=0, device=where).fit(likes) for where in ("cpu", device)
    )
    # The same places are looked at, and held-out likes stand where they do on the CPU.
    assert moved.trace_penalty_ == pytest.approx(plain.trace_penalty_)
    one, other = ([c.metric_value for c in model.candidates_] for model in (plain, moved))
    assert_allclose(other, one, atol=1e-3)
    assert abs(moved.objective_ - plain.objective_) <= 1e-6


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("loss", ["squared", "logistic", "exponential"])
def test_recorded_positives(device: str, loss: str) -> None:
    Y = sp.csr_array(np.nan_to_num(PROBLEM.Y_observed))
    settings = {"threshold": "train", "unobserved": "unlabelled", "flip_rate": 0.2, "tol": 1e-2}
    plain, moved = (
        LowRankClassifier(loss=loss, device=where, **GIVEN, **FREE, **settings).fit(PROBLEM.X, Y)
        for where in ("cpu", device)
    )
    assert abs(moved.objective_ - plain.objective_) <= plain.duality_gap_ + moved.duality_gap_


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_tensors_go_in_and_tensors_come_out(layout: str) -> None:
    plain, _ = classifiers("torch-cpu")
    X = torch.from_numpy(PROBLEM.X)
    given = X.to_sparse() if layout == "sparse" else X
    model = LowRankClassifier(**GIVEN, **FREE, threshold="train", device="cpu").fit(
        X, torch.from_numpy(PROBLEM.Y_observed)
    )
    assert_allclose(model.coef_, plain.coef_, atol=1e-12)
    scores, decisions, probabilities = (
        method(given) for method in (model.decision_function, model.predict, model.predict_proba)
    )
    assert all(isinstance(part, torch.Tensor) for part in (scores, decisions, probabilities))
    # Sums over a sparse row have another order.
    assert_allclose(scores.numpy(), model.decision_function(PROBLEM.X), atol=1e-12)
    assert_array_equal(decisions.to_dense().numpy(), model.predict(PROBLEM.X))
    best, best_scores = model.predict_topk(given, k=2, return_scores=True)
    assert isinstance(best, torch.Tensor)
    assert isinstance(best_scores, torch.Tensor)
    assert isinstance(model.predict(PROBLEM.X), np.ndarray)
    assert model.score(given, torch.from_numpy(PROBLEM.Y_observed)) == model.score(
        PROBLEM.X, PROBLEM.Y_observed
    )


@pytest.mark.skipif(devices.has_cuda(), reason="there is a GPU here")
def test_without_a_gpu() -> None:
    with pytest.raises(InvalidParameterError, match="finds no GPU on this machine"):
        LowRankClassifier(device="cuda", **GIVEN).fit(PROBLEM.X, PROBLEM.Y_observed)


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "has_torch", lambda: False)
    with pytest.raises(MissingExtraError, match=r"labelgap\[gpu\]"):
        Recommender(device="cuda").fit(([0, 0, 1], [0, 1, 0], [1, 0, 1]))


def test_a_device_that_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "free_bytes", lambda device: 1000)
    with pytest.raises(DeviceMemoryError, match=r"needs about .* GB on cpu, where 1e-06 GB are free"):
        LowRankClassifier(device="torch-cpu", **GIVEN).fit(PROBLEM.X, PROBLEM.Y_observed)


def test_what_no_device_takes() -> None:
    with pytest.raises(InvalidParameterError, match="device must be 'auto', 'cpu', 'cuda'"):
        LowRankClassifier(device="gpu").fit(PROBLEM.X, PROBLEM.Y_observed)
    family = CustomFamily(np.exp, np.exp, np.exp, name="counts", low=0)
    counts = LowRankRegressor(family, device="torch-cpu", **GIVEN)
    with pytest.raises(InvalidParameterError, match="runs on the CPU only"):
        counts.fit(PROBLEM.X, np.nan_to_num(PROBLEM.Y_observed))


def test_what_auto_picks(monkeypatch: pytest.MonkeyPatch) -> None:
    from labelgap.fitting import problem as fitting
    from labelgap.labels import ObservedLabels
    from labelgap.losses import Logistic

    labels = ObservedLabels.from_any(PROBLEM.Y_observed)
    assert fitting.backend_for("cpu", labels, Logistic()) is None
    assert devices.prediction_device("auto", 1e3) is None
    monkeypatch.setattr(fitting, "has_cuda", lambda: True)
    monkeypatch.setattr(fitting, "torch_device", lambda name: torch.device("cpu"))
    # Few entries stay on the CPU, and so does a loss that runs only there.
    assert fitting.backend_for("auto", labels, Logistic()) is None
    monkeypatch.setattr(fitting, "_WORTH", 10)
    assert fitting.backend_for("auto", labels, Logistic()) is not None
    custom = CustomFamily(np.exp, np.exp, np.exp, name="counts", low=0)
    assert fitting.backend_for("auto", labels, custom) is None
