"""Triton's kernels for the best items: the largest score of every block of items, scores of some blocks."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from labelgap.kernels.gpu.device import on_its_device
from labelgap.kernels.gpu.losses import Tensor
from labelgap.kernels.gpu.top import BLOCK

# Users of one program, and its warps and stages.
_USERS, _WARPS, _STAGES = 128, 8, 3
# Blocks of items that one program meets.
_BLOCKS_EACH = 256


@triton.jit
def _maxima_kernel(
    users_ptr, items_ptr, intercept_ptr, out_ptr, n_users, n_blocks, k, blocks_each,
    USERS: tl.constexpr, ITEMS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Some users against some blocks; the result is written blocks x users."""
    user = tl.program_id(0) * USERS + tl.arange(0, USERS)
    column = tl.arange(0, K)
    inside = column < k
    own = tl.load(
        users_ptr + user.to(tl.int64)[:, None] * k + column[None, :],
        mask=(user < n_users)[:, None] & inside[None, :],
        other=0.0,
    )
    first = tl.program_id(1) * blocks_each
    for block in range(first, min(first + blocks_each, n_blocks)):
        item = (tl.zeros((ITEMS,), dtype=tl.int64) + block) * ITEMS + tl.arange(0, ITEMS)
        q = tl.load(items_ptr + item[None, :] * k + column[:, None], mask=inside[:, None], other=0.0)
        z = tl.dot(own, q, input_precision="tf32") + tl.load(intercept_ptr + item)[None, :]
        place = (tl.zeros((USERS,), dtype=tl.int64) + block) * n_users + user
        tl.store(out_ptr + place, tl.max(z, axis=1), mask=user < n_users)


@triton.jit
def _scores_kernel(
    users_ptr, items_ptr, intercept_ptr, blocks_ptr, out_ptr, n_chosen, k,
    ITEMS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """The scores of one user for the items of one block, in single precision."""
    user = tl.program_id(0).to(tl.int64)
    number = tl.program_id(1)
    block = tl.load(blocks_ptr + user * n_chosen + number)
    column = tl.arange(0, K)
    inside = column < k
    own = tl.load(users_ptr + user * k + column, mask=inside, other=0.0)
    item = block * ITEMS + tl.arange(0, ITEMS)
    q = tl.load(items_ptr + item[:, None] * k + column[None, :], mask=inside[None, :], other=0.0)
    z = tl.sum(q * own[None, :], axis=1) + tl.load(intercept_ptr + item)
    tl.store(out_ptr + (user * n_chosen + number) * ITEMS + tl.arange(0, ITEMS), z)


@on_its_device
def block_maxima(users: Tensor, items: Tensor, intercept: Tensor) -> Tensor:
    """The largest score of every block, users x blocks; the items fill whole blocks."""
    n_users, k = users.shape
    n_blocks = len(items) // BLOCK
    out = torch.empty((n_blocks, n_users), dtype=torch.float32, device=users.device)
    if out.numel():
        grid = (triton.cdiv(n_users, _USERS), triton.cdiv(n_blocks, _BLOCKS_EACH))
        _maxima_kernel[grid](
            users.contiguous(), items, intercept, out, n_users, n_blocks, k, _BLOCKS_EACH,
            USERS=_USERS, ITEMS=BLOCK, K=max(16, triton.next_power_of_2(k)),
            num_warps=_WARPS, num_stages=_STAGES,
        )  # fmt: skip
    return out.T


@on_its_device
def scores_of_blocks(users: Tensor, items: Tensor, intercept: Tensor, blocks: Tensor) -> Tensor:
    """The scores of the items of each user's blocks, users x (blocks · BLOCK)."""
    n_users, k = users.shape
    n_chosen = blocks.shape[1]
    out = torch.empty((n_users, n_chosen * BLOCK), dtype=torch.float32, device=users.device)
    if out.numel():
        _scores_kernel[(n_users, n_chosen)](
            users.contiguous(), items, intercept, blocks.contiguous(), out, n_chosen, k,
            ITEMS=BLOCK, K=max(16, triton.next_power_of_2(k)), num_warps=4,
        )  # fmt: skip
    return out
