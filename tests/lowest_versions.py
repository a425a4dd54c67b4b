"""The dependencies of pyproject.toml, each in the lowest version that it allows, as pip takes them.

``python -m tests.lowest_versions`` prints them.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def lowest_versions() -> list[str]:
    """``name==version`` of each."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = [requirement.split(">=") for requirement in project["dependencies"]]
    assert all(len(parts) == 2 for parts in found), "every dependency has a lowest version and nothing else"
    return ["==".join(parts) for parts in found]


if __name__ == "__main__":
    print(*lowest_versions())
