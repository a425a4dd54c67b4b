"""Archives that claim more than they hold are refused before anything of it is read."""

from __future__ import annotations

import io
import json
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from labelgap.exceptions import ModelFileError
from labelgap.persistence import container
from labelgap.persistence.container import read_file
from labelgap.persistence.zip_arrays import check_members

MEMBER = 500_000
HEADER = json.dumps({"format": 1, "kind": "model"}).encode()


def signed(data: bytes) -> bytes:
    """The archive with a comment that holds the right digest."""
    signature = container._SIGNATURE
    body = data[:-2] + struct.pack("<H", len(signature) + container._DIGEST_LENGTH) + signature
    return body + container._digest(io.BytesIO(body), len(body))


def archive_of(names: list[str], place: int | None) -> bytes:
    """A model file whose list has these arrays, all of them at one place if it is given."""
    array = io.BytesIO()
    np.save(array, np.zeros(MEMBER))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("labelgap", HEADER)
        archive.writestr("document.json", b"{}")
        archive.writestr("arrays/a.npy", array.getvalue())
        first = archive.getinfo("arrays/a.npy")
        for name in names:
            entry = zipfile.ZipInfo(name)
            entry.CRC, entry.compress_size, entry.file_size = first.CRC, first.compress_size, first.file_size
            entry.header_offset = first.header_offset if place is None else place
            archive.filelist.append(entry)
        archive._didModify = True
    return signed(buffer.getvalue())


def refused(path: Path, data: bytes) -> str:
    """The error message; nothing as large as the arrays that are claimed may be made."""
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError) as caught:
            read_file(path, "model", ModelFileError)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * MEMBER
    return str(caught.value)


def test_members_that_overlap(tmp_path: Path) -> None:
    names = [f"arrays/a{number}.npy" for number in range(500)]
    assert "overlaps another one" in refused(tmp_path / "a", archive_of(names, None))


def test_one_member_many_times(tmp_path: Path) -> None:
    message = refused(tmp_path / "a", archive_of(["arrays/a.npy"] * 3000, None))
    assert "lists a member twice" in message


def test_members_beyond_the_end(tmp_path: Path) -> None:
    message = refused(tmp_path / "a", archive_of(["arrays/far.npy"], 10**9))
    assert "its members claim 100" in message


def test_a_stored_member_of_another_size() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a", b"abc")
        archive.getinfo("a").file_size = 2**40
        with pytest.raises(ValueError, match="claims a wrong size"):
            check_members(archive, 2**50)


@pytest.mark.parametrize("order", ["<", ">"])
def test_numbers_of_either_byte_order_are_read(tmp_path: Path, order: str) -> None:
    container.write_file(tmp_path / "a", "model", {}, {"x": np.arange(3).astype(f"{order}f8")})
    read = read_file(tmp_path / "a", "model").arrays["x"]
    assert read.dtype == np.float64
    assert read.tolist() == [0, 1, 2]
