"""Only a tenth of the tags is filled in: fit, decide every entry, and see what is proved."""

import numpy as np

from labelgap import LowRankClassifier, PlugInClassifier
from labelgap.data import make_low_rank_labels

problem = make_low_rank_labels(n=600, n_labels=50, observed=0.1, random_state=0)
X, Y = problem.X, problem.Y_observed  # 1, 0, and NaN where nobody looked
print(f"{np.isfinite(Y).mean():.0%} of {Y.shape[0]} x {Y.shape[1]} labels are known")

model = LowRankClassifier(metric="micro-f1", random_state=0).fit(X, Y)
print(f"rank {model.rank_}, threshold at a probability of {model.threshold_probability_:.2f}")
print(f"objective {model.objective_:.4f}, at most {model.duality_gap_:.1e} above its minimum")

decisions = model.predict(X)  # for every entry, known or not
hidden = np.isnan(Y)
print(f"decided right where nobody looked: {np.mean(decisions[hidden] == problem.Y[hidden]):.1%}")

baseline = PlugInClassifier(metric="micro-f1", random_state=0).fit(X, Y)
for name, one in (("low rank", model), ("one classifier per label", baseline)):
    print(f"micro-F1 on fresh rows, {name}: {one.score(problem.X_test, problem.Y_test):.3f}")
