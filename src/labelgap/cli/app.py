"""The commands under one name, and what holds for all of them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from labelgap._version import __version__
from labelgap.cli.console import json_text, new_console
from labelgap.cli.evaluate import evaluate
from labelgap.cli.fit import fit
from labelgap.cli.info import info
from labelgap.cli.options import MAX_SEED
from labelgap.cli.predict import predict
from labelgap.cli.recommend import recommend
from labelgap.cli.report import export, report
from labelgap.cli.session import command
from labelgap.cli.threshold import threshold

_EPILOG = (
    "Exit codes: 0 fine; 1 a problem with the input, the data or the model; 2 wrong usage; "
    "130 interrupted; 141 nobody reads the output any more."
)
# The base of all errors of usage; where its module is depends on the version of Typer.
_UsageError: Any = typer.BadParameter.__mro__[1]


class _Group(TyperGroup):
    """Says wrong usage in JSON, too, where JSON was asked for."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        given = sys.argv[1:] if args is None else list(args)
        # The help and the errors that Typer prints go through these streams, whatever they can spell.
        new_console(), new_console(stderr=True)
        in_json = standalone_mode and "--json" in given
        try:
            code = super().main(
                given,
                prog_name,
                complete_var,
                standalone_mode=standalone_mode and not in_json,
                windows_expand_args=windows_expand_args,
                **extra,
            )
        except _UsageError as error:
            if not in_json:
                raise
            said = {"type": "Usage", "message": error.format_message(), "exit_code": error.exit_code}
            print(json_text({"error": said, "warnings": []}, sys.stdout))
            sys.exit(error.exit_code)
        if in_json:
            sys.exit(code or 0)
        return code


app = typer.Typer(
    name="labelgap",
    cls=_Group,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"labelgap {__version__}")
        raise typer.Exit


@app.callback()
def labelgap_(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Yes/no decisions from incomplete labels.

    Begin with [bold]labelgap fit[/bold] on a table with blanks, then [bold]predict[/bold],
    [bold]evaluate[/bold] and [bold]report[/bold]; each has its own --help with examples.
    """


def demo(
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="The draw of the synthetic data.")] = 0,
    picture: Annotated[Path, typer.Option(help="Where to save the picture.")] = Path("labelgap-demo.png"),
) -> None:
    """Fit a synthetic problem in which 10 % of the labels are known, and compare with one model per label.

    It is the problem of the paper: 1000 rows, 10 features, 100 labels of rank 5. It takes some seconds.

    [bold]Examples[/bold]

      labelgap demo
      labelgap demo --seed 7 --picture /tmp/demo.png
    """
    from labelgap.demo import show

    with command():
        show(seed, picture)


def help_text(docstring: str | None) -> str:
    """A docstring for any width: each paragraph is one line, except for those that are indented.

    Examples
    --------
    >>> help_text("Fit.\\n\\n    Many\\n    words.\\n\\n      as\\n      they are")
    'Fit.\\n\\nMany words.\\n\\n  as\\n  they are'
    """
    paragraphs = inspect.cleandoc(docstring or "").split("\n\n")
    return "\n\n".join(part if part.startswith(" ") else part.replace("\n", " ") for part in paragraphs)


for _command in (fit, predict, evaluate, report, threshold, recommend, export, info, demo):
    app.command(help=help_text(_command.__doc__))(_command)
