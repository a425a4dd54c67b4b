"""Files of arrays and JSON: what goes in comes out, and anything else is refused with a sentence."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelgap.exceptions import InvalidInputError, ModelFileError
from labelgap.persistence.container import FORMAT, read_file, write_file

DOCUMENT = {"name": "naïve ☃ 電", "numbers": [1, -0.5, 10**30], "nested": {"none": None, "yes": True}}
GRID = np.arange(20.0).reshape(5, 4)
ARRAYS: dict[str, Any] = {
    "float": np.array([[1.5, np.nan], [np.inf, -0.0]]),
    "by columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "zero-d": np.array(7),
    "empty": np.zeros((0, 3), dtype=np.float32),
    "flags": np.array([True, False]),
    "text": np.array(["ä", "long one"]),
    "complex": np.array([1 + 2j]),
    "when": np.array(["2024-01-01"], dtype="datetime64[D]"),
    "größe/ß": np.arange(3, dtype=np.int8),
    "little end first": np.arange(3).astype("<f8"),
}
# How the comment at the end of a file begins; the digest of everything before it follows.
SIGNATURE, DIGEST_LENGTH = b"labelgap sha256 ", 64


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a file.labelgap"
    write_file(path, "model", DOCUMENT, ARRAYS)
    return path


def read_error(path: Path, data: bytes) -> str:
    """What reading these bytes says; it must be the error that was asked for."""
    path.write_bytes(data)
    with pytest.raises(ModelFileError) as caught:
        read_file(path, "model", ModelFileError)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert message.endswith(".")
    return message.removeprefix(str(path))


def signed(data: bytes) -> bytes:
    """An archive without a comment, with the one that holds the right digest."""
    body = data[:-2] + struct.pack("<H", len(SIGNATURE) + DIGEST_LENGTH) + SIGNATURE
    return body + hashlib.sha256(body).hexdigest().encode()


def forged(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """A file that somebody made on purpose, digest and all."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return signed(buffer.getvalue())


def header(**other: Any) -> bytes:
    return json.dumps({"format": 1, "kind": "model"} | other).encode()


def with_array(data: bytes) -> dict[str, bytes]:
    return {"labelgap": header(), "document.json": b"{}", "arrays/a.npy": data}


# -- there and back ------------------------------------------------------------------------------------


def test_what_goes_in_comes_out_and_the_same_contents_give_the_same_bytes(path: Path) -> None:
    document, arrays = read_file(path, "model", ModelFileError)
    assert document == DOCUMENT
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert (arrays[name].dtype, arrays[name].shape) == (array.dtype, array.shape)
        assert arrays[name].tobytes() == array.tobytes()
        assert arrays[name].flags.f_contiguous == array.flags.f_contiguous
    first = path.read_bytes()
    write_file(path, "model", DOCUMENT, ARRAYS)
    assert path.read_bytes() == first
    with np.load(path, allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["arrays/float"], ARRAYS["float"])
    with zipfile.ZipFile(path) as archive:
        assert json.loads(archive.read("document.json")) == DOCUMENT
        assert archive.testzip() is None
    write_file(path, "model", {}, {})
    assert read_file(path, "model") == ({}, {})
    write_file(path, "model", {}, {"x": np.arange(3).astype(">f8")})
    read = read_file(path, "model").arrays["x"]
    assert (read.dtype, read.tolist()) == (np.float64, [0, 1, 2])


def test_parts_of_arrays_keep_their_order_in_memory(tmp_path: Path) -> None:
    for array in (GRID[:, 1:3], GRID[::2], GRID[::-1], GRID.T[1:], GRID.T[:, 1:3]):
        write_file(tmp_path / "a", "model", {}, {"a": array})
        read = read_file(tmp_path / "a", "model").arrays["a"]
        np.testing.assert_array_equal(read, array)
        by_rows = [abs(step) for step in array.strides] == sorted(map(abs, array.strides), reverse=True)
        assert read.flags.c_contiguous == by_rows


@given(
    text=st.text(max_size=8) | st.just("half a pair \ud800"),
    numbers=st.lists(st.floats(width=64), max_size=5),
)
def test_any_text_and_numbers(tmp_path_factory: Any, text: str, numbers: list[float]) -> None:
    path = tmp_path_factory.getbasetemp() / "any text and numbers"
    array = np.array(numbers, dtype=np.float64)
    write_file(path, "model", {"text": text}, {"a": array})
    document, arrays = read_file(path, "model")
    assert document["text"] == text
    assert arrays["a"].tobytes() == array.tobytes()


def test_what_cannot_be_read_again_is_not_written(path: Path) -> None:
    before = path.read_bytes()
    for value in (np.nan, np.inf):
        with pytest.raises(ValueError, match="not JSON compliant"):
            write_file(path, "model", {"number": value}, {})
    with pytest.raises(TypeError, match="'names' holds Python objects"):
        write_file(path, "model", {}, {"names": np.array(["a", None], dtype=object)})
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


# -- damage and foreign files --------------------------------------------------------------------------


