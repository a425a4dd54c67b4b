"""Saved models as the commands need them."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import labelgap
from labelgap.exceptions import InvalidParameterError


class LoadedModel(NamedTuple):
    """A fitted estimator that takes plain arrays, with the names that its features have in files."""

    estimator: Any
    feature_names: tuple[str, ...] | None
    path: Path

    @property
    def label_names(self) -> tuple[str, ...] | None:
        """The names of its labels as text, or None where they have none."""
        names = getattr(self.estimator, "label_names_", None)
        return None if names is None else tuple(map(str, names))


def load_model(path: Path) -> LoadedModel:
    """The model that was saved there."""
    estimator = labelgap.load(path)
    names = estimator.__dict__.pop("feature_names_in_", None)
    return LoadedModel(estimator, None if names is None else tuple(map(str, names)), path)


def refuse_offsets(loaded: LoadedModel, advice: str) -> None:
    """Refuse a regression that is to be judged with offsets or exposures, which files do not hold."""
    if getattr(loaded.estimator, "has_offsets_", False):
        raise InvalidParameterError(
            f"{loaded.path} was fitted in Python with an offset or an exposure, which no data file says. "
            f"{advice}."
        )


def is_model_file(path: Path) -> bool:
    """Whether the file is one of labelgap's own, as far as its table of contents says."""
    if path.suffix == ".labelgap":
        return True
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return "labelgap" in archive.namelist()
