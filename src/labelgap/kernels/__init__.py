"""Everything compiled for the CPU.

``kernels.sweep`` imports a module of it when it is first asked for. With it comes numba, which takes long to
import and is not needed to load a linear model and predict with it.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labelgap.kernels import buckets as buckets
    from labelgap.kernels import budgets as budgets
    from labelgap.kernels import diversity as diversity
    from labelgap.kernels import entries as entries
    from labelgap.kernels import label_cuts as label_cuts
    from labelgap.kernels import ranks as ranks
    from labelgap.kernels import sweep as sweep
    from labelgap.kernels import top as top

_MODULES = {module.name for module in iter_modules(__path__)}


def __getattr__(name: str) -> ModuleType:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
