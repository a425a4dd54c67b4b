"""Features of users and items, scaled so that they can stand beside the ids as columns of the design."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from labelgap._arrays import frame_library, plain_array
from labelgap._types import Floats
from labelgap.data.files.side_tables import SideTable
from labelgap.exceptions import InvalidFeaturesError
from labelgap.labels.columns import named_columns, refuse_dates
from labelgap.persistence.registry import savable_record
from labelgap.recommending.ids import Ids, number_ids


class FeatureRows(NamedTuple):
    """Features of users or items with their ids, as they were given."""

    ids: Ids
    rows: Any
    """An array with one row per id, or a frame without the ids."""


@savable_record("side_features")
class SideFeatures(NamedTuple):
    """Ids with their features, in columns of mean 0 and norm 1 like the column of one id.

    The trace norm would penalise longer columns less than the columns of the ids. ``matrix`` is None without
    features.
    """

    what: str
    ids: Ids
    matrix: sp.csr_array | None
    mean: Floats
    scale: Floats
    names: tuple[str, ...] | None
    """The names of the columns, if the features came in a frame."""

    @classmethod
    def read(cls, features: Any, id_column: str, what: str, rated: Ids | None) -> SideFeatures:
        """Read the features of all users, or items, with ratings and of any others that come with features.

        Parameters
        ----------
        features : mapping from id to row, frame, SideTable, or None
        id_column : str
            The column of a frame that holds the ids.
        what : str
            "user" or "item", for errors.
        rated : ids
            The users, or items, with ratings; they come first.
        """
        ids: Ids = () if rated is None else tuple(rated)
        none = np.zeros(0)
        if features is None:
            return cls(what, ids, None, none, none, None)
        names = None
        if isinstance(features, SideTable):
            names, features = features.names, features.features or {}
        given = read_side_features(features, id_column, what)
        names = names or _column_names(given.rows)
        return cls._standardised(what, ids, given.ids, _numbers(given.rows, what), names)

    @classmethod
    def _standardised(
        cls, what: str, rated: Ids, described: Ids, rows: Floats, names: tuple[str, ...] | None
    ) -> SideFeatures:
        """Rows of features, those of the rated ids first; all of these must have some."""
        place = {name: number for number, name in enumerate(described)}
        missing = [name for name in rated if name not in place]
        if missing:
            raise InvalidFeaturesError(
                f"{len(missing)} of {len(rated)} {what}s with ratings have no features (the first: "
                f"{missing[0]!r}). Give a row for each, for instance of zeros, or leave the features out."
            )
        known = set(rated)
        ids = (*rated, *(name for name in described if name not in known))
        rows = rows[[place[name] for name in ids]]
        mean = rows.mean(axis=0)
        spread = rows.std(axis=0)
        # A constant column says nothing, and its standard deviation is only rounding.
        scale = np.where(spread > 1e-12 * np.maximum(np.abs(mean), 1.0), spread, np.inf)
        scale = scale * np.sqrt(len(rows))
        matrix = sp.csr_array((rows - mean) / scale)
        return cls(what, ids, matrix, mean, scale, names)

    def with_more(self, features: Any, id_column: str, rated: Ids) -> SideFeatures:
        """These features and more of them, standardised together.

        Parameters
        ----------
        features : as in :meth:`read`, or None
            Of other users, or items. One that has features already gets the new ones.
        id_column : str
        rated : ids
            All users, or items, with ratings, in the order that they are to have.
        """
        if features is None and self.matrix is None:
            return self._replace(ids=rated)
        if isinstance(features, SideTable):
            features = features.features or {}
        given = read_side_features(features, id_column, self.what)
        rows = self._in_columns(given.rows) if given.ids else np.zeros((0, len(self.mean)))
        matrix = self._required()
        scale = np.where(np.isfinite(self.scale), self.scale, 0.0)
        place = {name: number for number, name in enumerate((*self.ids, *given.ids))}
        every = np.vstack([matrix.toarray() * scale + self.mean, rows])[list(place.values())]
        return self._standardised(self.what, rated, tuple(place), every, self.names)

    def scaled(self, features: Any) -> Floats:
        """The features of other users, or items, on the same scale."""
        self._required()
        return np.asarray((self._in_columns(features) - self.mean) / self.scale)

    def _required(self) -> sp.csr_array:
        if self.matrix is None:
            raise InvalidFeaturesError(
                f"This recommender was fitted without {self.what} features, so it cannot read those of new "
                f"{self.what}s. Leave {self.what}_features out, or fit it with features."
            )
        return self.matrix

    def _in_columns(self, features: Any) -> Floats:
        """Features of others as numbers, in the columns that these have."""
        self._required()
        names = _column_names(features)
        if self.names is not None and names is not None:
            if set(names) != set(self.names):
                raise InvalidFeaturesError(
                    f"The {self.what} features have the columns {', '.join(map(repr, names))}; the fit had "
                    f"{', '.join(map(repr, self.names))}."
                )
            features = features[list(self.names)]
        rows = _numbers(features, self.what)
        if rows.shape[1] != len(self.mean):
            raise InvalidFeaturesError(
                f"The {self.what} features have {rows.shape[1]} columns; the fit had {len(self.mean)}."
            )
        return rows


def read_side_features(features: Any, id_column: str, what: str) -> FeatureRows:
    """Features from a mapping from id to row, or from a frame with the ids in a column or a pandas index.

    Examples
    --------
    >>> read_side_features({"ann": [1, 2], "bob": [3, 4]}, "user", "user").rows
    array([[1., 2.],
           [3., 4.]])
    """
    if features is None:
        return FeatureRows((), np.zeros((0, 0)))
    if isinstance(features, Mapping):
        ids: Ids = tuple(features)
        try:
            rows: Any = np.array(
                [
                    np.asarray(plain_array(row, f"The {what} features"), np.float64)
                    for row in features.values()
                ]
            )
        except (TypeError, ValueError) as error:
            raise InvalidFeaturesError(
                f"The {what} features must be one row of numbers for each {what}, of one length ({error})."
            ) from error
        return FeatureRows(ids, rows)
    library = frame_library(features)
    if library is None:
        raise InvalidFeaturesError(
            f"Give {what} features as a mapping from id to row, or as a frame with the column "
            f"{id_column!r}; got {type(features).__name__}."
        )
    if id_column in list(features.columns):
        given = features[id_column]
        rows = features.drop(columns=[id_column]) if library == "pandas" else features.drop(id_column)
    elif library == "pandas":
        given, rows = features.index, features
    else:
        raise InvalidFeaturesError(
            f"The frame of {what} features has no column {id_column!r}, which would say whose they are."
        )
    numbers, ids = number_ids(given, what)
    if len(ids) < len(numbers):
        twice = ids[int(np.argmax(np.bincount(numbers) > 1))]
        raise InvalidFeaturesError(f"There are two rows of features of {what} {twice!r}; keep one of them.")
    return FeatureRows(ids, rows)


def _column_names(features: Any) -> tuple[str, ...] | None:
    return tuple(features.columns) if frame_library(features) else None


def _numbers(features: Any, what: str) -> Floats:
    refuse_dates(features, f"the {what} features")
    try:
        with named_columns(features, f"the {what} features"):
            rows = np.asarray(
                plain_array(features, f"The {what} features", InvalidFeaturesError), dtype=np.float64
            )
    except InvalidFeaturesError:
        raise
    except (TypeError, ValueError) as error:
        raise InvalidFeaturesError(
            f"The {what} features must be numbers ({error}). Encode categories first, for instance with "
            "sklearn.preprocessing.OneHotEncoder."
        ) from error
    bad = ~np.isfinite(rows)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise InvalidFeaturesError(
            f"The {what} features hold {rows[row, column]} in row {row}, column {column}; impute it first."
        )
    return rows
