"""The numbers that steer the solvers, each with the experiment that set it.

None of them decides what is true: a duality gap is a proof whatever they are. They decide how long it takes.
Margins for rounding and sizes of blocks, which follow from the arithmetic, stay where they are used. Unless
it says otherwise, the experiment is ``python -m benchmarks certified``: shapes, λ and gaps in one thread, of
which the geometric mean counts. Most numbers can be halved or doubled for a tenth of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Lengths(NamedTuple):
    """How long proximal steps are: 1/M, in units of what their end says of the curvature."""

    too_long: float
    """A step may have been too long by this factor if the objective fell: made again it costs a step."""
    could_be_longer: float
    """After a step that needed less than this fraction of M, ..."""
    longer: float
    """... M falls by this factor."""


@dataclass(frozen=True)
class Tuning:
    """What the solvers go by."""

    # -- rounds ----------------------------------------------------------------------------------------------
    proximal_steps: int = 4
    """Proximal steps in a round. 3 and 6 take 8 and 2 % more time in the mean."""
    few_steps: int = 2
    """The same where a few steps may be enough, for gaps of ``very_loose`` and more."""
    very_loose: float = 0.1
    """That is what the fits of a search are first compared at."""
    loose: float = 1e-2
    """A gap from which on a fit with a warm start makes steps before it asks for one: that costs a step."""
    newton_steps: int = 4
    """Newton steps in a round. 2 and 8 take 5 and 4 % more."""
    newton_products: int = 20
    """Products with the Hessian in a round. 40 takes as long in the mean, but longer on 1 million ratings."""
    forcing: float = 0.4
    """The fraction of the gradient that conjugate gradients leave. 0.25 takes 6 % more, 0.1 takes 29 %."""
    round_fraction: float = 0.05
    """Newton steps end where one gains less than this fraction of the gap. 0.02 takes 7 % more."""
    still_falling: float = 1e-2
    """A round whose proximal steps gain more, as a fraction of the objective, has no Newton steps. 0.03 takes
    16 % more, 0.003 as long."""
    pace_rounds: int = 2
    """Newton steps begin where so many rounds of proximal ones ..."""
    pace: float = 0.4
    """... leave more than this fraction of the gap. From the start, they take 1.5 times as long on Bibtex."""
    patience: int = 12
    """Rounds in which the gap may fail to halve while the objective gains nothing. With fewer, fits to gaps
    of 1e-12 end early (``tests/solvers``)."""
    nothing: float = 1e-6
    """What counts as nothing, as a fraction of the gap, which may stay near 1 for long."""
    patience_capped: int = 2
    """The same two under a limit of the rank that binds, ..."""
    nothing_capped: float = 0.01
    """... as a fraction of the tolerance: other local optima differ by more (``tests/solvers``)."""
    snapshot_every: int = 8
    """Rounds of proximal steps between two snapshots, each of which restarts the subspace iteration."""
    dead: float = 1e-6
    """Directions of W below this fraction of the largest are dropped between rounds."""

    # -- growth where the gradient is not formed -------------------------------------------------------------
    first_columns: int = 8
    """What the rank grows to at first; then it may double in a round. All directions above λ at once take
    four times as long on 1 million ratings at λ|Ω| = 6, where the rank of the optimum is 289."""
    many_columns: int = 64
    """From here on it grows by half."""
    excess: float = 0.1
    """A singular value above λ by this fraction of the tolerance does not keep the gap open."""
    seek_accuracy: float = 0.1
    """How accurately the first of the new directions is found, beside those of the certificate. 0.03 takes as
    long; without those of the certificate the fit to 1 million ratings stalls at a gap of 2e-3."""
    most_triplets: int = 64
    """Directions that a certificate looks for at most, for problems in several parts."""
    growth_trials: int = 6
    """Lengths of new directions that are tried, each half of the one before; the first nearly always does."""

    # -- sweeps ----------------------------------------------------------------------------------------------
    sweeps: int = 5
    """Sweeps in a round, at most."""
    sweep_worth: float = 0.1
    """Another sweep has to gain this fraction of what the first one of the round did."""
    sweeps_worth: float = 0.01
    """A round gains this fraction of the tolerance, or the next one has Newton steps. 1 takes 1.2 to 1.7
    times as long to a gap of 1e-3 on 1 million ratings."""
    least_sweeping_tol: float = 1e-4
    """The least gap that sweeps, in single precision, are made for."""

    # -- proximal steps --------------------------------------------------------------------------------------
    early: float = 0.1
    """Intercepts are as good as this fraction of the last gap asks for, ..."""
    worst_intercept: float = 0.05
    """... and as this gap does: what they leave looks like curvature, and shortens the steps."""
    probes: int = 8
    """Directions whose curvature says how long the first step may be, ..."""
    allowance: float = 2.0
    """... and how many times it is allowed for from a start: all together need more than any one."""
    lengths: Lengths = Lengths(1.5, 0.6, 0.9)  # noqa: RUF009 - a tuple
    """Of steps that follow each other. With 3 for the first number, or 0.6 for the last, they take 2 % more
    time; with those that go with sweeps, 9 %."""
    lengths_with_sweeps: Lengths = Lengths(6.0, 4.0, 0.6)  # noqa: RUF009
    """Of single steps that sweeps follow: the direction is what counts. The default on 1 million ratings
    takes 46 s with those of the others, 36 to 38 s with these, with half or three times their first two
    numbers, and with 0.3 for the last."""

    # -- singular triplets -----------------------------------------------------------------------------------
    spare: int = 8
    """Vectors that a step of subspace iteration carries beside those that are needed, ..."""
    fresh: int = 4
    """... and random ones that join them: a direction that begins to matter is found by these."""
    many: float = 1 / 3
    """The fraction of all singular vectors from which on a decomposition is as cheap."""
    rough: float = 0.03
    """The accuracy of σ₁ at first, where it takes products (0.1 takes longer on coat), ..."""
    fine: float = 0.03
    """... at best, as a fraction of the tolerance, ..."""
    wide: float = 5.0
    """... and the gap of so many times the accuracy that needs no more of it."""
    far: float = 0.5
    """A shrinking of G beyond which a bound by no slopes at all is tried as well."""


TUNED = Tuning()
