"""How much a packed file may become when it is read.

A few megabytes of gzip can stand for gigabytes of text. So a file is refused, before it fills the memory, if
it becomes more than there is memory for, or a large multiple of its size.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from labelgap._memory import free_memory
from labelgap.data.files.formats import PathLike
from labelgap.exceptions import DataFileError, InvalidParameterError

MaxUnpacked: TypeAlias = float | str | None
"""Megabytes, "auto", or None for no limit."""
VARIABLE = "LABELGAP_MAX_UNPACKED_MB"
"""The environment variable that says what "auto" is: megabytes, or "none"."""

MEGABYTE = 1_000_000
# Up to so many bytes a file may unpack to any multiple of its size, beyond to so many times.
_FREE, _RATIO = 250 * MEGABYTE, 100.0
# The fraction of the free memory that reading may take.
_FRACTION = 0.8


@dataclass(frozen=True)
class Limits:
    """What a file may become: at most ``most`` bytes, or, if that is None, by memory and by its size."""

    most: float | None = None

    @cached_property
    def _free(self) -> int | None:
        # Asked once, because what is read so far is no longer free.
        return free_memory()

    def check(self, path: PathLike, unpacked: float, packed: int | None, times: float) -> None:
        """Raise DataFileError if the file becomes too much.

        Parameters
        ----------
        unpacked : float
            The bytes that it becomes, or has become so far.
        packed : int or None
            The bytes that they come from; None for a format in which large multiples are usual.
        times : float
            How many times the unpacked bytes reading takes in memory.
        """
        if self.most is not None:
            if unpacked > self.most:
                self._refuse(path, f"more than the {_megabytes(self.most)} that are allowed")
            return
        if packed is not None and unpacked > max(_FREE, _RATIO * packed):
            self._refuse(
                path,
                f"more than {_megabytes(max(_FREE, _RATIO * packed))}, {_RATIO:.0f} times its size or more",
            )
        free = self._free
        if free is not None and unpacked * times > _FRACTION * free:
            self._refuse(
                path,
                f"{_megabytes(unpacked)} or more, which takes about {_megabytes(unpacked * times)} of memory "
                f"to read; {_megabytes(free)} are free",
            )

    @staticmethod
    def _refuse(path: PathLike, becomes: str) -> None:
        raise DataFileError(
            f"{path} unpacks to {becomes}. If the file is meant to be so large, raise the limit with "
            "max_unpacked_mb= (--max-unpacked-mb), in megabytes; None (none) is no limit."
        )


def read_limits(given: MaxUnpacked) -> Limits:
    """The limits that a ``max_unpacked_mb`` stands for.

    Examples
    --------
    >>> read_limits(500).most, read_limits(None).most
    (500000000.0, inf)
    """
    if given == "auto":
        said = os.environ.get(VARIABLE, "").strip().lower()
        if not said:
            return Limits()
        try:
            given = None if said == "none" else float(said)
        except ValueError:
            given = math.nan
        if given is not None and not given > 0:
            raise InvalidParameterError(
                f"The environment variable {VARIABLE} is {said!r}; it must be a number of megabytes, or none."
            )
    if given is None:
        return Limits(math.inf)
    if isinstance(given, bool | str) or not given > 0:
        raise InvalidParameterError(
            "max_unpacked_mb must be a number of megabytes above 0, 'auto', or None for no limit; got "
            f"{given!r}."
        )
    return Limits(float(given) * MEGABYTE)


def _megabytes(size: float) -> str:
    return f"{size / MEGABYTE:,.0f} MB".replace(",", " ")
