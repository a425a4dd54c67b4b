"""What is printed before any work is done imports nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

from labelgap.cli.app import COMMANDS, load_command

HEAVY = ("numpy", "scipy", "sklearn", "numba", "pandas", "pyarrow", "joblib")


def heavy_modules_after(statement: str) -> str:
    """The heavy libraries that a fresh process has imported after a statement."""
    program = (
        "import contextlib, io, sys\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        f"    {statement}\n"
        f"print(*(name for name in {HEAVY!r} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_version_and_help_import_nothing_heavy(option: str) -> None:
    run = f"sys.argv = ['labelgap', '{option}']; import labelgap.cli; labelgap.cli.main()"
    assert heavy_modules_after(run) == ""


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert heavy_modules_after("import labelgap; labelgap.__version__; dir(labelgap)") == ""


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_what_the_command_says(name: str) -> None:
    command = load_command(name)
    assert command.name == name
    assert command.help.split("\n\n")[0] == COMMANDS[name][1]
