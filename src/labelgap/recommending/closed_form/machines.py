"""The machine that a decomposition runs on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labelgap.kernels.gpu.device import has_cuda, torch_device
from labelgap.recommending.closed_form.matrix import ScaledLikes
from labelgap.recommending.closed_form.settings import Ratings

# Ratings from which on it is worth to send them to a GPU.
_WORTH = 200_000


def place_for(device: str, ratings: Ratings) -> Callable[..., Any]:
    """What makes R on this machine; "auto" is a GPU where there is one and the ratings are many."""
    if device == "cpu" or (device == "auto" and (ratings.labels.n_observed < _WORTH or not has_cuda())):
        return ScaledLikes
    from labelgap.recommending.closed_form.tensors import TensorLikes

    return TensorLikes.on(torch_device("cuda" if device == "auto" else device))
