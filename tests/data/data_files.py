"""Small files for the tests of readers, and what is said of bad ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from labelgap.data import read_label_table
from labelgap.exceptions import DataFileError


def put(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def save(folder: Path, name: str = "a.npz", **arrays: Any) -> Path:
    np.savez(folder / name, **arrays)
    return folder / name


def parts(key: str, matrix: Any, **change: Any) -> dict[str, Any]:
    """The arrays of an npz file that are a CSR matrix, some of them others."""
    csr = sp.csr_array(matrix)
    names = ("data", "indices", "indptr", "shape")
    whole = {f"{key}_{name}": np.asarray(getattr(csr, name)) for name in names}
    return whole | {f"{key}_{name}": value for name, value in change.items()}


def dense(X: Any) -> Any:
    return X.toarray() if sp.issparse(X) else X


def refused(
    folder: Path,
    name: str,
    cases: Iterable[tuple[str | bytes, str]],
    read: Callable[..., Any] = read_label_table,
    **options: Any,
) -> None:
    """Each text is refused by an error that begins with the file and goes on as said, in few words."""
    for text, message in cases:
        with pytest.raises(DataFileError, match=rf"(?s){name.replace('.', '[.]')}.*{message}") as caught:
            read(put(folder, name, text), **options)
        assert len(str(caught.value)) < 700, text[:80]
