"""Problems of every kind, made by the constructor that estimators use, each with its dense oracle."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from labelgap.labels import ObservedLabels
from labelgap.losses import (
    FAMILIES,
    LOSSES,
    UNLABELLED_LOSSES,
    CustomFamily,
    Logistic,
    Loss,
    Unlabelled,
    get_loss,
)
from labelgap.objective.parts import FeatureSettings, ProblemSettings, RowBlock
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Factors
from labelgap.solvers import Penalties
from oracles_objective import DenseTerm, slow_flip_rates, slow_rates

RANK = 2


@dataclass(frozen=True)
class Setting:
    """One kind of problem."""

    features: FeatureSettings = field(default_factory=FeatureSettings)
    kind: str = "dense"
    loss: Loss = field(default_factory=Logistic)
    fit_intercept: bool = True
    free_intercept: bool = True
    weighted: bool = False
    offsets: bool = False
    bound: float | None = None
    unlabelled: bool = False
    held_out: bool = False
    thinned: bool = False
    kept: bool = False
    n: int = 23
    n_labels: int = 6
    density: float = 0.6
    block_entries: int = 11

    # -- the data, as dense arrays ---------------------------------------------------------------------------

    @cached_property
    def X(self) -> Any:
        """The features of the rows, None without any; a row and a column of a sparse X are empty."""
        rng = np.random.default_rng(1)
        if self.kind == "none":
            return None
        d = 3 * self.n if self.kind == "wide" else 4
        X = rng.standard_normal((self.n, d)) * np.geomspace(0.2, 5.0, d) + 1.0
        if self.kind == "csr":
            X[rng.random(X.shape) < 0.65] = 0.0
            X[2], X[:, 2] = 0.0, 0.0
        return X

    @cached_property
    def Y(self) -> Any:
        """NaN where nothing is known.

        One row has no entry and one has one; the first label has every other entry, the last but one has one
        class, if the loss has any, and the last has no entry.
        """
        rng = np.random.default_rng(2)
        shape, edges = (self.n, self.n_labels), self.loss.edge_values
        Y = np.asarray(self.loss.inverse_link(rng.standard_normal(shape)))
        if self.is_binary or self.unlabelled:
            Y = (rng.random(shape) < (0.35 if self.unlabelled else 0.45)).astype(float)
        elif edges:
            Y = np.where(rng.random(shape) < 0.3, rng.choice(edges, shape), Y)
        if edges:
            Y[:, -2] = max(edges)
        if self.unlabelled:
            Y[:, -1] = 0.0
            return Y
        absent = rng.random(shape) >= self.density
        absent[:, 0] = False
        absent[3], absent[4], absent[:, -1] = True, np.arange(self.n_labels) != 1, True
        Y[absent] = np.nan
        return Y

    @property
    def is_binary(self) -> bool:
        return self.loss.name in LOSSES

    @cached_property
    def weights(self) -> Any:
        rng = np.random.default_rng(4)
        return rng.uniform(0.3, 3.0, self.Y.shape) if self.weighted else np.ones(self.Y.shape)

    @cached_property
    def shifts(self) -> Any:
        """The offset of every entry."""
        return np.random.default_rng(5).uniform(-1.0, 1.0, self.Y.shape) * float(self.offsets)

    @cached_property
    def held(self) -> Any:
        """Which entries are held out, where only some of the yes are recorded."""
        out = np.random.default_rng(6).random(self.Y.shape) < 0.3
        return out if self.held_out else np.zeros(self.Y.shape, dtype=bool)

    @property
    def flip_rate(self) -> Any:
        return np.linspace(0.1, 0.4, self.n_labels)

    # -- the problem -----------------------------------------------------------------------------------------

    def labels(self) -> ObservedLabels:
        """What is handed in: the observed entries, or the recorded positives."""
        if self.unlabelled:
            return ObservedLabels.from_dense(np.where(self.Y == 1, 1.0, np.nan))
        labels = ObservedLabels.from_dense(self.Y, binary=self.is_binary)
        labels = labels.with_weights(self.weights) if self.weighted else labels
        return labels.with_offsets(self.shifts) if self.offsets else labels

    def problem(self, cuts: Any = (), backend: Any = None) -> tuple[Problem, ObservedLabels]:
        """The problem cut before these rows, and the labels that objectives are over."""
        labels = used = self.labels()
        judged, X = None, sp.csr_array(self.X) if self.kind == "csr" else self.X
        if self.unlabelled:
            judged = ObservedLabels.from_dense(self.Y)
            used = judged.select(~self.held.ravel())
        settings = ProblemSettings(
            self.loss,
            self.features,
            fit_intercept=self.fit_intercept,
            score_bound=self.bound,
            flip_rate=self.flip_rate if self.unlabelled else None,
            block_entries=self.block_entries,
            kept_entries=self.n * self.n_labels if self.kept else 0,
        )
        blocks = [
            RowBlock(
                None if X is None else X[start:stop],
                labels.take_rows(np.arange(start, stop)),
                None if judged is None else judged.take_rows(np.arange(start, stop)),
            )
            for start, stop in pairwise([0, *sorted(cuts), self.n])
        ]
        return Problem(blocks, settings, backend), used

    def objective(self, problem: Problem, labels: ObservedLabels) -> Any:
        return problem.objective(labels, free_intercept=self.free_intercept, thinned=self.thinned)

    @property
    def penalties(self) -> Penalties:
        return Penalties(0.02, 0.01, 0.0 if self.free_intercept else 0.05, 0.3)

    # -- what it ought to be ---------------------------------------------------------------------------------

    def design(self) -> tuple[Any, Any]:
        """The features of rows and labels as handed in, dense, beside parameters of their own in their units.

        Rows are in the units of :meth:`Problem.to_original`.
        """
        given = self.features
        counted = (self.Y == 1) if self.unlabelled else ~np.isnan(self.Y)
        rows = [np.eye(self.n)] if given.own_rows else []
        rows += [] if self.X is None else [self.X]
        scales = np.ones(self.n_labels)
        if given.count_weighting:
            filled = np.maximum(counted.sum(axis=0), 1)
            scales *= (filled / filled.mean()) ** (-given.count_weighting / 2)
        if given.label_weighting:
            positives = np.maximum(np.sum(counted & (self.Y > 0), axis=0), 1)
            powers = (positives / positives.max()) ** -float(given.label_weighting)
            scales *= np.sqrt(powers / (np.sum(powers * positives) / positives.sum()))
        columns = [np.diag(scales)] if given.own_labels else []
        columns += [] if given.label_features is None else [given.label_features.toarray()]
        return np.hstack(rows), np.hstack(columns)

    def oracle(self, X: Any, F: Any) -> tuple[DenseTerm, Any]:
        """The dense term with these features of rows and labels, and the intercept to begin with."""
        if self.unlabelled:
            return self._unlabelled_oracle(X, F)
        Y, weights = self.Y, self.weights
        seen = ~np.isnan(Y)
        total = weights[seen].sum()
        rates, informative = slow_rates(Y, weights, self.loss.edge_values)
        mean_shift = np.sum(np.where(seen, self.shifts, 0.0), axis=0) / np.maximum(seen.sum(axis=0), 1)
        start = (np.asarray(self.loss.link(rates)) - mean_shift) * float(self.fit_intercept)
        if self.fit_intercept and self.free_intercept:
            Y = np.where(informative, Y, np.nan)
        return DenseTerm(X, Y, weights / total, self.loss, self.fit_intercept, F, self.shifts), start

    def _unlabelled_oracle(self, X: Any, F: Any) -> tuple[DenseTerm, Any]:
        Y, out = self.Y, self.held
        if self.thinned:
            Y, out = np.where(out, 0.0, Y), np.zeros(Y.shape, dtype=bool)
        left, recorded = ~out, (Y == 1) & ~out
        rows, counts = left.sum(axis=0), recorded.sum(axis=0)
        # Where positives are left in another fraction than entries are, they are rarer by that.
        rarer = recorded.sum() / np.sum(self.Y == 1) / left.mean()
        rho = slow_flip_rates(counts, rows, np.maximum(1 - (1 - self.flip_rate) * rarer, 0.0))
        smallest = 0.5 / (rows + 1)
        rates = np.where(counts > 0, counts / np.maximum(rows, 1), smallest) / (1 - rho)
        start = np.asarray(self.loss.link(np.minimum(rates, 1 - smallest))) * float(self.fit_intercept)
        seen = np.where(out, np.nan, Y)
        if self.fit_intercept and self.free_intercept:
            seen[:, (counts == 0) | (counts == rows)] = np.nan
        losses = [Unlabelled(self.loss, rate) for rate in rho]
        return DenseTerm(X, seen, np.full(Y.shape, 1 / left.sum()), losses, self.fit_intercept, F), start

    @property
    def counted(self) -> Any:
        """Per label, the entries that count, over which the squared loss spreads a balanced gradient."""
        left = np.ones(self.Y.shape, dtype=bool) if self.thinned else ~self.held
        return np.maximum(left.sum(axis=0), 1)


class Own(Logistic):
    """Somebody's own loss, which has no compiled form."""


