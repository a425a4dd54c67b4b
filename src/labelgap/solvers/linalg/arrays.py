"""What the solvers need of arrays beside the array API: their precision and layout, random ones, the host."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import array_api_compat.numpy
import numpy as np
from array_api_compat import array_namespace, device, is_numpy_array, to_device
from numpy.typing import NDArray

Array: TypeAlias = Any
"""An array of the objective's namespace and precision."""


def namespace(array: Array) -> Any:
    """The array's namespace. numpy's is found without a search, which small problems would notice."""
    return array_api_compat.numpy if isinstance(array, np.ndarray) else array_namespace(array)


def rounding(array: Array) -> float:
    """The distance from 1 to the next number in the array's precision."""
    return float(namespace(array).finfo(array.dtype).eps)


def smallest(array: Array) -> float:
    """The smallest positive number with all its digits, in the array's precision."""
    return float(namespace(array).finfo(array.dtype).smallest_normal)


def contiguous(array: Array) -> Array:
    """As it would be read from a file: how numbers lie in memory decides the last bit of products."""
    if is_numpy_array(array):
        return np.ascontiguousarray(array)
    return array_namespace(array).stack([array])[0, ...]


def host(array: Array) -> NDArray[Any]:
    """The array as one of numpy's, for a file."""
    return np.asarray(to_device(array, "cpu"))


def like(array: Array, example: Array) -> Array:
    """The array in the namespace, precision and device of another; itself if it is there already."""
    if isinstance(array, np.ndarray) and isinstance(example, np.ndarray) and array.dtype == example.dtype:
        return array
    xp = array_namespace(example)
    return xp.asarray(array, dtype=example.dtype, device=device(example))


def standard_normal(generator: Any, shape: tuple[int, int], example: Array) -> Array:
    """Random numbers of a generator of numpy's: the same ones whatever the namespace."""
    return like(generator.standard_normal(shape), example)


def zeros_like(array: Array) -> Array:
    return namespace(array).zeros_like(array)


def dot(a: Array, b: Array) -> float:
    """``Σ a_ij b_ij``, for arrays of one shape."""
    return float(inner(a, b))


def inner(a: Array, b: Array) -> Array:
    """The same without waiting for the number to arrive."""
    if isinstance(a, np.ndarray):
        return np.vdot(a, b)
    xp = array_namespace(a, b)
    return xp.vecdot(xp.reshape(a, (-1,)), xp.reshape(b, (-1,)))


def norm(a: Array) -> float:
    """``√Σ a_ij²``."""
    return math.sqrt(dot(a, a))


def column_squares(M: Array) -> Array:
    """The squared length of every column."""
    return namespace(M).sum(M * M, axis=0)
