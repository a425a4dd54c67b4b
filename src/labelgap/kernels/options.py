"""How every kernel is compiled."""

from __future__ import annotations

from typing import Any

# Sums may be reassociated (that is what lets them vectorise); NaN and infinity keep their meaning.
OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    # Without this each division tests for 0 first, and no loop with one can vectorise.
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "arcp", "nsz"},
}

INLINED = OPTIONS | {"forceinline": True}
"""For what is called by kernels alone.

A process that compiles a kernel has the functions that it calls as code of their own, too, and would run
that; one that reads the kernel from the cache runs the copy that was compiled with it. Where sums may be
reassociated, the two differ in their last digits, and so would the first fit and later ones.
"""
