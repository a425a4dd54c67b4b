"""DaskLowRankClassifier: the model of one machine, from any partitions and any form of input."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cluster_problems import chunked, small_problem
from numpy.testing import assert_allclose
from sklearn.base import clone

from labelgap import LowRankClassifier, ObservedLabels, get_metric, load, save
from labelgap.distributed import DaskLowRankClassifier, DaskRecommender, inputs, judging
from labelgap.distributed.cluster_labels import ClusterLabels
from labelgap.distributed.problem import ClusterProblem
from labelgap.exceptions import InvalidFeaturesError, InvalidLabelsError, InvalidParameterError
from labelgap.losses import Logistic
from labelgap.objective.parts import ProblemSettings
from labelgap.objective.protocol import Factors
from labelgap.solvers import Penalties
from labelgap.thresholds import best_threshold, narrowing

FIXED = {"trace_penalty": 0.01, "ridge_penalty": 1e-4, "intercept_penalty": 0.0, "random_state": 0}


@pytest.fixture(scope="module")
def fitted(client: Any) -> tuple[Any, DaskLowRankClassifier]:
    X, Y = small_problem()
    clf = DaskLowRankClassifier(threshold="train", tol=1e-5, client=client, **FIXED)
    said: list[tuple[str, str]] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append((record.levelname, record.getMessage()))

    log, kept = logging.getLogger("labelgap"), Keep()
    level = log.level
    log.addHandler(kept)
    log.setLevel(logging.DEBUG)
    try:
        clf.fit(chunked(X, (40, 0, 50)), chunked(Y, 30))
    finally:
        log.setLevel(level)
        log.removeHandler(kept)
    # A fit logs its stages and rounds.
    assert ("INFO", "DaskLowRankClassifier: fitting") in said
    assert any(level == "DEBUG" and "DaskLowRankClassifier: step " in message for level, message in said)
    return (X, Y), clf


def test_it_is_the_model_of_one_machine(fitted: Any) -> None:
    (X, Y), clf = fitted
    one = LowRankClassifier(threshold="train", tol=1e-5, **FIXED).fit(X, Y)
    assert abs(clf.objective_ - one.objective_) <= 1e-5 * one.objective_
    assert_allclose(clf.threshold_, one.threshold_, atol=1e-2)
    scores = one.decision_function(X)
    differ = clf.to_local().predict(X) != one.predict(X)
    assert np.all(np.abs(scores[differ] - one.threshold_) < 1e-2)
    assert clf.n_partitions_ == 3


def test_predictions_are_lazy_and_those_of_the_local_model(fitted: Any, tmp_path: Path) -> None:
    (X, Y), clf = fitted
    local = clf.to_local()
    dX, dY = chunked(X, 30), chunked(Y, 45)
    found = clf.predict(dX)
    assert found.chunks == ((30, 30, 30), (8,))
    assert np.array_equal(found.compute(), local.predict(X))
    assert_allclose(clf.predict_proba(dX.rechunk((30, 2))).compute(), local.predict_proba(X))
    assert_allclose(clf.score(dX, dY), local.score(X, Y))
    for name in ("macro-f1", "instance-f1"):
        local.metric_ = get_metric(name)
        assert_allclose(clf.score(dX, dY), local.score(X, Y))
    local.metric_ = get_metric("micro-f1")
    save(local, tmp_path / "model.labelgap")
    assert np.array_equal(load(tmp_path / "model.labelgap").predict(X), local.predict(X))


def _fit(client: Any, X: Any, Y: Any, rows: Any, **options: Any) -> DaskLowRankClassifier:
    clf = DaskLowRankClassifier(client=client, tol=1e-2, **{"threshold": "holdout", **FIXED, **options})
    return clf.fit(chunked(X, rows), chunked(Y, rows))


@pytest.mark.parametrize("metric", ["micro-f1", "macro-f1", "micro-balanced-accuracy", "instance-f1"])
def test_thresholds_by_counts_are_exact(client: Any, metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few entries as if they were many: counted in buckets, of which few are looked at."""
    X, Y = small_problem(n=300, n_labels=6)
    labels = ObservedLabels.from_dense(Y)
    data = inputs.read_data(client, chunked(X, 110), chunked(Y, 110), "missing")
    problem = ClusterProblem(data.rounds, ProblemSettings(Logistic()))
    seen = ClusterLabels(Y.shape, data.sums)
    rng = np.random.default_rng(0)
    d = problem.features.coordinates.n_coordinates  # type: ignore[union-attr]
    model = Factors(rng.standard_normal((d, 2)), rng.standard_normal((6, 2)), rng.standard_normal(6))
    scores = problem.held_scores(seen, (model,), None, Penalties(1.0))
    gathered, there = scores.on_client()
    assert there.n_observed == labels.n_observed
    expected = best_threshold(gathered, labels, metric)
    monkeypatch.setattr(judging, "GATHERED", 0)
    for name, value in {"MANY_ENTRIES": 0, "_FEWEST_BUCKETS": 2, "_NEAR_COUNTS": 400}.items():
        monkeypatch.setattr(narrowing, name, value)
    found = judging.cluster_judge(get_metric(metric), Logistic(), steady=False)(scores, None)
    assert_allclose([found.threshold, found.value], [expected.threshold, expected.value], rtol=1e-12)
    assert_allclose(found.loss, np.mean(Logistic().value(gathered, labels.values)))
    assert found.leave_out is not None