FIVE = CustomFamily(
    lambda z: 5 * np.logaddexp(z, 0),
    lambda z: 5 / (1 + np.exp(-z)),
    lambda z: 5 / (2 + np.exp(z) + np.exp(-z)),
    name="five",
    low=0,
    high=5,
)

# A loss enters by its line in the registry.
OBSERVED_LOSSES = [
    *(kind() for kind in LOSSES.values()),
    *(kind() for kind in FAMILIES.values()),
    Own(),
    FIVE,
]
SQUARED = get_loss("squared")


def label_features(n_labels: int = 6) -> Any:
    return sp.csr_array(np.random.default_rng(7).standard_normal((n_labels, 2)))


F = label_features()
OWN = FeatureSettings(own_rows=True)

FEATURES = {
    "dense": ("dense", FeatureSettings()),
    "dense, centred and scaled": ("dense", FeatureSettings(centre=True, scaling="standard")),
    "CSR": ("csr", FeatureSettings()),
    "CSR, scaled": ("csr", FeatureSettings(scaling="root")),
    "fewer rows than features": ("wide", FeatureSettings(centre=True)),
    "X = I": ("none", OWN),
    "X = I, weighted by counts": ("none", replace(OWN, count_weighting=0.75)),
    "X = I beside features": ("csr", OWN),
    "label features": ("dense", FeatureSettings(label_features=F)),
    "label features alone": ("csr", FeatureSettings(label_features=F, own_labels=False)),
    "X = I, features of both, by counts": ("csr", replace(OWN, label_features=F, count_weighting=1.0)),
    "labels by positives": ("dense", FeatureSettings(centre=True, label_weighting=1.0)),
    "labels by positives, CSR": ("csr", FeatureSettings(label_weighting=0.5)),
    "penalty on the scores": ("dense", FeatureSettings(penalty="scores")),
    "penalty on the scores, CSR": ("csr", FeatureSettings(penalty="scores")),
}

