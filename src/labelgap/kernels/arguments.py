"""Arrays as kernels take them.

A kernel is compiled again for every combination of types of its arguments, and an array that may be written
to is another type than one that may not. Each combination takes as long to compile as the first. So callers
of kernels that are not the bottleneck hand over arrays of one kind.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def read_only(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """The array as C-contiguous numbers of one type that may not be written to; a copy only where needed.

    Examples
    --------
    >>> read_only(np.array([1, 2], np.int64), np.int32).dtype
    dtype('int32')
    """
    view = np.ascontiguousarray(array, dtype=dtype).view()
    view.flags.writeable = False
    return view


def binary_and_real(targets: NDArray[Any], dtype: Any) -> tuple[NDArray[np.int8], NDArray[Any]]:
    """The targets as yes/no labels (int8), or else as numbers of the given type; the other one is empty.

    A kernel that takes both is compiled once for targets of either kind.

    Examples
    --------
    >>> binary_and_real(np.array([0.5, 2.0]), np.float32)
    (array([], dtype=int8), array([0.5, 2. ], dtype=float32))
    """
    if targets.dtype == np.int8:
        return read_only(targets, np.int8), read_only(np.empty(0), dtype)
    return read_only(np.empty(0), np.int8), read_only(targets, dtype)
