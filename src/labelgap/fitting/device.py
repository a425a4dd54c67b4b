"""The device that a fit runs on, from the parameter ``device`` of an estimator."""

from __future__ import annotations

from typing import Any

from labelgap._types import Floats
from labelgap.kernels.gpu.device import has_cuda, prediction_device, torch_device
from labelgap.labels import ObservedLabels
from labelgap.losses import Loss, Squared
from labelgap.objective.parts import Backend

# Entries from which on a GPU is faster than the cores beside it. A step on a GPU is dozens of small pieces of
# work, each of which takes some microseconds to start whatever its size.
_WORTH = 2_000_000


def backend_for(device: str, labels: ObservedLabels, loss: Loss) -> Backend | None:
    """The machine that a fit runs on; None is the CPU.

    "auto" is a GPU where there is one, the entries that have to be looked at are many, and the loss runs
    there.
    """
    if device == "cpu":
        return None
    if device == "auto":
        # The entries come first: to ask for a GPU imports torch, which takes longer than a small fit.
        if entries_at_work(labels, loss) < _WORTH or not has_cuda() or not _runs_there(loss):
            return None
        device = "cuda"
    place = torch_device(device)
    from labelgap.objective.torch.part import TorchBackend

    return TorchBackend(place)


def entries_at_work(labels: ObservedLabels, loss: Loss) -> int:
    """The entries that one pass of a fit looks at."""
    if labels.unobserved == "unlabelled" and not isinstance(loss, Squared):
        return labels.shape[0] * labels.shape[1]
    return labels.n_observed


def _runs_there(loss: Loss) -> bool:
    from labelgap.kernels.gpu.losses import torch_loss

    return torch_loss(loss) is not None


def device_scores(device: str, X: Any, left: Floats, right: Floats, intercept: Floats) -> Any:
    """The scores ``X left rightᵀ + intercept`` of whole rows on a device; None where the CPU makes them."""
    place = prediction_device(device, float(X.shape[0]) * len(right))
    if place is None:
        return None
    from labelgap.kernels.gpu.scoring import DeviceScores

    return DeviceScores(left, right, intercept, place)


def jobs_for(backend: Any, n_jobs: int | None) -> int | None:
    """Fits side by side: on a GPU one at a time, which has all of its memory."""
    return n_jobs if backend is None else 1
