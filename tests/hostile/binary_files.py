"""npz, Parquet and model files that are damaged, or made on purpose."""

from __future__ import annotations

import functools
import io
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

import labelgap
from labelgap.data import read_answer_file, read_label_table, read_numbers
from labelgap.persistence import container

from .cases import Draw, case, mutated, pick
from .text_files import check_table

TYPES = ("f8", "f4", "f2", "i8", "i4", "u8", "u1", "?", "c16", "U3", "S2", "M8[s]", ">f8", ">i4", "V3", "g")


def any_array(draw: Draw) -> Any:
    """An array of any type and shape."""
    shape = tuple(int(side) for side in draw.integers(0, 4, size=int(draw.integers(0, 4))))
    values = draw.choice([0, 1, 1, 2, -1, 3], size=shape)
    with np.errstate(all="ignore"):
        array = np.asarray(values).astype("i8").astype(pick(draw, "f8", "i8", "i8"))
        if array.dtype.kind == "f" and array.size and draw.random() < 0.3:
            array.flat[0] = pick(draw, np.nan, np.inf, 1.5, 1e300)
            return array
    kind = np.dtype(pick(draw, *TYPES))
    return np.zeros(shape, kind) if kind.kind in "VM" else np.abs(values).astype(kind)


def parts(draw: Draw, key: str) -> dict[str, Any]:
    """A CSR matrix with one of its parts changed, perhaps."""
    matrix = sp.csr_array(draw.choice([0.0, 1.0], size=(3, 2)))
    found = {
        f"{key}_{part}": np.asarray(getattr(matrix, part)) for part in ("data", "indices", "indptr", "shape")
    }
    if draw.random() < 0.6:
        part = pick(draw, *found)
        new = any_array(draw)
        if draw.random() < 0.5 and found[part].size:
            new = found[part].astype(pick(draw, "f8", "i8", "u8")).copy()
            new[-1] = pick(draw, 0, 9, 2**31, 2**62) if new.dtype.kind != "f" else pick(draw, 1.5, -1.0, 1e30)
        found[part] = new
    return found


@case("npz")
def _npz(draw: Draw, folder: Path) -> None:
    n = 3
    arrays: dict[str, Any] = {"X": draw.normal(size=(n, 2))} if draw.random() < 0.5 else parts(draw, "X")
    form = pick(draw, "dense", "sparse", "triplets", "none")
    if form == "dense":
        arrays["Y"] = draw.choice([0.0, 1.0, np.nan], size=(n, 2))
    elif form == "sparse":
        arrays |= parts(draw, "Y")
    elif form == "triplets":
        arrays |= {"Y_rows": np.arange(n), "Y_cols": np.arange(n) % 2, "Y_values": np.ones(n)}
        if draw.random() < 0.5:
            arrays["Y_shape"] = pick(draw, np.array([n, 2]), any_array(draw), np.array([2**62, 2**62]))
    for name in ("row_ids", "label_names", "feature_names"):
        if draw.random() < 0.2:
            arrays[name] = pick(draw, np.arange(n), np.array(list("abc")), any_array(draw))
    if draw.random() < 0.4:
        arrays[pick(draw, *arrays)] = any_array(draw)
    path = folder / "a.npz"
    (np.savez if draw.random() < 0.7 else np.savez_compressed)(path, **arrays)
    if draw.random() < 0.3:
        path.write_bytes(
            mutated(draw, path.read_bytes(), (b"PK\x01\x02", b"(3000000000,)", b"\xff" * 4, b"|O"))
        )
    use = pick(draw, "table", "table", "numbers", "ratings")
    if use == "table":
        check_table(read_label_table(path, unobserved=pick(draw, None, "negative", "unlabelled")))
    elif use == "numbers":
        names, values = read_numbers(path)
        assert values.shape[1] == len(names)
    else:
        table = read_answer_file(path, user=pick(draw, "Y_rows", "row_ids"), item="Y_cols", value=None)
        assert len(table.users) == len(table.items)


@case("npz claims")
def _npz_claims(draw: Draw, folder: Path) -> None:
    """A header or a list of members that says more than there is."""
    array = io.BytesIO()
    np.save(array, np.zeros(int(draw.integers(1, 9))))
    shape = pick(
        draw, b"(3000000000000,)", b"(-1,)", b"(2, 2, 2, 2)", b"(1" + b"0" * 50 + b",)", b"()", b"[1]"
    )
    data = array.getvalue()
    at, end = data.find(b"("), data.find(b")") + 1
    data = data[:at] + shape + data[end:]
    body = zlib.compress(data)[2:-4] if draw.random() < 0.5 else data
    kind = 8 if body is not data else 0
    claimed = pick(draw, len(data), 2**31, 2**32 - 1, 0)
    head = struct.pack("<HHHHHIIIHH", 20, 0, kind, 0, 0, zlib.crc32(data), len(body), claimed, 5, 0)
    local = b"PK\x03\x04" + head + b"X.npy" + body
    entry = b"PK\x01\x02" + b"\x14\0" + head + struct.pack("<HHHII", 0, 0, 0, 0, pick(draw, 0, 0, 7, 2**31))
    listed = (entry + b"X.npy") * int(pick(draw, 1, 1, 2, 500))
    tail = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 1, 1, len(listed), len(local), 0)
    (folder / "a.npz").write_bytes(local + listed + tail)
    read_label_table(folder / "a.npz")


