"""Model files that were written in the past are read, and answer as they did."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from make_files import FILES, KEPT, replies

import labelgap
from labelgap.persistence.registry import estimator_names
from labelgap.persistence.saving import VERSION

OLD = [
    pytest.param(folder, name, case, id=f"{folder.name}-{name}")
    for folder in sorted(FILES.glob("v*"))
    for name, case in json.loads((folder / "expected.json").read_text(encoding="utf-8")).items()
]


@pytest.mark.parametrize(("folder", "name", "case"), OLD)
def test_an_old_file_answers_as_it_did(folder: Any, name: str, case: dict[str, Any]) -> None:
    model = labelgap.load(folder / f"{name}.labelgap")
    assert type(model).__name__ == case["class"]
    found = replies(model, case["given"])
    assert found.keys() == case["replies"].keys()
    for question, reply in case["replies"].items():
        # Another machine may round its products differently; nothing else may differ.
        np.testing.assert_allclose(found[question], reply, rtol=1e-12, atol=1e-12, err_msg=question)


def test_there_are_files_of_every_version_and_class() -> None:
    assert {folder.name for folder in FILES.glob("v*")} == {f"v{number}" for number in range(1, VERSION + 1)}
    newest = FILES / f"v{VERSION}"
    assert {path.stem for path in newest.glob("*.labelgap")} == set(KEPT)
    classes = {case.values[2]["class"] for case in OLD if case.values[0] == newest}
    assert classes == set(estimator_names())


@pytest.mark.parametrize("name", list(KEPT))
def test_a_new_attribute_needs_a_new_version(name: str) -> None:
    """What a fit leaves behind today is what the files of this version hold.

    Otherwise raise VERSION in saving.py, add an upgrade to loading.py, and run make_files.py.
    """
    loaded = labelgap.load(FILES / f"v{VERSION}" / f"{name}.labelgap")
    assert set(loaded.__getstate__()) == set(KEPT[name]().__getstate__())


def test_the_files_are_small() -> None:
    assert all(path.stat().st_size < 30_000 for path in FILES.rglob("*") if path.is_file())
