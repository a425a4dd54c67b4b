"""Which entries are known: yes, no, or not observed."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from labelgap._types import Floats
from labelgap.exceptions import InvalidInputError, InvalidLabelsError, InvalidParameterError
from labelgap.labels import ObservedLabels
from labelgap.recommending.serving import Recommending
from labelgap.report.displays.entries import is_model
from labelgap.report.displays.style import BLUE, MIXED, NOT_OBSERVED, ORANGE, axes_for, margin, matplotlib
from labelgap.report.innermost import innermost

# The depth of a margin, as a fraction of the picture.
_DEPTH = 0.2
# Patches above this quantile of the observed fractions have full strength: one busy patch dims no other.
_FULL = 0.99
_ABSENT = {"missing": "not observed", "negative": "not observed", "unlabelled": "unlabelled"}


class ObservedDisplay:
    """The pattern of a label matrix: where a yes, a no and nothing is known, with margins.

    Neighbouring rows and labels are counted together where there are many, and nothing of size n x L is made.
    The hue of a patch is the fraction of yes among its observed entries. Its strength is the observed
    fraction, on a scale where the most observed patches are full. The margins show the observed fraction of
    each label (above) and of each row (right), yes and no stacked. Make one with :meth:`from_labels`.

    Parameters
    ----------
    yes, no : integer arrays of shape (row bins, label bins)
        Known yes and no in each patch.
    row_edges, label_edges : integer arrays
        Where the bins begin, and where the last one ends.
    absent : str, default "not observed"
        What the legend calls an entry that is not observed.

    Attributes
    ----------
    image_ : matplotlib image of the pattern
    label_bars_, row_bars_ : pairs of matplotlib steps (yes, and yes and no together), or None
    ax_, ax_labels_, ax_rows_, figure_ : matplotlib axes and figure

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from labelgap.report import ObservedDisplay
    >>> display = ObservedDisplay.from_labels([[1, 0, None], [None, 1, 0]], ax=Figure().subplots())
    >>> display.yes.tolist(), display.no.tolist()
    ([[1, 0, 0], [0, 1, 0]], [[0, 1, 0], [0, 0, 1]])
    """

    def __init__(
        self,
        yes: NDArray[np.int64],
        no: NDArray[np.int64],
        row_edges: NDArray[np.int64],
        label_edges: NDArray[np.int64],
        *,
        absent: str = "not observed",
    ) -> None:
        self.yes = yes
        self.no = no
        self.row_edges = row_edges
        self.label_edges = label_edges
        self.absent = absent

    @property
    def cells(self) -> NDArray[np.int64]:
        """The number of entries of each patch."""
        return np.outer(np.diff(self.row_edges), np.diff(self.label_edges))

    def plot(
        self,
        ax: Any = None,
        *,
        name: str | None = None,
        margins: bool = True,
        legend: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Draw the pattern.

        Parameters
        ----------
        ax : matplotlib axes or None, default None
            Where to draw; None makes a figure.
        name : str or None, default None
            A title.
        margins : bool, default True
            Whether the observed fraction of each label and row is drawn beside the pattern.
        legend : bool, default True
            Whether the colours are explained below.
        **kwargs : settings of the image, for ``ax.imshow``
        """
        self.ax_ = axes_for(ax)
        self.figure_ = self.ax_.figure
        left, right = float(self.label_edges[0]), float(self.label_edges[-1])
        top, bottom = float(self.row_edges[0]), float(self.row_edges[-1])
        looks = {"aspect": "auto", "interpolation": "nearest", **kwargs}
        self.image_ = self.ax_.imshow(self._colours(), extent=(left, right, bottom, top), **looks)
        self.ax_.set(xlabel="label", ylabel="row")
        self.ax_labels_: Any = None
        self.ax_rows_: Any = None
        self.label_bars_: tuple[Any, Any] | None = None
        self.row_bars_: tuple[Any, Any] | None = None
        if margins:
            self._draw_margins()
        if legend:
            self._draw_legend()
        if name is not None:
            self.ax_.set_title(name, y=1.03 + _DEPTH if margins else None)
        return self

    def _colours(self) -> Floats:
        rgb = matplotlib("colors").to_rgb
        observed = self.yes + self.no
        fraction = observed / self.cells
        full = float(np.quantile(fraction[observed > 0], _FULL))
        strength = np.sqrt(np.minimum(fraction / full, 1.0))[..., None]
        positive = self.yes / np.maximum(observed, 1)
        stops = np.array([rgb(ORANGE), rgb(MIXED), rgb(BLUE)])
        hue = np.stack([np.interp(positive, (0.0, 0.5, 1.0), channel) for channel in stops.T], axis=-1)
        return np.asarray(strength * hue + (1 - strength) * np.array(rgb(NOT_OBSERVED)))

    def _draw_margins(self) -> None:
        self.ax_labels_, self.ax_rows_ = margin(self.ax_, "top", _DEPTH), margin(self.ax_, "right", _DEPTH)
        self.label_bars_ = self._bars(self.ax_labels_, 0, self.label_edges, "vertical")
        self.row_bars_ = self._bars(self.ax_rows_, 1, self.row_edges, "horizontal")
        ticker = matplotlib("ticker")
        for axis in (self.ax_labels_.yaxis, self.ax_rows_.xaxis):
            axis.set_major_formatter(ticker.FuncFormatter(lambda fraction, _: f"{100 * fraction:g} %"))
            axis.set_major_locator(ticker.MaxNLocator(2, prune="lower"))
        self.ax_labels_.set(ylabel="observed", ylim=(0, None))
        self.ax_rows_.set(xlabel="observed", xlim=(0, None))

    def _bars(self, ax: Any, summed: int, edges: NDArray[np.int64], orientation: str) -> tuple[Any, Any]:
        """Yes below, no on top of it, as fractions of all entries of the row or label."""
        entries = self.cells.sum(axis=summed)
        yes = self.yes.sum(axis=summed) / entries
        both = yes + self.no.sum(axis=summed) / entries
        below = ax.stairs(yes, edges, orientation=orientation, fill=True, color=BLUE)
        above = ax.stairs(both, edges, baseline=yes, orientation=orientation, fill=True, color=ORANGE)
        return below, above

    def _draw_legend(self) -> None:
        patch = matplotlib("patches").Patch
        names = {"yes": BLUE, "no": ORANGE, self.absent: NOT_OBSERVED}
        if np.any((self.yes > 0) & (self.no > 0)):
            names = {"yes": BLUE, "half yes, half no": MIXED, "no": ORANGE, self.absent: NOT_OBSERVED}
        self.ax_.legend(
            handles=[patch(facecolor=colour, label=name) for name, colour in names.items()],
            ncols=len(names),
            loc="upper center",
            bbox_to_anchor=(0.5, -0.13),
            frameon=False,
        )

    @classmethod
    def from_labels(
        cls,
        y: Any,
        *,
        unobserved: str = "missing",
        max_rows: int = 200,
        max_labels: int = 200,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """The pattern of incomplete labels.

        Parameters
        ----------
        y : labels in any form that ``ObservedLabels.from_any`` takes
        unobserved : {"missing", "negative", "unlabelled"}, default "missing"
            What an absent entry means.
        max_rows, max_labels : int, default 200
            So many bins at most; beyond it neighbours are counted together.
        name : str or None, default None
            A title.
        ax : matplotlib axes or None, default None
        **kwargs : as for :meth:`plot`
        """
        labels = ObservedLabels.from_any(y, unobserved=unobserved)
        labels.require_observed()
        if not np.isin(labels.values, (0, 1)).all():
            raise InvalidLabelsError(
                "The picture is of yes and no; these labels hold other values than 0 and 1."
            )
        rows = _edges(labels.shape[0], max_rows, "max_rows")
        columns = _edges(labels.shape[1], max_labels, "max_labels")
        shape = (len(rows) - 1, len(columns) - 1)
        row_bins = np.searchsorted(rows, labels.rows, side="right") - 1
        patches = row_bins * shape[1] + np.searchsorted(columns, labels.cols, side="right") - 1

        def count(chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
            return np.bincount(patches[chosen], minlength=shape[0] * shape[1]).reshape(shape)

        display = cls(
            count(labels.values == 1),
            count(labels.values == 0),
            rows,
            columns,
            absent=_ABSENT[labels.unobserved],
        )
        return display.plot(ax, name=name, **kwargs)

    @classmethod
    def from_estimator(cls, model: Any, **kwargs: Any) -> Self:
        """The pattern of the ratings that a Recommender knows, users by items.

        Parameters
        ----------
        model : fitted Recommender
            Other estimators do not keep their labels; use :meth:`from_labels`.
        **kwargs : as for :meth:`from_labels`
        """
        inner = innermost(model).model
        if not isinstance(inner, Recommending):
            raise InvalidInputError(
                f"{type(inner).__name__} does not keep the labels that it was fitted to; give those instead."
            )
        inner._require_fit()
        display = cls.from_labels(inner.answers_, unobserved=inner._silence, **kwargs)
        display.ax_.set(xlabel="item", ylabel="user")
        return display


def plot_observed(labels_or_model: Any, **kwargs: Any) -> ObservedDisplay:
    """Draw which entries of a label matrix are known.

    Parameters
    ----------
    labels_or_model : labels in any form that ``ObservedLabels.from_any`` takes, or a fitted Recommender
    **kwargs : as for :meth:`ObservedDisplay.from_labels`
        ``unobserved``, ``max_rows``, ``max_labels``, ``name``, ``ax``, ...

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from labelgap.report import plot_observed
    >>> plot_observed([[1, 0, None], [None, 1, 0]], ax=Figure().subplots()).cells.sum()
    np.int64(6)
    """
    if is_model(labels_or_model):
        return ObservedDisplay.from_estimator(labels_or_model, **kwargs)
    return ObservedDisplay.from_labels(labels_or_model, **kwargs)


def _edges(n: int, most: Any, what: str) -> NDArray[np.int64]:
    if isinstance(most, bool) or not isinstance(most, int | np.integer) or most < 1:
        raise InvalidParameterError(f"{what} must be a whole number, 1 or more; got {most!r}.")
    return np.linspace(0, n, min(n, int(most)) + 1).round().astype(np.int64)
