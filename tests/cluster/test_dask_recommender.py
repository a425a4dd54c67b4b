"""DaskRecommender: the model of one machine, with users that stay in their partitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cluster_problems import lines, partitioned
from numpy.testing import assert_allclose

from labelgap import Recommender
from labelgap.distributed import DaskRecommender
from labelgap.distributed.answering import Selection, Term
from labelgap.distributed.partitions import Own, Partition, prepare
from labelgap.distributed.rating_inputs import RatingColumns, read_cluster_ratings
from labelgap.distributed.users import ItemPlace, answer_for_items
from labelgap.exceptions import InvalidLabelsError, LabelgapWarning
from labelgap.fitting.problem import recommender_features
from labelgap.kernels.row_systems import solve_rows
from labelgap.labels import ObservedLabels
from labelgap.losses import Logistic
from labelgap.objective.cpu.part import CpuBackend
from labelgap.objective.frame import FeatureFrame
from labelgap.objective.parts import ProblemSettings
from labelgap.objective.problem import frame_of

FIXED = {"trace_penalty": 0.004, "count_weighting": 0.5, "random_state": 0}


@pytest.fixture(scope="module")
def fitted(client: Any) -> tuple[pd.DataFrame, DaskRecommender]:
    ratings = lines()
    model = DaskRecommender(positive=4, threshold="train", tol=1e-4, client=client, **FIXED)
    return ratings, model.fit(partitioned(ratings))


def test_it_is_the_model_of_one_machine(fitted: Any) -> None:
    ratings, model = fitted
    one = Recommender(positive=4, threshold="train", tol=1e-4, **FIXED).fit(ratings)
    assert model.relative_gap_ <= 1e-4
    assert abs(model.objective_ - one.objective_) <= 2e-4 * one.objective_
    local = model.to_local()
    users, items = ratings.user.tolist(), ratings.item.tolist()
    mine, theirs = (some.decision_function(users, items) for some in (local, one))
    assert_allclose(mine, theirs, atol=0.1)
    differ = (mine >= local.threshold_) != (theirs >= one.threshold_)
    assert np.all(np.abs(theirs[differ] - one.threshold_) < 0.1)
    assert model.score(ratings) == pytest.approx(one.score(ratings), abs=0.02)
    assert model.n_users_ == 40
    assert not model.shuffled_


def test_best_items_are_written_partition_by_partition(fitted: Any, tmp_path: Path) -> None:
    _, model = fitted
    paths = model.recommend_to_parquet(tmp_path / "best", n=3)
    assert [Path(path).name for path in paths] == ["part-000000.parquet", "part-000001.parquet"]
    written = pd.concat([pd.read_parquet(path) for path in paths])
    local = model.to_local()
    for user in ("u000", "u039"):
        assert written[written.user == user].item.tolist() == local.recommend(user, n=3).items.tolist()


def test_ratings_that_are_not_by_user_are_shuffled_and_give_the_same_model(client: Any, fitted: Any) -> None:
    import dask.dataframe as dd

    ratings, _ = fitted
    mixed = dd.from_pandas(ratings.sample(frac=1.0, random_state=1).reset_index(drop=True), npartitions=2)
    columns = RatingColumns(positive=4)
    with pytest.warns(LabelgapWarning, match="shuffled by user"):
        data = read_cluster_ratings(client, mixed, columns)
    plain = read_cluster_ratings(client, partitioned(ratings), columns)
    assert data.shuffled
    assert data.items == plain.items
    assert data.n_users == plain.n_users == 40
    assert np.array_equal(data.sums.value, plain.sums.value)
    # As in a frame on one machine, a column of ratings need not be called "value".
    rated = read_cluster_ratings(client, partitioned(ratings.rename(columns={"value": "rating"})), columns)
    assert np.array_equal(rated.sums.value, plain.sums.value)


def test_a_parquet_folder_is_read_and_bad_ratings_are_refused(client: Any, tmp_path: Path) -> None:
    ratings = lines()
    for number, part in enumerate(partitioned(ratings).partitions):
        part.compute().to_parquet(tmp_path / f"{number}.parquet")
    data = read_cluster_ratings(client, str(tmp_path), RatingColumns(positive=4))
    assert data.n_users == 40
    with pytest.raises(InvalidLabelsError, match=r"Partition [01].*neither 0 nor 1"):
        read_cluster_ratings(client, str(tmp_path), RatingColumns())
    with pytest.raises(InvalidLabelsError, match="no column 'who'"):
        read_cluster_ratings(client, str(tmp_path), RatingColumns(user="who"))
    with pytest.raises(InvalidLabelsError, match="dask DataFrame"):
        read_cluster_ratings(client, ratings, RatingColumns())


def test_small_systems_are_solved_row_by_row() -> None:
    rng = np.random.default_rng(0)
    labels = ObservedLabels.from_dense(np.where(rng.random((7, 5)) < 0.5, 1.0, np.nan))
    D, Q = rng.random(labels.n_observed), rng.standard_normal((5, 3))
    squares, right = rng.random(7) + 0.5, rng.standard_normal((7, 3))
    found = solve_rows(labels.indptr, labels.indices, D, Q, squares, 0.3, right)
    for i in range(7):
        some = slice(labels.indptr[i], labels.indptr[i + 1])
        q = Q[labels.indices[some]]
        H = squares[i] * (q.T * D[some]) @ q + 0.3 * np.eye(3)
        assert_allclose(found[i], np.linalg.solve(H, right[i]))


def test_the_reduced_objective_has_the_derivatives_of_its_values() -> None:
    """Gradient and Hessian products of ``min_A f`` against differences, users found anew each time."""
    rng = np.random.default_rng(0)
    labels = ObservedLabels.from_dense(np.where(rng.random((9, 5)) < 0.7, rng.integers(0, 2, (9, 5)), np.nan))
    features = recommender_features(5, None, user_intercept=True, count_weighting=0.5)
    settings, penalty = ProblemSettings(Logistic(), features), 0.02
    part = Partition(0, None, labels, np.arange(9, dtype=np.uint64))
    moments = CpuBackend().row_data(part.block).moments(features)
    frame = FeatureFrame.decide(moments, count_weighting=0.5)
    own = Own(0, 0)
    prepared = prepare(part, own, features, frame, "cpu", Logistic())
    term = Term("a", settings, Selection())
    total = term.part(prepared, own).moments()
    term = Term("a", settings, Selection(), frame_of(settings, frame, total, free_intercept=True))
    B, b = rng.standard_normal((6, 2)), rng.standard_normal(5)
    dB, db = rng.standard_normal((6, 2)), rng.standard_normal(5)
    names = iter(range(100))

    def asked(step: float, *asks: Any) -> dict[str, Any]:
        place = ItemPlace(f"place {next(names)}", B + step * dB, b + step * db, penalty)
        return answer_for_items(prepared, own, term, place, asks)

    def value(step: float) -> float:
        state = asked(step, ("state", ()))["state"]
        return float(state[0] + 0.5 * penalty * np.trace(state[2]))

    def slopes(step: float) -> Any:
        return np.concatenate([part.ravel() for part in asked(step, ("state", ()))["state"][3]])

    h = 1e-5
    along = np.concatenate([dB.ravel(), db])
    assert_allclose((value(h) - value(-h)) / (2 * h), slopes(0.0) @ along, rtol=1e-6)
    product = asked(0.0, ("hessian_product", (dB, db)))["hessian_product"]
    together = np.concatenate([part.ravel() for part in product])
    assert_allclose((slopes(h) - slopes(-h)) / (2 * h), together, rtol=1e-5, atol=1e-9)


@pytest.mark.slow
def test_the_search_chooses_about_what_one_machine_chooses(client: Any) -> None:
    ratings = lines(n_users=120, n_items=20)
    model = DaskRecommender(positive=4, random_state=0, client=client).fit(partitioned(ratings))
    one = Recommender(positive=4, random_state=0).fit(ratings)
    assert model.held_out_metric_ == pytest.approx(one.held_out_metric_, abs=0.03)
