"""Features of users or items beside their ids, in units of the ids themselves."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from labelgap._types import Floats
from labelgap.exceptions import InvalidFeaturesError
from labelgap.labels.frames import frame_library
from labelgap.persistence.registry import savable_record
from labelgap.recommending.extending import read_features

Ids = tuple[Hashable, ...]


@savable_record("side_features")
class SideFeatures(NamedTuple):
    """Ids with their features (None: no features), in columns of mean 0 and length 1 like a user's own.

    Longer columns would be cheaper under the trace norm than what a user or an item is in itself.
    """

    what: str
    ids: Ids
    matrix: sp.csr_array | None
    mean: Floats
    scale: Floats
    names: tuple[str, ...] | None
    """The columns, where the features came in a frame."""

    @classmethod
    def read(cls, features: Any, id_column: str, what: str, answered: Ids | None) -> SideFeatures:
        """Features of all that gave or got answers, and of any others that come with features.

        Parameters
        ----------
        features : mapping from id to row, frame, or None
        id_column : str
            The column of a frame that holds the ids.
        what : str
            "user" or "item", for errors.
        answered : ids
            Those with answers; they come first.
        """
        ids: Ids = () if answered is None else tuple(answered)
        none = np.zeros(0)
        if features is None:
            return cls(what, ids, None, none, none, None)
        given = read_features(features, id_column, what)
        place = {name: number for number, name in enumerate(given.ids)}
        missing = [name for name in ids if name not in place]
        if missing:
            raise InvalidFeaturesError(
                f"{len(missing)} of {len(ids)} {what}s with answers have no features (the first: "
                f"{missing[0]!r}). Give a row for each, for instance of zeros, or leave the features out."
            )
        known = set(ids)
        ids = (*ids, *(name for name in given.ids if name not in known))
        rows = _numbers(given.rows, what)[[place[name] for name in ids]]
        mean = rows.mean(axis=0)
        spread = rows.std(axis=0)
        # A column that is the same for all says nothing; a unit for it would be rounding.
        scale = np.where(spread > 1e-12 * np.maximum(np.abs(mean), 1.0), spread, np.inf)
        scale = scale * np.sqrt(len(rows))
        matrix = sp.csr_array((rows - mean) / scale)
        return cls(what, ids, matrix, mean, scale, _column_names(given.rows))

    def scaled(self, features: Any) -> Floats:
        """Features of others, in the same units."""
        if self.matrix is None:
            raise InvalidFeaturesError(
                f"This recommender was fitted without {self.what} features, so it cannot read those of new "
                f"{self.what}s. Leave {self.what}_features out, or fit it with features."
            )
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
        return np.asarray((rows - self.mean) / self.scale)


def _column_names(features: Any) -> tuple[str, ...] | None:
    return tuple(features.columns) if frame_library(features) else None


def _numbers(features: Any, what: str) -> Floats:
    try:
        rows = np.asarray(features, dtype=np.float64)
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
