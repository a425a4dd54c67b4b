"""Warnings in the name of the line that called the library."""

from __future__ import annotations

import sys
import warnings

_PACKAGE = __name__.split(".")[0]


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the first caller outside this package, however deep inside it the trouble was found."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == _PACKAGE:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