@case("parquet")
def _parquet(draw: Draw, folder: Path) -> None:
    n = int(draw.integers(0, 6))
    ids: Any = pick(
        draw,
        np.arange(n),
        np.arange(n).astype("u8") + np.uint64(2**63),
        np.arange(n) + 2.0**70,
        np.arange(n) + 0.5,
        [f"u{number}" for number in range(n)],
        [None] * n,
        np.arange(n).astype("M8[s]"),
    )
    label: Any = pick(
        draw, draw.choice([0, 1], size=n), draw.choice([0.0, 1.0, np.nan], size=n), [True] * n, ["yes"] * n
    )
    values: Any = pick(
        draw, draw.normal(size=n), draw.integers(0, 5, size=n), [b"x"] * n, [[1]] * n, [1e308] * n
    )
    path = folder / "a.parquet"
    pq.write_table(
        pa.table(
            {
                "user": pa.array(ids),
                "item": pa.array(np.arange(n)),
                "v": pa.array(values),
                "y": pa.array(label),
            }
        ),
        path,
    )
    if draw.random() < 0.3:
        path.write_bytes(mutated(draw, path.read_bytes(), (b"PAR1", b"\xff" * 4, b"\0" * 8)))
    if draw.random() < 0.5:
        check_table(
            read_label_table(path, labels="y", ids=pick(draw, None, "user"), drop=pick(draw, (), "v"))
        )
        return
    table = read_answer_file(path, user="user", item="item", value=pick(draw, None, "v"))
    # No two ids become one.
    assert len(set(table.users.tolist())) == n


# -- models --------------------------------------------------------------------------------------------------


def write_file(path: Path, kind: str, document: Any, arrays: Any) -> None:
    """As the container's, without waiting for the disk, which takes longer than all the rest."""
    with mock.patch("os.fsync"):
        container.write_file(path, kind, document, arrays)


@functools.cache
def saved_models() -> tuple[container.Contents, ...]:
    """The contents of a few model files, made once."""
    import tempfile

    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 3))
    Y = (X[:, :2] > 0).astype(float)
    fast: dict[str, Any] = {"trace_penalty": 0.05, "threshold": "train", "random_state": 0}
    models = (
        labelgap.LowRankClassifier(ridge_penalty=0.0, **fast).fit(X, Y),
        labelgap.PlugInClassifier(threshold="train").fit(X, Y),
        labelgap.LowRankRegressor(trace_penalty=0.05, ridge_penalty=0.0).fit(X, Y),
        labelgap.Recommender(**fast).fit((list("aabbcc"), [1, 2, 1, 3, 2, 3], [1, 0, 1, 1, 0, 0])),
    )
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for model in models:
            model.save(Path(folder) / "m")
            found.append(container.read_file(Path(folder) / "m", "model"))
    return tuple(found)


def changed_node(draw: Draw, node: Any) -> Any:
    """The JSON with one value somewhere in it replaced."""
    if isinstance(node, dict) and node and draw.random() < 0.9:
        key = pick(draw, *node)
        return node | {key: changed_node(draw, node[key])}
    if isinstance(node, list) and node and draw.random() < 0.9:
        at = int(draw.integers(len(node)))
        return [*node[:at], changed_node(draw, node[at]), *node[at + 1 :]]
    return pick(
        draw,
        *(None, True, -1, 0, 7, 1.5, "text", "micro-f1", [], {}, [1], {"tuple": [1]}, {"float": "nan"}),
        *(
            {"array": "intercept_"},
            {"shared": 0},
            {"list": []},
            {"loss": {"name": "logistic"}},
            10**30,
            "a" * 999,
        ),
    )


@case("model")
def _model(draw: Draw, folder: Path) -> None:
    document, arrays = pick(draw, *saved_models())
    arrays = dict(arrays)
    if draw.random() < 0.6:
        document = document | {"model": changed_node(draw, document["model"])}
    else:
        name = pick(draw, *arrays)
        arrays[name] = (
            any_array(draw)
            if draw.random() < 0.5
            else arrays[name].astype(pick(draw, "f2", "f4", "c16", "g", "i8"))
        )
    path = folder / "m"
    write_file(path, "model", document, arrays)
    if draw.random() < 0.1:
        path.write_bytes(mutated(draw, path.read_bytes(), (b"PK\x03\x04", b"\xff" * 4)))
    model = labelgap.load(path)
    # What was loaded can be used.
    rows = np.ones((2, getattr(model, "n_features_in_", 0) or 1))
    if isinstance(model, labelgap.Recommender):
        decided = model.predict(model.user_ids_[0], list(model.item_ids_))
        assert len(decided) == len(model.item_ids_)
    elif rows.shape[1] < 100:
        assert model.predict(rows).shape[0] == 2


@case("model archive")
def _archive(draw: Draw, folder: Path) -> None:
    """A model file with members that overlap, come twice or claim wrong sizes, and a digest that is right."""
    document, arrays = saved_models()[0]
    write_file(folder / "m", "model", document, arrays)
    with zipfile.ZipFile(folder / "m", "a") as archive:
        one = pick(draw, *archive.filelist)
        for number in range(int(draw.integers(0, 4))):
            entry = zipfile.ZipInfo(pick(draw, one.filename, f"arrays/b{number}.npy"))
            entry.CRC, entry.compress_size, entry.file_size = one.CRC, one.compress_size, one.file_size
            entry.header_offset = pick(draw, one.header_offset, 0, 10**6)
            archive.filelist.append(entry)
        entry = pick(draw, *archive.filelist)
        entry.file_size = pick(draw, entry.file_size, 2**31, 0)
        entry.compress_type = pick(draw, 0, 0, 8, 12, 99)
        archive._didModify = True
    data = (folder / "m").read_bytes()[: -container._DIGEST_LENGTH]
    (folder / "m").write_bytes(data + container._digest(io.BytesIO(data), len(data)))
    labelgap.load(folder / "m").predict(np.ones((1, 3)))
