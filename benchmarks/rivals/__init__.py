"""One file per rival. Each says what it is called, why it cannot run here (if so), and has its few calls.

A rival is imported inside its functions only, so that a benchmark can name those that are not installed.
``python -m benchmarks.install_rivals`` installs them. ``prepare`` puts data into a rival's own form, which no
benchmark counts; ``fit`` is what is timed.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.generated_ratings import Ratings


class OneBitRival(Protocol):
    """The functions of a file whose rival fits yes/no ratings of items by users."""

    NAME: str
    CALIBRATED: bool
    """Whether ``1/(1 + exp(-score))`` is meant to be a probability."""

    def unavailable(self) -> str | None: ...

    def prepare(self, train: Ratings) -> Any: ...

    def fit(self, data: Any, *, rank: int, epochs: int, threads: int, **settings: float) -> Any: ...

    def scores(self, model: Any, ratings: Ratings) -> NDArray[np.float64]: ...


def why_missing(name: str, *modules: str) -> str | None:
    """None when the modules can be imported; else the reason, in one line."""
    for module in modules:
        try:
            import_module(module)
        # A package built for another numpy or without its library fails in many ways.
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            return f"{name} cannot run: {reason}. Install it with `python -m benchmarks.install_rivals`."
    return None
