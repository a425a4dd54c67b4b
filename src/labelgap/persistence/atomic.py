"""Files that are replaced in one step, and what a killed writer left behind."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

# A younger file may belong to a writer that has not locked it yet.
_SECONDS = 10.0


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file that takes the place of ``path`` at the end of the block, or never if that fails.

    It is written under another name and renamed when it is complete and on the disk. So a reader sees the old
    file or the new one, even if the writer is killed. What a killed writer left behind is removed by the next
    one. An error of the system names ``path``. A device or a pipe is refused: it is never replaced by a file.

    Examples
    --------
    >>> with atomic_write("a.txt") as file:
    ...     _ = file.write(b"all of it")
    >>> Path("a.txt").read_text()
    'all of it'
    """
    # If the path is a link, the file that it points to is replaced, not the link.
    given, path = path, Path(os.path.realpath(path))
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "It is a device or a pipe, and no file to replace", os.fspath(given))
    temporary = path.with_name(f".{_short_name(path.name)}.{secrets.token_hex(6)}.part")
    try:
        # Opened like any new file, so that the system gives it the usual permissions. Asking for the umask
        # would change it for a moment, for all threads.
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        descriptor = os.open(temporary, flags, 0o666)
        with os.fdopen(descriptor, "w+b") as file:
            _lock(file.fileno())
            _remove_leftovers(path)
            yield file
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            os.chmod(temporary, os.stat(path).st_mode & 0o777)
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            # Nobody knows the other name, and a write that fails names no file at all.
            error.filename = os.fspath(given)
        raise
    _sync_folder(path.parent)


def _remove_leftovers(path: Path) -> None:
    """Remove the unfinished files for ``path`` that no process is writing any more."""
    name = re.compile(re.escape(f".{_short_name(path.name)}.") + r"[0-9a-f]{12}\.part")
    with contextlib.suppress(OSError):
        for other in os.scandir(path.parent):
            if name.fullmatch(other.name) and _is_abandoned(other):
                os.unlink(other.path)


def _is_abandoned(part: os.DirEntry[str]) -> bool:
    try:
        if time.time() - part.stat(follow_symlinks=False).st_mtime < _SECONDS:
            return False
        descriptor = os.open(part.path, os.O_RDWR)
    except OSError:
        return False
    try:
        return _lock(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock the file until it is closed, or until its process ends; False where that is not possible."""
    try:
        import fcntl
    except ImportError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _short_name(name: str) -> str:
    """The start of a name, so that a longer name is not too long for the system, which counts bytes."""
    return os.fsencode(name)[:100].decode("utf-8", "ignore")


def _sync_folder(folder: Path) -> None:
    """Write the folder to the disk where the system can, so that the new name survives a power failure."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
