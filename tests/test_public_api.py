"""The public API is what was promised: a change of it is seen, and meant."""

from __future__ import annotations

import difflib

import pytest

import labelgap
from labelgap._public import HOMES
from public_api import SNAPSHOT, missing_modules, public_api


def test_the_public_api_is_what_was_promised() -> None:
    missing = tuple(f"{name}." for name in missing_modules())
    promised = [line for line in SNAPSHOT.read_text("utf-8").splitlines() if not line.startswith(missing)]
    found = public_api().splitlines()
    changes = difflib.unified_diff(promised, found, "promised", "found", n=0, lineterm="")
    told = "If users shall have it so: python -m tests.public_api, and a line in CHANGELOG.md"
    assert promised == found, "\n".join([*changes, "", told])


def test_names_of_the_package_are_found_where_they_are_first_asked_for() -> None:
    assert sorted(HOMES) == sorted(labelgap.__all__)
    assert {"__version__", "exceptions", *HOMES} <= set(dir(labelgap))
    assert not {"Any", "HOMES", "ModuleType", "TYPE_CHECKING", "import_module"} & set(dir(labelgap))
    assert not [name for name in HOMES if getattr(labelgap, name).__name__ != name]
    with pytest.raises(AttributeError, match="no attribute 'LowRankClasifier'"):
        labelgap.LowRankClasifier  # noqa: B018


def test_the_text_has_no_addresses_and_no_foreign_methods() -> None:
    text = SNAPSHOT.read_text("utf-8")
    assert " at 0x" not in text
    assert ".get_params" not in text
    assert "labelgap.LowRankClassifier.fit(self, X, y, " in text
