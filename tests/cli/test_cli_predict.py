"""``labelgap predict``: by name, in every form, for every kind of model, with sets and budgets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cli_runs import FIXED, TABLE, TAGS, lines, rows_of, run, run_json, told

import labelgap
from labelgap import Budget
from labelgap.data.files import read_label_table, read_numbers, write_columns

pytestmark = pytest.mark.usefixtures("models")
PREDICT = "predict articles.labelgap new_articles.csv"


def expected(model: str = "articles.labelgap") -> tuple[labelgap.LowRankClassifier, np.ndarray]:
    loaded = labelgap.load(model)
    return loaded, read_label_table("new_articles.csv", features=list(loaded.feature_names_in_)).X


def decisions_of(path: str) -> np.ndarray:
    return np.array([[int(row[tag]) for tag in TAGS] for row in rows_of(path)])


def test_decisions_in_a_wide_table() -> None:
    said = told(f"{PREDICT} --out d.csv")
    model, X = expected()
    found = rows_of("d.csv")
    assert list(found[0]) == ["id", *TAGS]
    assert [row["id"] for row in found] == [f"A{301 + at}" for at in range(200)]
    decisions = decisions_of("d.csv")
    assert np.array_equal(decisions, model.predict(X, output="dense"))
    assert f"Wrote 200 rows to d.csv: {decisions.sum()} yes among 1200 decisions." in said
    piped = run(PREDICT)
    assert (piped.stdout, piped.stderr) == (Path("d.csv").read_text(), "")
    said = run_json(PREDICT)
    assert said["rows"] == len(said["predictions"]) == 200
    assert (said["predictions"][0]["id"], said["warnings"]) == ("A301", [])
    said = run_json(f"{PREDICT} --out e.csv")
    assert (said["out"], said["yes"]) == ("e.csv", decisions.sum())
    Path("d.csv").write_text("precious")
    run(f"{PREDICT} --out d.csv --force")
    assert Path("d.csv").read_text() == piped.stdout


def test_numbers_keep_all_their_digits_in_every_format() -> None:
    model, X = expected()
    for what, method in (("probabilities", "predict_proba"), ("scores", "decision_function")):
        for name in ("p.csv", "p.tsv", "p.parquet", "p.csv.gz"):
            run(f"{PREDICT} --what {what} --force --out {name}")
            assert np.array_equal(read_numbers(name, drop="id").values, getattr(model, method)(X)), name
    run(f"{PREDICT} --what all --out all.csv")
    first = rows_of("all.csv")[0]
    assert list(first)[:4] == ["id", "tag_business", "tag_business_probability", "tag_business_score"]
    assert float(first["tag_data_score"]) == model.decision_function(X)[0, -1]


def test_a_line_for_each_yes() -> None:
    run(f"{PREDICT} --long --out yes.csv")
    run(f"{PREDICT} --long --all --out each.csv")
    model, X = expected()
    decisions = model.predict(X, output="dense")
    yes, each = rows_of("yes.csv"), rows_of("each.csv")
    assert (len(yes), len(each)) == (decisions.sum(), decisions.size)
    assert list(yes[0]) == ["id", "label", "decision", "probability"]
    assert yes == [row for row in each if row["decision"] == "1"]
    assert float(each[1]["probability"]) == model.predict_proba(X)[0, 1]


def test_columns_are_found_by_name_and_rows_without_ids_are_numbered() -> None:
    table = [line.split(",") for line in lines("new_articles.csv")]
    turned = "\n".join(
        ",".join([f"note{at}" if at == 0 else "x", *row[::-1]]) for at, row in enumerate(table)
    )
    Path("turned.csv").write_text(turned)
    assert run("predict articles.labelgap turned.csv").stdout == run(PREDICT).stdout
    Path("bare.csv").write_text("\n".join(",".join(row[1:]) for row in table))
    run("predict articles.labelgap bare.csv --out d.csv")
    assert [row["row"] for row in rows_of("d.csv")][:3] == ["0", "1", "2"]
    run(f"{PREDICT} --id tag_data --out e.csv")
    assert rows_of("e.csv")[0]["tag_data"] in "01"
    # Without names it goes by place.
    model, X = expected()
    np.savez("rows.npz", X=X)
    run("predict articles.labelgap rows.npz --out f.csv")
    assert np.array_equal(decisions_of("f.csv"), model.predict(X, output="dense"))


def test_many_rows_go_in_blocks() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 2))
    model = labelgap.LowRankClassifier(trace_penalty=5.0, ridge_penalty=1.0, threshold="train")
    model.fit(X[:200], (X[:200, :1] + np.linspace(-1, 1, 300) > 0).astype(float)).save("many.labelgap")
    np.savez("many.npz", X=X)
    run("predict many.labelgap many.npz --long --out long.csv")
    run("predict many.labelgap many.npz --out wide.parquet")
    decided = model.predict(X, output="dense")
    assert np.array_equal(pd.read_parquet("wide.parquet").to_numpy()[:, 1:], decided)
    found = pd.read_csv("long.csv")
    assert np.array_equal(
        np.column_stack([found["row"], found["label"].str[6:].astype(int)]), np.argwhere(decided)
    )
    np.testing.assert_allclose(found["probability"], model.predict_proba(X)[decided == 1], rtol=1e-14)


def test_a_regression_predicts_means() -> None:
    run("predict counts.labelgap new_articles.csv --out means.csv")
    run("predict counts.labelgap new_articles.csv --what scores --out scores.csv")
    means, scores = (read_numbers(name, drop="id") for name in ("means.csv", "scores.csv"))
    assert means.names == ("quotes", "images")
    assert np.allclose(means.values, np.exp(scores.values))


def test_pairs_for_a_recommender() -> None:
    Path("pairs.csv").write_text("user,item\nu1,film 1\nu1,film 2\nu2,film 2\n")
    run("predict films.labelgap pairs.csv --out d.csv")
    wanted = labelgap.load("films.labelgap").predict(["u1", "u1", "u2"], ["film 1", "film 2", "film 2"])
    found = rows_of("d.csv")
    assert [row["item"] for row in found] == ["film 1", "film 2", "film 2"]
    assert [int(row["decision"]) for row in found] == wanted.tolist() == [1, 0, 1]
    run("predict films.labelgap pairs.csv --what scores --out s.csv")
    assert list(rows_of("s.csv")[0]) == ["user", "item", "score"]
    Path("pairs.csv").write_text("user,item\nu1,film 1\nzoe,film 2\n")
    result = run("predict films.labelgap pairs.csv --skip-unknown")
    assert "1 of 2 lines have a user or an item that the model does not know" in result.stderr
    assert len(result.stdout.splitlines()) == 2


def test_names_of_any_alphabet_survive() -> None:
    text = Path("articles.csv").read_text(encoding="utf-8")
    Path("a.csv").write_text(text.replace("tag_sport", "tag_κέρδος"), encoding="utf-8")
    run(f"fit a.csv --labels tag_* --id id {FIXED} -q")
    piped = run("predict model.labelgap new_articles.csv").stdout_bytes
    assert "tag_κέρδος" in piped.decode("utf-8").splitlines()[0]
    assert "tag_κέρδος" in json.dumps(run_json("info model.labelgap"), ensure_ascii=False)


def test_ids_that_come_twice_are_told_in_one_line() -> None:
    table = lines("new_articles.csv")
    Path("twice.csv").write_text("\n".join([*table[:3], table[1], table[2], table[1]]))
    assert run("predict articles.labelgap twice.csv --out d.csv").stderr == (
        "Warning: twice.csv: 2 ids come more than once: 'A301' (rows 1, 3, 5), 'A302' (rows 2, 4). "
        "Each row is decided on its own, so such an id has several lines in the output.\n"
    )
    table = lines("articles.csv")
    Path("twice.csv").write_text("\n".join([*table, table[1]]))
    said = run_json(f"fit twice.csv --labels tag_* {FIXED}")
    assert f"1 id comes more than once: 'A001' (rows 1, {len(table)})" in said["warnings"][0]


# -- sets and calibration ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def held_out(fitted: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with held-out scores and a calibration."""
    path = tmp_path_factory.mktemp("models") / "held_out.labelgap"
    table = TABLE.replace("articles.csv", str(fitted["articles"].parent / "articles.csv"))
    said = told(f"fit {table} --calibration sigmoid --trace-penalty 0.05 --ridge-penalty 0.01 --out {path}")
    assert "sigmoid: expected error 0.0" in said
    return path


