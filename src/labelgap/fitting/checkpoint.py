"""A folder that holds how far a fit has come, so that a killed one can be gone on with.

Every file in it is complete or not there. ``checkpoint.npz`` says which fit it belongs to; ``state.npz`` in a
folder is the last mark of a piece of the work, ``fit.npz`` a finished fit.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from labelgap._warn import warn
from labelgap.exceptions import CheckpointError, LabelgapWarning
from labelgap.fitting.interrupt import StopRequest
from labelgap.persistence.container import read_file, write_file
from labelgap.solvers.checkpoint import Checkpoint
from labelgap.solvers.result import Fit, State, fit_from, fit_state

_KIND = "checkpoint"
_HEADER, _LOCK = "checkpoint.npz", "checkpoint.lock"
# Seconds between two marks of a run, and how many times what one took to write.
_EVERY, _TIMES_THE_COST = 1.0, 20.0


class StoppableCheckpoint(Checkpoint):
    """Keeps nothing, but ends on request."""

    def __init__(self, request: StopRequest) -> None:
        self._request = request

    def stopping(self) -> bool:
        return self._request.made


@dataclass
class _Shared:
    """What all pieces of the work in a folder have in common."""

    request: StopRequest
    open: bool = True
    """Whether the folder is still ours: a thread that outlives the fit must not write into it."""
    writable: bool = True


class FolderCheckpoint(StoppableCheckpoint):
    """Keeps states and finished fits in a folder; each piece of the work in one below it."""

    def __init__(self, folder: Path, shared: _Shared) -> None:
        super().__init__(shared.request)
        self._folder, self._shared = folder, shared
        self._next_mark = time.monotonic() + _EVERY

    def part(self, name: str) -> Self:
        return type(self)(self._folder / name.replace(" ", "-"), self._shared)

    def last(self) -> State | None:
        return self._read("state.npz")

    def snapshot(self, state: State, *, at_once: bool = False) -> None:
        began = time.monotonic()
        if began >= self._next_mark or at_once:
            self._write("state.npz", state)
            now = time.monotonic()
            self._next_mark = now + max(_EVERY, _TIMES_THE_COST * (now - began))

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
                f"The checkpoint cannot be written any more ({error}). The fit goes on without it; what is "
                "in the folder can be gone on from.",
                LabelgapWarning,
            )
            return False
        return True


@contextlib.contextmanager
def open_checkpoint(
    folder: str | os.PathLike[str], about: Mapping[str, str], request: StopRequest
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
        shared = _Shared(request)
        try:
            yield FolderCheckpoint(work, shared), int(document["seed"])
        finally:
            shared.open = False


def _refuse_foreign(folder: Path) -> None:
    """Nothing is touched in a folder that holds anything but a checkpoint."""
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
    # Of data there are digests only, which would tell nobody anything.
    if name.startswith("the "):
        return f"{name} have changed"
    return f"{name} was {before}, and is now {now}"


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Two processes in one folder would go on from each other's states. The lock ends with the process."""
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
                # Some network file systems know no locks.
                yield
                return
            raise CheckpointError(
                f"Another process is fitting with the checkpoint {folder}. Wait for it, or give another "
                "folder."
            ) from error
        yield
