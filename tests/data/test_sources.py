"""Where the bytes come from: pipes, gzip, folders; and whose memory Arrow reads."""

from __future__ import annotations

import gc
import gzip
import io
import os
import threading
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest
from data_files import put

from labelgap._memory import give_back_freed
from labelgap.data import read_answer_file, read_label_table
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
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(data,), daemon=True)
    writer.start()
    try:
        return read(pipe)
    finally:
        writer.join(timeout=10)
        assert not writer.is_alive()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_everything_comes_through_a_pipe(tmp_path: Path) -> None:
    for kind, (data, options) in TABLES.items():
        check_table(through_pipe(tmp_path, data, partial(read_label_table, format=kind, **options)))
    for data in RATINGS.values():
        packed = gzip.compress(data)
        check_ratings(through_pipe(tmp_path, packed, partial(read_answer_file, format="movielens")))
    for kind, message in (("parquet", "no Parquet file"), ("npz", "is empty")):
        with pytest.raises(DataFileError, match=message):
            through_pipe(tmp_path, b"", partial(read_label_table, format=kind))


# -- memory and threads of Arrow ----------------------------------------------------------------------------


def test_arrow_reads_its_own_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Arrow looks into is a copy that it owns; threads are used for large files alone."""
    seen: list[tuple[int, bool]] = []
    real = arrow_csv.read_csv

    def watched(source: Any, read_options: Any, **options: Any) -> Any:
        seen.append((pa.total_allocated_bytes(), read_options.use_threads))
        return real(source, read_options=read_options, **options)

    monkeypatch.setattr(arrow_csv, "read_csv", watched)
    line = b"1\t7\t3.5\t880000000\n"
    for data, threads in (
        (b"user,item,value\n" + b"1,7,3.5\n" * 5000, False),
        (line * 5000, False),
        (line * 500_000, True),
    ):
        path = put(tmp_path, "a.csv" if data.startswith(b"user") else "u.data", data)
        gc.collect()
        before = pa.total_allocated_bytes()
        table = read_answer_file(path)
        assert set(table.values.tolist()) == {3.5}
        allocated, used = seen.pop()
        assert used == threads
        assert allocated - before >= len(data) - 100


def test_a_closed_source_holds_nothing_of_the_file(tmp_path: Path) -> None:
    likes = pa.table({"user": [1, 2], "item": [7, 7]})
    arrow_csv.write_csv(likes, tmp_path / "likes.csv")
    pq.write_table(likes, tmp_path / "likes.parquet")
    for name in ("likes.csv", "likes.parquet"):
        source = Source(tmp_path / name)
        table = read_ratings_from(source, "user", "item", "value")
        sheet = weakref.ref(source.sheet)
        source.close()
        gc.collect()
        assert sheet() is None
        assert not {"text", "sheet"} & set(vars(source))
        # What was read from it stays.
        give_back_freed()
        assert (table.users.tolist(), table.items.tolist()) == ([1, 2], [7, 7])
