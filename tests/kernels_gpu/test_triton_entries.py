"""Triton's kernels over observed entries, in its interpreter or on a GPU, against plain torch."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from triton_runs import needs_triton, place

pytestmark = [pytest.mark.torch, needs_triton]

# Factors of one segment and of several.
CASES = [(7, 5, 3), (40, 6, 5), (3, 4, 1), (1, 1, 8), (4, 5, 70)]


def problem(n: int, n_labels: int, k: int, dtype: str) -> tuple[Any, Any]:
    """A pattern with an empty row, an empty label and, with a small piece, rows of several pieces."""
    import torch

    from labelgap.kernels.gpu.pattern import TensorPattern

    rng = np.random.default_rng(n)
    seen = rng.random((n, n_labels)) < 0.7
    if n > 2:
        seen[1], seen[:, -1], seen[0] = False, False, True
    indptr = np.append(0, np.cumsum(seen.sum(axis=1)))
    pattern = TensorPattern(indptr, np.nonzero(seen)[1], n_labels, place())
    kind = getattr(torch, dtype)

    def tensor(*shape: int) -> Any:
        return torch.as_tensor(rng.standard_normal(shape), dtype=kind, device=place())

    return pattern, tensor


def close(mine: Any, theirs: Any, dtype: str) -> None:
    relative = 1e-12 if dtype == "float64" else 2e-5
    mine, theirs = (np.asarray(part.cpu()) for part in (mine, theirs))
    assert_allclose(mine, theirs, rtol=relative, atol=relative * max(float(np.abs(theirs).max(initial=0)), 1))


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of more than four entries have several pieces, and what is compared with is plain torch."""
    monkeypatch.setattr("labelgap.kernels.gpu.pattern.PIECE", 4)
    monkeypatch.setenv("LABELGAP_TRITON", "0")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products(dtype: str) -> None:
    import torch

    from labelgap.kernels.gpu import triton_entries

    for n, n_labels, k in CASES:
        pattern, tensor = problem(n, n_labels, k, dtype)
        P, Q, data = tensor(n, k), tensor(n_labels, k), tensor(len(pattern))
        S = torch.zeros((n, n_labels), dtype=P.dtype, device=P.device)
        rows, columns = pattern.by_row.rows_of(0, len(pattern)), pattern.by_row.indices.long()
        S[rows, columns] = data
        close(triton_entries.dots(pattern.by_row, P, Q), (P @ Q.T)[rows, columns], dtype)
        by_row = triton_entries.product(pattern.by_row, data, Q)
        close(by_row, S @ Q, dtype)
        ordered = pattern.in_label_order(data)
        close(triton_entries.product(pattern.by_label, ordered, P), S.T @ P, dtype)
        close(triton_entries.sums(pattern.by_label, ordered), S.sum(dim=0), dtype)
        assert bool(torch.all(by_row == triton_entries.product(pattern.by_row, data, Q)))


YES_NO = ["logistic", "squared", "squared_hinge", "exponential"]
LOSS_CASES = [
    *itertools.product(YES_NO, (False, True), ("float32", "float64"), [(20, 6, 5)]),
    *((name, True, "float64", (12, 5, 3)) for name in ("gaussian", "poisson", "bernoulli")),
]


def test_losses() -> None:
    import torch

    from labelgap.kernels.gpu import triton_entries
    from labelgap.kernels.gpu.losses import torch_loss
    from labelgap.kernels.gpu.passes import EntryData, WeightedEntries
    from labelgap.losses import FAMILIES, get_loss

    for name, weighted, dtype, (n, n_labels, k) in LOSS_CASES:
        pattern, tensor = problem(n, n_labels, k, dtype)
        P, Q, b = tensor(n, k), tensor(n_labels, k), tensor(n_labels)
        if name in FAMILIES:
            loss = torch_loss(FAMILIES[name]())
            y = torch.abs(tensor(len(pattern)))
            targets = y / (1 + y) if name == "bernoulli" else y
        else:
            loss = torch_loss(get_loss(name))
            targets = (tensor(len(pattern)) > 0).to(torch.int8)
        more = (torch.abs(tensor(len(pattern))), tensor(len(pattern))) if weighted else (None, None)
        data = EntryData(targets, *more, 0.01)
        assert loss is not None
        entries = WeightedEntries(loss, pattern, data)
        low_rank = pattern.by_row.dots(P, Q)
        value, slopes = entries.value_and_slopes(low_rank, b)
        found = triton_entries.loss_pass(pattern.by_row, P, Q, data, loss.code, others_shift=b)
        relative = 1e-10 if dtype == "float64" else 1e-5
        assert found.value + entries.constant == pytest.approx(value, rel=relative), (name, weighted, dtype)
        close(found.low_rank, low_rank, dtype)
        close(found.slopes, slopes, dtype)
        close(found.product, pattern.by_row.product(slopes, Q), dtype)
        expected = entries.label_pass(P, Q, b, low_rank, slopes)
        options: dict[str, Any] = {"own_shift": b, "entries_wanted": False, "sums": True}
        by_label = triton_entries.loss_pass(pattern.by_label, Q, P, entries.by_label, loss.code, **options)
        assert by_label.slopes is None
        close(by_label.product, expected.product, dtype)
        close(by_label.sums, expected.sums, dtype)


def test_products_with_the_hessian() -> None:
    from labelgap.kernels.gpu import triton_pairs
    from labelgap.kernels.gpu.passes import pair_pass

    for (n, n_labels, k), shifts in itertools.product(CASES, ("own", "others", "none")):
        pattern, tensor = problem(n, n_labels, k, "float64")
        factors = tensor(n, k), tensor(n, k), tensor(n_labels, k), tensor(n_labels, k)
        data = tensor(len(pattern)), tensor(len(pattern))
        options = {
            "own_shift": tensor(n) if shifts == "own" else None,
            "others_shift": tensor(n_labels) if shifts == "others" else None,
        }
        expected = pair_pass(pattern.by_row, *factors, *data, **options)
        product, sums = triton_pairs.pair_pass(pattern.by_row, factors, data, **options)
        close(product, expected.product, "float64")
        close(sums, expected.sums, "float64")
