"""What a model file holds of scikit-learn's vectorizers of texts: words and settings, and no functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from labelgap.persistence.agreement import is_count
from labelgap.persistence.codec import CannotSaveError

VECTORIZERS = ("CountVectorizer", "HashingVectorizer", "TfidfVectorizer")
# A number of this process, and words that no prediction needs.
_NOT_KEPT = ("_stop_words_id", "stop_words_")
_FUNCTIONS = ("tokenizer", "preprocessor")


def vectorizer_parts(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state for a file, with the vocabulary as the words in the order of their columns."""
    kept = {name: part for name, part in state.items() if name not in _NOT_KEPT}
    for name in (*_FUNCTIONS, "analyzer"):
        if callable(kept.get(name)):
            raise CannotSaveError(name, kept[name])
    if kept.get("input", "content") != "content":
        raise CannotSaveError("input", kept["input"])
    if "vocabulary_" in kept:
        words = sorted(kept["vocabulary_"], key=kept["vocabulary_"].__getitem__)
        kept["vocabulary_"] = [str(word) for word in words]
    return kept


def vectorizer_state(parts: Mapping[str, Any]) -> dict[str, Any]:
    """The state of what a file holds. The number of a word is its place, so that no number can be wrong."""
    state = dict(parts)
    words = state.get("vocabulary_")
    if words is not None:
        if not _are_texts(words) or not words:
            raise ValueError("vocabulary_ is no list of words")
        state["vocabulary_"] = dict(zip(words, range(len(words)), strict=True))
        if len(state["vocabulary_"]) != len(words):
            raise ValueError("vocabulary_ has a word twice")
    return state


def check_vectorizer(model: Any) -> None:
    """Raise ValueError where settings from a file are not plain ones, or do not fit the vocabulary.

    The texts themselves are what it is given (``input="content"``), never names of files to be read.
    """
    for name in _FUNCTIONS:
        if getattr(model, name) is not None:
            raise ValueError(f"{name} is {getattr(model, name)!r}; None was expected")
    if not isinstance(model.analyzer, str):
        raise ValueError(f"analyzer is {model.analyzer!r}; a text was expected")
    if model.input != "content":
        raise ValueError(f"input is {model.input!r}; 'content' was expected")
    model._validate_params()
    if np.dtype(model.dtype).kind not in "iuf":
        raise ValueError(f"dtype is {model.dtype!r}; a type of numbers was expected")
    if isinstance(model.stop_words, list) and not _are_texts(model.stop_words):
        raise ValueError("stop_words is no list of words")
    lengths = model.ngram_range
    if len(lengths) != 2 or not all(map(is_count, lengths)) or not 1 <= lengths[0] <= lengths[1]:
        raise ValueError(f"ngram_range is {lengths!r}; two whole numbers, the larger last, were expected")
    try:
        groups = 0 if model.token_pattern is None else re.compile(model.token_pattern).groups
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"token_pattern is no regular expression ({error})") from error
    if groups > 1:
        raise ValueError("token_pattern has more than one group")
    weights = getattr(model, "_tfidf", None)
    width = getattr(weights, "n_features_in_", None)
    if width is not None and width != width_of_texts(model):
        raise ValueError(f"it has {width_of_texts(model)} words and weights for {width}")


def width_of_texts(model: Any) -> int | None:
    """How many features a vectorizer makes of a text; None where it is not fitted."""
    if hasattr(model, "n_features"):
        return int(model.n_features)
    return len(model.vocabulary_) if hasattr(model, "vocabulary_") else None


def _are_texts(words: Any) -> bool:
    return type(words) is list and all(type(word) is str for word in words)
