"""Columns that belong together by their names: labels of a model and of a table, scores and labels."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labelgap.exceptions import InvalidLabelsError

if TYPE_CHECKING:
    from labelgap.labels.observed import ObservedLabels

# How many names an error lists; more would hide what to do.
_NAMED = 5


def names_in_order(
    found: Sequence[Hashable], wanted: Sequence[Hashable], *, found_in: str, wanted_in: str
) -> NDArray[np.int64] | None:
    """For each wanted name its place among those found; None where the order is the same already.

    Raises InvalidLabelsError, with the names, unless both hold the same ones. ``found_in`` and ``wanted_in``
    say in the error what the names belong to.

    Examples
    --------
    >>> names_in_order(["calls", "buys"], ["buys", "calls"], found_in="y", wanted_in="the fit")
    array([1, 0])
    """
    if len(found) == len(wanted) and all(a == b for a, b in zip(found, wanted, strict=True)):
        return None
    place = {name: at for at, name in enumerate(found)}
    missing = [name for name in wanted if name not in place]
    known = set(wanted)
    unknown = [name for name in found if name not in known]
    if (missing or unknown) and (only_count(found) or only_count(wanted)):
        # A frame that was made without names numbers its columns; they go by their order, as in an array.
        return None
    if missing or unknown:
        parts = [f" Missing from {found_in}: {_listed(missing)}."] if missing else []
        parts += [f" Missing from {wanted_in}: {_listed(unknown)}."] if unknown else []
        raise InvalidLabelsError(
            f"Labels are matched by their names.{''.join(parts)} Rename the columns, or pass an array "
            "without names if the columns stand in the right order."
        )
    return np.array([place[name] for name in wanted], dtype=np.int64)


def in_label_order(
    labels: ObservedLabels, wanted: Sequence[Hashable] | NDArray[Any] | None, *, wanted_in: str = "the fit"
) -> ObservedLabels:
    """The labels in the order of ``wanted``, matched by name where both have names.

    Examples
    --------
    >>> from labelgap.labels import ObservedLabels
    >>> labels = ObservedLabels.from_dense([[1, 0], [0, None]], label_names=["b", "a"])
    >>> in_label_order(labels, ["a", "b"]).to_dense()
    array([[ 0.,  1.],
           [nan,  0.]])
    """
    return match_labels(labels, wanted, wanted_in=wanted_in)[0]


def match_labels(
    labels: ObservedLabels, wanted: Sequence[Hashable] | NDArray[Any] | None, *, wanted_in: str = "the fit"
) -> tuple[ObservedLabels, NDArray[np.int64]]:
    """As :func:`in_label_order`, and for each entry that comes back the number that it had before."""
    order = None
    if wanted is not None and labels.label_names is not None:
        found, names = as_kept(labels.label_names), as_kept(wanted)
        order = names_in_order(found, names, found_in="y", wanted_in=wanted_in)
    return (labels, np.arange(labels.n_observed)) if order is None else take_labels(labels, order)


def as_kept(names: Sequence[Hashable] | NDArray[Any]) -> tuple[Hashable, ...]:
    """Names as a fitted estimator keeps them, in an array: there 1 beside "a" is the text "1"."""
    return tuple(tuple(name) if isinstance(name, list) else name for name in np.asarray(names).tolist())


def take_labels(labels: ObservedLabels, order: NDArray[np.int64]) -> tuple[ObservedLabels, NDArray[np.int64]]:
    """The labels with column ``order[j]`` as column j, and for each of its entries the number it had before.

    Examples
    --------
    >>> from labelgap.labels import ObservedLabels
    >>> labels = ObservedLabels.from_dense([[1, 0]], label_names=["b", "a"])
    >>> take_labels(labels, np.array([1, 0]))[1]
    array([1, 0])
    """
    place = np.empty(len(order), dtype=labels.indices.dtype)
    place[order] = np.arange(len(order))
    columns = place[labels.indices]
    entries = np.lexsort((columns, labels.rows))
    names = labels.label_names
    moved = replace(
        labels,
        indices=columns[entries],
        values=labels.values[entries],
        weights=None if labels.weights is None else labels.weights[entries],
        offsets=None if labels.offsets is None else labels.offsets[entries],
        judging=None if labels.judging is None else labels.judging[entries],
        label_names=None if names is None else tuple(names[at] for at in order.tolist()),
    )
    return moved, entries


def same_names(first: Sequence[Hashable] | None, second: Sequence[Hashable] | None) -> bool:
    """Whether both have names, and at least one in common: then columns are matched by name.

    Names of scores such as ``p_cat`` have nothing in common with the labels, and go by their order.

    Examples
    --------
    >>> same_names(["cat", "dog"], ["dog", "cat"]), same_names(["p_cat", "p_dog"], ["cat", "dog"])
    (True, False)
    """
    return first is not None and second is not None and not set(first).isdisjoint(second)


def only_count(names: Sequence[Hashable]) -> bool:
    """Whether the names are 0, 1, 2, ..., as those of a frame that was made without names."""
    return list(names) == list(range(len(names)))


def _listed(names: Sequence[Hashable]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(repr, names[:_NAMED])) + more
