"""What all displays use: matplotlib on request, axes to draw on, colours that everybody can tell apart."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from labelgap.exceptions import MissingExtraError

# The colours of Okabe and Ito, told apart with every kind of colour vision, from the darkest on.
BLUE, ORANGE, GREEN, PURPLE, SKY, AMBER = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"
CYCLE = (BLUE, ORANGE, GREEN, PURPLE, SKY, AMBER)
# Between blue and orange, where yes and no are counted together; neither looks like it, nor does the ground.
MIXED = "#5c3a7a"
NOT_OBSERVED = "#ececec"
REFERENCE = "#707070"

_OURS = "labelgap"


def matplotlib(part: str = "") -> Any:
    """A part of matplotlib, imported when it is needed.

    Examples
    --------
    >>> matplotlib("figure").Figure.__name__
    'Figure'
    """
    try:
        return import_module(f"matplotlib.{part}" if part else "matplotlib")
    except ImportError as error:
        raise MissingExtraError("Plots need matplotlib: pip install 'labelgap[plot]'.") from error


def axes_for(ax: Any = None) -> Any:
    """The axes that were given, or those of a new pyplot figure."""
    if ax is not None:
        return ax
    figure = matplotlib("pyplot").figure()
    # Margins are fractions of the axes' own size, which the first layout does not know yet: leave some space.
    figure.set_layout_engine("constrained", h_pad=0.12)
    return figure.subplots()


def next_colour(ax: Any) -> str:
    """The first colour of the cycle that no line of ours in these axes has had before."""
    return CYCLE[sum(line.get_gid() == _OURS for line in ax.lines) % len(CYCLE)]


def draw_line(ax: Any, x: Any, y: Any, name: str | None, settings: dict[str, Any]) -> Any:
    """One curve, in the next colour unless the settings say otherwise."""
    styled = {"color": next_colour(ax), "linewidth": 1.8, "label": name, "gid": _OURS, **settings}
    if "c" in settings:
        del styled["color"]
    (line,) = ax.plot(x, y, **styled)
    return line


def tidy(ax: Any) -> None:
    """A light grid, and no frame where there is nothing to read off."""
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)


def show_names(ax: Any) -> None:
    """A legend as soon as something in the axes has a name."""
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False)


def margin(ax: Any, side: str, depth: float) -> Any:
    """Narrow axes above or to the right of ``ax``; those that are there already, if any."""
    name = f"{_OURS} {side}"
    for child in ax.child_axes:
        if child.get_label() == name:
            return child
    bounds, shared = {
        "top": ((0.0, 1.03, 1.0, depth), {"sharex": ax}),
        "right": ((1.03, 0.0, depth, 1.0), {"sharey": ax}),
    }[side]
    beside = ax.inset_axes(bounds, label=name, **shared)
    beside.tick_params(**({"labelbottom": False} if side == "top" else {"labelleft": False}))
    beside.spines[["top", "right"]].set_visible(False)
    return beside
