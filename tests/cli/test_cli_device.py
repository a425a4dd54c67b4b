"""``--device`` in the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_runs import QUICK, error_of, run, run_json

import labelgap
from labelgap.kernels.gpu.device import has_cuda, has_torch

TAGS = ("--labels", "tag_*")
no_torch = pytest.mark.skipif(not has_torch(), reason="no torch here, so there is no device")


def test_a_fit_on_the_cpu_says_so_in_the_model() -> None:
    run("fit", "articles.csv", *TAGS, *QUICK, "--device", "cpu", "--out", "m.labelgap")
    assert labelgap.load("m.labelgap").device == "cpu"


@no_torch
def test_predictions_on_a_device(fitted: dict[str, Path]) -> None:
    plain = run("predict", fitted["articles"], "new_articles.csv").stdout
    assert run("predict", fitted["articles"], "new_articles.csv", "--device", "torch-cpu").stdout == plain
    best = run_json("recommend", fitted["films"], "--user", "u1")
    assert run_json("recommend", fitted["films"], "--user", "u1", "--device", "torch-cpu") == best


@pytest.mark.parametrize(
    "command", [("fit", "articles.csv", *TAGS), ("predict", "MODEL", "new_articles.csv")]
)
def test_a_device_that_is_none(command: tuple[str, ...], fitted: dict[str, Path]) -> None:
    words = [fitted["articles"] if word == "MODEL" else word for word in command]
    assert "device must be 'auto', 'cpu', 'cuda'" in error_of(*words, "--device", "tpu")


@pytest.mark.skipif(has_cuda(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there(fitted: dict[str, Path]) -> None:
    told = error_of("recommend", fitted["films"], "--user", "u1", "--device", "cuda")
    assert "finds no GPU" in told or "needs torch" in told
