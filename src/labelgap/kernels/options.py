"""How every kernel is compiled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from numba import njit

from labelgap._warn import warn
from labelgap.exceptions import KernelCacheWarning

P = ParamSpec("P")
R = TypeVar("R")

# Sums may be reassociated (that is what lets them vectorise); NaN and infinity keep their meaning.
OPTIONS: dict[str, Any] = {
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

# Taken once, by whoever warns first.
_unwarned = threading.Lock()


def compiled(**options: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """numba's ``njit`` with these options; what it compiles is kept where a cache can be written.

    Elsewhere every process compiles for itself, and the first kernel of a process warns.
    """

    def compile_function(function: Callable[P, R]) -> Callable[P, R]:
        kernel = njit(**options)(function)
        try:
            kernel.enable_caching()
        except RuntimeError as error:
            # So says numba where it may write neither beside the function nor in the user's folder.
            if _unwarned.acquire(blocking=False):
                warn(
                    f"Compiled functions cannot be kept ({error}), so every process compiles those that it "
                    "needs anew, which takes some seconds each. Set the environment variable NUMBA_CACHE_DIR "
                    "to a folder in which this user may write, the same one for all processes.",
                    KernelCacheWarning,
                )
        return cast(Callable[P, R], kernel)

    return compile_function
