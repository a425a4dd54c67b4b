"""``labelgap export``: a model for other programs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from labelgap import load
from labelgap.cli.options import Force, Json, ModelFile, Quiet
from labelgap.cli.outputs import check_output
from labelgap.cli.session import command


class Dtype(StrEnum):
    """Types of numbers that ONNX models take."""

    float32 = "float32"
    float64 = "float64"


def export(
    model: ModelFile,
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", show_default=False, help="The file to write, as model.onnx.")
    ],
    dtype: Annotated[Dtype, typer.Option(help="The numbers that go in and come out.")] = Dtype.float64,
    json: Json = False,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Write a model as ONNX, which many languages and servers can run without labelgap.

    Features go in as one array, in the order of the fit; scores, probabilities and decisions come out.

    [bold]Examples[/bold]

      labelgap export articles.labelgap articles.onnx
    """
    from labelgap.onnx_export import to_onnx

    with command(as_json=json, quiet=quiet) as session:
        check_output(target, force, "TARGET")
        to_onnx(load(model), target, dtype=dtype.value)
        session.result = {"out": str(target), "bytes": target.stat().st_size}
        session.say_line(f"Wrote {target} ({target.stat().st_size} bytes).")
