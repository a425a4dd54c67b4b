"""Benchmarks run, at toy size, and the page of figures is made of their results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import ElasticNet
from sklearn.metrics import f1_score, ndcg_score

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import data, gate, gpu, harness, item_models, page, ranking, rivals, whole_jobs
from benchmarks.__main__ import BENCHMARKS, runner
from benchmarks.harness import Bounds, Line, Options, Report, text_table

ROOT = Path(__file__).parents[1]
BOUNDS = Bounds(2, 2e10, 1e11, 5e10)
# The others start many processes, or need data; `python -m benchmarks --quick` runs them all.
FAST = ("kernels", "certified", "thresholds", "lists", "arriving")


@pytest.mark.slow
def test_benchmarks_report_their_figures(tmp_path: Path) -> None:
    for name in FAST:
        report = runner(name)(Options(repeats=1, quick=True, threads=1))
        report.bounds = BOUNDS
        answer = json.loads(json.dumps(report.as_json()))
        assert answer["lines"], name
        for line in answer["lines"]:
            assert line["seconds"] is None or line["seconds"] >= 0, (name, line)
            assert (line["met"] is None) == (line["target"] == ""), (name, line)
        assert all((answer["title"], answer["method"])), name
        assert answer["lines"][0]["what"] in text_table(answer), name


@pytest.mark.slow
def test_the_targets_of_lists() -> None:
    likes = data.make_likes((200, 150), 4_000)
    _, beside = whole_jobs.beside_ease("toy", likes)
    assert beside.met == (beside.ratio <= 3 and beside.seconds <= 60)
    alone = whole_jobs.many_likes(likes)
    assert alone.met == (alone.ratio <= 3 and alone.seconds <= 90)
    assert beside.note == alone.note.partition(";")[0], "the same job"


@pytest.mark.slow
def test_a_named_benchmark_is_stored_and_its_toy_figures_apart(tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            "-m",
            "benchmarks",
            *arguments,
            "--quick",
            "--repeats",
            "1",
            "--threads",
            "1",
        ]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)

    done = run("kernels")
    assert done.returncode == 0, done.stderr
    assert "targets missed" in done.stdout
    assert json.loads((tmp_path / "results" / "quick" / "kernels.json").read_text())["quick"]
    done = run("nothing")
    assert done.returncode == 2
    assert "there is no benchmark 'nothing'" in done.stderr


@pytest.mark.slow
def test_the_lines_of_a_gpu_run_with_torch_on_the_cpu(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="no torch here, so there is nothing to measure")
    out = tmp_path / "gpu.json"
    assert gpu.main(["--device", "cpu", "--quick", "--lines", "lists", "defaults", "--out", str(out)]) == 0
    report = json.loads(out.read_text())
    assert not report["remarks"]
    assert len(report["lines"]) == 2


def test_every_benchmark_and_rival_can_be_named() -> None:
    for name in BENCHMARKS:
        assert callable(runner(name)), name
    for name in rivals.MODULES:
        reason = rivals.missing(name)
        assert reason is None or "python -m benchmarks.install_rivals" in reason, name


# -- the gate ----------------------------------------------------------------------------------------------


def test_the_gate_says_what_is_better_and_worse() -> None:
    before = gate.Figures([0.50, 0.60], 10.0, [0.5, 0.5], 5.0)
    for now, wanted in (
        (before, ("equal", "equal")),
        (gate.Figures([0.51, 0.61], 16.0, [0.5, 0.5], 5.0), ("better", "worse")),
        # One draw gains what the other loses; a machine of half the speed takes twice as long for both.
        (gate.Figures([0.55, 0.55], 20.0, [0.5, 0.5], 10.0), ("equal", "equal")),
        (gate.Figures([0.49, 0.59], 2.0, [0.5, 0.5], 5.0), ("worse", "better")),
    ):
        assert gate.verdict(now, before) == wanted, now


def test_the_gate_stores_its_figures_after_each_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "gate.json"

    def store(report: Report) -> None:
        path.write_text(json.dumps(report.as_json()))

    def stopped() -> gate.Figures:
        raise KeyboardInterrupt

    options = Options(store=store, before=tmp_path)
    first = {"yeast": (1, lambda: gate.Figures([0.6], 2.0, [0.5], 1.0))}
    gate.run_jobs(first, options)
    others = {"scene": (1, lambda: gate.Figures([0.7], 2.0, [0.6], 1.0)), "bibtex": (1, stopped)}
    with pytest.raises(KeyboardInterrupt):
        gate.run_jobs(others, options)
    figures, lines = gate.stored(path)
    assert set(figures) == set(lines) == {"yeast", "scene"}
    gate.run_jobs({"yeast": (1, lambda: gate.Figures([0.5], 9.0, [0.5], 1.0))}, options)
    assert "yeast: 0.5000 against 0.5000; before 0.6000, 2.00 x: metric worse, time worse" in (
        capsys.readouterr().out
    )
    assert gate.stored(path)[0]["yeast"].values == [0.5]
    # The sets, each in the quick half or in the other one.
    assert set(gate.jobs(quick=True)) < set(gate.jobs(quick=False)) == {
        "emotions", "yeast", "scene", "bibtex", "corel5k", "cal500", "enron", "genbase", "tox21", "sider",
        "coat", "anime", "citeulike",
    }  # fmt: skip


def test_the_other_side_of_the_gate_against_plain_formulas() -> None:
    rng = np.random.default_rng(0)
    scores, truth = np.round(rng.normal(size=40), 1), (rng.random(40) < 0.4).astype(float)
    found = {t: f1_score(truth, scores >= t) for t in scores}
    assert gate.best_f1(scores, truth) == pytest.approx((max(found.values()), max(found, key=found.get)))


# -- lists -------------------------------------------------------------------------------------------------


def test_lists_and_their_measures_against_plain_formulas() -> None:
    rng = np.random.default_rng(0)
    held = sp.csr_array((rng.random((6, 25)) < 0.2).astype(float))
    lists = np.array([rng.permutation(25)[:20] for _ in range(6)])
    relevance = np.array(
        [[np.flatnonzero(row == j)[0] if j in row else 99 for j in range(25)] for row in lists]
    )
    there = np.flatnonzero(held.sum(axis=1) > 0)
    expected = ndcg_score(held.toarray()[there], -relevance[there], k=20)
    assert ranking.ndcg(lists, held) == pytest.approx(expected)
    found = [held.toarray()[user, lists[user]].sum() / held.toarray()[user].sum() for user in there]
    assert ranking.recall(lists, held) == pytest.approx(np.mean(found))
    factors = ranking.Scores(rng.normal(size=(6, 2)), rng.normal(size=(25, 2)), rng.normal(size=25))
    plain = np.where(held.toarray() > 0, -np.inf, factors.users @ factors.items.T + factors.intercepts)
    expected_lists = np.argsort(-plain, axis=1)[:, :10]
    np.testing.assert_array_equal(ranking.top_lists(factors, held, 10), expected_lists)
    # Lists end where the user has got all other items.
    full = sp.csr_array((np.arange(25) >= 3).astype(float)[None])
    one = ranking.Scores(factors.users[:1], factors.items, factors.intercepts)
    assert set(ranking.top_lists(one, full, 5)[0, 3:]) == {-1}


@pytest.mark.parametrize("shape", [(30, 25), (25, 30)], ids=["by items", "by users"])
def test_item_models_against_plain_formulas(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    # Blocks of three rows.
    monkeypatch.setattr(ranking, "_BLOCK", 100)
    X = sp.csr_array((np.random.default_rng(0).random(shape) < 0.3).astype(float))
    dense, n = X.toarray(), shape[1]

    def scores(model: ranking.Scorer) -> np.ndarray:
        return np.concatenate([model.of(users) for users in ranking.blocks(*shape)])

    P = np.linalg.inv(dense.T @ dense + 5 * np.eye(n))
    B = -P / np.diag(P)
    np.fill_diagonal(B, 0.0)
    np.testing.assert_allclose(scores(item_models.ease(X, 5.0)), dense @ B, atol=1e-10)

    lengths = np.sqrt(dense.sum(axis=0))
    cosines = dense.T @ dense / (np.outer(lengths, lengths) + 2.0)
    np.fill_diagonal(cosines, 0.0)
    kept = np.where(cosines >= np.sort(cosines, axis=0)[-4], cosines, 0.0)
    found = item_models.nearest(X, 4, 2.0).toarray()
    # Of equal ones either may be kept.
    assert (np.count_nonzero(found, axis=0) <= 4).all()
    np.testing.assert_allclose(np.sort(found, axis=0)[-4:], np.sort(kept, axis=0)[-4:])
    np.testing.assert_allclose(scores(item_models.neighbours(X, 4, 2.0)), dense @ found)

    l1, l2 = 0.5, 2.0
    model = ElasticNet(
        alpha=(l1 + l2) / shape[0], l1_ratio=l1 / (l1 + l2), positive=True, fit_intercept=False, tol=1e-10
    )
    weights = np.zeros((n, n))
    for item in range(n):
        others = np.arange(n) != item
        weights[others, item] = model.fit(dense[:, others], dense[:, item]).coef_
    np.testing.assert_allclose(item_models.slim(X, n, l1, l2).weights.toarray(), weights, atol=1e-3)


# -- the harness -------------------------------------------------------------------------------------------


def test_jobs_take_turns_and_bounds_are_the_longer_of_traffic_and_arithmetic() -> None:
    order: list[str] = []
    harness.take_turns({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 2)
    assert order == ["a", "b"] * 3
    assert BOUNDS.seconds(n_bytes=2e10, flops=1e10) == (1.0, "memory")
    assert BOUNDS.seconds(n_bytes=0.0, flops=1e11) == (2.0, "float64 GEMM")
    peak, found = harness.peak_of(lambda: np.ones(1 << 23).sum())
    assert found == 1 << 23
    assert peak > 6e7


def test_generated_data_are_what_they_say() -> None:
    train, test = data.make_ratings((60, 40), 500, 50)
    assert (len(train), len(test)) == (500, 50)
    pairs = {(u, i) for part in (train, test) for u, i in zip(part.users, part.items, strict=True)}
    assert len(pairs) == 550, "no pair is rated twice"
    one = data.generate(300, 100, 60, 40)
    assert (one.X.shape, one.Y_test.shape) == ((300, 60), (100, 40))
    assert np.mean(~np.isnan(one.Y)) == pytest.approx(data.OBSERVED, abs=0.02)
    assert 0.005 < one.Y_test.mean() < 0.06
    X, Y = data.make_labels(200, 50, 9, 8, 0.3, 3)
    assert (X.shape, Y.shape) == ((200, 50), (200, 9))
    assert X.nnz == pytest.approx(200 * 8, rel=0.1)
    assert np.mean(~np.isnan(Y)) == pytest.approx(0.3, abs=0.03)
    assert 0.05 < np.nanmean(Y) < 0.4
    likes = data.make_likes((50, 30), 400)
    assert likes.shape == (50, 30)
    assert likes.max() == 1


def test_the_page_takes_the_figures_of_a_folder(tmp_path: Path) -> None:
    lines = [Line("a fit", "10 x 10", 0.5, 2.0, "x rival", "≤ 1", False, 0.1, "memory", "one run")]
    report = Report("kernels", "Kernels", "How.", lines, ["a remark"], BOUNDS)
    (tmp_path / "kernels.json").write_text(json.dumps(report.as_json()))
    made = page.filled("before\n<!-- kernels -->\nold\n<!-- /kernels -->\nafter", tmp_path)
    assert made.startswith("before\n")
    assert made.endswith("after")
    assert "old" not in made
    assert "| a fit (one run) | 10 x 10 | 0.5 | 2 x rival | ≤ 1 | no | 0.1 s (memory) |" in made
    assert "- a remark" in made
    assert page.filled(made, tmp_path) == made
    # Those of another processor have a place of their own.
    (tmp_path / "aarch64").mkdir()
    (tmp_path / "kernels.json").rename(tmp_path / "aarch64" / "kernels.json")
    place = "<!-- {0} -->\nold\n<!-- /{0} -->"
    made = page.filled(place.format("kernels") + "\n" + place.format("aarch64/kernels"), tmp_path)
    assert made.startswith(place.format("kernels"))
    assert made.count("old") == 1


def test_the_documented_figures_are_those_of_the_results() -> None:
    written = page.PAGE.read_text()
    assert page.filled(written) == written