def test_every_truncation_and_every_flipped_byte_is_noticed(path: Path) -> None:
    data = path.read_bytes()
    for length in [*range(200), *range(200, len(data), 37), *range(len(data) - 120, len(data))]:
        message = read_error(path, data[:length])
        assert "labelgap wrote" in message if length < 38 else "is damaged" in message, length
    assert "is damaged" in read_error(path, data + b"\0")
    assert read_error(path, b"") == " is empty, not a file that labelgap wrote."
    write_file(path, "model", {"name": "ä"}, {"x": np.arange(3.0)})
    changed = bytearray(path.read_bytes())
    for place in range(len(changed)):
        changed[place] ^= 0xFF
        assert "is damaged" in read_error(path, bytes(changed)), place
        changed[place] ^= 0xFF


class Bomb:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("the pickle was run",))


def test_foreign_files_are_named_so(path: Path) -> None:
    archive, arrays = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("readme.txt", "hello" * 50)
    np.savez(arrays, x=np.arange(5))
    foreign = [archive.getvalue(), arrays.getvalue(), b"user,item,stars\nann,Ran,5\n", pickle.dumps(Bomb())]
    for data in (*foreign, b"\0" * 500, b"PK"):
        assert "is not a file that labelgap wrote" in read_error(path, data), data[:20]


def test_other_kinds_newer_formats_and_missing_files(path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"holds a model, not a checkpoint\."):
        read_file(path, "checkpoint")
    newer = {"labelgap": header(format=FORMAT + 1), "document.json": b"{}"}
    message = read_error(path, forged(newer))
    assert f"has the format {FORMAT + 1}, and this labelgap reads formats up to {FORMAT}" in message
    assert "upgrade" in message
    with pytest.raises(FileNotFoundError):
        read_file(path.parent / "nothing", "model")
    with pytest.raises(IsADirectoryError):
        read_file(path.parent, "model")


# -- made on purpose -----------------------------------------------------------------------------------


def npy(array: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def npy_of(text: str, data: bytes = b"\0" * 16) -> bytes:
    """numpy's format with a header of somebody's own."""
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) + 1) + text.encode() + b"\n" + data


def header_of(descr: str = "'<f8'", shape: str = "(2,)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}"


NO_FILES: list[dict[str, bytes]] = [
    {},
    *({"labelgap": data} for data in (b"[]", b"{}", b"not JSON", b"\xff\xfe", b'{"format": 1}')),
    *({"labelgap": header(format=wrong)} for wrong in ("1", True)),
    {"labelgap": header()},
    *({"labelgap": header(), "document.json": data} for data in (b"[1]", b"[" * 100_000, b"\xff")),
    *map(
        with_array,
        (
            b"no array",
            npy(np.zeros(9))[:-8],
            npy(np.zeros(3)).replace(b"(3,), }", b"(3000000000000000,), }"),
            npy(np.array([Bomb()]), allow_pickle=True),
        ),
    ),
]
NO_HEADERS = [
    *(header_of(shape=shape) for shape in (f"({2**63},)", f"({2**70},)", "(-1,)", "2")),
    *(header_of(descr=descr) for descr in ("()", "[()]", "None", "'f8,(9999999,9999999)f8'")),
    header_of(descr="'<U0'", shape=f"({10**15},)"),
    header_of(descr="'|S0'", shape="(3,)"),
    header_of(descr="'|V0'", shape="(3,)"),
    "{'descr': '<f8', (",
    "(" * 3000,
    "",
]


def test_a_forged_file_is_refused_and_runs_nothing(path: Path) -> None:
    for members in (*NO_FILES, *(with_array(npy_of(text)) for text in NO_HEADERS)):
        message = read_error(path, forged(members))
        assert "is labelgap's by its looks, but what is in it is not" in message, members
    path.write_bytes(forged(with_array(npy_of(header_of()))))
    assert read_file(path, "model").arrays["a"].tolist() == [0.0, 0.0]


def test_nothing_is_uncompressed(path: Path) -> None:
    members = with_array(npy(np.zeros(10**6)))
    assert "is compressed" in read_error(path, forged(members, zipfile.ZIP_DEFLATED))
    path.write_bytes(forged(members))
    assert read_file(path, "model").arrays["a"].shape == (10**6,)


MEMBER = 500_000


def listing(names: list[str], place: int | None, size: int | None = None) -> bytes:
    """A file whose list has these arrays, too, all of them at one place and of one size if they are given."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in with_array(npy(np.zeros(MEMBER))).items():
            archive.writestr(name, data)
        first = archive.getinfo("arrays/a.npy")
        for name in names:
            entry = zipfile.ZipInfo(name)
            entry.CRC, entry.compress_size, entry.file_size = first.CRC, first.compress_size, first.file_size
            entry.header_offset = first.header_offset if place is None else place
            archive.filelist.append(entry)
        if size is not None:
            first.file_size = size
        archive._didModify = True  # zipfile writes its list only where it thinks that something changed.
    return signed(buffer.getvalue())


def test_archives_that_claim_more_than_they_hold_are_refused_before_anything_is_read(path: Path) -> None:
    many = [f"arrays/a{number}.npy" for number in range(500)]
    for names, place, size, said in (
        (many, None, None, "overlaps another one"),
        (["arrays/a.npy"] * 3000, None, None, "lists a member twice"),
        (["arrays/far.npy"], 10**9, None, "its members claim 100"),
        ([], None, 2**30, "claims"),
    ):
        data = listing(names, place, size)
        tracemalloc.start()
        try:
            message = read_error(path, data)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert said in message
        assert peak < 8 * MEMBER
