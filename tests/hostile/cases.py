"""What a case is, how it is judged, and the list of all kinds of cases."""

from __future__ import annotations

import resource
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from labelgap.exceptions import LabelgapError, LabelgapWarning

Draw = np.random.Generator
Case = Callable[[Draw, Path], None]
"""Draws an input, uses it, and asserts what must hold of the answer. It may write into the folder."""

KINDS: dict[str, Case] = {}
"""Every kind of case by its name."""

SECONDS = 10.0
"""The processor time that a case may take."""
MEGABYTES = 400.0
"""By how much a case may raise the largest memory of the process."""
# Errors of the system and of scikit-learn's own checks that labelgap hands on on purpose.
_ALLOWED = (LabelgapError, FileNotFoundError, IsADirectoryError)


def case(name: str) -> Callable[[Case], Case]:
    """A decorator that puts a kind of case on the list."""

    def decorate(function: Case) -> Case:
        KINDS[name] = function
        return function

    return decorate


@dataclass(frozen=True)
class Failure:
    """A case that did not survive: its kind, the seed that draws it again, and why."""

    kind: str
    seed: int
    why: str


def try_case(kind: str, seed: int, folder: Path) -> Failure | None:
    """Run one case; None if it survived.

    It survives when it ends within the limits with an answer of which everything that it asserts holds, or
    with an error of labelgap's own in one line.
    """
    memory, began = _peak_megabytes(), time.process_time()
    why = _outcome(KINDS[kind], np.random.default_rng(seed), folder)
    if why is None and (seconds := time.process_time() - began) > SECONDS:
        why = f"took {seconds:.1f} s"
    if why is None and (more := _peak_megabytes() - memory) > MEGABYTES:
        why = f"took {more:.0f} MB"
    return None if why is None else Failure(kind, seed, why)


def _outcome(run: Case, draw: Draw, folder: Path) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", LabelgapWarning)
        try:
            run(draw, folder)
        except _ALLOWED as error:
            return _unclear(error)
        except AssertionError:
            return f"a wrong answer: {_last_lines()}"
        except Exception:
            return f"a raw error: {_last_lines()}"
    return None


def _unclear(error: BaseException) -> str | None:
    """What is wrong with an error message, if anything."""
    message = str(error)
    if not message or "\n" in message:
        return f"an error of no line, or of several: {message[:200]!r}"
    if len(message) > 1500:
        return f"an error of {len(message)} characters: {message[:200]!r}"
    return None


def _last_lines() -> str:
    kind, error, trace = sys.exc_info()
    place = traceback.extract_tb(trace)[-1]
    name = "" if kind is None else kind.__name__
    return f"{name}: {str(error)[:300]} ({Path(place.filename).name}, line {place.lineno})"


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


# -- pieces that many cases draw -----------------------------------------------------------------------------


def pick(draw: Draw, *choices: Any) -> Any:
    """One of the choices."""
    return choices[int(draw.integers(len(choices)))]


def mutated(draw: Draw, data: bytes, pieces: tuple[bytes, ...]) -> bytes:
    """The bytes with a few changes: pieces put in, parts taken out, doubled, swapped or made random."""
    for _ in range(int(draw.integers(0, 4))):
        at = int(draw.integers(len(data) + 1))
        end = min(len(data), at + int(draw.integers(1, 12)))
        part = data[at:end]
        new = pick(
            draw,
            lambda: pick(draw, *pieces),
            lambda: b"",
            lambda part=part: part * int(pick(draw, 2, 3, 50)),
            lambda part=part: part[::-1],
            lambda: draw.bytes(int(draw.integers(1, 5))),
            lambda part=part: pick(draw, *pieces) + part,
        )()
        data = data[:at] + new + data[end:]
    if draw.random() < 0.05:
        data = data[: int(draw.integers(len(data) + 1))]
    return data
