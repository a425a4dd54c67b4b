"""Which device the work runs on, how much memory is free there, and whether Triton can be used.

``device`` is "cpu" (numpy and numba), "cuda" or "cuda:1" (torch on a GPU), or "auto". The name "torch-cpu" is
for tests: torch's tensors on the CPU, which run the same code as a GPU does without its kernels.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeVar, cast

from labelgap.exceptions import DeviceMemoryError, InvalidParameterError, MissingExtraError

Launch = TypeVar("Launch", bound=Callable[..., Any])

TORCH_ON_CPU = "torch-cpu"
# The fraction of the free memory that the work may plan with; the allocator needs some air.
_USABLE = 0.85
# What torch's tensors on the CPU may take for blocks of work.
_CPU_BLOCKS = 1 << 28
# Scores from which on it is worth to send a model to a GPU for predictions.
_MANY_SCORES = 1 << 27
# Bytes of one block of work, at most: larger ones are no faster.
_LARGEST_BLOCK = 1 << 30


def has_torch() -> bool:
    """Whether torch is installed; it is not imported."""
    return importlib.util.find_spec("torch") is not None


@cache
def has_cuda() -> bool:
    """Whether torch is installed and sees a GPU."""
    if not has_torch():
        return False
    import torch

    return bool(torch.cuda.is_available())


@cache
def has_triton() -> bool:
    """Whether Triton can be imported."""
    return importlib.util.find_spec("triton") is not None


def runs_triton(tensor: Any) -> bool:
    """Whether Triton's kernels run on this tensor: it is on a GPU, and Triton is there.

    ``LABELGAP_TRITON=0`` turns them off, for a comparison with plain torch.
    """
    return bool(tensor.is_cuda) and has_triton() and os.environ.get("LABELGAP_TRITON", "1") != "0"


def on_its_device(launch: Launch) -> Launch:
    """A function that starts kernels, made to start them on the device of its first tensor."""

    @wraps(launch)
    def run(*args: Any, **options: Any) -> Any:
        import torch

        first = next(part for part in args if isinstance(part, torch.Tensor | tuple))
        with torch.cuda.device_of(first[0] if isinstance(first, tuple) else first):
            return launch(*args, **options)

    return cast(Launch, run)


def check_device(device: Any) -> None:
    """Raise unless ``device`` names a device."""
    known = isinstance(device, str) and re.fullmatch(r"auto|cpu|cuda(:\d+)?|" + TORCH_ON_CPU, device)
    if not known:
        raise InvalidParameterError(
            f"device must be 'auto', 'cpu', 'cuda' or 'cuda:' and a number, such as 'cuda:1'; got {device!r}."
        )


def torch_device(device: str) -> Any:
    """The torch device of a name other than "cpu" and "auto", or an error that says what is missing."""
    if not has_torch():
        raise MissingExtraError(
            f"device={device!r} needs torch, which is not installed. Install it with "
            "pip install 'labelgap[gpu]', or set device='cpu'."
        )
    import torch

    if device == TORCH_ON_CPU:
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise InvalidParameterError(
            f"device={device!r}, but torch {torch.__version__} finds no GPU on this machine. Set "
            "device='auto' or 'cpu', or install a torch that is built for the GPU."
        )
    _, _, number = device.partition(":")
    count = torch.cuda.device_count()
    if number and int(number) >= count:
        raise InvalidParameterError(
            f"device={device!r}, but there {'is' if count == 1 else 'are'} {count} "
            f"GPU{'' if count == 1 else 's'}, counted from 0."
        )
    return torch.device("cuda", int(number) if number else torch.cuda.current_device())


def prediction_device(device: str, n_scores: float) -> Any:
    """The torch device that predictions run on; None is the CPU.

    A model that was fitted on a GPU can be used where there is none: its scores are the same to rounding.
    "auto" is a GPU where there is one and the scores are many.
    """
    if device == TORCH_ON_CPU and has_torch():
        return torch_device(device)
    # A GPU is asked for last, since that imports torch.
    if device == "cpu" or (device == "auto" and n_scores < _MANY_SCORES) or not has_cuda():
        return None
    return torch_device("cuda" if device == "auto" else device)


def free_bytes(device: Any) -> int:
    """The memory that can still be allocated on a device, with what torch holds but does not use."""
    if device.type != "cuda":
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    import torch

    free, _ = torch.cuda.mem_get_info(device)
    held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(free + held)


def block_bytes(device: Any) -> int:
    """The bytes of one block of work: a small part of what is free, so that several arrays fit."""
    if device.type != "cuda":
        return _CPU_BLOCKS
    return max(1 << 22, min(_LARGEST_BLOCK, int(_USABLE * free_bytes(device)) // 16))


def require_memory(device: Any, n_bytes: float, what: str) -> None:
    """Raise if work that needs about so much memory cannot fit on the device."""
    free = free_bytes(device)
    if n_bytes > _USABLE * free:
        raise DeviceMemoryError(
            f"{what} needs about {n_bytes / 1e9:.3g} GB on {device}, where {free / 1e9:.3g} GB are free. "
            "Use fewer entries or a smaller rank, free memory on the device, or set device='cpu'."
        )


def memory_error(error: BaseException) -> DeviceMemoryError | None:
    """The error to raise in place of torch's own where a device has run out of memory; None for another."""
    kind = type(error)
    if kind.__name__ != "OutOfMemoryError" or kind.__module__.split(".")[0] != "torch":
        return None
    import torch

    asked = re.search(r"Tried to allocate ([\d.]+) (\w+)", str(error))
    more = float(asked[1]) * _UNITS.get(asked[2], 1.0) if asked is not None else 0.0
    free, total = torch.cuda.mem_get_info()
    needed = torch.cuda.memory_allocated() + more
    return DeviceMemoryError(
        f"The work needs at least {needed / 1e9:.3g} GB on a GPU of {total / 1e9:.3g} GB, where "
        f"{free / 1e9:.3g} GB are free. Use fewer entries or a smaller rank, free memory on the device, or "
        "set device='cpu'."
    )


_UNITS = {"bytes": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
