"""Torch tensors among the inputs: they are known by their type's name, so that torch need not be imported."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp


def is_tensor(value: Any) -> bool:
    """Whether a value is a torch tensor."""
    kind = type(value)
    return kind.__module__.split(".")[0] == "torch" and hasattr(value, "detach")


def to_host(value: Any) -> Any:
    """A torch tensor as a numpy array, or as a scipy matrix if it is sparse; anything else as it is."""
    if not is_tensor(value):
        return value
    tensor = value.detach()
    layout = str(tensor.layout)
    if layout == "torch.strided":
        return tensor.cpu().numpy()
    if layout == "torch.sparse_csr":
        parts = (
            part.cpu().numpy() for part in (tensor.values(), tensor.col_indices(), tensor.crow_indices())
        )
        return sp.csr_array(tuple(parts), shape=tuple(tensor.shape))
    stored = tensor.to_sparse_coo().coalesce()
    return sp.coo_array(
        (stored.values().cpu().numpy(), tuple(stored.indices().cpu().numpy())), shape=tuple(stored.shape)
    ).tocsr()


def like_input(result: Any, given: Any) -> Any:
    """A result as a tensor on the device of the input, if that was one; sparse ones stay sparse."""
    if not is_tensor(given):
        return result
    import torch

    if isinstance(result, tuple):
        return tuple(like_input(part, given) for part in result)
    if sp.issparse(result):
        stored = result.tocoo()
        places = torch.from_numpy(np.stack([stored.row, stored.col]).astype(np.int64))
        # Said for all that happens inside, since torch warns where it is not.
        with torch.sparse.check_sparse_tensor_invariants():
            tensor = torch.sparse_coo_tensor(places, torch.from_numpy(stored.data), stored.shape)
    else:
        tensor = torch.from_numpy(np.ascontiguousarray(result))
    return tensor.to(given.device)
