"""DaskRecommender(unobserved="negative"): lists by products over partitions, as one machine makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cluster_problems import lines, partitioned
from numpy.testing import assert_allclose

from labelgap import Recommender
from labelgap.distributed import DaskRecommender, list_fit
from labelgap.distributed.list_fit import ClusterLikes
from labelgap.distributed.list_parts import ListPart, Weighing, item_counts, sum_of_likes
from labelgap.distributed.rating_inputs import RatingColumns, read_cluster_ratings
from labelgap.exceptions import InvalidLabelsError, InvalidParameterError, UnknownNameError
from labelgap.recommending.closed_form.matrix import ScaledLikes
from labelgap.recommending.closed_form.settings import ListSettings, Ratings

GIVEN = {"unobserved": "negative", "positive": 3, "trace_penalty": 0.4, "tol": 1e-6, "threshold": "train"}
OTHERS = {"count_powers": (0.5, 0.25), "leave_one_out": True, "dislike_value": 0.5, "value_power": 0.5}


def plays(n_users: int = 40, n_items: int = 12) -> pd.DataFrame:
    """Ratings whose likes have values that differ; the last item is liked by nobody."""
    ratings = lines(n_users, n_items)
    rng = np.random.default_rng(1)
    liked = (ratings.value == 5) & (ratings.item != f"film {n_items - 1:02d}")
    return ratings.assign(value=np.where(liked, 3 + rng.integers(0, 40, len(ratings)), 2))


def scores(model: Recommender, ratings: pd.DataFrame) -> Any:
    """The scores of all pairs of these users and items."""
    users, items = ratings.user.unique(), sorted(ratings.item.unique())
    return np.array([model.decision_function([user] * len(items), items) for user in users])


@pytest.mark.parametrize("options", [{}, OTHERS], ids=["plain", "all settings"])
@pytest.mark.parametrize("n_users", [40, 9], ids=["more users", "fewer users than items"])
def test_it_is_the_model_of_one_machine(client: Any, options: dict[str, Any], n_users: int) -> None:
    ratings = plays(n_users)
    model = DaskRecommender(client=client, **GIVEN, **options).fit(partitioned(ratings, 3))
    one = Recommender(**GIVEN, **options).fit(ratings)
    local = model.to_local()
    assert model.relative_gap_ <= 1e-6
    assert model.rank_ == one.rank_ > 1
    assert model.objective_ == pytest.approx(one.objective_, rel=1e-6)
    # Vectors are found in single precision.
    assert_allclose(scores(local, ratings), scores(one, ratings), atol=5e-6)
    assert model.threshold_ == pytest.approx(one.threshold_, abs=5e-6)
    assert model.list_settings_ == local.list_settings_ == one.list_settings_
    assert model.score(ratings) == one.score(ratings)
    # What later ratings are folded in by.
    more = (["new"] * 2, ["film 01", "film 05"], [7, 9])
    mine, theirs = (some.fold_in(more).decision_function(*more[:2]) for some in (local, one))
    assert_allclose(mine, theirs, atol=5e-6)


def test_lists_are_written_partition_by_partition(client: Any, tmp_path: Path) -> None:
    ratings = plays()
    model = DaskRecommender(client=client, **GIVEN).fit(partitioned(ratings))
    paths = model.recommend_to_parquet(tmp_path / "lists", n=3)
    written = pd.concat([pd.read_parquet(path) for path in paths])
    one = Recommender(**GIVEN).fit(ratings)
    for user in ratings.user.unique():
        assert written[written.user == user].item.tolist() == one.recommend(user, n=3).items.tolist()


def test_likes_alone_and_settings_that_are_chosen(client: Any) -> None:
    """Lines without a value are likes. All users choose, in an order that partitions do not change."""
    ratings = lines(200, 25)
    likes = ratings[ratings.value == 5][["user", "item"]]
    options = {"unobserved": "negative", "random_state": 0, "client": client}
    model = DaskRecommender(**options).fit(partitioned(likes, 3))
    assert model.relative_gap_ <= 1e-2
    assert 0 < model.held_out_metric_ < 1
    assert len({one.lists.user_power for one in model.candidates_}) == 3
    other = DaskRecommender(**options).fit(partitioned(likes, 2))
    assert model.list_settings_ == other.list_settings_
    assert model.trace_penalty_ == pytest.approx(other.trace_penalty_, rel=1e-5)
    local = model.to_local()
    settings = local.list_settings_
    assert not np.any(local.answers_.values == 0)
    one = Recommender(
        unobserved="negative",
        trace_penalty=model.trace_penalty_,
        count_powers=(settings.user_power, settings.item_power),
        leave_one_out=settings.leave_one_out,
        tol=1e-6,
    ).fit(likes)
    assert_allclose(scores(local, likes), scores(one, likes), atol=0.02)


def test_the_threshold_of_a_given_penalty_is_for_held_out_ratings(client: Any) -> None:
    ratings, options = lines(200, 25), {**GIVEN, "positive": 4, "threshold": "cross-fit", "random_state": 0}
    model = DaskRecommender(client=client, **options).fit(partitioned(ratings))
    one = Recommender(**options).fit(ratings)
    # Folds are others, since users are in another order.
    assert model.held_out_metric_ == pytest.approx(one.held_out_metric_, abs=0.03)
    assert model.threshold_ == pytest.approx(one.threshold_, abs=0.15)


def test_a_sample_of_the_users_chooses(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """λ as a fraction of the largest singular value is that of the sample; all users are fitted."""
    seen: list[Ratings] = []
    chosen_of = list_fit.chosen_of

    def note(ratings: Ratings, *rest: Any) -> Any:
        seen.append(ratings)
        return chosen_of(ratings, *rest)

    monkeypatch.setattr(list_fit, "chosen_of", note)
    monkeypatch.setattr(list_fit, "ENOUGH_RATINGS", 500)
    ratings = lines(300, 20)
    options = {"unobserved": "negative", "positive": 4, "random_state": 0, "client": client}
    model = DaskRecommender(**options).fit(partitioned(ratings, 3))
    (sample,) = seen
    assert 250 < sample.labels.n_observed < 1000
    assert sample.labels.shape[1] == 20
    # Whole users.
    counts = np.sort(ratings.groupby("user").size())
    assert np.all(np.isin(sample.labels.row_counts(), counts))
    assert model.to_local().answers_.n_observed == len(ratings)
    assert model.relative_gap_ <= 1e-2
    # The sample has a smaller R, so its own λ was smaller.
    assert model.candidates_[-1].penalties.trace < model.trace_penalty_
    assert model.candidates_metric == "NDCG@20"


def test_a_sample_has_likes_and_no_rank_is_a_model_too(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_fit, "ENOUGH_RATINGS", 1e-3)
    ratings = plays()
    model = DaskRecommender(client=client, **{**GIVEN, "trace_penalty": 1e3}).fit(partitioned(ratings))
    assert model.rank_ == 0
    assert model.relative_gap_ <= 1e-6
    assert np.all(scores(model.to_local(), ratings) == -1)


def test_products_over_partitions_are_those_of_all_rows(client: Any) -> None:
    import dask.dataframe as dd

    ratings = plays()
    empty = dd.from_pandas(ratings.iloc[:0], npartitions=1)
    parts = dd.concat([partitioned(ratings, 3), empty])
    data = read_cluster_ratings(client, parts, RatingColumns(positive=3, keep_values=True))
    rounds = data.rounds.of(data.rounds.map(ListPart.of))
    local = Recommender(**GIVEN).fit(ratings)
    settings = ListSettings(0.5, 0.25, dislike_value=0.25, value_power=0.5)
    R = ScaledLikes(Ratings(local.answers_), settings, local.mean_like_)
    order = [data.items.index(item) for item in local.item_ids_]
    total, n_likes = rounds.sum(sum_of_likes)
    assert total / n_likes == pytest.approx(local.mean_like_)
    weighing = Weighing(settings, local.mean_like_, rounds.sum(item_counts, settings, local.mean_like_))
    there = ClusterLikes(rounds, weighing, (40, 12))
    assert there.squares == pytest.approx(R.squares)
    V = np.random.default_rng(0).standard_normal((12, 130))
    assert_allclose(there.normal(V)[order], R.transposed_times(R.times(V[order])), atol=1e-12)
    assert there.normal(V.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"unobserved": "unlabelled"}, InvalidParameterError, "not offered on a cluster; Recommender has it"),
        ({"unobserved": "maybe"}, UnknownNameError, "missing, negative, unlabelled"),
        ({"unobserved": "missing", "count_powers": (0.5, 0)}, InvalidParameterError, "only for lists"),
        ({"loss": "logistic"}, InvalidParameterError, "have the squared loss"),
        ({"count_weighting": 0.5}, InvalidParameterError, "no meaning for lists"),
        ({"value_power": -1.0}, InvalidParameterError, "value_power"),
        ({"positive": 99}, InvalidLabelsError, "None of the ratings is a like"),
    ],
)
def test_what_cannot_be_used_is_refused(
    client: Any, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        DaskRecommender(client=client, **{**GIVEN, **options}).fit(partitioned(plays()))
