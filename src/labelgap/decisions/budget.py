"""How many yes there may be."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

from labelgap.exceptions import InvalidParameterError


@dataclass(frozen=True)
class Budget:
    """At most, or exactly, so many yes in each row, or in all rows together.

    ``Σ_j ŷ_ij ≤ per_row`` for every row i, or ``Σ_ij ŷ_ij ≤ total``; ``=`` in place of ``≤`` with
    ``exactly``. Without a number there is no limit, and only the expected metric is maximised.

    Parameters
    ----------
    per_row : int or None, default None
        Yes in each row.
    total : int or None, default None
        Yes in all rows that are decided together.
    exactly : bool, default False
        Whether the budget must be used up.

    Examples
    --------
    >>> Budget(per_row=3)
    Budget(per_row=3, total=None, exactly=False)
    >>> Budget(total=1000, exactly=True).total
    1000
    """

    per_row: int | None = None
    total: int | None = None
    exactly: bool = False

    def __post_init__(self) -> None:
        for name in ("per_row", "total"):
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 1:
                raise InvalidParameterError(
                    f"{name} of a budget must be a whole number, 1 or more; got {value!r}."
                )
            object.__setattr__(self, name, int(value))
        if self.per_row is not None and self.total is not None:
            raise InvalidParameterError(
                f"A budget is per row or in total; got per_row={self.per_row} and total={self.total}. Leave "
                "one of them out."
            )
        if self.exactly and self.is_unlimited:
            raise InvalidParameterError("exactly=True needs a number: Budget(per_row=3, exactly=True).")

    @property
    def is_unlimited(self) -> bool:
        return self.per_row is None and self.total is None

    def require_possible(self, n_rows: int, n_labels: int) -> None:
        """Raise where there are not as many entries as must be a yes."""
        if not self.exactly:
            return
        if self.per_row is not None and self.per_row > n_labels:
            raise InvalidParameterError(
                f"The budget asks for exactly {self.per_row} yes in each row, and there are {n_labels} "
                "labels."
            )
        if self.total is not None and self.total > n_rows * n_labels:
            raise InvalidParameterError(
                f"The budget asks for exactly {self.total} yes in all, and there are {n_rows} x {n_labels} "
                "entries."
            )


def read_budget(budget: Any) -> Budget:
    """A budget as it may be given: a Budget, or a number for at most so many yes in each row.

    Examples
    --------
    >>> read_budget(3)
    Budget(per_row=3, total=None, exactly=False)
    """
    if isinstance(budget, Budget):
        return budget
    if isinstance(budget, bool) or not isinstance(budget, Integral):
        raise InvalidParameterError(
            f"budget must be a whole number, the most yes in a row, or a labelgap.Budget; got {budget!r}."
        )
    return Budget(per_row=int(budget))
