"""Warnings in the name of the line that called the library."""

from __future__ import annotations

import sys
import warnings

# Between the line that imports a module and the module, Python runs its own.
_PASSED = (__name__.split(".")[0], "importlib")
# Frames that stack levels do not count.
_UNCOUNTED = "importlib._bootstrap"


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the first caller outside this package, however deep inside it the trouble was found."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None:
        name = frame.f_globals.get("__name__", "")
        if name.split(".")[0] not in _PASSED:
            break
        frame, level = frame.f_back, level + (not name.startswith(_UNCOUNTED))
    warnings.warn(message, category, stacklevel=level)