@pytest.mark.slow
def test_the_model_is_the_same_to_the_last_bit_on_other_workers(client: Any, processes: Any) -> None:
    X, Y = small_problem()
    one, other = (_fit(workers, X, Y, 30) for workers in (client, processes))
    assert np.array_equal(one.coef_, other.coef_)
    assert one.threshold_ == other.threshold_


@pytest.mark.slow
def test_a_stopped_client_resumes_with_the_same_model(client: Any, tmp_path: Path) -> None:
    X, Y = small_problem()
    whole = _fit(client, X, Y, 45)

    def stop(progress: Any) -> None:
        raise RuntimeError("the client is killed")

    again = DaskLowRankClassifier(client=client, tol=1e-2, threshold="holdout", **FIXED)
    dX, dY = chunked(X, 45), chunked(Y, 45)
    with pytest.raises(RuntimeError, match="killed"):
        again.fit(dX, dY, callback=stop, checkpoint=tmp_path / "kept")
    assert list((tmp_path / "kept").rglob("state.npz"))
    again.fit(dX, dY, checkpoint=tmp_path / "kept")
    assert np.array_equal(again.coef_, whole.coef_)
    assert again.threshold_ == whole.threshold_


@pytest.mark.slow
def test_the_search_chooses_about_what_one_machine_chooses(client: Any) -> None:
    X, Y = small_problem(n=400, n_labels=20)
    clf = DaskLowRankClassifier(client=client, random_state=0).fit(chunked(X, 200), chunked(Y, 200))
    one = LowRankClassifier(random_state=0).fit(X, Y)
    assert clf.held_out_metric_ == pytest.approx(one.held_out_metric_, abs=0.02)
    assert abs(np.log(clf.trace_penalty_ / one.trace_penalty_)) < np.log(5)


def test_frames_parquet_folders_and_delayed_pairs_are_read_alike(client: Any, tmp_path: Path) -> None:
    import dask
    import dask.dataframe as dd
    import pandas as pd

    X, Y = small_problem()
    plain = inputs.read_data(client, chunked(X, 45), chunked(Y, 45), "missing")
    table = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    labels = pd.DataFrame(Y, columns=[f"tag_{j}" for j in range(Y.shape[1])])
    both = dd.from_pandas(pd.concat([table, labels], axis=1), npartitions=2)
    (tmp_path / "folder").mkdir()
    for number in range(2):
        both.get_partition(number).compute().to_parquet(tmp_path / "folder" / f"{number}.parquet")
    pairs = [
        dask.delayed((X[rows], ObservedLabels.from_dense(Y[rows]))) for rows in np.split(np.arange(90), 2)
    ]
    for given in (
        (dd.from_pandas(table, npartitions=2), dd.from_pandas(labels, npartitions=2)),
        (both, "tag_*"),
        (both, list(labels.columns)),
        (str(tmp_path / "folder"), "tag_*"),
        (pairs, None),
    ):
        data = inputs.read_data(client, *given, "missing")
        assert (data.n_rows, data.n_features, data.n_labels) == (90, X.shape[1], 8)
        assert np.array_equal(data.sums.count, plain.sums.count)
        assert np.array_equal(data.sums.value, plain.sums.value)
    assert inputs.read_data(client, both, "tag_*", "missing").label_names == tuple(labels.columns)
    # Frames are predicted with names.
    clf = DaskLowRankClassifier(client=client, threshold="train", tol=1e-2, **FIXED).fit(both, "tag_*")
    found = clf.predict(both).compute()
    assert list(found.columns) == list(labels.columns)
    assert np.array_equal(found.to_numpy(), clf.to_local().predict(table))


