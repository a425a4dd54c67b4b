"""The experiments on recommenders and rivals at toy size, the loader they read with, and the examples."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from experiments import lists, recommenders, rivals

from labelgap.data import AnswerData, Answers, data_folder, load_answers
from labelgap.exceptions import InvalidInputError

# A whole experiment at a small size.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
needs_data = pytest.mark.skipif(
    data_folder() is None, reason="LABELGAP_DATA names no folder with the data sets (see docs/recommender.md)"
)


def toy(n: int = 50, n_items: int = 15, *, own_test: bool = False, seed: int = 0) -> AnswerData:
    """Likes and dislikes that depend on the user's one taste, its features and the item."""
    rng = np.random.RandomState(seed)
    taste = rng.standard_normal((n, 1))
    truth = 2 * taste @ rng.standard_normal((1, n_items)) + rng.standard_normal((n, 1))
    users, items = (part.ravel() for part in np.indices(truth.shape))
    rating = (truth + 0.3 * rng.standard_normal(truth.shape) > 0).astype(np.float64).ravel()
    complete = Answers(users, items, rating)
    first = rng.uniform(size=len(users)) < 0.6
    if not own_test:
        return AnswerData("toy", complete.take(first), None, (n, n_items))
    # Some pairs are in both parts, as in coat.
    second = ~first | (rng.uniform(size=len(users)) < 0.1)
    return AnswerData(
        "toy",
        complete.take(first),
        complete.take(second),
        (n, n_items),
        user_features=taste + 0.1 * rng.standard_normal((n, 1)),
        item_features=rng.standard_normal((n_items, 2)),
        propensities=np.full((n, n_items), 0.6),
    )


# -- recommenders ------------------------------------------------------------------------------------------


def test_every_method_is_measured_on_answers_without_a_split() -> None:
    results = recommenders.run([toy()], draws=1, users=40)
    assert set(results) == {"toy", "toy, new users"}
    assert set(results["toy"]) == set(recommenders.PLAIN)
    means = {name: np.mean([d["AUC"] for d in draws]) for name, draws in results["toy"].items()}
    # The taste is what intercepts cannot tell.
    assert means["Recommender, default"] > means["user and item intercepts"] > means["item popularity"]
    new = results["toy, new users"]
    assert all(len(draws) == 1 for draws in new.values())
    assert np.mean([d["AUC"] for d in new["fold-in"]]) > np.mean([d["AUC"] for d in new["item popularity"]])


def test_a_file_with_features_and_propensities_gets_every_method() -> None:
    data = toy(own_test=True)
    results = recommenders.run([data], draws=1)
    expected = recommenders.PLAIN | recommenders.WITH_FEATURES | recommenders.WITH_PROPENSITIES
    assert list(results["toy"]) == list(expected)
    table = recommenders.report(results)
    for name in expected:
        assert table.count(f"| {name} |") == 1


def test_generated_ratings_are_decided_too() -> None:
    def make(seed: int) -> lists.Ratings:
        return lists.make_taste(seed, (60, 30), 900)

    results = recommenders.run_taste(1, make)
    assert set(results) == {"taste"}
    assert set(results["taste"]) == set(recommenders.PLAIN)


def test_pairs_of_the_training_part_are_not_judged() -> None:
    data = toy(own_test=True)
    split = recommenders.own_split(data)
    trained = set(zip(data.answers.user, data.answers.item, strict=True))
    assert data.test is not None
    assert len(split.test) < len(data.test)
    assert trained.isdisjoint(zip(split.test.user, split.test.item, strict=True))


def test_users_are_numbered_anew_with_all_their_answers() -> None:
    data = toy()
    some = recommenders.some_users(data, 10, np.random.RandomState(0))
    assert some.shape == (10, data.shape[1])
    assert sorted(set(some.answers.user)) == list(range(10))

    def rows(answers: Answers) -> set[tuple[tuple[int, float], ...]]:
        pairs = list(zip(answers.user, answers.item, answers.rating, strict=True))
        return {tuple((i, r) for u, i, r in pairs if u == user) for user in set(answers.user)}

    assert rows(some.answers) <= rows(data.answers)


def test_measures_of_known_answers() -> None:
    test = Answers(np.arange(4), np.zeros(4, dtype=np.int64), np.array([1.0, 1.0, 0.0, 0.0]))
    found = recommenders.measured(test, np.array([0.9, 0.4, 0.3, 0.1]), np.array([1, 1, 1, 0]))
    assert found["F1"] == pytest.approx(0.8)
    assert found["accuracy"] == 0.75
    assert found["AUC"] == 1.0
    assert found["log-loss"] == pytest.approx(-np.mean(np.log([0.9, 0.4, 0.7, 0.9])))


