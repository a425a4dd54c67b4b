"""Properties that are computed once, without a lock.

Before Python 3.12 ``functools.cached_property`` holds one lock for all instances of a class while it
computes: fits in threads wait for one another there, and for ever if one of them waits for the others.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:
    import functools

    class cached_property(functools.cached_property):
        """As in Python 3.12: threads that come at the same time compute the same value."""

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            if instance is None:
                return self
            values = instance.__dict__
            if self.attrname not in values:
                values[self.attrname] = self.func(instance)
            return values[self.attrname]


__all__ = ["cached_property"]