def _with_nan(X: Any) -> Any:
    bad = X.copy()
    bad[50, 0] = np.nan
    return bad


def test_bad_input_is_refused_by_the_partition(client: Any) -> None:
    X, Y = small_problem()
    some, fewer = chunked(X, 45), chunked(X, 45)[chunked(X, 45)[:, 0] > -99]
    rows = r"Partition [01] has 45 rows of X and \d0 rows of y"
    for given_X, given_Y, error, words in (
        (chunked(_with_nan(X), 45), chunked(Y, 45), InvalidFeaturesError, "Partition 1.*row 5"),
        (some, chunked(np.where(Y == 1, 3.0, Y), 45), InvalidLabelsError, "Partition [01]"),
        (some, chunked(Y[:80], 40), InvalidLabelsError, "90 rows and y has 80"),
        (fewer, chunked(Y, (40, 50)), InvalidLabelsError, rows),
        (fewer, chunked(Y, 30), InvalidLabelsError, "2 partitions and y has 3"),
        (X, Y, InvalidFeaturesError, "dask arrays"),
        (some, chunked(np.ones_like(Y), 45), InvalidLabelsError, "positive"),
        (some, chunked(Y, 45)[:, 0], InvalidLabelsError, "two-dimensional"),
        ("/no/such/folder", "tag_*", InvalidFeaturesError, "no file or folder"),
    ):
        with pytest.raises(error, match=words):
            DaskLowRankClassifier(client=client, **FIXED).fit(given_X, given_Y)


def test_parameters_are_those_of_one_machine() -> None:
    ours, theirs = (set(kind().get_params()) for kind in (DaskLowRankClassifier, LowRankClassifier))
    assert ours - theirs == {"client"}
    on_one_machine = {"score_bound", "n_jobs", "weights", "flip_rate", "memory_limit_mb", "features"}
    on_one_machine |= {"label_weighting", "thresholds", "subject_to", "calibration", "soft_labels"}
    on_one_machine |= {"warm_start", "memory", "forget", "held_out"}
    assert theirs - ours == on_one_machine
    client = object()
    copied = clone(DaskLowRankClassifier(metric="macro-f1", client=client))
    assert copied.metric == "macro-f1"
    assert copied.client is client


def test_settings_that_are_not_offered_are_refused(client: Any) -> None:
    X, Y = small_problem()
    with pytest.raises(InvalidParameterError, match="unobserved"):
        _fit(client, X, Y, 45, unobserved="unlabelled")
    for kind, name, words in (
        (DaskLowRankClassifier, "thresholds", "one threshold is shared"),
        (DaskLowRankClassifier, "score_bound", "LowRankClassifier has it"),
        (DaskRecommender, "ridge_penalty", "as much of the data as one machine holds"),
    ):
        with pytest.raises(InvalidParameterError, match=f"{name} is not offered on a cluster.*{words}"):
            kind(**{name: 1.0})
    with pytest.raises(TypeError, match="nonsense"):
        DaskRecommender(nonsense=1)
    with pytest.raises(InvalidParameterError, match="client must be"):
        DaskLowRankClassifier(client="tcp://nowhere").fit(chunked(X, 45), chunked(Y, 45))
