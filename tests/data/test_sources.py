"""Where the bytes come from: pipes, gzip, folders; and whose memory Arrow reads."""

from __future__ import annotations

import gc
import gzip
import io
import os
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest

from labelgap._memory import give_back_freed
from labelgap.data import read_answer_file, read_label_table, read_numbers
from labelgap.data.files import formats
from labelgap.data.files.choosing import choose_columns
from labelgap.data.files.formats import arrow_reader
from labelgap.data.files.rating_files import read_ratings_from
from labelgap.data.files.source import Source
from labelgap.exceptions import DataFileError

ARFF = "@relation 'r: -C 1'\n@attribute tag {0,1}\n@attribute x numeric\n@data\n1,1.5\n0,2\n"


def as_parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"tag": [1, 0], "x": [1.5, 2.0]}), out)
    return out.getvalue()


def as_npz() -> bytes:
    out = io.BytesIO()
    np.savez(out, X=[[1.5], [2.0]], Y=[[1], [0]])
    return out.getvalue()


TEXTS: dict[str, tuple[bytes, dict[str, Any]]] = {
    "csv": (b"tag,x\n1,1.5\n0,2\n", {"labels": "tag"}),
    "tsv": (b"tag\tx\n1\t1.5\n0\t2\n", {"labels": "tag"}),
    "arff": (ARFF.encode(), {}),
    "xmc": (b"2 1 1\n0 0:1.5\n 0:2\n", {}),
}
TABLES = TEXTS | {"parquet": (as_parquet(), {"labels": "tag"}), "npz": (as_npz(), {})}
RATINGS = {
    "movielens": b"1\t7\t3.5\t880000000\n2\t7\t1\t880000000\n",
    "double": b"1::7::3.5::880000000\n2::7::1::880000000\n",
    "header": b"userId,movieId,rating,timestamp\n1,7,3.5,880000000\n2,7,1,880000000\n",
}


def check_table(table: Any) -> None:
    X = table.X if isinstance(table.X, np.ndarray) else table.X.toarray()
    np.testing.assert_array_equal(X, [[1.5], [2.0]])
    np.testing.assert_array_equal(table.labels.to_dense(), [[1], [0]])


def check_ratings(table: Any) -> None:
    assert [one.tolist() for one in table.answers] == [[1, 2], [7, 7], [3.5, 1]]


def through_pipe(folder: Path, data: bytes, read: Callable[[Path], Any]) -> Any:
    """What ``read`` makes of a pipe, which gives its bytes once."""
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(data,), daemon=True)
    writer.start()
    try:
        return read(pipe)
    finally:
        writer.join(timeout=10)
        assert not writer.is_alive()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("kind", TABLES)
def test_tables_come_through_a_pipe(tmp_path: Path, kind: str) -> None:
    data, options = TABLES[kind]
    check_table(through_pipe(tmp_path, data, lambda pipe: read_label_table(pipe, format=kind, **options)))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("kind", RATINGS)
def test_ratings_come_through_a_pipe(tmp_path: Path, kind: str) -> None:
    data = gzip.compress(RATINGS[kind])
    check_ratings(through_pipe(tmp_path, data, lambda pipe: read_answer_file(pipe, format="movielens")))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize(("kind", "message"), [("parquet", "no Parquet file"), ("npz", "is empty")])
def test_a_pipe_that_gives_nothing(tmp_path: Path, kind: str, message: str) -> None:
    with pytest.raises(DataFileError, match=message):
        through_pipe(tmp_path, b"", lambda pipe: read_label_table(pipe, format=kind))


@pytest.mark.parametrize("kind", TEXTS)
def test_text_may_be_packed(tmp_path: Path, kind: str) -> None:
    data, options = TEXTS[kind]
    path = tmp_path / f"a.{kind}.gz"
    path.write_bytes(gzip.compress(data))
    check_table(read_label_table(path, **options))


@pytest.mark.parametrize(("name", "kind"), [("u.data.gz", "movielens"), ("ratings.dat.gz", "double")])
def test_ratings_may_be_packed(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(RATINGS[kind]))
    check_ratings(read_answer_file(path))


@pytest.mark.parametrize("read", [read_label_table, read_answer_file, read_numbers])
@pytest.mark.parametrize("name", ["folder", "folder.csv", "folder.parquet", "folder.npz", "folder.d"])
def test_a_folder_is_called_one(tmp_path: Path, name: str, read: Callable[[Path], Any]) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(DataFileError, match=rf"{name} is a folder, not a file"):
        read(tmp_path / name)


# -- memory and threads of Arrow ----------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"some bytes"])
def test_arrow_has_a_copy(data: bytes) -> None:
    source = bytearray(data)
    reader = arrow_reader(pa, memoryview(source))
    # Python refuses to change the size of an array that somebody else looks into.
    source.clear()
    assert reader.read() == data


@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize(
    ("name", "data"),
    [("a.csv", b"user,item,value\n" + b"1,7,3.5\n" * 5000), ("u.data", b"1\t7\t3.5\t880000000\n" * 5000)],
)
def test_arrow_reads_its_own_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes, threads: bool
) -> None:
    (tmp_path / name).write_bytes(data)
    seen: list[tuple[int, bool]] = []
    real = arrow_csv.read_csv

    def watched(source: Any, read_options: Any, **options: Any) -> Any:
        seen.append((pa.total_allocated_bytes(), read_options.use_threads))
        return real(source, read_options=read_options, **options)

    monkeypatch.setattr(arrow_csv, "read_csv", watched)
    if threads:
        monkeypatch.setattr(formats, "_THREADS_FROM", 1)
    gc.collect()
    before = pa.total_allocated_bytes()
    table = read_answer_file(tmp_path / name)
    assert len(table) == 5000
    assert table.values is not None
    assert set(table.values.tolist()) == {3.5}
    assert [use for _, use in seen] == [threads]
    assert seen[0][0] - before >= len(data) - 100


# -- wide tables --------------------------------------------------------------------------------------------


def test_choosing_many_names_takes_no_square_of_them() -> None:
    names = [f"column {number}" for number in range(20_000)]
    begin = time.process_time()
    chosen = choose_columns("a.csv", names, names[10_000:], "labels", dict.fromkeys(names[:10_000], "used"))
    assert time.process_time() - begin < 1
    assert chosen == tuple(names[10_000:])


@pytest.mark.parametrize("name", ["likes.csv", "likes.parquet"])
def test_a_closed_source_holds_nothing_of_the_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    likes = pa.table({"user": [1, 2], "item": [7, 7]})
    if path.suffix == ".csv":
        arrow_csv.write_csv(likes, path)
    else:
        pq.write_table(likes, path)
    source = Source(path)
    table = read_ratings_from(source, "user", "item", "value")
    sheet = weakref.ref(source.sheet)
    source.close()
    gc.collect()
    assert sheet() is None
    assert not {"text", "sheet"} & set(vars(source))
    # What was read from it stays.
    assert table.users.tolist() == [1, 2]
    give_back_freed()
    assert table.items.tolist() == [7, 7]
