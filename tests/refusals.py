"""Tables of what is refused: a use of the package, and a part of the message."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any


def assert_refused(
    use: Callable[[], Any],
    message: str,
    error: type[Exception] | tuple[type[Exception], ...] = ValueError,
    case: object = "",
) -> Exception:
    """``use`` raises such an error, whose message has a match of the pattern ``message``."""
    raised = None
    try:
        use()
    except error as one:
        raised = one
    assert raised is not None, f"{case}: was taken without an error"
    assert re.search(message, str(raised)), f"{case}: {message!r} is not in {str(raised)!r}"
    return raised
