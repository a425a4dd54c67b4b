"""Files of arrays and JSON: what goes in comes out, and anything else is refused with a sentence."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelgap.exceptions import InvalidInputError, ModelFileError
from labelgap.persistence import container
from labelgap.persistence.container import read_file, write_file

DOCUMENT = {"name": "naïve ☃ 電", "numbers": [1, -0.5, 10**30], "nested": {"none": None, "yes": True}}
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
}


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


def forged(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """A file that somebody made on purpose, digest and all."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.comment = container._SIGNATURE + b"0" * container._DIGEST_LENGTH
    end = len(buffer.getvalue()) - container._DIGEST_LENGTH
    return buffer.getvalue()[:end] + container._digest(buffer, end)


def header(**other: Any) -> bytes:
    return json.dumps({"format": 1, "kind": "model"} | other).encode()


# -- there and back ------------------------------------------------------------------------------------


def test_what_goes_in_comes_out(path: Path) -> None:
    document, arrays = read_file(path, "model", ModelFileError)
    assert document == DOCUMENT
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert arrays[name].shape == array.shape
        assert arrays[name].tobytes() == array.tobytes()
        assert arrays[name].flags.f_contiguous == array.flags.f_contiguous


def test_nothing_at_all_comes_out_of_nothing(tmp_path: Path) -> None:
    write_file(tmp_path / "a", "model", {}, {})
    assert read_file(tmp_path / "a", "model") == ({}, {})


@pytest.mark.parametrize(
    "part",
    [
        lambda a: a[:, 1:3],
        lambda a: a[::2],
        lambda a: a[::-1],
        lambda a: a.T[1:],
        lambda a: a.T[:, 1:3],
    ],
)
def test_parts_of_arrays_keep_their_order_in_memory(tmp_path: Path, part: Callable[[Any], Any]) -> None:
    array = part(np.arange(20.0).reshape(5, 4))
    write_file(tmp_path / "a", "model", {}, {"a": array})
    read = read_file(tmp_path / "a", "model").arrays["a"]
    np.testing.assert_array_equal(read, array)
    by_rows = [abs(stride) for stride in array.strides] == sorted(map(abs, array.strides), reverse=True)
    assert read.flags.c_contiguous == by_rows


@settings(max_examples=50, deadline=None)
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


def test_the_same_contents_give_the_same_bytes(path: Path) -> None:
    first = path.read_bytes()
    write_file(path, "model", DOCUMENT, ARRAYS)
    assert path.read_bytes() == first


def test_numpy_and_unzip_open_it(path: Path) -> None:
    with np.load(path, allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["arrays/float"], ARRAYS["float"])
    with zipfile.ZipFile(path) as archive:
        assert json.loads(archive.read("document.json")) == DOCUMENT
        assert archive.testzip() is None


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_of_the_document_are_finite(tmp_path: Path, value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_file(tmp_path / "a", "model", {"number": value}, {})
    assert list(tmp_path.iterdir()) == []


def test_objects_are_not_written(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(TypeError, match="'names' holds Python objects"):
        write_file(path, "model", {}, {"names": np.array(["a", None], dtype=object)})
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


# -- damage --------------------------------------------------------------------------------------------


def test_every_truncation_is_noticed(path: Path) -> None:
    data = path.read_bytes()
    for length in [*range(200), *range(200, len(data), 37), *range(len(data) - 120, len(data))]:
        message = read_error(path, data[:length])
        assert "labelgap wrote" in message if length < 38 else "is damaged" in message, length


def test_every_flipped_byte_is_noticed(path: Path) -> None:
    write_file(path, "model", {"name": "ä"}, {"x": np.arange(3.0)})
    data = bytearray(path.read_bytes())
    for place in range(len(data)):
        data[place] ^= 0xFF
        assert "is damaged" in read_error(path, bytes(data)), place
        data[place] ^= 0xFF


@settings(max_examples=60, deadline=None)
@given(
    edits=st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.binary(max_size=4)), min_size=1, max_size=4
    )
)
def test_any_other_change_is_noticed(tmp_path_factory: Any, edits: list[tuple[float, bytes]]) -> None:
    path = tmp_path_factory.getbasetemp() / "changed"
    write_file(path, "model", {"a": [1, 2, 3]}, {"x": np.arange(30.0)})
    data = original = path.read_bytes()
    for fraction, new in edits:
        place = int(fraction * len(data))
        data = data[:place] + new + data[place + 2 :]
    if data == original:
        return
    read_error(path, data)


def test_something_behind_the_end_is_noticed(path: Path) -> None:
    assert "is damaged" in read_error(path, path.read_bytes() + b"\0")


# -- foreign files -------------------------------------------------------------------------------------


