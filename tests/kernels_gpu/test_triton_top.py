"""Triton's kernels for the best items, in its interpreter or on a GPU, against plain torch."""

from __future__ import annotations

import numpy as np
import pytest

from triton_runs import needs_triton, place

pytestmark = [pytest.mark.torch, needs_triton]


def test_maxima_and_scores_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from labelgap.kernels.gpu import triton_top
    from labelgap.kernels.gpu.top import BLOCK, TopSearch

    rng = np.random.default_rng(0)
    device = torch.device(place())
    search = TopSearch(rng.standard_normal((3 * BLOCK - 10, 5)), rng.standard_normal(3 * BLOCK - 10), device)
    users = torch.as_tensor(rng.standard_normal((7, 5)), dtype=torch.float32, device=device)
    blocks = torch.tensor([[0, 2]] * 7, device=device)
    monkeypatch.setattr("labelgap.kernels.gpu.top.runs_triton", lambda tensor: False)
    maxima, scores = search.maxima(users), search._scores(users, blocks)
    found = triton_top.block_maxima(users, search.items, search.intercept)
    # The sweep is in TF32 on a GPU.
    assert float((found - maxima).abs().max()) <= 2e-2
    exact = triton_top.scores_of_blocks(users, search.items, search.intercept, blocks)
    finite = torch.isfinite(scores)
    assert bool(torch.all(torch.isfinite(exact) == finite))
    assert float((exact - scores)[finite].abs().max()) <= 1e-5
