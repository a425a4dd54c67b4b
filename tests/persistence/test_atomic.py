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


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def interrupted() -> None:
        with atomic_write(path) as file:
            file.write(b"half of the new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_old_file_is_there_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with atomic_write(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_new_file_has_the_usual_rights(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        with atomic_write(tmp_path / "a") as file:
            file.write(b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666 & ~mask


def test_a_replaced_file_keeps_its_rights_and_a_link_stays_one(tmp_path: Path) -> None:
    path, link = tmp_path / "a", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to(path)
    with atomic_write(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_folder_that_is_not_there_is_the_systems_business(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "nowhere" / "a"):
        pass


def test_a_long_name_will_do(tmp_path: Path) -> None:
    with atomic_write(tmp_path / ("n" * 250)) as file:
        file.write(b"new")
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
    with atomic_write(path) as file:
        file.write(b"new")
    assert not old.exists()
    assert all(other.exists() for other in others)
    assert path.read_bytes() == b"new"


def test_what_another_writer_is_at_stays(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl", reason="there are no such locks here")
    path = tmp_path / "a"
    young = left_behind(path, seconds=1.0)
    with atomic_write(path) as file:
        file.write(b"new")
    assert young.exists()
    at_work = left_behind(path)
    with open(at_work, "rb") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        with atomic_write(path) as file:
            file.write(b"newer")
    assert at_work.exists()
    assert path.read_bytes() == b"newer"


def test_two_writers_at_one_time(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with atomic_write(path) as first:
        first.write(b"first")
        with atomic_write(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_of_the_system_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a"

    def full() -> None:
        with atomic_write(path):
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left on device") as caught:
        full()
    assert caught.value.filename == str(path)
    with pytest.raises(FileNotFoundError) as caught, atomic_write(tmp_path / "no" / "a"):
        pass
    assert caught.value.filename == str(tmp_path / "no" / "a")
