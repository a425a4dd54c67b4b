"""A data set in parts, each with some of the rows, and what a machine must offer to work on one.

On one machine there is one part; a worker's rows, a device's rows, or a batch that arrived today are others.
A part says what it knows that adds up (its moments), and builds its objective once it has been told the
frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from labelgap._types import Floats
from labelgap.labels import ObservedLabels
from labelgap.losses import Loss
from labelgap.objective.frame import FeatureFrame, Frame
from labelgap.objective.moments import FeatureMoments, ObservedMoments, SecondMoments, UnlabelledMoments
from labelgap.objective.protocol import Objective


@dataclass(frozen=True)
class RowBlock:
    """Some rows of a data set: their features, and their labels (as many rows)."""

    X: Any
    """Features, dense or sparse; None where the rows have none."""
    labels: ObservedLabels
    """What was observed; recorded positives, where nothing else is known."""
    judged: ObservedLabels | None = None
    """For recorded positives alone: entries on which decisions are judged, recorded (1) and others (0)."""


@dataclass(frozen=True)
class FeatureSettings:
    """How the features of rows and labels are used.

    Parameters
    ----------
    own_rows : bool, default False
        Whether every row has parameters of its own (X = I, collaborative filtering); features are then used
        beside them, as they are given.
    label_features : sparse matrix of shape (L, r), or None
        Features of the labels, beside the parameters that each label has of its own.
    own_labels : bool, default True
        Whether every label has parameters of its own; False only with ``label_features``.
    scaling : {"none", "root", "standard"}, default "none"
        What is done to the columns of X before W is penalised.
    penalty : {"weights", "scores"}, default "weights"
        What the trace norm and the ridge are of: W, or the scores XW.
    centre : bool, default False
        Whether a free intercept may absorb the mean of the features.
    count_weighting : float, default 0
        The power of the number of entries with which the penalty of a row's and a label's own factors grows.
    label_weighting : float, default 0
        The power of the number of positives with which the penalty of a label's own factors grows.
    """

    own_rows: bool = False
    label_features: Any = None
    own_labels: bool = True
    scaling: str = "none"
    penalty: str = "weights"
    centre: bool = False
    count_weighting: float = 0.0
    label_weighting: float = 0.0


@dataclass(frozen=True)
class ProblemSettings:
    """What is fixed about a problem beside its data.

    Parameters
    ----------
    loss : Loss
    features : FeatureSettings
    fit_intercept : bool, default True
        One intercept per label.
    score_bound : float or None
        γ, a bound on every ``|x_i·w_j|``.
    flip_rate : array of length L, or None
        For recorded positives alone: the fraction of the positives that are not recorded.
    block_entries : int
        How many of all n·L entries are worked on at a time.
    kept_entries : int, default 0
        Of how many entries all scores may be kept, which makes steps faster; beyond, they are worked on in
        blocks.
    """

    loss: Loss
    features: FeatureSettings = FeatureSettings()
    fit_intercept: bool = True
    score_bound: float | None = None
    flip_rate: Floats | None = None
    block_entries: int = 1 << 14
    kept_entries: int = 0


class RowData(Protocol):
    """The features of a part's rows on some machine; kept while labels and frames change."""

    @property
    def n_rows(self) -> int: ...

    def moments(self, settings: FeatureSettings) -> FeatureMoments: ...

    def second_moments(self) -> SecondMoments:
        """What principal axes are found from; asked for only where they are wanted."""
        ...

    def gram(self, settings: FeatureSettings, frame: FeatureFrame) -> Floats:
        """``XᵀX`` of the rows in the frame's coordinates."""
        ...

    def square_length(self, settings: FeatureSettings, frame: FeatureFrame) -> float:
        """Sum of ``‖x_i‖²`` over the rows, in the frame's coordinates."""
        ...

    def n_stored(self, settings: FeatureSettings, frame: FeatureFrame) -> int:
        """The numbers that the features take."""
        ...

    def left(self, settings: FeatureSettings, frame: FeatureFrame, A: Any) -> Any:
        """``P = XA`` for the rows of A that this part works on."""
        ...

    def right(self, settings: FeatureSettings, frame: FeatureFrame, B: Any) -> Any:
        """``Q = FB``."""
        ...

    def scores(
        self, settings: FeatureSettings, frame: FeatureFrame, A: Any, B: Any, b: Any, labels: ObservedLabels
    ) -> Floats:
        """``XABᵀFᵀ + 1bᵀ`` (plus offsets, where labels have them) at the entries of these labels."""
        ...

    def own_scales(self, settings: FeatureSettings, frame: FeatureFrame) -> Floats | None:
        """What the rows' own parameters are multiplied with; None for 1."""
        ...

    def part(
        self, settings: ProblemSettings, block: RowBlock, labels: ObservedLabels, *, thinned: bool
    ) -> Part:
        """The part with these labels, some of the block's own."""
        ...


class Part(Protocol):
    """Some rows with some labels."""

    def moments(self) -> ObservedMoments | UnlabelledMoments: ...

    def objective(self, frame: Frame) -> Objective:
        """The part's summand of the objective."""
        ...


class Backend(Protocol):
    """A machine that objectives run on."""

    def row_data(self, block: RowBlock) -> RowData: ...