def test_without_the_folder_a_note_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("LABELGAP_DATA", raising=False)
    recommenders.main(["--data", "jester5k", "coat", "--out", str(tmp_path / "out")])
    printed = capsys.readouterr().out
    assert "jester5k is left out: LABELGAP_DATA" in printed
    assert "coat is left out: LABELGAP_DATA" in printed
    assert json.loads((tmp_path / "out" / "recommenders.json").read_text(encoding="utf-8"))["results"] == {}


# -- the loader --------------------------------------------------------------------------------------------


def save(folder: Path, data: AnswerData) -> None:
    prefix = "" if data.test is None else "train_"
    arrays = {f"{prefix}{key}": value for key, value in vars(data.answers).items()}
    if data.test is not None:
        arrays |= {f"test_{key}": value for key, value in vars(data.test).items()}
        arrays |= {"user_features": data.user_features, "propensities": data.propensities}
    np.savez(folder / f"{data.name}.npz", shape=np.array(data.shape), **arrays)


@pytest.mark.parametrize("own_test", [False, True])
def test_answers_come_back_as_saved(own_test: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABELGAP_DATA", str(tmp_path))
    data = toy(own_test=own_test)
    save(tmp_path, data)
    loaded = load_answers("toy")
    assert loaded.shape == data.shape
    np.testing.assert_array_equal(loaded.answers.user, data.answers.user)
    np.testing.assert_array_equal(loaded.answers.rating, data.answers.rating)
    assert (loaded.test is not None) == own_test
    assert loaded.item_features is None
    if loaded.test is not None and data.test is not None:
        np.testing.assert_array_equal(loaded.test.item, data.test.item)
        np.testing.assert_array_equal(loaded.propensities, data.propensities)


def test_what_cannot_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LABELGAP_DATA", raising=False)
    with pytest.raises(InvalidInputError, match="LABELGAP_DATA"):
        load_answers("coat")
    monkeypatch.setenv("LABELGAP_DATA", str(tmp_path))
    with pytest.raises(InvalidInputError, match=r"no \.npz file"):
        load_answers("coat")
    np.savez(tmp_path / "features.npz", X=np.zeros((2, 2)))
    with pytest.raises(InvalidInputError, match="load_multilabel"):
        load_answers("features")


@needs_data
def test_coat_is_read_with_all_it_has() -> None:
    data = recommenders.read("coat")
    assert data is not None
    assert len(data.answers) == 6960
    assert data.test is not None
    assert len(recommenders.own_split(data).test) == len(data.test) - 366
    assert data.propensities is not None
    assert data.propensities.shape == data.shape == (290, 300)


# -- rivals ------------------------------------------------------------------------------------------------

SMALL = {"n": 120, "n_labels": 8, "n_features": 5, "rank": 2, "n_test": 100}


def test_every_rival_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rivals.main(["--data", "synthetic", "--draws", "1", "--out", str(tmp_path / "out")], **SMALL)
    table = (tmp_path / "out" / "rivals.md").read_text(encoding="utf-8")
    assert table in capsys.readouterr().out
    content = json.loads((tmp_path / "out" / "rivals.json").read_text(encoding="utf-8"))
    for method in rivals.METHODS:
        assert table.count(f"| {method} |") == 1
        assert all(0.6 < draw["f1"] <= 1 for draw in content["results"]["synthetic"][method])
    by_method = {row["method"]: row for row in content["summary"]}
    assert by_method["plug-in"]["time_ratio"] == 1.0


def test_the_rank_of_leml() -> None:
    ranks = []
    for n_labels, n_features in ((8, 5), (2, 5), (30, 5)):
        sizes = {"n": 20, "n_labels": n_labels, "n_features": n_features, "rank": 1, "n_test": 5}
        ranks.append(rivals.leml_rank(rivals.synthetic_problem(0, **sizes)))
    assert ranks == [3, 1, 5]


def test_rivals_without_the_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("LABELGAP_DATA", raising=False)
    assert rivals.run(1, ["emotions"]) == {}
    assert "emotions is left out: LABELGAP_DATA" in capsys.readouterr().out


@needs_data
def test_a_real_problem_is_scaled_and_a_fifth_observed() -> None:
    problem = rivals.real_problem("emotions", 0)
    n, n_labels = problem.labels.shape
    assert problem.X.shape == (391, 72)
    assert np.mean(np.sum(problem.X**2, axis=1)) == pytest.approx(1.0)
    assert problem.labels.n_observed == pytest.approx(0.2 * n * n_labels, rel=0.1)
