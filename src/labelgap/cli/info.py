"""``labelgap info``: what is installed, or what a file is."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from labelgap._version import __version__
from labelgap.cli.choices import patterns, refuse
from labelgap.cli.console import KeyValues, PlainTable
from labelgap.cli.looking import look_at
from labelgap.cli.models import is_model_file, load_model
from labelgap.cli.options import Format, IdColumn, Json, Labels
from labelgap.cli.session import Session, command
from labelgap.cli.summary import describe, in_lines
from labelgap.kernels.threads import available_threads

_REQUIRED = ("numpy", "scipy", "scikit-learn", "numba", "joblib", "threadpoolctl")
_EXTRAS = {
    "cli": ("pyarrow", "rich", "typer"),
    "plot": ("matplotlib",),
    "frames": ("pandas", "polars"),
    "onnx": ("onnx",),
}


def info(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", exists=True, readable=True, show_default=False, help="A model or a table."
        ),
    ] = None,
    labels: Labels = None,
    id_column: IdColumn = None,
    format: Format = None,
    json: Json = False,
) -> None:
    """Say what is installed; or, of a file, what model it is or what its table holds.

    Of a CSV, TSV or Parquet file the columns are listed; with --labels, what is known of each label.

    [bold]Examples[/bold]

      labelgap info
      labelgap info articles.labelgap
      labelgap info articles.csv --labels 'tag_*' --id id
    """
    with command(as_json=json) as session:
        shown, file = file, file and session.data_file(file)
        if file is None or is_model_file(file):
            for option, given in {"--labels": labels, "--id": id_column, "--format": format}.items():
                refuse(given is not None, option, "it is for a table")
        if file is None:
            _tell_installation(session)
        elif is_model_file(file):
            _tell_model(session, file)
        else:
            _tell_data(session, shown or file, file, patterns(labels), id_column, format)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _tell_installation(session: Session) -> None:
    packages = {name: _version(name) for name in _REQUIRED}
    extras = {extra: {name: _version(name) for name in names} for extra, names in _EXTRAS.items()}
    session.result = {
        "labelgap": __version__,
        "python": platform.python_version(),
        "threads": available_threads(),
        "packages": packages,
        "extras": extras,
    }
    session.say(
        KeyValues(
            [
                ("labelgap", __version__),
                ("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
                ("threads", f"{available_threads()} (LABELGAP_NUM_THREADS sets it)"),
                *((name, str(number)) for name, number in packages.items()),
            ]
        )
    )
    session.say()
    session.say(KeyValues([(extra, _extra(extra, found)) for extra, found in extras.items()]))


def _extra(extra: str, found: dict[str, str | None]) -> str:
    said = ", ".join(f"{name} {number}" for name, number in found.items() if number is not None)
    missing = [name for name, number in found.items() if number is None]
    if not missing:
        return said
    lacks = f"not installed: {', '.join(missing)} (pip install 'labelgap[{extra}]')"
    return f"{said}; {lacks}" if said else lacks


def _tell_model(session: Session, path: Path) -> None:
    loaded = load_model(path)
    facts = describe(loaded.estimator)
    names = getattr(loaded.estimator, "label_names_", None)
    session.result = {"file": str(path), "what": "model"} | facts
    session.result |= {
        "feature_names": loaded.feature_names,
        "label_names": None if names is None else [str(name) for name in names],
    }
    session.say_line(f"{path}: a {facts['kind']}")
    session.say()
    lines = in_lines(facts)
    if loaded.feature_names is not None:
        lines.append(("features are", ", ".join(loaded.feature_names)))
    if names is not None:
        lines.append(("labels are", ", ".join(map(str, names))))
    session.say(KeyValues(lines))


def _tell_data(
    session: Session,
    shown: Path,
    path: Path,
    labels: str | list[str] | None,
    ids: str | None,
    format: str | None,
) -> None:
    facts: dict[str, Any] = look_at(path, labels, ids, format)
    session.result = {"file": str(shown), "what": "answers" if "answers" in facts else "table"} | facts
    known = facts.pop("per_label", None)
    session.say_line(f"{shown}: {facts['format']}")
    session.say()
    lines = [(name.replace("_", " "), _words(value)) for name, value in facts.items() if name != "format"]
    if known is not None:
        share = facts["observed"] / max(facts["cells"], 1)
        lines = [
            (name, f"{words} ({100 * share:.1f} %)" if name == "observed" else words) for name, words in lines
        ]
    session.say(KeyValues(lines))
    if known is None:
        return
    session.say()
    session.say(
        PlainTable(
            {
                "label": [label["label"] for label in known[:_LISTED]],
                "observed": [label["observed"] for label in known[:_LISTED]],
                "above 0": [label["positive"] for label in known[:_LISTED]],
            },
            left=("label",),
        )
    )
    if len(known) > _LISTED:
        session.say_line(f"  and {len(known) - _LISTED} more labels")


_LISTED = 20


def _words(value: Any) -> str:
    if isinstance(value, list | tuple):
        shown = ", ".join(map(str, value[:_LISTED]))
        return shown if len(value) <= _LISTED else f"{shown} and {len(value) - _LISTED} more"
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)
