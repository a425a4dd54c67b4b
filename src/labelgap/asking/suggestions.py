"""What ``suggest`` returns: entries to ask about, in order."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgap._names import check_choice
from labelgap._types import Floats
from labelgap.recommending.tables import as_column, frame_of, html_table


@dataclass(frozen=True, eq=False)
class Suggestions:
    """Entries to ask about, best first; as an iterable it gives pairs of a row and a label, by number.

    Parameters
    ----------
    rows, labels : int64 arrays
        Numbers of the row of X and of the label of each entry.
    probability : float64 array
        The probability of yes.
    gain : float64 array
        By how much the expected metric of the rows rises if the entry is asked about and then decided
        rightly.
    value : float64 array
        What the order is by: the gain times how uncertain the label still is in the direction of the row,
        after the entries before it. It never rises.
    row_names, label_names : tuples or None, default None

    Examples
    --------
    >>> one = np.array([0.5])
    >>> found = Suggestions(np.array([3]), np.array([0]), one, one / 50, one / 100, None, ("cat",))
    >>> list(found), found.names
    ([(3, 0)], [(3, 'cat')])
    >>> print(found)
    row 3, label cat  probability 0.50, expected gain 0.01
    """

    rows: NDArray[np.int64]
    labels: NDArray[np.int64]
    probability: Floats
    gain: Floats
    value: Floats
    row_names: tuple[Hashable, ...] | None = None
    label_names: tuple[Hashable, ...] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Any:
        return iter(zip(self.rows.tolist(), self.labels.tolist(), strict=True))

    @property
    def names(self) -> list[tuple[Hashable, Hashable]]:
        """Pairs of a row and a label by their names, or by number where they have none."""
        rows, labels = self.row_names, self.label_names
        return [
            (row if rows is None else rows[row], label if labels is None else labels[label])
            for row, label in self
        ]

    def columns(self) -> dict[str, Any]:
        """The entries as columns: row, label, probability, gain, value."""
        names = self.names
        return {
            "row": as_column([row for row, _ in names]),
            "label": as_column([label for _, label in names]),
            "probability": self.probability,
            "gain": self.gain,
            "value": self.value,
        }

    def to_frame(self, library: str = "pandas") -> Any:
        """The entries as a frame of "pandas" (the default) or "polars", one line for each.

        Examples
        --------
        >>> one = np.array([0.5])
        >>> Suggestions(np.array([3]), np.array([0]), one, one, one).to_frame().columns.tolist()
        ['row', 'label', 'probability', 'gain', 'value']
        """
        check_choice("library", library, ("pandas", "polars"))
        return frame_of(self.columns(), library)

    def _repr_html_(self) -> str:
        return html_table(self.columns(), titled=False)

    def __str__(self) -> str:
        names = [f"row {row}, label {label}" for row, label in self.names]
        width = max(map(len, names), default=0)
        return "\n".join(
            f"{name:<{width}}  probability {p:.2f}, expected gain {gain:.2g}"
            for name, p, gain in zip(names, self.probability, self.gain, strict=True)
        )
