"""Short names for what a fit is given, by its contents, so that two fits can be told apart."""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Mapping, Set
from typing import Any

import numpy as np
import scipy.sparse as sp

from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional

_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_FUNCTIONS = (types.FunctionType, types.MethodType)


def described(value: Any) -> str:
    """A setting, for a person if it is short and says all, else by its type and contents.

    Examples
    --------
    >>> described("micro-f1"), described([0.1, 0.2])
    ("'micro-f1'", 'list 4c5f5bb5db5111ba')
    """
    if value is np.random:
        return described(None)
    if isinstance(value, (*_PLAIN, LinearFractional)):
        return repr(value)
    return f"{type(value).__name__} {digest(value)}"


def digest(*parts: Any) -> str:
    """A short name for the contents of arrays, sparse matrices, labels, functions and objects."""
    found = hashlib.sha256()
    for part in parts:
        _add(found, part, {})
    return found.hexdigest()[:16]


def _add(found: Any, part: Any, seen: dict[int, Any]) -> None:
    found.update(f"<{type(part).__name__}>".encode())
    if id(part) in seen:
        # Objects may lead back to themselves.
        return
    seen[id(part)] = part
    for inner in _contents(part):
        if isinstance(inner, memoryview):
            found.update(inner)
        elif isinstance(inner, _PLAIN):
            found.update(f"{inner!r};".encode())
        else:
            _add(found, inner, seen)


def _contents(part: Any) -> list[Any]:
    """What a value is made of: plain values, bytes of arrays, and other values."""
    if isinstance(part, _PLAIN):
        return [part]
    if isinstance(part, np.generic):
        return [part.item()]
    if isinstance(part, np.ndarray):
        if part.dtype.hasobject:
            return [part.shape, *part.ravel().tolist()]
        return [part.dtype.str, part.shape, np.ascontiguousarray(part).reshape(-1).view(np.uint8).data]
    if sp.issparse(part):
        rows = sp.csr_array(part)
        return [rows.shape, rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data]
    if isinstance(part, ObservedLabels):
        places = [part.shape, part.unobserved, part.indptr, part.indices, part.row_names, part.label_names]
        return [*places, part.values, part.weights, part.offsets]
    if isinstance(part, np.random.RandomState):
        return list(part.get_state(legacy=True))
    if isinstance(part, Mapping):
        return [len(part), *(one for pair in part.items() for one in pair)]
    if isinstance(part, Set):
        return sorted(part, key=repr)
    if isinstance(part, (list, tuple)):
        return [len(part), *part]
    if hasattr(part, "__array__"):
        # A Series or a frame; with the names by which its numbers may be looked up.
        names = [list(getattr(part, side)) for side in ("index", "columns") if hasattr(part, side)]
        return [np.asarray(part), *names]
    return _of_code(part)


def _of_code(part: Any) -> list[Any]:
    if isinstance(part, functools.partial):
        return [part.func, part.args, part.keywords]
    if isinstance(part, types.CodeType):
        return [part.co_code, part.co_names, list(part.co_consts)]
    if isinstance(part, _FUNCTIONS):
        owner = getattr(part, "__self__", None)
        function = getattr(part, "__func__", part)
        around = [_held(cell) for cell in function.__closure__ or ()]
        return [part.__qualname__, function.__code__, function.__defaults__, around, owner]
    if isinstance(part, type) or (callable(part) and not hasattr(part, "__dict__")):
        return [getattr(part, "__module__", ""), getattr(part, "__qualname__", "")]
    attributes = sorted(getattr(part, "__dict__", {}).items())
    return [type(part).__qualname__, *(one for pair in attributes for one in pair)]


def _held(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        # A name that has no value yet.
        return None
