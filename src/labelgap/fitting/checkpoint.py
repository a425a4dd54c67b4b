"""A folder that holds the progress of a fit, so that a fit that was killed can be resumed.

Every file in it is complete or absent. ``checkpoint.npz`` says which fit it belongs to; ``state.npz`` in a
folder is the last snapshot of a part of the work, ``fit.npz`` a finished fit.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import shutil
import threading
import time
import types
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from labelgap._warn import warn
from labelgap.exceptions import CheckpointError, LabelgapWarning
from labelgap.labels import ObservedLabels
from labelgap.metrics import LinearFractional
from labelgap.persistence.container import read_file, write_file
from labelgap.solvers.loop import Checkpoint, Fit, State, fit_from, fit_state

_KIND = "checkpoint"
_HEADER, _LOCK = "checkpoint.npz", "checkpoint.lock"
# Seconds between two snapshots: at least so many, and so many times what the last one took to write.
_EVERY, _TIMES_THE_COST = 1.0, 20.0
# What a digest takes by its contents.
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_FUNCTIONS = (types.FunctionType, types.MethodType)


@dataclass
class _Shared:
    """What all parts of the work in a folder have in common."""

    stop: threading.Event
    """Set to end the fit, by a signal handler or another thread."""
    open: bool = True
    """Whether the folder is still ours: a thread that outlives the fit must not write into it."""
    writable: bool = True


class FolderCheckpoint(Checkpoint):
    """Keeps states and finished fits in a folder, and those of each part of the work in a folder below it."""

    keeps = True

    def __init__(self, folder: Path, shared: _Shared) -> None:
        super().__init__(shared.stop)
        self._folder, self._shared = folder, shared
        self._next_snapshot = time.monotonic() + _EVERY

    def part(self, name: str) -> Self:
        return type(self)(self._folder / name.replace(" ", "-"), self._shared)

    def last(self) -> State | None:
        return self._read("state.npz")

    def snapshot(self, state: State, *, at_once: bool = False) -> None:
        began = time.monotonic()
        if began >= self._next_snapshot or at_once:
            self._write("state.npz", state)
            now = time.monotonic()
            self._next_snapshot = now + max(_EVERY, _TIMES_THE_COST * (now - began))

    def fit(self, solve: Any) -> Fit:
        done = self._read("fit.npz")
        if done is not None:
            return fit_from(done)
        fit: Fit = solve(checkpoint=self)
        if not self.stopping() and self._write("fit.npz", fit_state(fit)):
            self._forget_but("fit.npz")
        return fit

    def forget(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _forget_but(self, kept: str) -> None:
        for path in self._folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != kept:
                path.unlink(missing_ok=True)

    def _read(self, name: str) -> State | None:
        path = self._folder / name
        return read_file(path, _KIND, CheckpointError).arrays if path.exists() else None

    @staticmethod
    def _write_file(path: Path, state: State) -> None:
        write_file(path, _KIND, {}, state)

    def _write(self, name: str, state: State) -> bool:
        """Whether it could be written. A full disk is no reason to lose the fit itself."""
        if not self._shared.open or not self._shared.writable:
            return False
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._write_file(self._folder / name, state)
        except OSError as error:
            self._shared.writable = False
            warn(
                f"The checkpoint cannot be written any more ({error}). The fit continues without it, and can "
                "be resumed from what is in the folder.",
                LabelgapWarning,
            )
            return False
        return True


@contextlib.contextmanager
def open_checkpoint(
    folder: str | os.PathLike[str], about: Mapping[str, str], stop: threading.Event
) -> Iterator[tuple[FolderCheckpoint, int]]:
    """The checkpoint in a folder, new or of an earlier run of the same fit, and the seed that goes with it.

    ``about`` says what the fit is, in words or digests; one of another fit is an error.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"The checkpoint {folder} is a file; give a folder, which need not exist yet.")
    header, work = folder / _HEADER, folder / "work"
    _refuse_foreign(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        # What a killed run was writing.
        for unfinished in (*folder.glob(f".{_HEADER}.*.part"), *work.rglob(".*.part")):
            unfinished.unlink(missing_ok=True)
        if header.exists():
            document = read_file(header, _KIND, CheckpointError).document
            _require_same(folder, document["about"], about)
        else:
            document = {"about": dict(about), "seed": int(np.random.SeedSequence().generate_state(1)[0])}
            write_file(header, _KIND, document, {})
        shared = _Shared(stop)
        try:
            yield FolderCheckpoint(work, shared), int(document["seed"])
        finally:
            shared.open = False


def _refuse_foreign(folder: Path) -> None:
    """Raise if the folder holds anything but a checkpoint, before anything in it is changed."""
    if not folder.exists() or (folder / _HEADER).exists():
        return
    ours = (_LOCK, f".{_HEADER}.")
    foreign = sorted(path.name for path in folder.iterdir() if not path.name.startswith(ours))
    if foreign:
        raise CheckpointError(
            f"The folder {folder} holds {foreign[0]!r} and is no checkpoint. Give an empty folder, or one "
            "that does not exist yet."
        )


def remove_checkpoint(folder: str | os.PathLike[str]) -> None:
    """Delete a checkpoint that is no longer needed, and its folder if there is nothing else in it."""
    folder = Path(folder)
    shutil.rmtree(folder / "work", ignore_errors=True)
    for name in (_HEADER, _LOCK):
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def _require_same(folder: Path, before: Mapping[str, str], now: Mapping[str, str]) -> None:
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if names:
        shown = ", ".join(_difference(name, before.get(name), now.get(name)) for name in names)
        raise CheckpointError(
            f"The checkpoint in {folder} is of another fit: {shown}. Give another folder, or delete this one "
            "to begin anew."
        )


def _difference(name: str, before: str | None, now: str | None) -> str:
    # Data are described by digests, which mean nothing to a reader.
    if name.startswith("the "):
        return f"{name} have changed"
    return f"{name} was {before}, and is now {now}"


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes, which would resume from our states, out of the folder.

    The lock ends with the process.
    """
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    with open(folder / _LOCK, "a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                # Some network file systems have no locks.
                yield
                return
            raise CheckpointError(
                f"Another process is fitting with the checkpoint {folder}. Wait for it, or give another "
                "folder."
            ) from error
        yield


# -- digests -----------------------------------------------------------------------------------------------


def described(value: Any) -> str:
    """A setting as text: its ``repr`` where that says all, else its type and a digest of its contents.

    Examples
    --------
    >>> described("micro-f1"), described([0.1, 0.2])
    ("'micro-f1'", 'list 4c5f5bb5db5111ba')
    """
    if value is np.random:
        return described(None)
    if isinstance(value, (*_PLAIN, LinearFractional)):
        return repr(value)
    return f"{type(value).__name__} {digest(value)}"


def digest(*parts: Any) -> str:
    """A short name for the contents of arrays, sparse matrices, labels, functions and objects."""
    found = hashlib.sha256()
    for part in parts:
        _add(found, part, {})
    return found.hexdigest()[:16]


def _add(found: Any, part: Any, seen: dict[int, Any]) -> None:
    found.update(f"<{type(part).__name__}>".encode())
    if id(part) in seen:
        # Objects may lead back to themselves.
        return
    seen[id(part)] = part
    for inner in _contents(part):
        if isinstance(inner, memoryview):
            found.update(inner)
        elif isinstance(inner, _PLAIN):
            found.update(f"{inner!r};".encode())
        else:
            _add(found, inner, seen)


def _contents(part: Any) -> list[Any]:
    """What a value is made of: plain values, bytes of arrays, and other values."""
    if isinstance(part, _PLAIN):
        return [part]
    if isinstance(part, np.generic):
        return [part.item()]
    if isinstance(part, np.ndarray):
        if part.dtype.hasobject:
            return [part.shape, *part.ravel().tolist()]
        return [part.dtype.str, part.shape, np.ascontiguousarray(part).reshape(-1).view(np.uint8).data]
    if sp.issparse(part):
        rows = sp.csr_array(part)
        return [rows.shape, rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data]
    if isinstance(part, ObservedLabels):
        places = [part.shape, part.unobserved, part.indptr, part.indices, part.row_names, part.label_names]
        parts = [*places, part.values, part.weights, part.offsets]
        # As it was before there were weights of rows, so that checkpoints of then go on.
        parts = parts if part.row_weights is None else [*parts, part.row_weights]
        return parts if part.judging is None else [*parts, part.judging]
    if isinstance(part, np.random.RandomState):
        return list(part.get_state(legacy=True))
    if isinstance(part, Mapping):
        return [len(part), *(one for pair in part.items() for one in pair)]
    if isinstance(part, Set):
        return sorted(part, key=repr)
    if isinstance(part, (list, tuple)):
        return [len(part), *part]
    if hasattr(part, "__array__"):
        # A Series or a frame; with the names by which its numbers may be looked up.
        names = [list(getattr(part, side)) for side in ("index", "columns") if hasattr(part, side)]
        return [np.asarray(part), *names]
    return _of_code(part)


def _of_code(part: Any) -> list[Any]:
    if isinstance(part, functools.partial):
        return [part.func, part.args, part.keywords]
    if isinstance(part, types.CodeType):
        return [part.co_code, part.co_names, list(part.co_consts)]
    if isinstance(part, _FUNCTIONS):
        owner = getattr(part, "__self__", None)
        function = getattr(part, "__func__", part)
        around = [_held(cell) for cell in function.__closure__ or ()]
        return [part.__qualname__, function.__code__, function.__defaults__, around, owner]
    if isinstance(part, type) or (callable(part) and not hasattr(part, "__dict__")):
        return [getattr(part, "__module__", ""), getattr(part, "__qualname__", "")]
    attributes = sorted(getattr(part, "__dict__", {}).items())
    return [type(part).__qualname__, *(one for pair in attributes for one in pair)]


def _held(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        # A name that has no value yet.
        return None
