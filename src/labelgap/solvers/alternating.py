"""Alternating minimisation at a fixed rank, the method of LEML (Yu et al., 2014) and of the paper.

With ``W = A Bᵀ`` of k columns each,

    F(A, B, b) = f(XABᵀ + 1bᵀ) + λ/2 (‖A‖² + ‖B‖²) + λ₂/2 ‖ABᵀ‖²

is convex in (B, b) for a fixed A, and in A for a fixed (B, b). The two are lowered by turns
(:mod:`labelgap.solvers.turns`). Users and items without features have a small problem each, so a round costs
about as much as two passes over the entries, and a few rounds are enough for a model that predicts well: the
fastest way to one at a given rank.

The last digits, and with them the duality gap, come slowly: a turn never sees how A and B would move
together. The same F is minimised over all variables at once, with a rank that finds itself, by
:mod:`labelgap.solvers.factored`.
"""

from __future__ import annotations

import numpy as np

from labelgap.exceptions import InvalidParameterError
from labelgap.objective.protocol import Factors, Objective
from labelgap.solvers.certificate import Certificate, certify
from labelgap.solvers.checkpoint import Checkpoint
from labelgap.solvers.leading import with_leading_columns
from labelgap.solvers.linalg.spectral import balanced
from labelgap.solvers.penalties import Penalties
from labelgap.solvers.proximal import starting_factors
from labelgap.solvers.result import Callback, Fit, Recorder, finished
from labelgap.solvers.states import factors_from, factors_state, scalars
from labelgap.solvers.turns import balanced_factors, make_turns

_CERTIFY_EVERY = 5
# A round that gains less than this share of the tolerance ends the run.
_NOTHING = 0.01
# While rounds gain this share of the objective, the gap is far from closed and need not be looked at.
_FAR = 1e-2
# Where the steepest direction is below this share of λ, as far as is known, W = 0 may be the answer.
_SHALLOW = 1.1
# Accuracies of σ₁: for a gap that is far from closed, and as a share of the tolerance.
_ROUGH, _FINE = 0.1, 0.03
# A gap of so many times the accuracy is mostly its own.
_WIDE = 5.0
# Directions of W below this share of the largest are dead.
_DEAD = 1e-6


def solve_alternating(
    objective: Objective,
    penalties: Penalties,
    *,
    rank: int | None = None,
    tol: float = 1e-3,
    max_iter: int = 1000,
    warm_start: Factors | None = None,
    callback: Callback | None = None,
    checkpoint: Checkpoint | None = None,
    random_state: int | np.random.RandomState | None = 0,
) -> Fit:
    """Alternate between (B, b) and A until a round gains less than a hundredth of ``tol``.

    ``rank`` is the number of columns and must be given; ``max_iter`` bounds the rounds. Columns that the warm
    start leaves to fill begin with the leading directions of the gradient, found from random ones. That the
    steps died out is what ``converged`` says here. How far the optimum over all W can be is for the duality
    gap to say; a gap within ``tol`` ends the run too.
    """
    if rank is None:
        raise InvalidParameterError(
            "Alternating minimisation needs a fixed rank: give rank=, the number of columns of the factors. "
            "The solvers 'factored' and 'proximal' find the rank by themselves."
        )
    full = min(objective.shape)
    cap = min(full, rank)
    checkpoint = checkpoint or Checkpoint()
    kept = checkpoint.last()
    recorder = Recorder(callback, kept)
    certificate: Certificate | None = None

    def look(factors: Factors, closely: bool = True) -> Certificate:
        accuracy = _ROUGH
        found = certify(objective, objective.at(factors), penalties, accuracy=accuracy)
        while closely and found.relative_gap <= _WIDE * accuracy and accuracy > _FINE * tol:
            # Part of the gap is only that σ₁ is not known better.
            accuracy = max(_FINE * tol, _ROUGH * min(accuracy, found.relative_gap))
            found = certify(objective, objective.at(factors), penalties, accuracy=accuracy)
        recorder.report(rounds, found, factors.rank)
        return found

    if kept is None:
        rounds = 0
        point = objective.at(balanced_factors(starting_factors(objective, warm_start), cap))
        scale = max(abs(point.value), point.size)
        factors, steepest = with_leading_columns(objective, penalties, point, cap, random_state)
        if warm_start is not None or steepest <= _SHALLOW * penalties.trace:
            # It may be good enough already.
            certificate = look(point.factors)
            if certificate.relative_gap <= tol:
                return finished(point.factors, certificate, rounds, recorder, True, False, True)
        del point
    else:
        factors, rounds, scale = factors_from(kept), int(kept["rounds"]), float(kept["scale"])
    turns = make_turns(objective, penalties, factors, tol)
    died_out = False
    while not (died_out or rounds >= max_iter or checkpoint.stopping()):
        gained = turns.round()
        rounds += 1
        died_out = gained <= _NOTHING * tol * scale
        certificate = None
        if rounds % _CERTIFY_EVERY == 0 and gained <= _FAR * scale and not died_out:
            turns.restart()
            factors = turns.factors()
            certificate = look(factors)
            scale = certificate.scale
            if certificate.relative_gap <= tol:
                break
            numbers = scalars(rounds=rounds, scale=scale)
            checkpoint.snapshot({**factors_state(factors), **numbers, "history": recorder.as_state()})
    factors = turns.factors()
    if certificate is None:
        # One that was told to stop need not know how far it came, to the digit.
        certificate = look(factors, closely=rounds < max_iter)
    reached = certificate.relative_gap <= tol
    values = balanced(factors.left, factors.right, cutoff=_DEAD)[0]
    capped = not reached and len(values) == cap < full
    return finished(factors, certificate, rounds, recorder, reached or died_out, capped, died_out)
