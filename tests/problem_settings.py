"""Problems of every kind, made by the constructor that estimators use: for tests over all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from labelgap.labels import ObservedLabels
from labelgap.losses import FAMILIES, LOSSES, UNLABELLED_LOSSES, Bernoulli, Gaussian, Poisson, get_loss
from labelgap.objective.parts import FeatureSettings, ProblemSettings, RowBlock
from labelgap.objective.problem import Problem
from labelgap.objective.protocol import Factors
from labelgap.solvers import Penalties

N_ROWS, N_LABELS, N_FEATURES, RANK = 24, 5, 4, 2


@dataclass(frozen=True)
class Setting:
    """One kind of problem."""

    features: FeatureSettings = field(default_factory=FeatureSettings)
    kind: str = "dense"
    loss: Any = field(default_factory=lambda: get_loss("logistic"))
    fit_intercept: bool = True
    free_intercept: bool = True
    weighted: bool = False
    offsets: bool = False
    bound: float | None = None
    unlabelled: bool = False
    held_out: bool = False
    thinned: bool = False
    silence: float | None = None
    kept: bool = False

    def rows(self) -> Any:
        """The features of all rows."""
        rng = np.random.default_rng(1)
        if self.kind == "none":
            return None
        d = 6 * N_ROWS if self.kind == "wide" else N_FEATURES
        X = rng.standard_normal((N_ROWS, d)) * np.geomspace(0.2, 5.0, d) + 1.0
        if self.kind == "dense":
            return X
        return sp.csr_array(np.where(rng.random(X.shape) < 0.5, X, 0.0))

    def labels(self) -> ObservedLabels:
        """Labels of which the last but one has one class, and the last no entry."""
        rng = np.random.default_rng(2)
        observed = rng.random((N_ROWS, N_LABELS)) < 0.7
        observed[:, -1] = False
        if isinstance(self.loss, Gaussian):
            Y = rng.standard_normal(observed.shape)
        elif isinstance(self.loss, Poisson):
            Y = rng.poisson(1.5, observed.shape).astype(float)
            Y[:, -2] = 0.0
        else:
            Y = (rng.random(observed.shape) < 0.45).astype(float)
            Y[:, -2] = 1.0
            if isinstance(self.loss, Bernoulli):
                Y[:, 0] = rng.random(N_ROWS)
        Y[~observed] = np.nan
        binary = not (isinstance(self.loss, (Gaussian, Poisson, Bernoulli)))
        labels = ObservedLabels.from_dense(Y, binary=binary)
        if self.weighted:
            labels = labels.with_weights(rng.uniform(0.3, 3.0, labels.n_observed))
        if self.offsets:
            labels = labels.with_offsets(rng.uniform(-1.0, 1.0, labels.n_observed))
        return labels

    def problem(self, cuts: list[int], backend: Any = None) -> tuple[Problem, ObservedLabels]:
        """The problem cut before these rows, and the labels that objectives are over."""
        rng = np.random.default_rng(3)
        X, labels, judged = self.rows(), self.labels(), None
        used = labels
        flip_rate = None
        if self.unlabelled:
            judged = ObservedLabels.from_dense(np.where(rng.random((N_ROWS, N_LABELS)) < 0.35, 1.0, 0.0))
            labels = judged.select(judged.values == 1)
            flip_rate = np.linspace(0.1, 0.4, N_LABELS)
            used = judged.select(rng.random(judged.n_observed) < 0.7) if self.held_out else judged
        if self.features.label_features is not None:
            assert self.features.label_features.shape[0] == N_LABELS
        options = ProblemSettings(
            self.loss,
            self.features,
            fit_intercept=self.fit_intercept,
            score_bound=self.bound,
            flip_rate=flip_rate,
            silence_weight=self.silence,
            block_entries=11,
            kept_entries=N_ROWS * N_LABELS if self.kept else 0,
        )
        edges = [0, *sorted(cuts), N_ROWS]
        blocks = [
            RowBlock(
                None if X is None else X[start:stop],
                labels.take_rows(np.arange(start, stop)),
                None if judged is None else judged.take_rows(np.arange(start, stop)),
            )
            for start, stop in pairwise(edges)
        ]
        return Problem(blocks, options, backend), used

    def objective(self, problem: Problem, labels: ObservedLabels) -> Any:
        return problem.objective(labels, free_intercept=self.free_intercept, thinned=self.thinned)

    @property
    def penalties(self) -> Penalties:
        return Penalties(0.02, 0.01, 0.0 if self.free_intercept else 0.05, 0.3)


F = sp.csr_array(np.random.default_rng(7).standard_normal((N_LABELS, 2)))
OWN = FeatureSettings(own_rows=True)

SETTINGS = {
    "dense": Setting(),
    "dense, centred and scaled": Setting(FeatureSettings(centre=True, scaling="standard")),
    "CSR": Setting(kind="csr"),
    "CSR, scaled": Setting(FeatureSettings(scaling="root"), kind="csr"),
    "fewer rows than features": Setting(FeatureSettings(centre=True), kind="wide"),
    "X = I": Setting(OWN, kind="none"),
    "X = I, weighted by counts": Setting(FeatureSettings(own_rows=True, count_weighting=0.75), kind="none"),
    "X = I beside features": Setting(OWN, kind="csr"),
    "label features": Setting(FeatureSettings(label_features=F)),
    "label features alone": Setting(FeatureSettings(label_features=F, own_labels=False), kind="csr"),
    "X = I, features of both, by counts": Setting(
        FeatureSettings(own_rows=True, label_features=F, count_weighting=1.0), kind="csr"
    ),
    "labels by positives": Setting(FeatureSettings(centre=True, label_weighting=1.0)),
    "labels by positives, CSR": Setting(FeatureSettings(label_weighting=0.5), kind="csr", weighted=True),
    "penalty on the scores": Setting(FeatureSettings(penalty="scores")),
    "penalty on the scores, CSR": Setting(FeatureSettings(penalty="scores"), kind="csr"),
    "weights": Setting(weighted=True),
    "offsets": Setting(offsets=True, weighted=True),
    "intercept penalty": Setting(free_intercept=False),
    "no intercept": Setting(fit_intercept=False),
    "score bound": Setting(bound=0.6),
    "score bound, X = I": Setting(OWN, kind="none", bound=0.6),
    "silence as a no": Setting(loss=get_loss("squared"), silence=0.2),
    "silence as a no, X = I, weights": Setting(
        FeatureSettings(own_rows=True, label_features=F, count_weighting=0.75),
        kind="csr",
        loss=get_loss("squared"),
        weighted=True,
        silence=0.1,
    ),
    "silence as a no, intercept penalty": Setting(
        OWN, kind="none", loss=get_loss("squared"), free_intercept=False, silence=1.0
    ),
    **{f"loss {name}": Setting(loss=loss()) for name, loss in LOSSES.items()},
    **{f"family {name}": Setting(loss=family(), offsets=True) for name, family in FAMILIES.items()},
    **{
        f"unlabelled {name}{what}": Setting(
            kind=kind, features=features, loss=get_loss(name), unlabelled=True, bound=bound, **more
        )
        for name in UNLABELLED_LOSSES
        for what, kind, features, more in (
            ("", "dense", FeatureSettings(), {}),
            (", held out", "dense", FeatureSettings(), {"held_out": True}),
            (", thinned", "csr", FeatureSettings(), {"held_out": True, "thinned": True}),
            (", X = I", "none", OWN, {}),
            (", intercept penalty", "dense", FeatureSettings(), {"free_intercept": False}),
            (", labels by positives", "dense", FeatureSettings(label_weighting=1.0), {}),
        )
        for bound in [None if name == "squared" else 2.0]
    },
    **{
        f"unlabelled logistic, scores kept{what}": Setting(
            kind=kind, features=features, unlabelled=True, bound=2.0, kept=True, **more
        )
        for what, kind, features, more in (
            (", held out", "dense", FeatureSettings(), {"held_out": True}),
            (", X = I, intercept penalty", "none", OWN, {"free_intercept": False}),
        )
    },
}

KEPT = "unlabelled logistic, scores kept, held out"


def random_model(problem: Problem, objective: Any, seed: int = 5) -> Factors:
    """A model in the features that were handed in, within what the rows can see."""
    rng = np.random.default_rng(seed)
    rows, columns = objective.shape
    return problem.to_original(
        Factors(
            0.4 * rng.standard_normal((rows, RANK)),
            0.4 * rng.standard_normal((columns, RANK)),
            0.4 * rng.standard_normal(objective.n_labels),
        )
    )
