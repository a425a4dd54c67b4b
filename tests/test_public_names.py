"""The public names of the package, which are imported when they are first asked for."""

from __future__ import annotations

import pytest

import labelgap
from labelgap._public import HOMES


def test_every_public_name_has_a_home() -> None:
    assert sorted(HOMES) == sorted(labelgap.__all__)
    assert set(HOMES) <= set(dir(labelgap))


def test_names_that_are_not_for_users_are_not_listed() -> None:
    names = dir(labelgap)
    assert "__version__" in names
    assert "exceptions" in names
    hidden = {"Any", "HOMES", "ModuleType", "TYPE_CHECKING", "import_module", "_public", "_version"}
    assert not hidden & set(names)


@pytest.mark.parametrize("name", HOMES)
def test_a_name_is_the_object_of_its_module(name: str) -> None:
    assert getattr(labelgap, name).__name__ == name


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'LowRankClasifier'"):
        labelgap.LowRankClasifier  # noqa: B018
