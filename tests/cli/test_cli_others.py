"""report, export, info, demo, and what all commands have in common."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_runs import QUICK, error_of, run, run_json

import labelgap
from labelgap.cli import main
from labelgap.cli.app import COMMANDS
from labelgap.data import LowRankProblem, make_low_rank_labels
from labelgap.data.files import read_label_table


def figures_of(page: str) -> dict[str, Any]:
    text = Path(page).read_text(encoding="utf-8")
    figures: dict[str, Any] = json.loads(text.split('id="figures">')[1].split("</script>")[0])
    return figures


# -- report ------------------------------------------------------------------------------------------------


def test_report(fitted: dict[str, Path]) -> None:
    told = run("report", fitted["articles"], "new_articles.csv", "--title", "Tags & more").stdout
    assert told == "Wrote report.html; open it in a browser.\n"
    page = Path("report.html").read_text(encoding="utf-8")
    assert "<title>Tags &amp; more" in page
    assert "exists already" in error_of("report", fitted["articles"], "new_articles.csv")


def test_a_report_has_the_names_of_the_features(fitted: dict[str, Path]) -> None:
    run("report", fitted["articles"], "new_articles.csv")
    page = Path("report.html").read_text(encoding="utf-8")
    assert '"feature 0"' not in page
    assert all(f'"{name}"' in page for name in labelgap.load(fitted["articles"]).feature_names_in_)


def test_report_of_two_models(fitted: dict[str, Path]) -> None:
    Path("older.labelgap").write_bytes(fitted["articles"].read_bytes())
    both = (fitted["articles"], "new_articles.csv", "--compare", "older.labelgap")
    said = run_json("report", *both, "-o", "r.html")
    assert said["bytes"] == Path("r.html").stat().st_size
    assert [one["name"] for one in figures_of("r.html")["models"]] == [fitted["articles"].stem, "older"]
    Path("last").mkdir()
    Path("last/older.labelgap").write_bytes(fitted["articles"].read_bytes())
    run("report", *both, "--compare", "last/older.labelgap", "-o", "three.html")
    names = [one["name"] for one in figures_of("three.html")["models"]]
    assert names[1:] == ["older.labelgap", "last/older.labelgap"]
    told = error_of("report", *both, "--compare", "older.labelgap", "-o", "twice.html")
    assert "older.labelgap is given twice" in told
    told = error_of("report", fitted["articles"], "new_articles.csv", "--compare", fitted["counts"])
    assert "was fitted to other features" in told


def test_a_report_says_what_it_was_made_of(fitted: dict[str, Path]) -> None:
    run("report", fitted["articles"], "new_articles.csv")
    figures = figures_of("report.html")
    origin = figures["origin"]
    assert (origin["model"], origin["data"]) == (fitted["articles"].stem, "new_articles.csv")
    assert origin["version"] == labelgap.__version__
    # Rows have the names of the column id, although nobody said that it has them.
    assert all(row["name"].startswith("A") for row in figures["wrong_rows"]["rows"])


def test_every_command_says_the_same_of_a_fit() -> None:
    fitting = ("fit", "articles.csv", "--labels", "tag_*", "--feature-map", "linear", "--out", "own.labelgap")
    said, told = run_json(*fitting, "--id", "id"), run("info", "own.labelgap", width=120).stdout
    known = run_json("info", "own.labelgap")
    judged = run_json("evaluate", "own.labelgap", "new_articles.csv")
    run("report", "own.labelgap", "new_articles.csv", "-o", "own.html")
    page = figures_of("own.html")
    # The last fit has more entries than a fold, and so another penalty than the winner among the folds.
    assert page["fit"]["candidates"][-1]["trace"] > page["fit"]["penalties"]["trace"]
    assert known["penalties"] == said["penalties"] == page["fit"]["penalties"]
    assert f"penalties     {page['fit']['penalties_in_words']}\n" in told
    held_out = page["fit"]["held_out"]
    assert known["held_out"] == said["held_out"] == judged["held_out"]
    assert all(held_out[name] == said["held_out"][name] for name in ("name", "value", "interval", "of"))
    low, high = said["held_out"]["interval"]
    assert low < said["held_out"]["value"] < high
    assert f"{said['held_out']['value']:.4f} (95 %: {low:.4f} to {high:.4f}) on held-out rows" in told
    # On new rows.
    (model,) = page["models"]
    low, high = judged["intervals"]["micro-f1"]
    assert (model["value"], model["interval"]) == (judged["metrics"]["micro-f1"], [low, high])
    told = " ".join(run("evaluate", "own.labelgap", "new_articles.csv").stdout.split())
    assert f"micro-f1 {model['value']:.4f} (95 %: {low:.4f} to {high:.4f})" in told
    assert "on held-out rows, which says how well new rows are predicted" in told
    assert "the figures above say how well the rows of this file are predicted" in told


def test_a_figure_without_a_known_interval_has_none() -> None:
    unlabelled = ("--unobserved", "unlabelled", "--flip-rate", "0.3", "--trace-penalty", "0.05")
    data, labels = ("articles.csv", "--id", "id"), ("--labels", "tag_*")
    lines = Path("articles.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    Path("few.csv").write_text("".join(lines[:16]), encoding="utf-8")
    few = run_json("fit", "few.csv", "--id", "id", *labels, *QUICK[:4], "--out", "few.labelgap")
    assert few["held_out"]["value"] is not None
    assert few["held_out"]["interval"] is None
    recorded = run_json("fit", *data, *labels, *unlabelled, "--ridge-penalty", "0", "--out", "pu.labelgap")
    assert recorded["held_out"]["interval"] is None
    nothing = run_json("fit", *data, *labels, *QUICK[:-1], "--out", "none.labelgap")
    assert nothing["held_out"] == {"name": "micro-f1", "value": None, "interval": None, "of": None}


def test_a_column_of_ids_with_a_blank_does_not_stop_a_report(fitted: dict[str, Path]) -> None:
    lines = Path("new_articles.csv").read_text(encoding="utf-8").splitlines()
    lines[1] = "," + lines[1].partition(",")[2]
    Path("blank.csv").write_text("\n".join(lines), encoding="utf-8")
    run("report", fitted["articles"], "blank.csv")
    assert not figures_of("report.html")["wrong_rows"]["has_names"]
    assert "the id is missing" in error_of("report", fitted["articles"], "blank.csv", "--id", "id", "--force")


def test_report_of_other_kinds(fitted: dict[str, Path], ratings: Path) -> None:
    run("report", fitted["films"], ratings, "-o", "films.html")
    run("report", fitted["counts"], "new_articles.csv", "-o", "counts.html")
    assert Path("films.html").exists()
    assert Path("counts.html").exists()
    error_of("report", fitted["films"], ratings, "--labels", "x", "-o", "x.html", code=2)
    error_of("report", fitted["counts"], "new_articles.csv", "--user", "id", "-o", "x.html", code=2)


def test_the_page_can_be_opened(fitted: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("typer.launch", opened.append)
    run("report", fitted["articles"], "new_articles.csv", "--open", "--quiet")
    assert opened == [Path("report.html").resolve().as_uri()]


# -- export ------------------------------------------------------------------------------------------------


def test_export(fitted: dict[str, Path]) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
    said = run_json("export", fitted["articles"], "m.onnx")
    assert said["bytes"] == Path("m.onnx").stat().st_size
    model = labelgap.load(fitted["articles"])
    names = list(model.__dict__.pop("feature_names_in_"))
    X = read_label_table("new_articles.csv", features=names).X
    session = runtime.InferenceSession("m.onnx")
    (decisions,) = session.run(["decisions"], {"features": X})
    assert np.array_equal(decisions, model.predict(X, output="dense"))
    assert "choose another TARGET" in error_of("export", fitted["articles"], "m.onnx")
    run("export", fitted["articles"], "m.onnx", "--force", "--dtype", "float32")


# -- info --------------------------------------------------------------------------------------------------


def test_info_of_the_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    said = run_json("info")
    assert said["labelgap"] == labelgap.__version__
    assert said["packages"]["numpy"] == np.__version__
    monkeypatch.setattr("labelgap.cli.info._EXTRAS", {"onnx": ("no-such-package",)})
    told = " ".join(run("info").stdout.split())
    assert "onnx not installed: no-such-package (pip install 'labelgap[onnx]')" in told


def test_info_of_models(fitted: dict[str, Path]) -> None:
    said = run_json("info", fitted["articles"])
    assert (said["what"], said["kind"], said["labels"]) == ("model", "LowRankClassifier", 6)
    assert said["feature_names"][0] == "words"
    told = run("info", fitted["films"]).stdout
    assert "a Recommender" in told
    assert "users" in told
    assert "family" in run("info", fitted["counts"]).stdout


def test_info_of_tables(ratings: Path) -> None:
    assert "tag_data" in run("info", "articles.csv").stdout
    said = run_json("info", "articles.csv", "--labels", "tag_*", "--id", "id")
    table = read_label_table("articles.csv", labels="tag_*", ids="id")
    assert table.labels is not None
    assert said["observed"] == table.labels.n_observed
    assert [one["observed"] for one in said["per_label"]] == table.labels.label_counts().tolist()
    Path("u.data").write_text("1\t2\t5\t0\n1\t3\t1\t0\n")
    said = run_json("info", "u.data")
    assert (said["what"], said["answers"], said["users"], said["items"]) == ("answers", 2, 1, 2)
    assert (said["lowest"], said["highest"]) == (1, 5)


@pytest.mark.parametrize("option", ["--labels=x", "--id=x", "--format=csv"])
def test_info_refuses_what_it_has_no_use_for(option: str, fitted: dict[str, Path]) -> None:
    assert "it is for a table" in error_of("info", option, code=2)
    assert "it is for a table" in error_of("info", fitted["articles"], option, code=2)


def test_info_of_many_labels() -> None:
    np.savez("many.npz", X=np.zeros((2, 1)), Y=np.ones((2, 30)))
    assert "and 10 more labels" in run("info", "many.npz").stdout


# -- demo --------------------------------------------------------------------------------------------------


def test_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    # The demo itself has its own test.
    shown: list[tuple[LowRankProblem, Path, int]] = []
    monkeypatch.setattr("labelgap.demo.run", lambda *given: shown.append(given))
    run("demo", "--seed", "1", "--picture", "p.png")
    ((problem, picture, seed),) = shown
    assert np.array_equal(problem.X, make_low_rank_labels(random_state=1).X)
    assert (picture, seed) == (Path("p.png"), 1)


# -- all ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_helps_with_examples(command: str) -> None:
    told = run(command, "--help").stdout
    assert "Examples" in told
    assert f"labelgap {command}" in told
    for line in told.splitlines():
        assert len(line) <= 80


def test_the_commands() -> None:
    assert list(COMMANDS) == [
        "fit",
        "update",
        "predict",
        "evaluate",
        "report",
        "threshold",
        "complete",
        "errors",
        "suggest",
        "recommend",
        "fold-in",
        "split",
        "export",
        "info",
        "demo",
    ]
    told = " ".join(run("--help").stdout.split())
    assert "Exit codes: 0 fine; 1 a problem" in told
    for command in COMMANDS:
        assert command in told


def test_version() -> None:
    assert run("--version").stdout == f"labelgap {labelgap.__version__}\n"


def test_no_command_is_wrong_usage_with_help() -> None:
    assert "Usage: labelgap" in run(code=2).output
    assert "No such command 'fitt'" in error_of("fitt", code=2)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err == "The command line needs typer and rich: pip install 'labelgap[cli]'.\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Typer would look for the shell that runs the tests.
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    assert "_LABELGAP_COMPLETE" in run("--show-completion", shell).stdout


def test_completion_completes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_LABELGAP_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "labelgap ev")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert run().stdout.split() == ["evaluate"]
