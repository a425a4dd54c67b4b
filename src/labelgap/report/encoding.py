"""Numbers as text that the page reads back bit by bit: base64 of little-endian arrays, and short integers."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Encoded = dict[str, Any]

_KINDS = {"u1": "<u1", "u2": "<u2", "f8": "<f8"}


def encode_array(values: ArrayLike, kind: str) -> Encoded:
    """An array of one kind: "u1" or "u2" (whole numbers of so many bytes) or "f8" (float64).

    Examples
    --------
    >>> encode_array([1, 258], "u2")
    {'kind': 'u2', 'length': 2, 'data': 'AQACAQ=='}
    """
    array = np.asarray(values).astype(_KINDS[kind])
    return {"kind": kind, "length": int(array.size), "data": _base64(array)}


def encode_whole(values: ArrayLike) -> Encoded:
    """Whole numbers from 0, in one byte each below 128, in two below 16384, and so on (LEB128).

    Examples
    --------
    >>> encode_whole([1, 300])
    {'kind': 'whole', 'length': 2, 'data': 'AawC'}
    """
    numbers = np.asarray(values).astype(np.uint64)
    top = int(numbers.max()) if numbers.size else 0
    n_bytes = np.ones(numbers.size, np.int64)
    bits = 7
    while top >> bits:
        n_bytes += numbers >> np.uint64(bits) > 0
        bits += 7
    ends = np.cumsum(n_bytes)
    text = np.zeros(int(ends[-1]) if numbers.size else 0, np.uint8)
    starts = ends - n_bytes
    for place in range(bits // 7):
        here = np.flatnonzero(n_bytes > place)
        seven = (numbers[here] >> np.uint64(7 * place)).astype(np.uint8) & 0x7F
        more = (n_bytes[here] > place + 1).astype(np.uint8) << 7
        text[starts[here] + place] = seven | more
    return {"kind": "whole", "length": int(numbers.size), "data": _base64(text)}


def encode_bits(values: ArrayLike) -> Encoded:
    """Booleans, eight to a byte, the first in the lowest bit.

    Examples
    --------
    >>> encode_bits([True, False, True])
    {'kind': 'bits', 'length': 3, 'data': 'BQ=='}
    """
    flags = np.asarray(values, dtype=np.bool_)
    return {
        "kind": "bits",
        "length": int(flags.size),
        "data": _base64(np.packbits(flags, bitorder="little")),
    }


def number(value: float) -> float | str | None:
    """A number as JSON can say it: infinities as "inf" and "-inf", NaN as null.

    Examples
    --------
    >>> number(0.1), number(float("-inf")), number(float("nan"))
    (0.1, '-inf', None)
    """
    value = float(value)
    if math.isfinite(value):
        return value
    return None if math.isnan(value) else ("inf" if value > 0 else "-inf")


def _base64(array: NDArray[Any]) -> str:
    return base64.b64encode(array.tobytes()).decode("ascii")
