"""Saving a fitted estimator without pickle."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from labelgap._version import __version__
from labelgap.exceptions import InvalidInputError
from labelgap.losses import Family, Loss, family_names, loss_names
from labelgap.persistence.checks import check_shapes, require_fitted
from labelgap.persistence.codec import CannotSaveError, Encoder, check_extent
from labelgap.persistence.container import write_file
from labelgap.persistence.parameters import check_parameters
from labelgap.persistence.registry import estimator_names, has_place, kind_of, requirements_of
from labelgap.persistence.transformers import PIPELINE, TRANSFORMERS, is_pipeline, last_step

VERSION = 2
"""The version of the document. A higher one is refused on loading, a lower one brought up to this."""
FILE_KIND = "model"
# Transformers that are only found inside of others.
_INNER = ("FunctionTransformer", "MissingIndicator")

_OF_TEXTS = ("tokenizer", "preprocessor", "analyzer")

_IDS = ("user_ids_", "item_ids_", "_users", "_items", "answers_", "label_names_")


class Saved:
    """A fitted estimator that can be saved."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file that :func:`labelgap.load` reads.

        The file holds numbers and JSON, no code, and every byte is checked on loading. The loaded model gives
        exactly the same predictions. An existing file is replaced in one step. Requests of scikit-learn's
        metadata routing (``set_fit_request``) are not saved; set them again after loading.

        Parameters
        ----------
        path : str or path
            A name in an existing folder. The usual suffix is ".labelgap".

        Raises
        ------
        NotFittedError
            If the model is not fitted, or its last fit was not completed.
        FileNotFoundError
            If there is no such folder.
        InvalidInputError
            If a part of the model is code (a function as ``positive``, a custom family or loss) or of a type
            that files do not hold. Nothing is written then.

        Examples
        --------
        >>> import labelgap
        >>> from labelgap.data import make_low_rank_labels
        >>> problem = make_low_rank_labels(n=100, n_labels=5, observed=0.5, random_state=0)
        >>> clf = labelgap.LowRankClassifier(trace_penalty=0.01).fit(problem.X, problem.Y_observed)
        >>> clf.save("tags.labelgap")
        >>> again = labelgap.load("tags.labelgap")
        >>> bool((again.predict(problem.X) == clf.predict(problem.X)).all())
        True
        """
        save(self, path)


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator of labelgap, or a pipeline that ends in one, to a file that ``load`` reads.

    Of an estimator it is the same as its method ``save``. The steps of a pipeline before the estimator may be
    scikit-learn's ColumnTransformer, CountVectorizer, HashingVectorizer, MaxAbsScaler, MinMaxScaler,
    Normalizer, Nystroem, OneHotEncoder, PCA, RobustScaler, SimpleImputer, StandardScaler, TfidfTransformer,
    TfidfVectorizer, TruncatedSVD and VarianceThreshold, and pipelines of these. None of them may hold a
    function, such as a tokenizer.

    Parameters
    ----------
    model : fitted estimator or Pipeline
    path : str or path
        A name in an existing folder. The usual suffix is ".labelgap".

    Raises
    ------
    InvalidInputError
        If a step is of another class, or a part of the model is code. Nothing is written then.

    Examples
    --------
    >>> import labelgap
    >>> from labelgap.data import make_low_rank_labels
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> problem = make_low_rank_labels(n=100, n_labels=5, observed=0.5, random_state=0)
    >>> model = make_pipeline(StandardScaler(), labelgap.LowRankClassifier(trace_penalty=0.01))
    >>> labelgap.save(model.fit(problem.X, problem.Y_observed), "tags.labelgap")
    >>> again = labelgap.load("tags.labelgap")
    >>> bool((again.predict(problem.X) == model.predict(problem.X)).all())
    True
    """
    last = last_step(model)
    if is_pipeline(model) and requirements_of(last) is None:
        raise InvalidInputError(
            f"This Pipeline cannot be saved: it ends in a {type(last).__name__}, and not in one of "
            f"{', '.join(estimator_names())}."
        )
    check_is_fitted(last)
    require_fitted(last)
    _require_folder(path)
    encoder = Encoder(kind_of)
    try:
        node = encoder.encode(model, "")
    except CannotSaveError as problem:
        refusal = _pipeline_refusal(model, problem) if is_pipeline(model) else None
        raise InvalidInputError(refusal or _refusal(last, problem)) from None
    _require_one_piece(last)
    try:
        check_parameters(last)
        check_extent(node, encoder.shared)
    except ValueError as problem:
        raise InvalidInputError(f"This {type(model).__name__} cannot be saved: {problem}.") from None
    document = {
        "version": VERSION,
        "labelgap": __version__,
        "model": node,
        "shared": encoder.shared,
    }
    write_file(path, FILE_KIND, document, encoder.arrays)


