"""``labelgap experiment``: the experiments of the source tree."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

import labelgap
from labelgap._names import unknown_name
from labelgap.cli.console import KeyValues
from labelgap.cli.session import INTERRUPTED, command
from labelgap.exceptions import InvalidInputError


def experiment(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", show_default=False, help="Which one; they are listed if left out."),
    ] = None,
) -> None:
    """List the experiments of the source tree, or run one; what follows its name is handed on to it.

    They are not part of an installed labelgap: run this in a clone of it.

    [bold]Examples[/bold]

      labelgap experiment
      labelgap experiment figure1 --draws 2 --out results
      labelgap experiment figure1 --help
    """
    if name in ("--help", "-h"):
        print(context.get_help())
        return
    with command() as session:
        root = _source_tree()
        found = experiments(root / "experiments")
        if name is None:
            session.say(KeyValues(list(found.items())))
            session.say()
            session.say_line("Run one with: labelgap experiment NAME [--help]")
            return
        if name not in found:
            raise unknown_name("experiment", name, tuple(found))
        code = _run(root, name, context.args)
        session.out.file.flush()
    raise typer.Exit(code)


def experiments(folder: Path) -> dict[str, str]:
    """Names of the modules that can be run, and the first line of what they say about themselves."""
    found = {}
    for path in sorted(folder.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        if '__name__ == "__main__"' in text:
            found[path.stem] = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    return found


def _source_tree() -> Path:
    """The folder above ``experiments/``: here, above here, or where labelgap itself was installed from."""
    here = Path.cwd()
    for folder in (here, *here.parents, Path(labelgap.__file__).parents[2]):
        if (folder / "experiments" / "runs.py").is_file() and (folder / "src" / "labelgap").is_dir():
            return folder
    raise InvalidInputError(
        "There is no folder of experiments here, nor above. They are part of the source tree, not of an "
        "installed labelgap: run this in a clone of the repository."
    )


def _run(root: Path, name: str, arguments: list[str]) -> int:
    """Run it in a process of its own, in this folder, so that paths mean what they say."""
    paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    process = subprocess.Popen([sys.executable, "-m", f"experiments.{name}", *arguments], env=environment)
    try:
        return process.wait()
    except KeyboardInterrupt:
        # It was interrupted too, and says what it has kept.
        return process.wait() or INTERRUPTED
