"""Files that are whole or not there at all."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from labelgap.persistence.container import atomic_write, read_file, write_file


def write(path: Path, data: bytes, then: BaseException | None = None) -> None:
    with atomic_write(path) as file:
        file.write(data)
        if then is not None:
            raise then


def test_the_old_file_is_there_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        write(path, b"half of the new", KeyboardInterrupt())
    assert path.read_bytes() == b"old"
    with atomic_write(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    with atomic_write(path) as first:
        first.write(b"first")
        write(path, b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_rights_links_and_long_names(tmp_path: Path) -> None:
    for mask in (0o022, 0o077):
        before = os.umask(mask)
        try:
            write(tmp_path / f"new {mask}", b"new")
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / f"new {mask}").stat().st_mode) == 0o666 & ~mask
    path, link = tmp_path / "a", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to(path)
    write(link, b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    write(tmp_path / ("n" * 250), b"new")
    assert (tmp_path / ("n" * 250)).read_bytes() == b"new"


def test_a_kill_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model"
    write_file(path, "model", {"which": "old"}, {"x": np.arange(3)})
    # The process kills itself when half of the new file is written.
    script = """
        import os, signal, sys
        import numpy as np
        from labelgap.persistence import container
        write = np.lib.format.write_array
        def half(file, array, **settings):
            if len(array) == 5:
                file.write(b"half")
                os.kill(os.getpid(), signal.SIGKILL)
            write(file, array, **settings)
        np.lib.format.write_array = half
        container.write_file(sys.argv[1], "model", {"which": "new"}, {"x": np.arange(3), "y": np.arange(5)})
    """
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    document, arrays = read_file(path, "model")
    assert document == {"which": "old"}
    assert arrays["x"].tolist() == [0, 1, 2]


def left_behind(path: Path, seconds: float = 60.0) -> Path:
    """An unfinished file for ``path`` that was last written so many seconds ago."""
    part = path.with_name(f".{path.name}.0123456789ab.part")
    part.write_bytes(b"half")
    then = part.stat().st_mtime - seconds
    os.utime(part, (then, then))
    return part


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "a.labelgap"
    old = left_behind(path)
    others = [left_behind(tmp_path / "b"), tmp_path / ".a.labelgap.part", tmp_path / ".a.labelgap.xyz.part"]
    for other in others[1:]:
        other.write_bytes(b"not ours")
    write(path, b"new")
    assert not old.exists()
    assert all(other.exists() for other in others)
    assert path.read_bytes() == b"new"


def test_what_another_writer_is_at_stays(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl", reason="there are no such locks here")
    path = tmp_path / "a"
    young = left_behind(path, seconds=1.0)
    write(path, b"new")
    assert young.exists()
    at_work = left_behind(path)
    with open(at_work, "rb") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        write(path, b"newer")
    assert at_work.exists()
    assert path.read_bytes() == b"newer"


def test_an_error_of_the_system_names_the_file(tmp_path: Path) -> None:
    path, nowhere = tmp_path / "a", tmp_path / "no" / "a"
    with pytest.raises(OSError, match="No space left on device") as full:
        write(path, b"", OSError(errno.ENOSPC, "No space left on device"))
    assert full.value.filename == str(path)
    with pytest.raises(FileNotFoundError) as missing:
        write(nowhere, b"")
    assert missing.value.filename == str(nowhere)
