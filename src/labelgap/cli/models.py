"""Saved models as the commands need them: loading, and what there is to tell about a fitted model."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import labelgap
from labelgap.cli.preparing import describe_preparation, names_after, names_before, taken_apart
from labelgap.data.files import detect_format
from labelgap.estimators.description import describe
from labelgap.exceptions import DataFileError, InvalidParameterError


class LoadedModel(NamedTuple):
    """A fitted estimator that takes plain arrays, with the names that its features have in files."""

    estimator: Any
    feature_names: tuple[str, ...] | None
    """The columns of a file that it takes."""
    path: Path
    prepare: Any = None
    """What is done to those columns before the estimator; None where nothing is."""
    whole: Any = None
    """The estimator as it was saved, or the pipeline that ends in it."""
    put_aside: dict[str, Any] | None = None
    """Attributes of the estimator that only Python has a use for."""

    @property
    def own_feature_names(self) -> tuple[str, ...] | None:
        """The names of the features that the estimator sees."""
        return self.feature_names if self.prepare is None else names_after(self.prepare)

    @property
    def label_names(self) -> tuple[str, ...] | None:
        """The names of its labels as text, or None where they have none."""
        names = getattr(self.estimator, "label_names_", None)
        return None if names is None else tuple(map(str, names))


def load_model(path: Path) -> LoadedModel:
    """The model that was saved there."""
    whole = labelgap.load(path)
    prepare, estimator = taken_apart(whole)
    # Frames are for Python.
    put_aside = {
        name: estimator.__dict__.pop(name)
        for name in ("_sklearn_output_config", "feature_names_in_")
        if name in estimator.__dict__
    }
    names = put_aside.get("feature_names_in_")
    if prepare is not None:
        names = names_before(prepare)
    kept = None if names is None else tuple(map(str, names))
    return LoadedModel(estimator, kept, path, prepare, whole, put_aside)


def save_model(loaded: LoadedModel, out: Path) -> None:
    """Save a model that was loaded and has changed since, with what was put aside, in one step."""
    loaded.estimator.__dict__.update(loaded.put_aside or {})
    labelgap.save(loaded.whole, out)


def refuse_offsets(loaded: LoadedModel, advice: str) -> None:
    """Refuse a regression that is to be judged with offsets or exposures, which files do not hold."""
    if getattr(loaded.estimator, "has_offsets_", False):
        raise InvalidParameterError(
            f"{loaded.path} was fitted in Python with an offset or an exposure, which no data file says. "
            f"{advice}."
        )


def is_model_file(path: Path) -> bool:
    """Whether the file is a saved model, by its name or else by its table of contents."""
    if path.suffix == ".labelgap":
        return True
    try:
        kind = detect_format(path)
    except DataFileError:
        kind = None
    # Tables are not opened only to see that they are tables, and a pipe can be read only once.
    if kind not in (None, "npz") or not path.is_file() or not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return "labelgap" in archive.namelist()


def describe_with(model: Any, prepare: Any) -> dict[str, Any]:
    """The facts of a fitted model, and of what is done to its features before."""
    facts = describe(model)
    return facts if prepare is None else facts | {"prepared": describe_preparation(prepare)}