def test_an_empty_file_is_named_so(path: Path) -> None:
    assert read_error(path, b"") == " is empty, not a file that labelgap wrote."


def a_zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("readme.txt", "hello" * 50)
    return buffer.getvalue()


def an_npz() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, x=np.arange(5))
    return buffer.getvalue()


class Bomb:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("the pickle was run",))


@pytest.mark.parametrize(
    "data",
    [a_zip(), an_npz(), b"user,item,stars\nann,Ran,5\n", pickle.dumps(Bomb()), b"\0" * 500, b"PK"],
    ids=["zip", "npz", "text", "pickle", "zeros", "two bytes"],
)
def test_foreign_files_are_named_so(path: Path, data: bytes) -> None:
    assert "is not a file that labelgap wrote" in read_error(path, data)


def test_a_file_that_is_not_there_is_the_systems_business(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "nothing", "model")
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path, "model")


def test_another_kind_is_named(path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"holds a model, not a checkpoint\."):
        read_file(path, "checkpoint")


def test_a_newer_format_asks_for_an_upgrade(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(container, "FORMAT", 2)
        write_file(path, "model", {}, {})
    message = read_error(path, path.read_bytes())
    assert "has the format 2, and this labelgap reads formats up to 1" in message
    assert "upgrade" in message


# -- made on purpose -----------------------------------------------------------------------------------


def npy(array: Any, **settings: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, **settings)
    return buffer.getvalue()


def npy_of(header: str, data: bytes = b"\0" * 16) -> bytes:
    """numpy's format with a header of somebody's own."""
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) + 1) + header.encode() + b"\n" + data


def header_of(descr: str = "'<f8'", shape: str = "(2,)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}"


HUGE = npy(np.zeros(3)).replace(b"(3,), }", b"(3000000000000000,), }")


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"labelgap": b"[]"},
        {"labelgap": b"{}"},
        {"labelgap": b"not JSON"},
        {"labelgap": b"\xff\xfe"},
        {"labelgap": header(format="1")},
        {"labelgap": header(format=True)},
        {"labelgap": b'{"format": 1}'},
        {"labelgap": header()},
        {"labelgap": header(), "document.json": b"[1]"},
        {"labelgap": header(), "document.json": b"[" * 100_000},
        {"labelgap": header(), "document.json": b"\xff"},
        {"labelgap": header(), "document.json": b"{}", "arrays/a.npy": b"no array"},
        {"labelgap": header(), "document.json": b"{}", "arrays/a.npy": npy(np.zeros(9))[:-8]},
        {"labelgap": header(), "document.json": b"{}", "arrays/a.npy": HUGE},
        {
            "labelgap": header(),
            "document.json": b"{}",
            "arrays/a.npy": npy(np.array([Bomb()]), allow_pickle=True),
        },
    ],
)
def test_a_forged_file_is_refused_and_runs_nothing(path: Path, members: dict[str, bytes]) -> None:
    assert "is labelgap's by its looks, but what is in it is not" in read_error(path, forged(members))


@pytest.mark.parametrize(
    "header_text",
    [
        header_of(shape=f"({2**63},)"),
        header_of(shape=f"({2**70},)"),
        header_of(shape="(-1,)"),
        header_of(shape="2"),
        header_of(descr="()"),
        header_of(descr="[()]"),
        header_of(descr="None"),
        header_of(descr="'f8,(9999999,9999999)f8'"),
        header_of(descr="'<U0'", shape=f"({10**15},)"),
        header_of(descr="'|S0'", shape="(3,)"),
        header_of(descr="'|V0'", shape="(3,)"),
        "{'descr': '<f8', (",
        "(" * 3000,
        "",
    ],
)
def test_a_forged_header_of_an_array_is_refused(path: Path, header_text: str) -> None:
    members = {"labelgap": header(), "document.json": b"{}", "arrays/a.npy": npy_of(header_text)}
    assert "is labelgap's by its looks, but what is in it is not" in read_error(path, forged(members))


def test_a_header_of_an_array_as_numpy_writes_it_is_read(path: Path) -> None:
    members = {"labelgap": header(), "document.json": b"{}", "arrays/a.npy": npy_of(header_of())}
    path.write_bytes(forged(members))
    assert read_file(path, "model").arrays["a"].tolist() == [0.0, 0.0]


def test_nothing_is_uncompressed(path: Path) -> None:
    members = {"labelgap": header(), "document.json": b"{}", "arrays/a.npy": npy(np.zeros(10**6))}
    assert "is compressed" in read_error(path, forged(members, zipfile.ZIP_DEFLATED))
    path.write_bytes(forged(members))
    assert read_file(path, "model").arrays["a"].shape == (10**6,)
