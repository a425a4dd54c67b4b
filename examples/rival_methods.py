"""The same incomplete labels given to the methods that labelgap is compared with."""

import time

from labelgap import LowRankClassifier, PlugInClassifier
from labelgap.data import make_low_rank_labels

# 600 rows, 10 features, 50 labels with 4 patterns in common, 15 % of them observed, with noise.
problem = make_low_rank_labels(
    n=600, n_labels=50, n_features=10, rank=4, observed=0.15, noise=True, random_state=0
)

trace_alone = {"ridge_penalty": 0, "intercept_penalty": 0, "random_state": 0}
METHODS = {
    "one logistic regression per label": PlugInClassifier(random_state=0),
    "LEML: squared loss, fixed rank": LowRankClassifier(
        loss="squared", solver="alternating", rank=6, **trace_alone
    ),
    "squared loss, trace norm of W": LowRankClassifier(loss="squared", **trace_alone),
    "Lafond: trace norm of XW": LowRankClassifier(penalty="scores", **trace_alone),
    "labelgap's default": LowRankClassifier(random_state=0),
}

print(f"{'method':<36}micro-F1 on new rows   rank   seconds")
for name, method in METHODS.items():
    start = time.perf_counter()
    method.fit(problem.X, problem.Y_observed)
    seconds = time.perf_counter() - start
    f1 = method.score(problem.X_test, problem.Y_test)
    rank = getattr(method, "rank_", "-")
    print(f"{name:<36}{f1:<23.3f}{rank!s:<7}{seconds:.1f}")
