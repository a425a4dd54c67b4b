"""How the pictures of the experiments look: 800 pixels wide, in colours that colour-blind eyes tell apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from experiments.runs import mean_sd

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#666666"
MARKERS = {BLUE: "o", ORANGE: "s", GREEN: "^"}


def new_figure(rows: int, columns: int, *, height: float, **options: Any) -> tuple[Figure, Any]:
    """A figure 800 pixels wide and its panels; the height of a row of them is in hundreds of pixels."""
    figure = Figure(figsize=(8, height * rows), dpi=100, layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, **options)
    for panel in panels.flat:
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=8)
    return figure, panels


def log_axis(panel: Any, which: str, *, ticks: Sequence[float] | None = None) -> None:
    """A logarithmic x or y axis with plain numbers, at 1, 2 and 5 of each power of ten or at the ticks."""
    axis = getattr(panel, f"{which}axis")
    getattr(panel, f"set_{which}scale")("log")
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)) if ticks is None else FixedLocator(list(ticks)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}" if value < 1000 else f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def band(panel: Any, x: Sequence[float], by_x: Sequence[Any], *, colour: str, label: str) -> None:
    """A line through the means over the draws, and their standard deviation as a band around it."""
    mean, sd = np.array([mean_sd(values) for values in by_x]).T
    low = mean - sd
    if panel.get_yscale() == "log":
        # What would be below zero cannot be drawn; a tenth of the mean stands for it.
        low = np.maximum(low, mean / 10)
    panel.fill_between(x, low, mean + sd, color=colour, alpha=0.18, linewidth=0)
    panel.plot(x, mean, color=colour, marker=MARKERS[colour], markersize=4, label=label)
