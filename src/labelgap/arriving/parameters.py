"""Checks of the parameters of estimators that are about data in batches."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from labelgap.arriving.drift import check_half_life
from labelgap.exceptions import InvalidParameterError


def check_arriving(model: Any) -> None:
    """Raise unless ``warm_start``, ``memory`` and ``forget`` of an estimator can be used."""
    if not isinstance(model.warm_start, (bool, np.bool_)):
        raise InvalidParameterError(f"warm_start must be True or False; got {model.warm_start!r}.")
    check_half_life(model.forget)
    # A recommender keeps its ratings, and has no such parameter.
    memory: Any = getattr(model, "memory", None)
    is_count = type(memory) is not bool and isinstance(memory, Integral) and int(memory) >= 1
    if not (memory is None or (isinstance(memory, str) and memory == "all") or is_count):
        raise InvalidParameterError(
            f"memory must be 'all', the number of entries to keep, 1 or more, or None to keep nothing; got "
            f"{memory!r}."
        )
