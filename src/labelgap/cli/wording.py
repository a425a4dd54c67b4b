"""The words of the library in those of the command line."""

from __future__ import annotations

import re
from collections.abc import Callable

# Not where it is part of a name, a path or a quoted text.
_BEFORE, _AFTER = r"(?<![\w'\"./\\-])", r"(?![\w'\"/\\-]|\.\w)"
_OPTIONS = {
    "n_jobs": "--jobs",
    "random_state": "--seed",
    "flip_rate": "--flip-rate",
    "label_file": "--label-file",
    "trace_penalty": "--trace-penalty",
    "ridge_penalty": "--ridge-penalty",
}
_RULES: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    # What says both already: format= (--format), with drop (--drop x), value='x' (--value x).
    (re.compile(_BEFORE + r"\w+=(?:'[^']*'|\w*) \((--\w[^)]*)\)"), r"\1"),
    (re.compile(r"\b(with|of) (\w+) \((--\2\b[^)]*)\)"), r"\1 \3"),
    (re.compile(_BEFORE + r"unobserved='(missing|negative|unlabelled)'"), r"--unobserved \1"),
    (re.compile(_BEFORE + r"threshold='(cross-fit|holdout|train)'"), r"--threshold \1"),
    (re.compile(_BEFORE + r"family='(gaussian|poisson|bernoulli)'"), r"--family \1"),
    (re.compile(r", or a function of the values, such as positive=lambda [^.]*\."), "."),
    (re.compile(_BEFORE + r"positive=(\d+(?:\.\d+)?)"), r"--positive \1"),
    (re.compile(_BEFORE + r"positive=\.\.\."), "--positive"),
    (re.compile(_BEFORE + r"checkpoint= folder"), "--checkpoint folder"),
    (re.compile(_BEFORE + r"checkpoint='([^']*)'"), r"--checkpoint \1"),
    (re.compile(_BEFORE + rf"({'|'.join(_OPTIONS)})=?" + _AFTER), lambda found: _OPTIONS[found[1]]),
]


def in_options(message: str) -> str:
    """A message of the library with options in place of parameters.

    Examples
    --------
    >>> in_options("If absent means no, pass unobserved='negative'. Say positive=4.")
    'If absent means no, pass --unobserved negative. Say --positive 4.'
    >>> in_options("label_file.csv: leave it out with drop (--drop x). Use flip_rate.")
    'label_file.csv: leave it out with --drop x. Use --flip-rate.'
    """
    for pattern, words in _RULES:
        message = pattern.sub(words, message)
    return message
