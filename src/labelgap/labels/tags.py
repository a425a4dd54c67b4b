"""Labels from sets of tags: what each row is tagged with."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap.exceptions import InvalidLabelsError
from labelgap.labels.sources import Entries, as_names, check_names, is_iterable, is_null

_NAMED = 5


def read_tags(
    tags: Iterable[Any], label_names: Sequence[Hashable] | None, row_names: Sequence[Hashable] | None
) -> tuple[Entries, NDArray[np.bool_]]:
    """A yes for each tag of each row, and which rows have their tags known.

    Examples
    --------
    >>> entries, known = read_tags([{"sport"}, ["data", "sport"], None], None, None)
    >>> entries.label_names, entries.rows.tolist(), entries.cols.tolist(), known.tolist()
    (('data', 'sport'), [0, 1, 1], [1, 0, 1], [True, True, False])
    """
    if isinstance(tags, str | bytes) or not is_iterable(tags):
        raise InvalidLabelsError(
            f"Tags are a sequence with a list or set of tags for each row; got {tags!r}."
        )
    sets = [_tags_of(row, one) for row, one in enumerate(tags)]
    if label_names is None:
        label_names = _in_order({tag: None for one in sets for tag in one or ()})
    label_names = as_names(label_names, "label") or ()
    names = check_names(label_names, len(label_names), "label") or ()
    place = {name: at for at, name in enumerate(names)}
    unknown = {tag: None for one in sets for tag in one or () if tag not in place}
    if unknown:
        more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
        raise InvalidLabelsError(
            f"{len(unknown)} tags are not among label_names: "
            f"{', '.join(map(repr, list(unknown)[:_NAMED]))}{more}. Add them there, or take them out."
        )
    rows = [row for row, one in enumerate(sets) for _ in one or ()]
    cols = [place[tag] for one in sets for tag in one or ()]
    entries = Entries(
        np.array(rows, dtype=np.int64),
        np.array(cols, dtype=np.int64),
        np.ones(len(rows), dtype=np.int8),
        None,
        (len(sets), len(names)),
        check_names(row_names, len(sets), "row"),
        names,
    )
    return entries, np.array([one is not None for one in sets], dtype=np.bool_)


def _tags_of(row: int, tags: Any) -> dict[Hashable, None] | None:
    """The tags of a row, each once and in their order; None where they are not known."""
    if is_null(tags):
        return None
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise InvalidLabelsError(
            f"The tags of row {row} are {tags!r}, and not a list or set of tags. Split a text first, as in "
            "text.split(); None stands for a row whose tags nobody knows."
        )
    try:
        return dict.fromkeys(tags)
    except TypeError as error:
        raise InvalidLabelsError(
            f"A tag of row {row} cannot be a name ({error}): a tag is a text, a number or a tuple of these."
        ) from error


def _in_order(tags: dict[Hashable, None]) -> list[Hashable]:
    """Tags in alphabetical order, or in that of their appearance where they cannot be compared."""
    try:
        return sorted(tags)  # type: ignore[type-var]
    except TypeError:
        return list(tags)


def split_tags(text: str, separator: str) -> list[str]:
    """The tags of a text; a blank as the separator stands for any white space.

    Examples
    --------
    >>> split_tags("sport  data", " "), split_tags("sport; open data;", ";"), split_tags("", ",")
    (['sport', 'data'], ['sport', 'open data'], [])
    """
    parts = text.split() if not separator.strip() else text.split(separator)
    return [part.strip() for part in parts if part.strip()]
