"""Predictions as frames, with the names of the labels, on request."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Self

import numpy as np

from labelgap._names import check_choice
from labelgap.exceptions import MissingExtraError

CONTAINERS = ("default", "pandas", "polars")


class FrameOutput:
    """``set_output``, as scikit-learn's transformers have it, for predictions of several labels."""

    label_names_: Any
    n_labels_: int

    def set_output(self, *, transform: str | None = None) -> Self:
        """Say what predictions come in.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None
            "default": arrays and sparse matrices. "pandas", "polars": frames whose columns are the labels
            and, of pandas, whose index is that of X. ``predict_topk`` then gives the names of the labels.
            None changes nothing. ``predict(X, output="sparse")`` is a sparse matrix in any case.

        Examples
        --------
        >>> import pandas
        >>> from labelgap import MetricThreshold
        >>> scores = pandas.DataFrame({"cat": [0.9, 0.2], "dog": [0.3, 0.8]}, index=["a", "b"])
        >>> labels = pandas.DataFrame({"cat": [1, 0], "dog": [0, 1]}, index=["a", "b"])
        >>> MetricThreshold().fit(scores, labels).set_output(transform="pandas").predict(scores)
           cat  dog
        a    1    0
        b    0    1
        """
        if transform is not None:
            check_choice("transform", transform, CONTAINERS)
            self._sklearn_output_config = {"transform": transform}
        return self

    @property
    def _container(self) -> str:
        config = getattr(self, "_sklearn_output_config", {})
        wanted = config.get("transform")
        # Other containers of scikit-learn are for transformers.
        return wanted if wanted in CONTAINERS else "default"

    def _label_columns(self) -> list[Hashable]:
        names = self.label_names_
        return [f"label_{at}" for at in range(self.n_labels_)] if names is None else list(names.tolist())

    def _framed(self, values: Any, X: Any, columns: Sequence[Hashable] | None = None) -> Any:
        """The values, n x L or one for each row, in the container that was asked for."""
        container = self._container
        if container == "default":
            return values
        names = self._label_columns() if columns is None else list(columns)
        library = _library(container)
        if container == "pandas":
            index = getattr(X, "index", None)
            # Lists have a method of that name.
            index = None if callable(index) else index
            if values.ndim == 1:
                return library.Series(values, index=index, name=names[0] if len(names) == 1 else None)
            return library.DataFrame(values, index=index, columns=names)
        if values.ndim == 1:
            return library.Series(str(names[0]) if len(names) == 1 else "", _for_polars(values))
        return library.DataFrame({str(name): _for_polars(values[:, at]) for at, name in enumerate(names)})

    def _framed_names(self, top: Any, X: Any) -> Any:
        """The names of labels, n x k, in place of their numbers, if frames were asked for."""
        if self._container == "default":
            return top
        names = np.empty(self.n_labels_, dtype=object)
        names[:] = self._label_columns()
        return self._framed(names[top], X, [f"top_{place + 1}" for place in range(top.shape[1])])


def _for_polars(values: Any) -> Any:
    return values.tolist() if values.dtype == object else np.ascontiguousarray(values)


def _library(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError as error:
        raise MissingExtraError(
            f"set_output(transform={name!r}) needs the package {name}: run pip install 'labelgap[frames]'."
        ) from error
