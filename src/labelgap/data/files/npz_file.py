"""npz: arrays by name. ``docs/data.md`` lists them. Nothing in the file is ever executed."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from labelgap._arrays import check_pointers
from labelgap.data.files.formats import PathLike, open_errors, shortened
from labelgap.data.files.limits import Limits, read_limits
from labelgap.data.files.tables import AnswerTable, LabelTable, NumberTable
from labelgap.exceptions import DataFileError, InvalidLabelsError
from labelgap.labels import ObservedLabels
from labelgap.persistence.zip_arrays import check_members, read_array

MAX_SIDE = 2**31 - 1
"""The largest side of a matrix that a file may claim."""
_LISTED = 10
# To read an array takes about so many times its size.
_TIMES = 3.0
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, OSError, NotImplementedError, RuntimeError)


class Archive:
    """The arrays of an npz file, each read when asked for. Close it after use."""

    def __init__(self, path: PathLike, limits: Limits) -> None:
        self.path, self._limits = path, limits
        with open_errors(path):
            file = open(path, "rb")  # noqa: SIM115
        self._file: Any = file
        try:
            # The list of the arrays is at the end of the file, and a pipe cannot be read from there.
            if not file.seekable():
                self._file = io.BytesIO(file.read())
                file.close()
            self._zip = _open_zip(path, self._file)
        except BaseException:
            self._file.close()
            raise
        members = [name for name in self._zip.namelist() if name.endswith(".npy")]
        self.names: tuple[str, ...] = tuple(name.removesuffix(".npy") for name in members)

    def close(self) -> None:
        """Close the file; arrays that were read stay usable."""
        self._zip.close()
        self._file.close()

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def array(self, name: str) -> NDArray[Any]:
        """The array of that name, or an error that says what the file has."""
        if name not in self.names:
            raise DataFileError(f"{self.path} has no array {name!r}; it has {self.listed()}.")
        member = self._zip.getinfo(f"{name}.npy")
        self._limits.check(self.path, member.file_size, max(member.compress_size, 1), _TIMES)
        try:
            return read_array(self._zip, f"{name}.npy")
        except (ValueError, TypeError, SyntaxError, OverflowError, RecursionError, MemoryError) as error:
            # The header of an array is written in Python, and what is wrong with it can be anything.
            raise DataFileError(
                f"{self.path}: the array {name!r} cannot be read ({shortened(error, quotes=False)}). Arrays "
                "of "
                "objects are not read; save numbers, or text of a fixed length."
            ) from error

    def listed(self) -> str:
        """The names of the arrays, for an error message."""
        more = f" and {len(self.names) - _LISTED} more" if len(self.names) > _LISTED else ""
        shown = ", ".join(shortened(name, quotes=False) for name in self.names[:_LISTED])
        return (shown or "none") + more

    def numbers(self, name: str) -> NDArray[Any]:
        """The array of that name as float64."""
        array = self.array(name)
        if array.dtype.kind not in "biuf":
            raise DataFileError(f"{self.path}: the array {name!r} is of type {array.dtype}, not of numbers.")
        return array.astype(np.float64)

    def ids(self, name: str) -> tuple[Any, ...] | None:
        """The array of that name as a tuple of numbers or texts; None where there is none."""
        if name not in self.names:
            return None
        array = self.array(name)
        if array.ndim != 1:
            raise DataFileError(f"{self.path}: the array {name!r} is {array.ndim}-d; it must be 1-d.")
        if array.dtype.kind not in "iuU" and not (array.dtype.kind == "f" and np.isfinite(array).all()):
            raise DataFileError(
                f"{self.path}: the array {name!r} is of type {array.dtype}; ids and names are numbers or "
                "text."
            )
        return tuple(array.tolist())

    def shape(self, name: str) -> tuple[int, int]:
        """The array of that name as the shape of a matrix."""
        sides = self.whole(name)
        if sides.shape != (2,):
            raise DataFileError(
                f"{self.path}: the array {name!r} has the shape {sides.shape}; a shape is two whole numbers."
            )
        rows, columns = (int(side) for side in sides)
        if not (0 <= rows <= MAX_SIDE and 0 <= columns <= MAX_SIDE):
            raise DataFileError(
                f"{self.path}: {name} says {rows} x {columns}; sides from 0 to {MAX_SIDE} are read."
            )
        # Row pointers and counts are as long as the sides, whatever the matrix holds.
        self._limits.check(self.path, 8.0 * (rows + columns), None, _TIMES)
        return rows, columns

    def whole(self, name: str) -> NDArray[Any]:
        """The array of that name, which must be of integers: others would be rounded."""
        array = self.array(name)
        if array.size == 0:
            # numpy makes an empty list an array of real numbers.
            return np.zeros(array.shape, dtype=np.int64)
        if array.dtype.kind not in "iu":
            raise DataFileError(
                f"{self.path}: the array {name!r} is of type {array.dtype}; places and shapes are integers."
            )
        return array

    def csr(self, key: str) -> Any:
        """The CSR matrix with the parts ``KEY_data``, ``KEY_indices``, ``KEY_indptr`` and ``KEY_shape``."""
        data = self.array(f"{key}_data")
        indices, indptr = self.whole(f"{key}_indices"), self.whole(f"{key}_indptr")
        shape = self.shape(f"{key}_shape")
        if data.dtype.kind not in "biuf":
            raise DataFileError(f"{self.path}: {key}_data is of type {data.dtype}, not of numbers.")
        try:
            matrix = sp.csr_array((data, indices, indptr), shape=shape)
            check_pointers(matrix)
        except (ValueError, TypeError, IndexError, OverflowError) as error:
            raise DataFileError(
                f"{self.path}: {key}_data, {key}_indices, {key}_indptr and {key}_shape are no CSR matrix: "
                f"{error}."
            ) from error
        return matrix


def _open_zip(path: PathLike, file: Any) -> zipfile.ZipFile:
    start = file.read(2)
    if start != b"PK":
        raise DataFileError(f"{path} is {'no npz file' if start else 'empty'}; numpy.savez writes one.")
    size = file.seek(0, io.SEEK_END)
    with _archive_errors(path):
        archive = zipfile.ZipFile(file)
        try:
            check_members(archive, size)
        except ValueError as error:
            raise DataFileError(f"{path} is damaged: {error}. Make it again, or use a copy.") from error
        return archive


@contextmanager
def _archive_errors(path: PathLike) -> Iterator[None]:
    """Turns whatever is wrong with an npz file or with its labels into a DataFileError."""
    try:
        yield
    except _DAMAGED as error:
        raise DataFileError(f"{path} is damaged: {error}. Make it again, or use a copy.") from error
    except InvalidLabelsError as error:
        raise DataFileError(f"{path}: {error}") from error


@contextmanager
def opened_archive(path: PathLike) -> Iterator[Archive]:
    """The archive of a file with the usual limits, closed at the end; damage is a DataFileError."""
    archive = Archive(path, read_limits("auto"))
    try:
        with _archive_errors(path):
            yield archive
    finally:
        archive.close()


def read_npz_table(archive: Archive, unobserved: str | None, binary: bool) -> LabelTable:
    """Features and labels of an npz file."""
    path = archive.path
    with _archive_errors(path):
        row_ids = archive.ids("row_ids")
        labels = _labels(archive, row_ids, unobserved, binary)
        X = _features(archive)
        if X is None and labels is None:
            raise DataFileError(f"{path} has neither features (X) nor labels (Y); it has {archive.listed()}.")
        for what, rows in (("Y", labels), ("row_ids", row_ids)):
            if X is not None and rows is not None and len(rows) != X.shape[0]:
                raise DataFileError(f"{path}: X has {X.shape[0]} rows, but {what} has {len(rows)}.")
        names = archive.ids("feature_names")
        if names is not None and (X is None or len(names) != X.shape[1]):
            count = 0 if X is None else X.shape[1]
            raise DataFileError(f"{path}: there are {len(names)} feature_names for {count} features.")
        return LabelTable(X, labels, None if names is None else tuple(map(str, names)), row_ids)


def _features(archive: Archive) -> Any:
    if "X" in archive:
        X: Any = archive.numbers("X")
        if X.ndim != 2:
            raise DataFileError(f"{archive.path}: the array 'X' is {X.ndim}-d; features are 2-d.")
        finite = np.isfinite(X)
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            raise DataFileError(
                f"{archive.path}: X is {X[row, column]} at row {row}, column {column}; fill it in (impute), "
                "or leave the column out."
            )
        return X
    if "X_data" in archive:
        X = archive.csr("X").astype(np.float64)
        if not np.isfinite(X.data).all():
            raise DataFileError(f"{archive.path}: X_data has NaN or infinity; fill them in (impute).")
        return X
    return None


def _labels(
    archive: Archive, row_ids: tuple[Any, ...] | None, unobserved: str | None, binary: bool
) -> ObservedLabels | None:
    forms = [form for form in ("Y_data", "Y", "Y_rows") if form in archive]
    if not forms:
        return None
    if len(forms) > 1:
        raise DataFileError(f"{archive.path} has the labels twice: {' and '.join(forms)}. Keep one of them.")
    names: dict[str, Any] = {"row_names": row_ids, "label_names": archive.ids("label_names")}
    if forms == ["Y_data"]:
        return ObservedLabels.from_sparse(archive.csr("Y"), unobserved or "missing", binary=binary, **names)
    if forms == ["Y"]:
        labels = ObservedLabels.from_dense(archive.array("Y"), binary=binary, **names)
    else:
        rows, cols, values = archive.whole("Y_rows"), archive.whole("Y_cols"), archive.array("Y_values")
        for part, vector in (("rows", rows), ("cols", cols), ("values", values)):
            if vector.ndim != 1:
                raise DataFileError(
                    f"{archive.path}: the array 'Y_{part}' is {vector.ndim}-d; it must be 1-d."
                )
        if "Y_shape" not in archive and max(rows.max(initial=0), cols.max(initial=0)) > MAX_SIDE:
            raise DataFileError(f"{archive.path}: Y_rows and Y_cols are numbers from 0 to {MAX_SIDE}.")
        labels = ObservedLabels.from_triplets(rows, cols, values, _shape(archive), binary=binary, **names)
    return ObservedLabels.from_any(labels, unobserved or "missing", binary)


def _shape(archive: Archive) -> tuple[int, int] | None:
    """The shape of triplets: Y_shape, or rows as in X and labels as named or numbered."""
    if "Y_shape" in archive:
        return archive.shape("Y_shape")
    if "X" in archive or "X_shape" in archive:
        n = _n_rows(archive.array("X")) if "X" in archive else archive.shape("X_shape")[0]
        names = archive.ids("label_names")
        last = int(np.max(archive.whole("Y_cols"), initial=-1))
        return n, last + 1 if names is None else len(names)
    return None


def _n_rows(X: NDArray[Any]) -> int:
    return len(X) if X.ndim else 0


def read_npz_ratings(
    archive: Archive, user: str, item: str, value: str | None, time: str | None = None
) -> AnswerTable:
    """The ratings of an npz file: vectors of users, items and values, and of times if these are named."""
    path = archive.path
    with _archive_errors(path):
        if value == "value" and value not in archive:
            value = "rating" if "rating" in archive else None
        users, items = archive.array(user), archive.array(item)
        values = None if value is None else archive.numbers(value)
        times = None if time is None else archive.array(time)
        for name, vector in ((user, users), (item, items), (value, values), (time, times)):
            if vector is not None and (vector.ndim != 1 or len(vector) != len(users)):
                raise DataFileError(
                    f"{path}: the array {name!r} has shape {vector.shape}, but {user!r} has {users.shape}; "
                    "ratings are vectors of one length."
                )
        for name, ids in ((user, users), (item, items)):
            if ids.dtype.kind not in "iuU":
                raise DataFileError(
                    f"{path}: the array {name!r} is of type {ids.dtype}; ids are integers or text."
                )
        if times is not None and times.dtype.kind not in "iufM":
            raise DataFileError(
                f"{path}: the array {time!r} is of type {times.dtype}; times are numbers or datetime64."
            )
        return AnswerTable(_plain(users), _plain(items), values, times)


def _plain(ids: NDArray[Any]) -> NDArray[Any]:
    return ids.astype(object) if ids.dtype.kind == "U" else ids.astype(np.int64)


def read_npz_numbers(archive: Archive) -> NumberTable:
    """The matrix of an npz file: ``scores``, ``Y``, or the only one of two dimensions."""
    path = archive.path
    with _archive_errors(path):
        names = [name for name in ("scores", "Y") if name in archive]
        if not names:
            names = [name for name in archive.names if archive.array(name).ndim == 2]
        if len(names) != 1:
            raise DataFileError(
                f"{path} has {len(names) or 'no'} matrices to choose from; it must have one of two "
                f"dimensions, or one named scores or Y. It has {archive.listed()}."
            )
        values = archive.numbers(names[0])
        if values.ndim != 2:
            raise DataFileError(f"{path}: the array {names[0]!r} is {values.ndim}-d; it must be 2-d.")
        columns = archive.ids("label_names")
        if columns is None:
            columns = tuple(str(number) for number in range(1, values.shape[1] + 1))
        if len(columns) != values.shape[1]:
            raise DataFileError(
                f"{path}: there are {len(columns)} label_names for {values.shape[1]} columns."
            )
        return NumberTable(tuple(map(str, columns)), values)
