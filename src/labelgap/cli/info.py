"""``labelgap info``: what is installed, or what a file holds; and ``labelgap demo``."""

from __future__ import annotations

import contextlib
import io
import platform
import sys
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from labelgap._version import __version__
from labelgap.cli.choices import patterns, refuse
from labelgap.cli.console import KeyValues, PlainTable
from labelgap.cli.fitted import kept_bytes, kept_lines
from labelgap.cli.inputs import with_ids
from labelgap.cli.models import describe_with, is_model_file, load_model
from labelgap.cli.options import (
    MAX_SEED,
    Decimal,
    Delimiter,
    Encoding,
    Force,
    Format,
    IdColumn,
    Json,
    Labels,
    MaxUnpackedMb,
    Quiet,
    Verbose,
    input_data,
)
from labelgap.cli.outputs import check_output
from labelgap.cli.ratings import read_ratings_file
from labelgap.cli.session import Session, command
from labelgap.data.files.choosing import require_column
from labelgap.data.files.dialect import Dialect
from labelgap.data.files.rating_files import is_ratings_file
from labelgap.data.files.reading import Columns, read_table_from
from labelgap.data.files.source import Source
from labelgap.estimators.description import in_lines
from labelgap.kernels.threads import available_threads
from labelgap.labels import ObservedLabels

_REQUIRED = ("numpy", "scipy", "scikit-learn", "numba", "joblib", "threadpoolctl")
_EXTRAS = {
    "cli": ("pyarrow", "rich", "typer"),
    "plot": ("matplotlib",),
    "frames": ("pandas", "polars"),
    "onnx": ("onnx",),
}
_LISTED = 20
# What people read, where the name in JSON is another one.
_TITLES = {"answers": "ratings", "cells": "entries", "above_0": "above 0"}


