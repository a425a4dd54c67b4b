"""Names for array types."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
"""Parameters, scores, gradients. Kernels take float32 too; the solvers compute in float64."""
Ints: TypeAlias = NDArray[Any]
"""Indices, of any width."""
