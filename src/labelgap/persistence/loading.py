"""Reading saved models."""

from __future__ import annotations

import os
from collections.abc import Callable
from textwrap import shorten
from typing import Any

from labelgap.exceptions import ModelFileError
from labelgap.persistence.checks import check_shapes, require_fitted
from labelgap.persistence.codec import Decoder, check_extent
from labelgap.persistence.container import Contents, read_file
from labelgap.persistence.parameters import check_parameters
from labelgap.persistence.registry import estimator_names, kinds, requirements_of
from labelgap.persistence.saving import FILE_KIND, VERSION
from labelgap.persistence.transformers import PIPELINE, last_step

_UPGRADES: dict[int, Callable[[Contents], Contents]] = {
    # Version 2 added what held-out scores say (sets, calibration) and weights of rows: absent in older files.
    1: lambda contents: contents,
}
"""For each older version of the document, the function that converts it to the next version."""
_SENSELESS = (AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError)


def load(path: str | os.PathLike[str]) -> Any:
    """The fitted model that ``save`` wrote.

    It gives exactly the same predictions, and can be cloned, fitted again, saved and pickled. Nothing in the
    file is executed. Every byte is checked against the digest at the end of the file, which detects damage
    but not forgery.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    LowRankClassifier, LowRankRegressor, MetricThreshold, PlugInClassifier or Recommender, or a Pipeline
    that ends in one of them

    Raises
    ------
    ModelFileError
        If the file is damaged, is not a model of labelgap's, or was written by a newer labelgap.

    Examples
    --------
    >>> import labelgap
    >>> users, items = ["ann", "ann", "bob", "bob"], ["Ran", "Jaws", "Ran", "Jaws"]
    >>> model = labelgap.Recommender(trace_penalty=0.02, threshold="train")
    >>> model.fit((users, items, [1, 0, 1, 0])).save("films.labelgap")
    >>> labelgap.load("films.labelgap").predict("bob", ["Ran", "Jaws"])
    array([1, 0], dtype=int8)
    """
    contents = read_file(path, FILE_KIND, ModelFileError)
    version = _version_of(path, contents)
    try:
        for step in range(version, VERSION):
            contents = _UPGRADES[step](contents)
        return _model(contents)
    except _SENSELESS as error:
        problem = f"{error} is unknown or missing" if isinstance(error, KeyError) else str(error)
        # Arrays are shown in many lines.
        problem = shorten(problem, 300, placeholder=" ...")
        saved_with = contents.document.get("labelgap", "an unknown version")
        raise ModelFileError(
            f"{os.fspath(path)} is a model file, but not one that makes sense here: {problem}. It was saved "
            f"with labelgap {saved_with}; fit and save the model again."
        ) from error


def _version_of(path: str | os.PathLike[str], contents: Contents) -> int:
    version = contents.document.get("version")
    if type(version) is not int or version < 1:
        raise ModelFileError(f"{os.fspath(path)} does not say which version it has; save the model again.")
    if version > VERSION:
        raise ModelFileError(
            f"{os.fspath(path)} is a model of version {version}, and this labelgap reads versions up to "
            f"{VERSION}. It was saved with labelgap {contents.document.get('labelgap')}: upgrade to read it."
        )
    return version


def _model(contents: Contents) -> Any:
    document, arrays = contents
    node = document["model"]
    (name,) = node
    if name not in (*estimator_names(), PIPELINE):
        raise ValueError(f"{name!r} is no model that is known")
    check_extent(node, document["shared"])
    model = Decoder(kinds(), arrays, document["shared"]).decode(node)
    last = last_step(model)
    if requirements_of(last) is None:
        raise ValueError(f"its last step is a {type(last).__name__}, which makes no decisions")
    require_fitted(last)
    check_parameters(last)
    check_shapes(last)
    return model
