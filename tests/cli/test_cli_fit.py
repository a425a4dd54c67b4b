"""``labelgap fit``: every format and every setting; test_cli_mistakes.py has most refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas
import pytest
from cli_runs import EXAMPLES, QUICK, error_of, run, run_json

import labelgap
from labelgap import Recommender
from labelgap.data.files import read_label_table
from labelgap.metrics.jackknife import confidence_interval

TAGS = ("--labels", "tag_*", "--id", "id")
TAG_NAMES = ["tag_business", "tag_politics", "tag_sport", "tag_travel", "tag_culture", "tag_data"]


def test_it_is_the_fit_of_the_library() -> None:
    said = run_json("fit", "articles.csv", *TAGS, "--feature-map", "linear", "--out", "a.labelgap")
    table = read_label_table("articles.csv", labels="tag_*", ids="id")
    model = labelgap.LowRankClassifier(features="linear", random_state=0).fit(table.X, table.labels)
    loaded = labelgap.load("a.labelgap")
    assert np.array_equal(loaded.coef_, model.coef_)
    assert loaded.feature_names_in_.tolist() == list(table.feature_names or ())
    assert list(loaded.label_names_) == TAG_NAMES
    assert said["threshold"] == {"score": model.threshold_, "probability": model.threshold_probability_}
    assert said["held_out"] == {
        "name": "micro-f1",
        "value": model.held_out_metric_,
        "interval": list(confidence_interval(model.held_out_metric_, model.held_out_error_, (0.0, 1.0))),
        "of": "rows",
    }
    assert said["relative_gap"] == model.relative_gap_ <= 1e-3
    assert (said["rows"], said["features"], said["labels"]) == (300, 8, 6)
    assert said["observed"] == table.labels.n_observed  # type: ignore[union-attr]
    assert said["warnings"] == []


def test_what_people_are_told() -> None:
    told = run("fit", "articles.csv", *TAGS, *QUICK[:-1]).stdout
    for words in ("rows", "300", "53.4 % of 1800 entries", "threshold", "probability", "proved within"):
        assert words in told
    assert "Next: labelgap predict model.labelgap" in told
    assert Path("model.labelgap").exists()


def test_quiet_says_nothing() -> None:
    result = run("fit", "articles.csv", *TAGS, *QUICK)
    assert result.output == ""


@pytest.mark.parametrize("name", ["a.tsv", "a.parquet", "a.csv.gz", "a.npz", "a.txt", "a.arff"])
def test_every_format(name: str) -> None:
    table = read_label_table("articles.csv", labels="tag_*", ids="id")
    assert table.labels is not None
    X, Y = table.X[:60], table.labels.to_dense()[:60]
    names = [*(table.feature_names or ()), *TAG_NAMES]
    options: tuple[str, ...] = ("--labels", "tag_*")
    if name == "a.npz":
        np.savez(name, X=X, Y=Y, label_names=np.array(TAG_NAMES))
        options = ()
    elif name == "a.txt":
        _write_xmc(Path(name), X, Y)
        options = ()
    elif name == "a.arff":
        _write_arff(Path(name), names, np.hstack([X, Y]))
    else:
        from labelgap.data.files import write_columns

        write_columns(name, dict(zip(names, np.hstack([X, Y]).T, strict=True)))
    said = run_json("fit", name, *options, "--out", "m.labelgap", *QUICK)
    assert (said["rows"], said["labels"]) == (60, 6)
    model = labelgap.load("m.labelgap")
    assert model.n_labels_ == 6


def _write_xmc(path: Path, X: np.ndarray, Y: np.ndarray) -> None:
    lines = [f"{len(X)} {X.shape[1]} {Y.shape[1]}"]
    for row, tags in zip(X, Y, strict=True):
        yes = ",".join(str(at) for at in np.flatnonzero(tags == 1))
        lines.append(f"{yes} " + " ".join(f"{at}:{value:g}" for at, value in enumerate(row) if value))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write_arff(path: Path, names: list[str], values: np.ndarray) -> None:
    lines = ["@relation articles"]
    lines += [f"@attribute {name} {'{0,1}' if name.startswith('tag') else 'numeric'}" for name in names]
    lines.append("@data")
    lines += [",".join("?" if np.isnan(v) else f"{v:g}" for v in row) for row in values]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_labels_of_a_second_file() -> None:
    table = read_label_table("articles.csv", labels="tag_*", ids="id")
    lines = Path("articles.csv").read_text(encoding="utf-8").splitlines()
    texts = [line.split(",") for line in lines]
    Path("x.csv").write_text("\n".join(",".join(row[:9]) for row in texts), encoding="utf-8")
    Path("y.csv").write_text("\n".join(",".join([row[0], *row[9:]]) for row in texts), encoding="utf-8")
    said = run_json("fit", "x.csv", "--id", "id", "--label-file", "y.csv", *QUICK)
    assert said["observed"] == table.labels.n_observed  # type: ignore[union-attr]


# -- settings ----------------------------------------------------------------------------------------------


def test_movielens_files_are_for_a_recommender() -> None:
    rng = np.random.RandomState(0)
    lines = [
        f"{u}\t{i}\t{rng.randint(1, 6)}\t88{u}{i}" for u in range(1, 9) for i in range(1, 7) if (u + i) % 4
    ]
    Path("u.data").write_text("\n".join(lines) + "\n", encoding="utf-8")
    said = run_json("fit", "u.data", "--positive", "4", "--trace-penalty", "0.05", "--threshold", "train")
    assert (said["kind"], said["users"], said["items"], said["answers"]) == ("Recommender", 8, 6, len(lines))


def test_columns_of_users_and_items_are_for_a_recommender(ratings: Path) -> None:
    ratings.write_text(ratings.read_text().replace("user,item,value", "who,film,stars"))
    columns = ("--user", "who", "--item", "film", "--value", "stars", "--positive", "4")
    said = run_json("fit", ratings, *columns, "--trace-penalty", "0.02", "--threshold", "train")
    assert said["kind"] == "Recommender"
    assert labelgap.load("model.labelgap").positive == 4


def test_likes_alone_with_a_flip_rate(ratings: Path) -> None:
    lines = ratings.read_text().splitlines()
    likes = [line.rpartition(",")[0] for line in lines if line[-1] in "45e"]
    ratings.write_text("\n".join(likes) + "\n")
    options = ("--setting", "recommender", "--unobserved", "unlabelled", "--flip-rate", "0.3")
    said = run_json("fit", ratings, *options, "--trace-penalty", "0.02", "--threshold", "train")
    assert said["flip_rate"] == 0.3
    assert said["loss"] == "squared"


def test_a_family_is_for_regression() -> None:
    columns = ("--labels", "quotes,images", "--drop", "tag_*,id,words")
    penalties = ("--trace-penalty", "0.01", "--ridge-penalty", "0.01")
    said = run_json("fit", "articles.csv", *columns, "--family", "poisson", *penalties)
    assert (said["kind"], said["family"]) == ("LowRankRegressor", "poisson")
    assert said["positive"] is None
    told = run("fit", "articles.csv", *columns, "--setting", "regression", "--force").stdout
    assert "of the deviance of held-out rows" in " ".join(told.split())


def test_a_formula_is_a_metric() -> None:
    said = run_json(
        "fit", "articles.csv", *TAGS, "--metric", "2*tp/(2*tp+fp+fn)", "--average", "macro", *QUICK
    )
    named = run_json("fit", "articles.csv", *TAGS, "--metric", "macro-f1", "--force", *QUICK)
    assert said["threshold"] == named["threshold"]
    assert labelgap.load("model.labelgap").metric == "macro-f1"


def test_blanks_may_mean_no() -> None:
    said = run_json("fit", "articles.csv", *TAGS, "--unobserved", "negative", *QUICK)
    assert said["observed"] == said["cells"]


def test_the_solver_is_told() -> None:
    run(
        "fit",
        "articles.csv",
        *TAGS,
        "--rank",
        "2",
        "--loss",
        "squared",
        "--tol",
        "0.01",
        "--seed",
        "3",
        *QUICK,
    )
    model = labelgap.load("model.labelgap")
    assert (model.rank, model.loss, model.tol, model.random_state) == (2, "squared", 0.01, 3)
    assert model.rank_ <= 2


def test_warnings_are_told_and_the_exit_code_is_0() -> None:
    lines = Path("articles.csv").read_text(encoding="utf-8").splitlines()
    blank = [lines[0], *(line.rpartition(",")[0] + "," for line in lines[1:])]
    Path("blank.csv").write_text("\n".join(blank), encoding="utf-8")
    result = run("fit", "blank.csv", *TAGS, *QUICK)
    assert "Warning: 1 of 6 labels have no observed entry (the first: 'tag_data')" in result.stderr
    said = run_json("fit", "blank.csv", *TAGS, *QUICK, "--force")
    assert len(said["warnings"]) == 1


@pytest.mark.slow
def test_a_checkpoint_is_continued_from_and_removed_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = ("fit", "articles.csv", *TAGS, "--ridge-penalty", "0.01", "--tol", "0.01", "--checkpoint", "kept")
    with monkeypatch.context() as patch:
        # As if it had been killed right after it had saved the model.
        patch.setattr("labelgap.cli.fitted.remove_checkpoint", lambda folder: None)
        said = run_json(*fit)
    other = error_of("fit", "new_articles.csv", *TAGS, "--checkpoint", "kept", "--force")
    assert other.startswith("Error:")
    assert "kept" in other
    again = run_json(*fit, "--force")
    for answer in (said, again):
        del answer["seconds"]
    assert said == again
    assert not Path("kept").exists()


# -- refusals ----------------------------------------------------------------------------------------------


def test_an_existing_model_is_not_replaced_unasked() -> None:
    Path("model.labelgap").write_text("precious")
    told = error_of("fit", "articles.csv", *TAGS)
    assert told == "Error: model.labelgap exists already. Say --force to replace it, or choose another --out."
    assert Path("model.labelgap").read_text() == "precious"
    run("fit", "articles.csv", *TAGS, *QUICK, "--force")
    labelgap.load("model.labelgap")


def test_wrong_usage_in_json() -> None:
    said = run_json("fit", "articles.csv", *TAGS, "--rank", "0", code=2)
    assert said["error"]["exit_code"] == 2
    assert "--rank" in said["error"]["message"]


def test_problems_in_json() -> None:
    said = run_json("fit", "articles.csv", "--labels", "nothing_*", code=1)
    assert said["error"]["type"] == "DataFileError"
    assert said["error"]["exit_code"] == 1
    assert said["warnings"] == []


def test_an_interrupt_at_once_saves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(labelgap.LowRankClassifier, "fit", interrupted)
    told = error_of("fit", "articles.csv", *TAGS, code=130)
    assert told == "Error: Interrupted; nothing was saved."
    told = error_of("fit", "articles.csv", *TAGS, "--checkpoint", "kept", code=130)
    assert told == "Error: Interrupted; nothing was saved.", "this fit had not begun to keep its progress"
    Path("kept").mkdir()
    told = error_of("fit", "articles.csv", *TAGS, "--checkpoint", "kept", code=130)
    assert "is kept in kept: the same command continues from there" in told
    assert not Path("model.labelgap").exists()


def test_an_unexpected_error_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(labelgap.LowRankClassifier, "fit", broken)
    with pytest.raises(ZeroDivisionError):
        run("fit", "articles.csv", *TAGS)


def test_the_feature_map_and_the_label_weighting_are_options() -> None:
    said = run_json(
        "fit", "articles.csv", *TAGS, *QUICK[:-1], "--feature-map", "rbf", "--label-weighting", "0.5"
    )
    model = labelgap.load("model.labelgap")
    assert (model.features_, model.label_weighting_) == ("rbf", 0.5)
    assert (said["feature_map"], said["label_weighting"]) == ("rbf", 0.5)
    told = run("info", "model.labelgap").stdout
    assert "feature map" in told
    assert "label weighting 0.5" in told
    assert "from 0 to 1" in error_of("fit", "articles.csv", *TAGS, "--label-weighting", "2", "--force")
    refused = error_of("fit", "articles.csv", *TAGS, "--feature-map", "cubic", code=2)
    assert "cubic" in refused


def test_known_negatives_that_are_not_used_are_told_once(tmp_path: Path) -> None:
    options = ("--unobserved", "unlabelled", "--flip-rate", "0.5", "--tol", "0.01", *QUICK)
    given = ("--labels", "tag_*", "--id", "id", "--out", tmp_path / "model.labelgap")
    said = run_json("fit", EXAMPLES / "articles.csv", *given, *options)
    told = [line for line in said["warnings"] if "known negatives were not used" in line]
    assert len(told) == 1
    assert "fit with --unobserved missing" in told[0]


# -- events, and what a table of ratings is told -----------------------------------------------------------


def write_plays(path: str, n: int = 300, seed: int = 0) -> None:
    """An event log: many plays of a pair, with minutes and dates."""
    rng = np.random.default_rng(seed)
    lines = ["user,item,minutes,day"]
    for _ in range(n):
        user, item = int(rng.integers(12)), int(rng.integers(8))
        minutes = rng.integers(1, 6) + 10 * ((user + item) % 2)
        lines.append(f"u{user},{item},{minutes},2024-05-{rng.integers(1, 31):02d}")
    Path(path).write_text("\n".join(lines) + "\n")


COLUMNS = ("--value", "minutes", "--time", "day", "--half-life", "20")


@pytest.mark.parametrize(("aggregate", "positive"), [("sum", 15.0), ("last", 10.0)])
def test_events_become_ratings(aggregate: str, positive: float) -> None:
    write_plays("plays.csv")
    write_plays("later.csv", 60, seed=1)
    events = (*COLUMNS, "--aggregate", aggregate, "--positive", positive)
    quick = ("--trace-penalty", "0.02", "--threshold", "train")
    run("fit", "plays.csv", *events, *quick, "--out", "m.labelgap")
    log = pandas.read_csv("plays.csv")
    model = Recommender(value="minutes", time="day", half_life=20.0, aggregate=aggregate, positive=positive)
    model.set_params(trace_penalty=0.02, threshold="train", random_state=0).fit(log)
    fitted = labelgap.load("m.labelgap")
    assert fitted.answers_ == model.answers_
    later = pandas.read_csv("later.csv")
    said = run_json("evaluate", "m.labelgap", "later.csv")
    assert said["metrics"]["micro-f1"] == pytest.approx(model.score(later))
    run("report", "m.labelgap", "later.csv", "--quiet")
    run("update", "m.labelgap", "later.csv")
    assert labelgap.load("m.labelgap").answers_ == model.partial_fit(later).answers_


def test_events_without_values_are_counted() -> None:
    write_plays("plays.csv")
    write_plays("later.csv", 60, seed=1)
    events = ("--user", "user", "--item", "item", "--value", "none", "--aggregate")
    quick = ("--trace-penalty", "0.02", "--threshold", "train", "--quiet")
    run("fit", "plays.csv", *events, "sum", "--positive", "3", *quick, "--out", "m.labelgap")
    model = Recommender(value=None, aggregate="sum", positive=3.0, trace_penalty=0.02, threshold="train")
    model.set_params(random_state=0).fit(pandas.read_csv("plays.csv"))
    assert {0, 1} == set(model.answers_.values)
    assert labelgap.load("m.labelgap").answers_ == model.answers_
    run("update", "m.labelgap", "later.csv", "--quiet")
    assert labelgap.load("m.labelgap").answers_ == model.partial_fit(pandas.read_csv("later.csv")).answers_
    said = error_of("fit", "plays.csv", *events, "max", "--positive", "3", code=2)
    assert "only --aggregate sum counts them" in said


def test_events_that_cannot_be_joined_are_told_of_in_options() -> None:
    write_plays("plays.csv")
    write_plays("later.csv", 60, seed=1)
    fit = ("fit", "plays.csv", "--value", "minutes", "--positive", "10", "--trace-penalty", "0.02", "--quiet")
    fit = (*fit, "--threshold", "train")
    run(*fit, "--aggregate", "sum", "--out", "sum.labelgap")
    run(*fit, "--aggregate", "sum", "--half-life", "20", "--time", "day", "--out", "recent.labelgap")
    said = error_of("update", "sum.labelgap", "later.csv", "--aggregate", "max")
    assert "fitted with --aggregate sum, so ratings cannot be joined with --aggregate max. Go on" in said
    recent = ("--half-life", "10", "--time", "day")
    said = error_of("update", "sum.labelgap", "later.csv", *recent)
    assert "fitted without times, so ratings cannot be joined with --half-life 10. Go on" in said
    said = error_of("update", "recent.labelgap", "later.csv", "--aggregate", "max")
    assert "fitted with --aggregate sum, so" in said
    said = error_of("update", "recent.labelgap", "later.csv", "--forget", "2")
    assert "--half-life weighs ratings by their age, and --forget 2.0 weighs" in said
    # What may be another than in the fit.
    run("update", "recent.labelgap", "later.csv", *recent, "--quiet")
    run("fold-in", "recent.labelgap", "later.csv", "--time", "day", "--quiet")
    for model in ("sum.labelgap", "recent.labelgap"):
        run("evaluate", model, "later.csv", "--aggregate", "max", *recent)
        run("report", model, "later.csv", "--aggregate", "max", *recent, "--quiet", "--out", f"{model}.html")
    plain = pandas.read_csv("plays.csv").drop_duplicates(["user", "item"])
    plain.to_csv("plays.csv", index=False)
    run(*fit, "--out", "plain.labelgap")
    said = error_of("update", "plain.labelgap", "later.csv", "--aggregate", "sum")
    assert "it was fitted without --aggregate, and now it is 'sum'" in said


@pytest.mark.parametrize(
    ("header", "values", "options"),
    [
        ("created", ["1281940000"], "--value none --for recommend"),
        ("day", ["14871"], "--value none --for recommend"),
        ("seen", ["1281940000"], "--value none --for recommend"),
        ("seen", ["20240301"], "--value none --for recommend"),
        ("order", [str(order) for order in range(8)], "--value none --for recommend"),
        ("sessionid", ["3", "4"], "--value none --for recommend"),
        ("event,transactionid", ["view,", "buy,17"], "--value none --for recommend"),
        ("unix,stars", ["1281940000,5", "1281940000,2"], "--value stars --positive 4"),
        ("age,stars", ["31,5", "32,2"], "--value stars --positive 4"),
        ("times_played", ["3", "1234567"], "--value times_played --positive 925926"),
        ("fun", ["1", "5"], "--value fun --positive 4"),
        ("rating", ["0.25", "1"], "--value rating --positive 0.75"),
        ("rating", ["-1", "1"], "--value rating --positive 0.75"),
        ("rating", ["-4", "-2"], "--value rating --positive -2.5"),
        ("rating", ["0", "1"], "--value rating."),
    ],
)
def test_only_ratings_and_counts_are_suggested_as_values(
    header: str, values: list[str], options: str
) -> None:
    lines = "".join(f"u{at % 3},film {at},{values[at % len(values)]}\n" for at in range(8))
    Path("films.csv").write_text(f"user,film,{header}\n{lines}")
    assert f"such as --user user --item film {options}" in error_of("fit", "films.csv")


@pytest.mark.parametrize("header", ["user,item,when", "user,item,created_at", "user,item,unix_time"])
def test_times_are_not_taken_for_values(header: str) -> None:
    for time in ("2024-05-31", "1717156800"):
        Path("likes.csv").write_text(f"{header}\nann,Ran,{time}\nbob,Jaws,{time}\n")
        said = error_of("fit", "likes.csv", "--for", "recommend")
        assert "--value none" in said
        assert f"--value {header.split(',')[2]}" not in said
        Path("likes.csv").write_text(f"{header},stars\nann,Ran,{time},3\nbob,Jaws,{time},4\n")
        assert "such as --value stars," in error_of("fit", "likes.csv", "--for", "recommend")
