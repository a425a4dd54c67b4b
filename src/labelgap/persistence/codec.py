"""Conversion of values to JSON and arrays, and back, for a closed list of types.

None, True, False, text, whole and finite real numbers stand for themselves. Everything else is an object with
one key, which says what it is: ``{"tuple": [1, 2]}``, ``{"array": "coef_left_"}``, ``{"loss": {"name":
"logistic"}}``. The key is looked up in the list; nothing is imported by a name in a file. Long values that
appear in several places are stored once, in a list beside the document: ``{"shared": 0}``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_PLAIN: frozenset[type] = frozenset({type(None), bool, int, str})
_SCALAR = _PLAIN | {float}
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
# Numbers, booleans, times and text of fixed length.
_ARRAY_KINDS = "biufcmMSU"
# Shorter tuples are written where they are, even twice.
_LONG = 8
# Limits on how deep values are nested, and on how much longer the document becomes with each shared value
# written out at every place: without them a small file could stand for tuples of astronomical size.
_DEEPEST, _LONGEST = 20, 100
_Extent = tuple[int, int, int]
"""The levels of a piece of JSON, its number of values, and that number with shared values written out."""


@dataclass(frozen=True)
class Kind:
    """How values of a type are decomposed into parts, and rebuilt from them."""

    name: str
    parts: Callable[[Any], Mapping[str, Any]]
    whole: Callable[[dict[str, Any]], Any]
    shared: bool = False
    """Whether places that hold the same object hold the same object again after loading."""


class CannotSaveError(Exception):
    """A value of a type that is not in the list."""

    def __init__(self, where: str, value: Any) -> None:
        super().__init__(f"{where} is of type {type(value).__name__}")
        self.where, self.value = where, value


class Encoder:
    """Converts values to JSON and collects their ``arrays`` and ``shared`` values.

    Parameters
    ----------
    kind_of : callable
        The kind of a value that is not plain, or None.

    Examples
    --------
    >>> encoder = Encoder(lambda value: None)
    >>> encoder.encode({"a": (1.5, float("inf"))}, "x")
    {'dict': [['a', {'tuple': [1.5, {'float': 'inf'}]}]]}
    >>> encoder.encode(np.zeros(2), "y"), encoder.arrays
    ({'array': 'y'}, {'y': array([0., 0.])})
    """

    def __init__(self, kind_of: Callable[[Any], Kind | None]) -> None:
        self._kind_of = kind_of
        self.arrays: dict[str, NDArray[Any]] = {}
        self.shared: list[Any] = []
        # The value is kept beside its node, because an id() is unique only while the object lives.
        self._seen: dict[int, tuple[Any, Any]] = {}

    def encode(self, value: Any, where: str) -> Any:
        """JSON for the value; its path ``where`` names its arrays, and the place in an error."""
        kind = type(value)
        if kind in _PLAIN or (kind is float and math.isfinite(value)):
            return value
        if kind is float:
            return {"float": str(value)}
        if id(value) in self._seen:
            return self._seen[id(value)][1]
        if kind is np.ndarray:
            return self._remember(value, self._array(value, where))
        if kind is tuple:
            node = {"tuple": self._items(value, where)}
            return self._share(value, node) if len(value) >= _LONG else node
        if kind is list:
            return {"list": self._items(value, where)}
        if kind is dict:
            return {"dict": self._pairs(value, where)}
        return self._object(value, where)

    def _items(self, values: Any, where: str) -> list[Any]:
        # Many thousand ids are mostly plain.
        if _PLAIN.issuperset(map(type, values)):
            return list(values)
        return [self.encode(value, f"{where}.{place}") for place, value in enumerate(values)]

    def _pairs(self, pairs: dict[Any, Any], where: str) -> list[Any]:
        nodes = []
        for number, (key, value) in enumerate(pairs.items()):
            place = f"{where}.{key if type(key) is str and key.isidentifier() else number}"
            if not _is_key(key):
                raise CannotSaveError(place, key)
            nodes.append([self.encode(key, place), self.encode(value, place)])
        return nodes

    def _array(self, array: NDArray[Any], where: str) -> Any:
        if array.dtype == object:
            values = self._items(array.ravel().tolist(), where)
            return {"objects": {"shape": list(array.shape), "values": values}}
        if array.dtype.kind not in _ARRAY_KINDS:
            raise CannotSaveError(where, array)
        self.arrays[where] = array
        return {"array": where}

    def _object(self, value: Any, where: str) -> Any:
        kind = self._kind_of(value)
        if kind is None:
            raise CannotSaveError(where, value)
        prefix = f"{where}." if where else ""
        try:
            taken_apart = kind.parts(value)
        except CannotSaveError as problem:
            raise CannotSaveError(prefix + problem.where, problem.value) from None
        parts = {name: self.encode(part, prefix + name) for name, part in taken_apart.items()}
        node = {kind.name: parts}
        return self._share(value, node) if kind.shared and where else node

    def _share(self, value: Any, node: Any) -> Any:
        self.shared.append(node)
        return self._remember(value, {"shared": len(self.shared) - 1})

    def _remember(self, value: Any, node: Any) -> Any:
        self._seen[id(value)] = (value, node)
        return node


class Decoder:
    """Converts JSON to values. Raises ValueError, TypeError or KeyError where the JSON is not valid.

    Parameters
    ----------
    kinds : mapping from name to Kind
    arrays : mapping from name to array
    shared : list of JSON
        The values that appear in several places; each may refer to those before it.

    Examples
    --------
    >>> decoder = Decoder({}, {"y": np.zeros(2)}, [{"tuple": ["ann"]}])
    >>> decoder.decode({"list": [{"shared": 0}, {"array": "y"}]})
    [('ann',), array([0., 0.])]
    """

    def __init__(
        self, kinds: Mapping[str, Kind], arrays: Mapping[str, NDArray[Any]], shared: list[Any]
    ) -> None:
        self._kinds, self._arrays = kinds, arrays
        self._shared: list[Any] = []
        for node in shared:
            self._shared.append(self.decode(node))

    def decode(self, node: Any) -> Any:
        """The value that the JSON stands for."""
        if type(node) in _SCALAR:
            return node
        if type(node) is not dict or len(node) != 1:
            raise ValueError(f"{_shortened(node)} is no value")
        ((name, content),) = node.items()
        if name in self._kinds:
            parts = {part: self.decode(inner) for part, inner in content.items()}
            return self._kinds[name].whole(parts)
        reader = self._READERS.get(name)
        if reader is None:
            raise ValueError(f"{name!r} is no type of value that is known")
        return reader(self, content)

    def _values(self, nodes: Any) -> list[Any]:
        if type(nodes) is not list:
            raise ValueError(f"{_shortened(nodes)} is no list")
        return [node if type(node) in _SCALAR else self.decode(node) for node in nodes]

    def _dict(self, pairs: Any) -> dict[Any, Any]:
        found = [self._values(pair) for pair in pairs]
        for key, *_ in found:
            if not _is_key(key):
                raise ValueError("a key of a mapping is neither plain nor a tuple of plain values")
        return dict(found)

    def _array(self, name: Any) -> NDArray[Any]:
        if type(name) is not str or name not in self._arrays:
            raise ValueError(f"the array {_shortened(name)} is missing")
        array = self._arrays[name]
        if array.dtype.kind not in _ARRAY_KINDS:
            raise ValueError(f"the array {name!r} holds {array.dtype}")
        return array

    def _objects(self, content: Any) -> NDArray[Any]:
        values = self._values(content["values"])
        array = np.empty(len(values), dtype=object)
        # One by one: numpy would make a matrix of tuples.
        for place, value in enumerate(values):
            array[place] = value
        return array.reshape(content["shape"])

    def _shared_value(self, place: Any) -> Any:
        if type(place) is not int or not 0 <= place < len(self._shared):
            raise ValueError(f"there is no shared value {place!r}")
        return self._shared[place]

    _READERS: Mapping[str, Callable[[Decoder, Any], Any]] = {
        "float": lambda _, name: _FLOATS[name],
        "tuple": lambda self, nodes: tuple(self._values(nodes)),
        "list": lambda self, nodes: self._values(nodes),
        "dict": lambda self, pairs: self._dict(pairs),
        "array": lambda self, name: self._array(name),
        "objects": lambda self, content: self._objects(content),
        "shared": lambda self, place: self._shared_value(place),
    }


def _is_key(key: Any) -> bool:
    """Whether a key is plain, or a tuple of plain values."""
    return all(
        type(part) in _SCALAR or isinstance(part, np.generic)
        for part in (key if type(key) is tuple else (key,))
    )


def check_extent(node: Any, shared: list[Any]) -> None:
    """Raise ValueError if values are nested too deep, or shared values appear in too many places.

    Examples
    --------
    >>> check_extent({"tuple": [{"shared": 0}, {"shared": 0}]}, [{"tuple": [1, 2]}])
    >>> doubled = [{"tuple": [{"shared": place}] * 2} for place in range(15)]
    >>> check_extent({"shared": 15}, [{"tuple": [1, 2]}, *doubled])
    Traceback (most recent call last):
    ValueError: it holds the same values in too many places
    """
    extents: list[_Extent] = []
    for each in [*shared, node]:
        extents.append(_extent(each, extents))
    levels, lengths, written_out = zip(*extents, strict=True)
    if max(levels) > _DEEPEST:
        raise ValueError(f"its values are nested more than {_DEEPEST} levels deep")
    if max(written_out) > _LONGEST * sum(lengths):
        raise ValueError("it holds the same values in too many places")


def _extent(node: Any, shared: list[_Extent]) -> _Extent:
    inner, level = node, 0
    if type(node) is dict:
        place = node.get("shared")
        if len(node) == 1 and type(place) is int and 0 <= place < len(shared):
            levels, _, written_out = shared[place]
            return levels, 1, written_out
        inner, level = list(node.values()), 1
        if len(inner) == 1 and type(inner[0]) is dict:
            # The parts of an object are no level of their own.
            inner = list(inner[0].values())
    elif type(node) is not list:
        return 0, 1, 1
    # Many thousand ids are mostly plain.
    if _SCALAR.issuperset(map(type, inner)):
        return level, 1 + len(inner), 1 + len(inner)
    levels, length, written_out = 0, 1, 1
    for each in inner:
        inner_levels, inner_length, inner_written_out = _extent(each, shared)
        levels = max(levels, inner_levels)
        length += inner_length
        written_out += inner_written_out
    return level + levels, length, written_out


def _shortened(node: Any) -> str:
    text = repr(node)
    return text if len(text) <= 60 else f"{text[:57]}..."
