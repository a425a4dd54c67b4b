"""``labelgap demo``: the main job on synthetic data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labelgap.cli.options import MAX_SEED
from labelgap.cli.session import command


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