def _pipeline_refusal(pipeline: Any, problem: CannotSaveError) -> str | None:
    """Why a pipeline cannot be saved; None where it is the estimator at its end that cannot."""
    # The place in a pipeline begins with steps.NUMBER.1, the estimator of that step.
    parts = problem.where.split(".")
    if len(parts) < 3 or parts[0] != "steps" or int(parts[1]) == len(pipeline.steps) - 1:
        if len(parts) >= 3:
            problem.where = ".".join(parts[3:])
        return None
    name, value = pipeline.steps[int(parts[1])][0], problem.value
    begin = f"This Pipeline cannot be saved: its step {name!r} holds"
    if len(parts) > 3 and not isinstance(value, BaseEstimator):
        return f"{begin} {_part(parts[-1], value)}; or save the last step alone."
    known = ", ".join(name for name in TRANSFORMERS if name not in (PIPELINE, *_INNER))
    return (
        f"{begin} a {type(value).__name__}, for which a file has no place. The "
        f"transformers that can be saved are {known}; save the last step alone, or use one of these."
    )


def _part(name: str, value: Any) -> str:
    """What a transformer holds that a file does not, as its parameter ``name``, and what to do."""
    if name == "input":
        return (
            f"input={value!r}, so it would read files that its texts name, which a model from a file does "
            "not. Fit with input='content', to the texts themselves"
        )
    if not callable(value):
        return f"a {type(value).__name__} as {name!r}, for which a file has no place. Give a list or a tuple"
    module, called = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    called = called or getattr(value, "__name__", type(value).__name__)
    whose = f"{module}.{called}" if module else called
    what = "a class" if isinstance(value, type) else "a function"
    instead = "use the settings that have names, such as token_pattern and analyzer='word', or "
    return (
        f"{what}, {whose}, as {name!r}. A file holds no code, and a model from a file never imports or runs "
        f"a function by its name: {instead if name in _OF_TEXTS else ''}apply it to X before the pipeline"
    )


def _require_folder(path: str | os.PathLike[str]) -> None:
    # If the path is a link, the file that it points to is written.
    file = Path(os.path.realpath(path))
    if file.is_dir():
        problem = "This is a folder; give the name of a file in it, such as model.labelgap"
        raise IsADirectoryError(errno.EISDIR, problem, os.fspath(path))
    folder = file.parent
    if not folder.is_dir():
        problem = "There is no such folder to save the model in; make it first"
        raise FileNotFoundError(errno.ENOENT, problem, str(folder))


def _require_one_piece(model: Any) -> None:
    """Raise NotFittedError if a fit that failed left some of its parts beside those of the fit before."""
    try:
        check_shapes(model)
    except (NotFittedError, ValueError) as problem:
        raise NotFittedError(
            f"This {type(model).__name__} is not consistent: {problem}. Its last fit was not completed; fit "
            "it again."
        ) from None


def _refusal(model: Any, problem: CannotSaveError) -> str:
    """The error message: what cannot be saved, and what to do."""
    name = type(model).__name__
    if problem.value is model:
        return (
            f"This {name} cannot be saved: it is a class of your own, and a file holds no code. Fit and save "
            f"one of {', '.join(estimator_names())} itself."
        )
    first = problem.where.split(".")[0]
    if not has_place(type(model), first):
        return (
            f"This {name} cannot be saved: its attribute {first!r} is not one of labelgap's. Remove it "
            f"first: del model.{first}."
        )
    what = "parameter" if first in model.get_params(deep=False) else "attribute"
    return f"This {name} cannot be saved: its {what} {first!r} {_reason(first, problem)}"


def _reason(first: str, problem: CannotSaveError) -> str:
    value = problem.value
    kind = type(value).__name__
    if isinstance(value, Loss):
        names = family_names() if isinstance(value, Family) else loss_names()
        return (
            f"is a {kind}, which is made of functions, and a file holds no code. Fit with one of the names "
            f"{', '.join(map(repr, names))}, or keep the code and the data, and fit again where you need it."
        )
    if first == "positive":
        return (
            "is a function, and a file holds no code. Fit with a number, such as positive=4, or apply the "
            "function to the ratings before the fit."
        )
    if first in ("features", "feature_map_"):
        known = ", ".join(name for name in TRANSFORMERS if name not in _INNER)
        return (
            f"holds a {kind}; the transformers that can be saved are {known}. Fit with one of these, or "
            "transform X before the fit and save the model alone."
        )
    parts = problem.where.split(".")
    no_data = callable(value) or isinstance(value, set | frozenset) or parts[-1] == "input"
    if len(parts) > 1 and no_data and not isinstance(value, BaseEstimator):
        return f"holds {_part(parts[-1], value)}."
    if isinstance(value, BaseEstimator):
        return (
            f"holds a {kind}; of scikit-learn's classifiers only LogisticRegression can be saved, since of "
            "the others only scikit-learn knows what is in them. Fit with LogisticRegression, fit again "
            "where you need the model, or use skops or pickle, which run code from the file."
        )
    if first in _IDS:
        return (
            f"holds the id or name {value!r} of type {kind}. Those that can be saved are text, whole and "
            "real numbers, True and False, and tuples of these: convert the others to text, and fit again."
        )
    return (
        f"holds something of type {kind}, for which a file has no place. Fit with plain numbers, text or "
        "arrays there."
    )
