"""What is kept about each batch of data that a model has learned from."""

from __future__ import annotations

from dataclasses import dataclass

from labelgap.persistence.registry import savable_record


@savable_record("batch")
@dataclass(frozen=True)
class Batch:
    """One batch of data, as ``batches_`` of an estimator lists it; the first is the fit that it began with.

    A batch is judged before it is learned from (progressive validation), so that its metric is that of data
    which the model has not seen.

    Attributes
    ----------
    number : int
        1 for the first.
    new_rows, new_labels : int
        Rows (users) and labels (items) that were not known before.
    added : int
        Entries that were not observed before.
    corrected : int
        Entries that were observed before with another value, which the later one replaced.
    repeated : int
        Entries that were observed before with the same value.
    metric : float or None
        The metric of the batch at the model and the threshold before it; for the first batch the held-out
        metric of the fit. None where it cannot be judged.
    standard_error : float or None
        Of ``metric``, by a jackknife over rows; None for fewer than 20 rows.
    interval : pair of floats or None
        Where the earlier batches lead to expect ``metric``; see
        :func:`labelgap.arriving.expected_interval`.
    drift : {"no", "worse", "better"} or None
        Where ``metric`` is in relation to ``interval``; None where there is no interval.
    held_out_metric : float or None
        The held-out metric of the model afterwards; None where nothing was held out.
    chosen_anew : str or None
        Why the penalties were chosen anew; None where those of the batch before were kept.
    objective, relative_gap : float
        Of the model afterwards, over all data that are kept.
    seconds : float
        The time that the batch took.

    Examples
    --------
    >>> Batch(number=2, new_rows=10, added=30, metric=0.8, interval=(0.7, 0.9), drift="no").drifted
    False
    """

    number: int
    new_rows: int = 0
    new_labels: int = 0
    added: int = 0
    corrected: int = 0
    repeated: int = 0
    metric: float | None = None
    standard_error: float | None = None
    interval: tuple[float, float] | None = None
    drift: str | None = None
    held_out_metric: float | None = None
    chosen_anew: str | None = None
    objective: float = float("nan")
    relative_gap: float = float("nan")
    seconds: float = 0.0

    @property
    def drifted(self) -> bool:
        """Whether the metric fell below the interval of the earlier batches."""
        return self.drift == "worse"