def sets_of(path: Path, guarantee: str = "class") -> tuple[Any, np.ndarray, np.ndarray]:
    model, X = expected(str(path))
    return model, X, model.predict_set(X, 0.95, guarantee, output="dense")


def test_what_is_not_decided_is_blank(held_out: Path) -> None:
    command = f"predict {held_out} new_articles.csv --coverage 0.95"
    said = told(f"{command} --out d.csv")
    model, X, sets = sets_of(held_out)
    texts = {1.0: "1", 0.0: "0"}
    assert [row.split(",")[1:] for row in lines("d.csv")[1:]] == [
        [texts.get(one, "") for one in row] for row in sets
    ]
    unsure = int(np.isnan(sets).sum())
    assert unsure > 0
    told_of = f"{int(np.nansum(sets))} yes among {sets.size - unsure} decisions, {unsure} not decided"
    assert told_of in said
    assert run(command).stdout == Path("d.csv").read_text()
    # A line for each yes and for each that is not decided, and null in JSON.
    run(f"{command} --long --out long.csv")
    found = rows_of("long.csv")
    assert len(found) == np.sum(sets != 0)
    assert sum(line["decision"] == "" for line in found) == unsure
    assert float(found[0]["probability"]) == model.predict_proba(X)[np.nonzero(sets != 0)][0]
    rows = run_json(command)["predictions"]
    assert sum(one is None for row in rows for one in row.values()) == unsure
    assert run_json(f"{command} --force --out d.csv")["undecided"] == unsure
    facts = run_json(f"info {held_out}")
    assert facts["calibration"]["method"] == "sigmoid"
    assert 0 <= facts["calibration"]["after"] < 0.1


