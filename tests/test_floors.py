"""The house has floors: a module imports from its own floor or from lower ones, never from a higher one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "labelgap"

# The first part of a module's path below the package, from the ground up.
FLOORS = [
    {
        "_names",
        "_types",
        "_version",
        "_warn",
        "exceptions",
        "kernels",
        "labels",
        "losses",
        "metrics",
    },
    {"objective", "thresholds"},
    {"solvers"},
    # Estimators register themselves with persistence, which does not know them.
    {"persistence"},
    {"data", "sampling"},
    {"fitting", "theory"},
    {"estimators", "flip_rates", "recommending"},
    # The package itself gathers the public names; only what stands on top may import from it.
    {"", "__main__", "cli", "demo", "onnx_export", "report"},
]
FLOOR_OF = {part: floor for floor, parts in enumerate(FLOORS) for part in parts}

MODULES = sorted(SOURCE.rglob("*.py"))


def part_of(path: Path) -> str:
    """The first part of a file's module below the package; empty for the package itself."""
    first = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of each import, also of those inside functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute here"
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def imported_part(name: str) -> str | None:
    """The part of labelgap that a dotted name belongs to; None for other libraries."""
    package, *rest = name.split(".")
    if package != "labelgap":
        return None
    # ``from labelgap import LowRankClassifier`` names no module: that is the package itself.
    return rest[0] if rest and _is_module(rest[0]) else ""


def _is_module(part: str) -> bool:
    return (SOURCE / part).is_dir() or (SOURCE / f"{part}.py").is_file()


def test_every_module_has_a_floor() -> None:
    unplaced = {part_of(path) for path in MODULES} - set(FLOOR_OF)
    assert not unplaced, f"add these to FLOORS: {sorted(unplaced)}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_imports_climb_no_floor(path: Path) -> None:
    here = FLOOR_OF[part_of(path)]
    climbing = [
        f"line {line}: {name}"
        for line, name in imports(path)
        if (part := imported_part(name)) is not None and FLOOR_OF[part] > here
    ]
    assert not climbing


def test_only_the_kernels_import_numba() -> None:
    kernels = SOURCE / "kernels"
    importers = {
        path for path in MODULES if any(name.split(".")[0] in ("numba", "torch") for _, name in imports(path))
    }
    assert importers, "the search for imports found nothing"
    assert all(path.is_relative_to(kernels) for path in importers)


def test_solvers_know_no_loss_and_no_kernel() -> None:
    forbidden = ("labelgap.losses", "labelgap.kernels", "labelgap.objective.cpu.observed")
    found = [
        f"{path.name}:{line}: {name}"
        for path in sorted((SOURCE / "solvers").glob("*.py"))
        for line, name in imports(path)
        if name.startswith(forbidden)
    ]
    assert not found
