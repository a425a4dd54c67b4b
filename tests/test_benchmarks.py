"""Benchmarks run, at toy size, and the page of figures is made of their results."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import f1_score, ndcg_score

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import gate, page, tables
from benchmarks.catalogue import BENCHMARKS
from benchmarks.growth import QUICK, slope
from benchmarks.harness import Line, Options, Report, take_turns
from benchmarks.machine import Bounds

BOUNDS = Bounds(2, 2e10, 1e11, 5e10)
# The others start many processes, or need data and rivals; `python -m benchmarks --quick` runs them all.
FAST = ("kernels", "thresholds", "top_items", "one_bit", "certified", "implicit")


@pytest.mark.slow
@pytest.mark.parametrize("name", FAST)
def test_a_benchmark_reports_its_figures(name: str) -> None:
    report = importlib.import_module(BENCHMARKS[name]).run(Options(repeats=1, quick=True, threads=1))
    report.bounds = BOUNDS
    answer = json.loads(json.dumps(report.as_json()))
    assert answer["lines"]
    for line in answer["lines"]:
        assert line["seconds"] is None or line["seconds"] >= 0
        assert (line["met"] is None) == (line["target"] == "")
    assert answer["title"]
    assert answer["method"]
    assert answer["lines"][0]["what"] in tables.text_table(answer)


@pytest.mark.slow
def test_the_lines_of_a_gpu_run_with_torch_on_the_cpu(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="no torch here, so there is nothing to measure")
    out = tmp_path / "gpu.json"
    lines = "all-entries,observed,threshold,top,billion"
    command = [sys.executable, "-m", "benchmarks.gpu", "--device", "cpu", "--quick", "--lines", lines]
    folder = Path(__file__).parents[1]
    subprocess.run([*command, "--out", str(out)], check=True, cwd=folder, capture_output=True)
    report = json.loads(out.read_text())
    assert not report["remarks"]
    assert len(report["lines"]) == 9
    assert report["lines"][0]["what"] in tables.text_table(report)


def test_every_benchmark_can_be_imported_and_run() -> None:
    for module in BENCHMARKS.values():
        assert callable(importlib.import_module(module).run)


def test_the_gate_says_what_is_better_and_worse() -> None:
    before = gate.Figures([0.50, 0.60], 10.0, [0.5, 0.5], 5.0)
    assert gate.verdict(before, before) == ("equal", "equal")
    assert gate.verdict(gate.Figures([0.51, 0.61], 16.0, [0.5, 0.5], 5.0), before) == ("better", "worse")
    # One draw gains what the other loses; a machine of half the speed takes twice as long for both.
    assert gate.verdict(gate.Figures([0.55, 0.55], 20.0, [0.5, 0.5], 10.0), before) == ("equal", "equal")
    assert gate.verdict(gate.Figures([0.49, 0.59], 2.0, [0.5, 0.5], 5.0), before) == ("worse", "better")


def test_the_other_side_of_the_gate_against_plain_formulas() -> None:
    rng = np.random.default_rng(0)
    scores, truth = np.round(rng.normal(size=40), 1), (rng.random(40) < 0.4).astype(float)
    found = {t: f1_score(truth, scores >= t) for t in scores}
    assert gate.best_f1(scores, truth) == pytest.approx((max(found.values()), max(found, key=found.get)))
    X = sp.csr_array((rng.random((30, 25)) < 0.3).astype(float))
    dense, P = X.toarray(), np.linalg.inv(X.toarray().T @ X.toarray() + 5 * np.eye(25))
    B = -P / np.diag(P)
    np.fill_diagonal(B, 0.0)
    wanted = np.argsort(-np.where(dense > 0, -np.inf, dense @ B), axis=1)[:, : gate.N_LIST]
    free = (dense == 0).sum(axis=1)
    for user, row in enumerate(gate.ease_lists(X, 5.0)):
        assert row[: free[user]].tolist() == wanted[user, : free[user]].tolist()
    held = sp.csr_array((rng.random((6, 25)) < 0.2).astype(float))
    lists = np.array([rng.permutation(25)[: gate.N_LIST] for _ in range(6)])
    relevance = np.array(
        [[np.flatnonzero(row == j)[0] if j in row else 99 for j in range(25)] for row in lists]
    )
    there = held.sum(axis=1) > 0
    assert gate.ndcg(lists, held) == pytest.approx(
        ndcg_score(held.toarray()[there], -relevance[there], k=gate.N_LIST)
    )


def test_jobs_take_turns() -> None:
    order: list[str] = []
    take_turns({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 2)
    assert order == ["a", "b"] * 3


def test_a_bound_is_the_longer_of_traffic_and_arithmetic() -> None:
    assert BOUNDS.seconds(n_bytes=2e10, flops=1e10) == (1.0, "memory")
    assert BOUNDS.seconds(n_bytes=0.0, flops=1e11) == (2.0, "float64 GEMM")


def test_growth_has_the_slope_of_its_logarithms() -> None:
    assert slope([1.0, 2.0, 4.0], [3.0, 6.0, 12.0]) == pytest.approx(1.0)
    assert QUICK["n"].grown("n", 4).n == 4 * QUICK["n"].n


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
    places = (
        "<!-- kernels -->\nold\n<!-- /kernels -->\n<!-- aarch64/kernels -->\nold\n<!-- /aarch64/kernels -->"
    )
    made = page.filled(places, tmp_path)
    assert made.startswith("<!-- kernels -->\nold\n<!-- /kernels -->")
    assert made.count("old") == 1


def test_the_documented_figures_are_those_of_the_results() -> None:
    written = page.PAGE.read_text()
    assert page.filled(written) == written