def test_sets_in_every_kind_of_file(held_out: Path) -> None:
    _, _, sets = sets_of(held_out, "entries")
    for name in ("d.parquet", "d.npz", "d.csv.gz", "d.tsv"):
        run(f"predict {held_out} new_articles.csv --coverage 0.95 --guarantee entries --out {name}")
        if name == "d.npz":
            with np.load(name) as file:
                found = np.column_stack([file[label] for label in file.files if label != "id"])
        else:
            found = read_label_table(name, labels="tag_*", drop="id").labels.to_dense()  # type: ignore[union-attr]
        assert np.array_equal(found, sets, equal_nan=True), name


# -- budgets and thresholds per label ----------------------------------------------------------------------


def test_budgets() -> None:
    model, X = expected()
    for options, budget in {
        "--budget 1": 1,
        "--budget 2 --exactly": Budget(per_row=2, exactly=True),
        "--total-budget 17": Budget(total=17),
        "--budget unlimited": Budget(),
    }.items():
        run(f"{PREDICT} {options} --force --out out.csv")
        decided = decisions_of("out.csv")
        names = list(model.feature_names_in_)
        wanted = model.predict(pd.DataFrame(X, columns=names), budget=budget)  # type: ignore[arg-type]
        np.testing.assert_array_equal(decided, wanted, err_msg=options)
        assert len(run_json(f"{PREDICT} {options} --long")["predictions"]) == decided.sum()


def test_thresholds_of_labels_and_bounds_from_the_shell() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 3))
    Z = X @ rng.standard_normal((3, 3)) + rng.standard_normal((120, 3)) + [1, 0, -2]
    columns = {name: X[:, at] for at, name in enumerate("abc")}
    write_columns("data.csv", columns | {f"tag_{at}": (Z[:, at] > 0).astype(float) for at in range(3)})
    fit = "fit data.csv --labels tag_* --trace-penalty 0.01 --ridge-penalty 0"
    run(f"{fit} --metric macro-f1 --thresholds shrunk --out one.labelgap")
    fitted = labelgap.load("one.labelgap")
    assert (fitted.thresholds, fitted.thresholds_kind_) == ("shrunk", "shrunk")
    assert "one for each label (shrunk)" in told("info one.labelgap")
    judged = run_json("evaluate one.labelgap data.csv --labels tag_*")
    decided = fitted.decision_function(pd.DataFrame(X, columns=list("abc"))) >= fitted.thresholds_
    assert judged["metrics"]["macro-f1"] == labelgap.get_metric("macro-f1")((Z > 0).astype(float), decided)
    run(f"{fit} --subject-to 'recall >= 0.9' --out two.labelgap")
    assert labelgap.load("two.labelgap").subject_to == ["recall >= 0.9"]
