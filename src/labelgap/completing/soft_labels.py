"""A refit of W on soft labels: what the labels of a row say of its unobserved entries, told to the features.

Scores XW + N, fitted as in :mod:`labelgap.completing.row_choice`, give probabilities q for unobserved entries
of the training rows. W is then fitted again to

    1/|Ω| [Σ_Ω ℓ(z_ij, y_ij) + ω |Ω|/|S| Σ_S ℓ(z_ij, q_ij)] + λ‖W‖_* + λ₂/2 ‖W‖_F² + κ/2 ‖b − c‖²,

with z = XW + b, ℓ the cross-entropy, and S a sample of the unobserved entries no larger than a few times Ω.
What N knows beside X is all that is new in q: where N = 0 there is nothing to learn, and no refit. ω is
chosen on held-out rows, as the model is for new rows, and ω = 0 is the first candidate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from labelgap._arrays import distinct
from labelgap._types import Floats
from labelgap.completing.row_choice import RowChoice, RowModel, fit_rows
from labelgap.fitting.choice import SELECTION_TOL
from labelgap.fitting.chosen import ChosenFit
from labelgap.fitting.cross_validation import SolverSettings
from labelgap.fitting.judges import DecisionRule, Judge, Verdict
from labelgap.fitting.run import FitRun
from labelgap.fitting.search import leading
from labelgap.labels import ObservedLabels
from labelgap.losses import Bernoulli, Loss
from labelgap.metrics.jackknife import metric_error
from labelgap.objective.protocol import Factors
from labelgap.solvers import Fit
from labelgap.solvers.joint_state import JointFactors
from labelgap.solvers.loop import Candidate, Stopped
from labelgap.thresholds.cross_fit import (
    NEVER,
    HeldOutScores,
    OneClassEffect,
    gather,
    hold_out_plan,
    map_folds,
    one_class_labels,
)

# Values of ω that are compared, each only if the one before was the best so far.
_WEIGHTS = (1.0, 3.0, 10.0)
# Soft labels at most, as a multiple of the observed ones.
_MOST = 4


def unobserved_sample(labels: ObservedLabels, most: int, random_state: Any) -> tuple[Any, Any]:
    """Rows and labels of at most ``most`` unobserved entries, uniform over those that can say something.

    These are the entries of rows with an observed entry, and of labels with both classes among theirs.
    Memory is in proportion to ``most`` and the observed entries, however large n·L is.

    Examples
    --------
    >>> labels = ObservedLabels.from_dense([[1, 0, None], [0, None, None], [None, 1, None]])
    >>> rows, cols = unobserved_sample(labels, 10, 0)
    >>> list(zip(rows.tolist(), cols.tolist()))
    [(1, 1), (2, 0)]
    """
    rng = check_random_state(random_state)
    n_labels = labels.shape[1]
    rows = np.flatnonzero(labels.row_counts() > 0)
    columns = np.flatnonzero((labels.label_counts() > 0) & ~one_class_labels(labels, fewest=1))
    seen = labels.rows * n_labels + labels.cols
    width = max(len(columns), 1)
    total = len(rows) * len(columns)

    def unseen(places: NDArray[np.int64]) -> NDArray[np.int64]:
        keys = rows[places // width] * n_labels + columns[places % width]
        return keys[~np.isin(keys, seen, assume_unique=True)]

    if total <= most + labels.n_observed:
        found = unseen(np.arange(total, dtype=np.int64))
    else:
        drawn = np.zeros(0, dtype=np.int64)
        while len(drawn) < min(most + labels.n_observed, total):
            more = rng.randint(0, total, size=most + labels.n_observed, dtype=np.int64)
            drawn = distinct(np.concatenate([drawn, more]))
        found = unseen(rng.permutation(drawn)[: most + labels.n_observed])
    found = np.sort(found if len(found) <= most else rng.permutation(found)[:most])
    return found // n_labels, found % n_labels


@dataclass
class SoftRefit:
    """Refits of W with soft labels of one μ."""

    model: RowModel
    row_penalty: float
    seed: int

    def soft_labels(self, labels: ObservedLabels, x: JointFactors) -> ObservedLabels:
        """A sample of the unobserved entries with their probabilities, by scores XW + N."""
        rows, cols = unobserved_sample(labels, _MOST * labels.n_observed, self.seed)
        blank = ObservedLabels.from_triplets(
            rows, cols, np.zeros(len(rows)), shape=labels.shape, binary=False
        )
        probabilities = self.model.shared.loss.inverse_link(self.model.scores(x, blank))
        return replace(blank, values=np.asarray(probabilities, dtype=np.float64))

    def joined(self, labels: ObservedLabels, soft: ObservedLabels, weight: float) -> ObservedLabels:
        """Observed and soft labels, the latter of the weight ω together in units of the former."""
        ones = np.ones(labels.n_observed) if labels.weights is None else labels.weights
        each = weight * ones.sum() / max(soft.n_observed, 1)
        return ObservedLabels.from_triplets(
            np.concatenate([labels.rows, soft.rows]),
            np.concatenate([labels.cols, soft.cols]),
            np.concatenate([labels.values, soft.values]),
            shape=labels.shape,
            weights=np.concatenate([ones, np.full(soft.n_observed, each)]),
            binary=False,
        )

    def fit(
        self,
        labels: ObservedLabels,
        soft: ObservedLabels,
        weight: float,
        start: Factors,
        solver: SolverSettings,
    ) -> Fit:
        """W and b fitted to both. Objective and gap are in units of a mean over the observed entries."""
        penalties = self.model.penalties
        problem = self.model.shared.with_settings(loss=Bernoulli())
        objective = problem.objective(
            self.joined(labels, soft, weight), free_intercept=penalties.intercept == 0
        )
        # The objective is a mean over all weights, 1 + ω in units of those of the observed entries.
        unit = 1.0 + weight
        scaled = replace(
            penalties,
            trace=penalties.trace / unit,
            ridge=penalties.ridge / unit,
            intercept=penalties.intercept / unit,
        )
        fit = solver.fit(objective, scaled, warm_start=start)
        history = tuple(replace(step, objective=unit * step.objective) for step in fit.history)
        return replace(fit, objective=unit * fit.objective, gap=unit * fit.gap, history=history)


class _RowFolds:
    """Held-out rows scored by refits that did not see them, for one ω after another."""

    def __init__(self, refit: SoftRefit, plan: NDArray[Any], judge: Judge, run: FitRun) -> None:
        self._refit, self._plan, self._judge, self._run = refit, plan, judge, run
        self._starts: dict[int, tuple[Factors, ObservedLabels]] = {}
        self.held = refit.model.labels.select(plan != NEVER)

    def judged(self, weight: float) -> tuple[Candidate, Floats]:
        refit, run = self._refit, self._run

        def work(fold: int, train: ObservedLabels, held: ObservedLabels) -> tuple[Floats, int]:
            if run.checkpoint.stopping():
                raise Stopped
            if fold not in self._starts:
                alone = refit.model.without_rows(train, SELECTION_TOL).factors
                begin = JointFactors.without_rows(alone, train.shape[0])
                joint = refit.model.solve(refit.model.joint(train, refit.row_penalty), begin, SELECTION_TOL)
                self._starts[fold] = alone, refit.soft_labels(train, joint.factors)
            start, soft = self._starts[fold]
            factors = start
            if weight > 0:
                solver = replace(refit.model.solver.for_comparisons, tol=SELECTION_TOL)
                factors = refit.fit(train, soft, weight, start, solver).factors
            return refit.model.shared.scores(factors, held), factors.rank

        by_fold = map_folds(refit.model.labels, self._plan, work, run.n_jobs)
        _, scores = gather(self._plan, [part for part, _ in by_fold])
        verdict = self._judge(scores, self.held)
        rank = float(np.mean([rank for _, rank in by_fold]))
        run.say(
            f"soft labels of weight {weight:g}: held-out metric {verdict.value:.4f}, loss {verdict.loss:.5g}"
        )
        return _candidate(refit.model, verdict, rank, int(self._plan.max()) + 1), scores


def with_soft_labels(
    chosen: ChosenFit,
    X: Any,
    labels: ObservedLabels,
    weight: float | str,
    loss: Loss,
    rule: DecisionRule,
    solver: SolverSettings,
    run: FitRun,
    *,
    how: str,
    groups: NDArray[np.int64] | None = None,
    effect: OneClassEffect | None = None,
    held_out: HeldOutScores | None = None,
) -> tuple[ChosenFit, float]:
    """The fit with soft labels where held-out rows say that it pays, and the ω that it has; 0 for none.

    ``X`` are the features of the fit, as its map makes them, and ``weight`` is ω or "auto". Of
    ``groups``, the number of each row's group, all rows are held out together.
    """
    assert chosen.problem is not None
    # A single label has no others to learn from.
    if weight == 0 or labels.shape[1] == 1 or run.checkpoint.stopping():
        return chosen, 0.0
    run.stage("learning from soft labels")
    rng = check_random_state(run.random_state)
    plan = "holdout" if how == "holdout" else "cross-fit"
    by_entry = hold_out_plan(labels, plan, rng)
    by_row = hold_out_plan(labels, plan, rng, by_row=True, groups=groups)
    seed = int(rng.randint(np.iinfo(np.int32).max))
    if not (by_row >= 0).any():
        return chosen, 0.0
    model = RowModel(X, labels, chosen.problem.settings, chosen.penalties, solver)
    judge = rule.search_judge(loss)
    found = RowChoice(model, by_entry, judge, run.n_jobs, run.say, run.checkpoint.stopping)
    mu = found.search(chosen.fit.factors).row_penalty
    if mu == np.inf or run.checkpoint.stopping():
        return chosen, 0.0
    refit = SoftRefit(model, mu, seed)
    folds = _RowFolds(refit, by_row, judge, run)
    try:
        best, scores = _best_weight(folds, weight)
    except Stopped:
        return chosen, 0.0
    if best == 0:
        return chosen, 0.0
    run.stage("fitting")
    joint = fit_rows(model, chosen.fit.factors, mu)
    soft = refit.soft_labels(labels, joint.factors)
    fit = refit.fit(labels, soft, best, chosen.fit.factors, solver)
    solver.warn_unless_converged(fit)
    if how == "train":
        return replace(chosen, fit=fit, **_training_thresholds(model, fit, rule)), best
    verdict = rule.last_judge(loss, effect, held_out)(scores, folds.held)
    last = _candidate(model, verdict, float(fit.rank), int(by_row.max()) + 1)
    return replace(
        chosen,
        fit=fit,
        threshold=verdict.threshold,
        thresholds=verdict.thresholds,
        threshold_kind=verdict.kind,
        candidates=(*chosen.candidates, last),
        held_out_metric=verdict.value,
        held_out_error=metric_error(verdict.leave_out),
    ), best


def _best_weight(folds: _RowFolds, weight: float | str) -> tuple[float, Floats]:
    """ω and the held-out scores with it."""
    if not isinstance(weight, str):
        return float(weight), folds.judged(float(weight))[1]
    found = [(0.0, *folds.judged(0.0))]
    for omega in _WEIGHTS:
        found.append((omega, *folds.judged(omega)))
        if leading([candidate for _, candidate, _ in found]) != len(found) - 1:
            break
    best = leading([candidate for _, candidate, _ in found])
    return found[best][0], found[best][2]


def _training_thresholds(model: RowModel, fit: Fit, rule: DecisionRule) -> dict[str, Any]:
    found = rule.choose(model.shared.scores(fit.factors, model.labels), model.labels)
    several = None if found.kind == "shared" else found.thresholds
    return {"threshold": found.shared, "thresholds": several, "threshold_kind": found.kind}


def _candidate(model: RowModel, verdict: Verdict, rank: float, n_folds: int) -> Candidate:
    return Candidate(
        model.penalties,
        verdict.value,
        verdict.threshold,
        verdict.loss,
        rank,
        n_folds,
        verdict.leave_out,
        verdict.thresholds,
        verdict.kind,
    )
