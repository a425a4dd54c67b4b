"""Where tests of Triton's kernels run: on a GPU, or else in Triton's interpreter on the CPU.

The interpreter is chosen when Triton is first imported, by ``TRITON_INTERPRET=1`` in the environment.
"""

from __future__ import annotations

import importlib.util
import os

import pytest

from labelgap.kernels.gpu.device import has_cuda

if not has_cuda():
    os.environ.setdefault("TRITON_INTERPRET", "1")

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or importlib.util.find_spec("torch") is None,
    reason="Triton is not installed, so its kernels cannot be tried; those in plain torch are",
)


def place() -> str:
    """The device of the tensors."""
    return "cuda" if has_cuda() else "cpu"
