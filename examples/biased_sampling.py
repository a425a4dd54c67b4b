"""Popular labels are observed more often, so held-out figures promise too much, and weights correct them."""

import numpy as np

from labelgap import LowRankClassifier, get_metric
from labelgap.sampling import Popular, estimate_mu_nu, estimate_propensities

rng = np.random.RandomState(0)
n, n_features, n_labels = 1500, 8, 40

# The first labels are the popular ones: often observed, and often a yes.
X = rng.standard_normal((2 * n, n_features))
W = rng.standard_normal((n_features, 3)) @ rng.standard_normal((3, n_labels))
Y = (X @ W + np.linspace(3, -3, n_labels) + rng.logistic(size=(2 * n, n_labels)) >= 0).astype(int)
X_new, Y_new = X[n:], Y[n:]  # Complete, to judge by.

sampling = Popular(0.1, row_skew=0.3, label_skew=1.0)
labels = sampling.observe(Y[:n], random_state=0)
spread = estimate_mu_nu(labels)
print(f"{labels.n_observed} of {n * n_labels} labels are observed")
print(f"the rarest are observed {spread.mu:.0f} times less often than the average (mu)")
print(f"the busiest label {spread.nu:.1f} times as often (nu)")
print(f"yes among the observed {labels.values.mean():.0%}, among all {Y[:n].mean():.0%}")

rows, ends = [n // 2] * 2, [0, n_labels - 1]
estimated = estimate_propensities(labels).at(rows, ends)
true = sampling.propensities_at(rows, ends, Y[:n].shape)
print(f"chance of the first and the last label: estimated {estimated.round(3)}, true {true.round(3)}\n")

for weights in (None, "inverse-propensity"):
    clf = LowRankClassifier(weights=weights, random_state=0).fit(X[:n], labels)
    promised, f1 = clf.held_out_metric_, get_metric("micro-f1")(Y_new, clf.predict(X_new))
    promise = f"{promised:.3f} ± {clf.held_out_error_:.3f}"
    print(f"weights={weights!s:20}  micro-F1 promised {promise}, on all labels of new rows {f1:.3f}")
# The weights correct the promise, not the decisions: those are a little worse, because few heavy entries make
# a noisier fit, and this model, which is right for every label, had nothing to correct.