def info(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            callback=input_data,
            show_default=False,
            help="A model or a table; - is a table from standard input.",
        ),
    ] = None,
    labels: Labels = None,
    id_column: IdColumn = None,
    format: Format = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    max_unpacked_mb: MaxUnpackedMb = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Say what is installed; or, of a file, what model it is or what its table holds.

    Of a CSV, TSV or Parquet file the columns are listed; with --labels, what is known of each label.

    [bold]Examples[/bold]

      labelgap info
      labelgap info articles.labelgap
      labelgap info articles.csv --labels 'tag_*' --id id
    """
    with command(as_json=json, quiet=quiet, verbose=verbose, max_unpacked_mb=max_unpacked_mb) as session:
        is_model = file is not None and is_model_file(file)
        if file is None or is_model:
            for option, given in {"--labels": labels, "--id": id_column, "--format": format}.items():
                refuse(given is not None, option, "it is for a table")
        if file is not None:
            session.step(f"looking at {file}")
        if file is None:
            _tell_installation(session)
        elif is_model:
            _tell_model(session, file)
        else:
            _tell_data(
                session,
                session.source(file, format, Dialect(delimiter, encoding, decimal)),
                patterns(labels),
                id_column,
            )


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
    facts = describe_with(loaded.estimator, loaded.prepare)
    names = getattr(loaded.estimator, "label_names_", None)
    session.result = {"file": str(path), "what": "model"} | facts
    session.result |= {
        "feature_names": loaded.feature_names,
        "label_names": None if names is None else [str(name) for name in names],
        "kept_bytes": kept_bytes(loaded.estimator),
        "batches": [asdict(batch) for batch in getattr(loaded.estimator, "batches_", ())],
    }
    session.say_line(f"{path}: a {facts['kind']}")
    session.say()
    lines = in_lines(facts)
    if loaded.feature_names is not None:
        lines.append(("features are", _words(loaded.feature_names)))
    if names is not None:
        lines.append(("labels are", _words(list(names))))
    if len(session.result["batches"]) > 1:
        lines.append(("batches", str(len(session.result["batches"]))))
    session.say(KeyValues([*lines, *kept_lines(session.result["kept_bytes"])]))


def _tell_data(session: Session, source: Source, labels: str | list[str] | None, ids: str | None) -> None:
    facts = _look_at(source, labels, ids)
    session.result = {"file": str(source.path), "what": "answers" if "answers" in facts else "table"} | facts
    known = facts.pop("per_label", None)
    session.say_line(f"{source.path}: {facts['format']}")
    session.say()
    lines = [(_TITLES.get(name, name), _words(value)) for name, value in facts.items() if name != "format"]
    if known is not None:
        fraction = facts["observed"] / max(facts["cells"], 1)
        observed = f"{facts['observed']} ({100 * fraction:.1f} %)"
        lines = [(name, observed if name == "observed" else words) for name, words in lines]
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


def _words(value: Any) -> str:
    if isinstance(value, list | tuple):
        shown = ", ".join(map(str, value[:_LISTED]))
        return shown if len(value) <= _LISTED else f"{shown} and {len(value) - _LISTED} more"
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)


# -- what a data file holds --------------------------------------------------------------------------------


def _look_at(source: Source, labels: str | list[str] | None, ids: str | None) -> dict[str, Any]:
    """What a data file holds; what is known of each label, if there are any, under "per_label"."""
    kind = source.kind
    if labels is None and is_ratings_file(source):
        return {"format": kind} | _ratings(source)
    if source.is_sheet and labels is None:
        sheet = source.sheet
        if ids is not None:
            require_column(sheet.path, (*sheet.names, *sheet.index_names), ids, "the ids (--id)")
        first = sheet.read([], list(sheet.names[:1]))
        return {"format": kind, "rows": len(first[sheet.names[0]]), "columns": list(sheet.names)}
    columns = Columns(labels, ids=ids)
    if source.is_sheet or kind == "arff":
        # Features are only counted, so text in one of them is no error here.
        columns = replace(columns, features=[])
    unobserved = "unlabelled" if kind == "xmc" else None
    table = read_table_from(source, columns, unobserved=unobserved, binary=kind == "xmc")
    known = table.labels
    rows = table.X.shape[0] if table.X is not None else len(known or ())
    facts: dict[str, Any] = {"format": kind, "rows": rows}
    if source.is_sheet:
        named = with_ids(source, Columns(labels, ids=ids)).ids is not None
        facts["features"] = len(source.sheet.names) - (known.shape[1] if known else 0) - named
    elif kind == "arff":
        facts |= _attributes(source, known)
    else:
        facts["features"] = 0 if table.X is None else table.X.shape[1]
    return facts if known is None else facts | _labels(known)


def _ratings(source: Source) -> dict[str, Any]:
    ratings = read_ratings_file(source, None, None, None)
    facts: dict[str, Any] = {
        "answers": len(ratings),
        "users": len(set(ratings.users.tolist())),
        "items": len(set(ratings.items.tolist())),
    }
    if ratings.values is not None:
        facts |= {"lowest": float(ratings.values.min()), "highest": float(ratings.values.max())}
    return facts


def _attributes(source: Source, known: ObservedLabels | None) -> dict[str, Any]:
    labels = set() if known is None else set(known.label_names or ())
    others = [attribute for attribute in source.arff.header.attributes if attribute.name not in labels]
    texts = [one.name for one in others if not one.feature_names]
    facts: dict[str, Any] = {
        "rows": source.arff.count_rows(),
        "features": sum(len(one.feature_names) for one in others),
    }
    return facts | ({"text": texts} if texts else {})


def _labels(known: ObservedLabels) -> dict[str, Any]:
    n, L = known.shape
    # In an xmc file every label that is not listed is a no.
    listed = known.unobserved == "unlabelled"
    counts = np.full(L, n) if listed else known.label_counts()
    yes = known.positive_counts()
    names = [str(name) for name in known.label_names or range(L)]
    return {
        "labels": L,
        "cells": n * L,
        "observed": int(counts.sum()),
        "above_0": int(yes.sum()),
        "per_label": [
            {"label": name, "observed": int(seen), "positive": int(positive)}
            for name, seen, positive in zip(names, counts, yes, strict=True)
        ],
    }


def demo(
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="The draw of the synthetic data.")] = 0,
    picture: Annotated[
        Path,
        typer.Option(help="Where to save the picture; its ending, such as .png, says the format."),
    ] = Path("labelgap-demo.png"),
    quiet: Quiet = False,
    verbose: Verbose = False,
    force: Force = False,
) -> None:
    """Fit a synthetic problem with 10 % of the labels known, and compare with one model per label.

    It is the problem of the paper: 1000 rows, 10 features, 100 labels of rank 5. It takes some seconds.

    [bold]Examples[/bold]

      labelgap demo
      labelgap demo --seed 7 --picture /tmp/demo.png
    """
    from labelgap.demo import show

    with command(quiet=quiet, verbose=verbose) as session:
        check_output(session, picture, force, "--picture")
        with contextlib.redirect_stdout(io.StringIO() if quiet else sys.stdout):
            show(seed, picture)
        session.step(f"wrote {picture}")
