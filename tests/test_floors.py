"""The house has floors: a module imports from its own floor or from lower ones, never from a higher one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "labelgap"

# Folders and modules below the package, from the ground up. A longer path stands for itself where the rest of
# its folder is on another floor.
FLOORS = [
    {
        "_arrays",
        "_memory",
        "_html",
        "_named_columns",
        "_names",
        "_public",
        "_types",
        "_version",
        "_warn",
        "exceptions",
        "flip_rates.curves",
        "flip_rates.estimate",
        "kernels",
        "labels",
        "losses",
        "metrics",
        "persistence.atomic",
        "persistence.container",
        "persistence.zip_arrays",
        # The choice of penalties counts ranks, too.
        "recommending.ranks",
        # Files of ratings have times, too.
        "recommending.times",
        "recommending.top_items",
    },
    {"decisions", "objective", "thresholds"},
    {"solvers"},
    # Estimators register themselves with persistence, which does not know them.
    {"persistence"},
    {"confidence", "data", "sampling"},
    {"fitting", "theory"},
    {"arriving", "asking", "completing", "estimators", "recommending"},
    {"distributed", "flip_rates"},
    # The package itself gathers the public names; only what stands on top may import from it.
    {"", "__main__", "cli", "demo", "onnx_export", "onnx_features", "report"},
]
FLOOR_OF = {part: floor for floor, parts in enumerate(FLOORS) for part in parts}

MODULES = sorted(SOURCE.rglob("*.py"))


def place_of(module: str) -> str:
    """The longest path among the floors that a module below the package belongs to; empty for the package."""
    parts = module.split(".")
    paths = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((path for path in paths if path in FLOOR_OF), parts[0])


def module_of(path: Path) -> str:
    """The dotted name of a file's module below the package."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


@cache
def imports(path: Path) -> list[tuple[int, str]]:
    """Line and full dotted name of each import, also of those inside functions."""
    return list(_imports(ast.parse(path.read_text(encoding="utf-8"), filename=str(path)), path))


def _imports(tree: ast.Module, path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute here"
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def imported_place(name: str) -> str | None:
    """The path among the floors that a dotted name belongs to; None for other libraries."""
    package, *rest = name.split(".")
    if package != "labelgap":
        return None
    # ``from labelgap import LowRankClassifier`` names no module: that is the package itself.
    return place_of(".".join(rest)) if rest and _is_module(rest[0]) else ""


def _is_module(part: str) -> bool:
    return (SOURCE / part).is_dir() or (SOURCE / f"{part}.py").is_file()


def test_every_module_has_a_floor() -> None:
    unplaced = {place_of(module_of(path)) for path in MODULES} - set(FLOOR_OF)
    assert not unplaced, f"add these to FLOORS: {sorted(unplaced)}"


def test_imports_climb_no_floor() -> None:
    climbing = [
        f"{path.relative_to(SOURCE)}:{line}: {name}"
        for path in MODULES
        for line, name in imports(path)
        if (place := imported_place(name)) is not None
        and FLOOR_OF[place] > FLOOR_OF[place_of(module_of(path))]
    ]
    assert not climbing


@pytest.mark.parametrize(
    ("libraries", "allowed"),
    [
        (("numba", "llvmlite"), ["kernels"]),
        # Tensors that users hand in are made and read in one place.
        (
            ("torch", "triton"),
            ["kernels/gpu", "objective/torch", "_arrays.py", "recommending/closed_form/tensors.py"],
        ),
    ],
)
def test_only_some_folders_import_compilers(libraries: tuple[str, ...], allowed: list[str]) -> None:
    importers = {path for path in MODULES if any(n.split(".")[0] in libraries for _, n in imports(path))}
    assert importers, "the search for imports found nothing"
    folders = [SOURCE / folder for folder in allowed]
    assert not [path for path in importers if not any(map(path.is_relative_to, folders))]


def test_solvers_know_no_loss_and_no_kernel() -> None:
    forbidden = ("labelgap.losses", "labelgap.kernels", "labelgap.objective.cpu.observed")
    # The linear algebra of numpy's arrays may use routines, and threads, that numpy has not.
    allowed = {("linalg.py", f"labelgap.kernels.{name}") for name in ("lapack", "threads.map_in_order")}
    found = [
        f"{path.name}:{line}: {name}"
        for path in sorted((SOURCE / "solvers").glob("*.py"))
        for line, name in imports(path)
        if name.startswith(forbidden) and (path.name, name) not in allowed
    ]
    assert not found
