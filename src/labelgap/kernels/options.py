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
