"""The commands under one name, and what holds for all of them.

A command is imported when it is run: the list of commands, their names and the version take no time to print.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from labelgap._version import __version__
from labelgap.cli.console import json_text, new_console

_EPILOG = (
    "Exit codes: 0 fine; 1 a problem with the input, the data or the model; 2 wrong usage; "
    "130 interrupted; 141 nobody reads the output any more."
)
# Where each command is, and the first sentence of its help, in the order in which they are listed.
COMMANDS = {
    "fit": ("fit", "Fit a model to a table in which many labels are blank, and save it."),
    "update": ("update", "Let a model learn from more data, together with those it was fitted to."),
    "predict": ("predict", "Decide every label of new rows: 1 is yes, 0 is no."),
    "evaluate": ("evaluate", "Judge a model by the labels that are known in a file, and by no others."),
    "report": (
        "report",
        "Write one HTML page about a model: its threshold, its labels, its fit. It needs no network.",
    ),
    "threshold": (
        "threshold",
        "Find the threshold that is best for a metric, exactly, for scores of any model.",
    ),
    "complete": (
        "complete",
        "Fill the blanks of a table: decide them by the features and the known labels of their rows.",
    ),
    "errors": (
        "errors",
        "List the known labels that are probably wrong, found by models that did not see them.",
    ),
    "suggest": (
        "suggest",
        "List the blanks whose labels would help most, or the items to ask a user about.",
    ),
    "recommend": (
        "recommend",
        "The best items for users, each with its probability and a decision: would the user like it?",
    ),
    "fold-in": (
        "update",
        "Add new users, new items and more ratings to a recommender, without a new fit.",
    ),
    "split": ("split", "Split ratings in two: one file for a fit, and one to judge it by."),
    "export": ("report", "Write a model as ONNX, which many languages and servers can run without labelgap."),
    "info": ("info", "Say what is installed; or, of a file, what model it is or what its table holds."),
    "demo": (
        "info",
        "Fit a synthetic problem with 10 % of the labels known, and compare with one model per label.",
    ),
}
_CONTEXT = {"help_option_names": ["--help", "-h"]}
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

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed if listed is None else load_command(str(name)), rest


app = typer.Typer(
    name="labelgap",
    cls=_Group,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    epilog=_EPILOG,
    context_settings=_CONTEXT,
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


def help_text(docstring: str | None) -> str:
    """A docstring for any width: each paragraph is one line, except for those that are indented.

    Examples
    --------
    >>> help_text("Fit.\\n\\n    Many\\n    words.\\n\\n      as\\n      they are")
    'Fit.\\n\\nMany words.\\n\\n  as\\n  they are'
    """
    paragraphs = inspect.cleandoc(docstring or "").split("\n\n")
    return "\n\n".join(part if part.startswith(" ") else part.replace("\n", " ") for part in paragraphs)


def load_command(name: str) -> Any:
    """The command itself, in place of the entry in the list of commands."""
    function = getattr(import_module(f"labelgap.cli.{COMMANDS[name][0]}"), name.replace("-", "_"))
    alone = typer.Typer(
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings=_CONTEXT,
    )
    alone.command(name, help=help_text(function.__doc__))(function)
    return typer.main.get_command(alone)


def _entry() -> None:
    """A command that is not imported yet."""


for _name, (_, _summary) in COMMANDS.items():
    app.command(_name, help=_summary)(_entry)
