"""Compounds and assays, most of them never paired: fill the gaps, and choose what to test next."""

import numpy as np

from labelgap import LowRankClassifier, PlugInClassifier
from labelgap.data import make_assay_matrix

# Fingerprints of 400 compounds; 1 is active, 0 is inactive, NaN is not tested. Y is kept aside to judge by.
matrix = make_assay_matrix(random_state=0)
X, tested = matrix.X, matrix.Y_observed
per_assay = np.isfinite(tested).sum(axis=0)
print(
    f"{np.isfinite(tested).mean():.0%} of {tested.shape[0]} x {tested.shape[1]} pairs were tested,", end=" "
)
print(f"{np.nanmean(tested):.0%} of them active; an assay has {per_assay.min()} to {per_assay.max()} results")

model = LowRankClassifier(metric="micro-f1", random_state=0).fit(X, tested)
print(f"{model.rank_} patterns; active from a probability of {model.threshold_probability_:.2f} on")

# Pairs that were not tested, and new compounds of series that nobody has seen.
baseline = PlugInClassifier(metric="micro-f1", random_state=0).fit(X, tested)
gaps = np.where(np.isnan(tested), matrix.Y, np.nan)
for name, one in (("low rank", model), ("one model per assay", baseline)):
    in_gaps, in_new = one.score(X, gaps), one.score(matrix.X_new, matrix.Y_new)
    print(f"micro-F1 of {name}: {in_gaps:.2f} in the gaps, {in_new:.2f} for new series")

# Which compounds to test next in the assays with the fewest results?
probability = np.where(np.isnan(tested), model.predict_proba(X), -1.0)
for assay in np.argsort(per_assay, kind="stable")[:3]:
    best = np.argsort(-probability[:, assay], kind="stable")[:10]
    found, usual = matrix.Y[best, assay].sum(), 10 * matrix.Y[:, assay].mean()
    names = ", ".join(matrix.compounds[i] for i in best[:3])
    print(f"{matrix.assays[assay]}, {per_assay[assay]} results: test {names}, ...", end=" ")
    print(f"of the first ten {found:.0f} are active; {usual:.1f} of ten at random")