# Whether there are weights, offsets, an intercept, one without a penalty, and a bound on the scores.
_EXTRAS = [
    {},
    {"weighted": True, "offsets": True},
    {"fit_intercept": False, "weighted": True},
    {"free_intercept": False, "bound": 0.6},
    {"offsets": True, "fit_intercept": False, "bound": 0.6},
    {"weighted": True, "bound": 0.6},
    {"offsets": True, "free_intercept": False},
]
_UNLABELLED_EXTRAS = [
    {},
    {"held_out": True},
    {"held_out": True, "thinned": True, "free_intercept": False},
    {"fit_intercept": False},
    {"fit_intercept": False, "held_out": True},
    {"free_intercept": False, "held_out": True},
]


def _crossed(losses: Any, extras: Any, **more: Any) -> dict[str, Setting]:
    """Every loss with every kind of features, and with one extra after the other."""
    found = {}
    for i, loss in enumerate(losses):
        for j, (name, (kind, features)) in enumerate(FEATURES.items()):
            # Neighbours in either direction have different ones.
            extra = extras[(i + j) % len(extras)]
            told = ", ".join([type(loss).__name__, name, *(f"{key}={value}" for key, value in extra.items())])
            found[told] = Setting(features, kind, loss, **extra, **more)
    return found


OBSERVED = _crossed(OBSERVED_LOSSES, _EXTRAS)
UNLABELLED = {
    **{
        f"unlabelled {name}": replace(setting, bound=None if setting.loss.name == "squared" else 2.0)
        for name, setting in _crossed(
            [get_loss(name) for name in UNLABELLED_LOSSES], _UNLABELLED_EXTRAS, unlabelled=True
        ).items()
    },
    **{
        f"unlabelled, scores kept, {name}": setting
        for name, setting in _crossed(
            [Logistic()], _UNLABELLED_EXTRAS, unlabelled=True, bound=2.0, kept=True
        ).items()
    },
}
SETTINGS = {**OBSERVED, **UNLABELLED}


def random_model(objective: Any, seed: int, rank: int = RANK, size: float = 0.4) -> Factors:
    """In the coordinates that the objective works in."""
    rng = np.random.default_rng(seed)
    rows, columns = objective.shape
    return Factors(
        size * rng.standard_normal((rows, rank)),
        size * rng.standard_normal((columns, rank)),
        size * rng.standard_normal(objective.n_labels),
    )
