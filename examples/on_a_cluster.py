"""Features and labels in partitions on a Dask cluster: fit, decide lazily, and take the model home."""

import dask.array as da
import numpy as np
from dask.delayed import delayed
from distributed import Client

from labelgap import ObservedLabels
from labelgap.distributed import DaskLowRankClassifier

d, n_labels, rows, n_partitions = 20, 30, 500, 4
drawn = np.random.default_rng(0)
truth = drawn.standard_normal((d, 4)) @ drawn.standard_normal((4, n_labels))


def read(number):
    """Stands for reading a file: 500 rows with their labels, a fifth of them observed."""
    rng = np.random.default_rng([2, number])
    X = rng.standard_normal((rows, d))
    Y = (X @ truth + rng.standard_normal((rows, n_labels)) > 2).astype(float)
    Y[rng.random(Y.shape) > 0.2] = np.nan
    return X, ObservedLabels.from_dense(Y)


if __name__ == "__main__":
    # Client("tcp://...") is a cluster that you have; this one has one worker, in this process.
    with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=":0"):
        partitions = [delayed(read)(number) for number in range(n_partitions)]
        fixed = {"trace_penalty": 2e-3, "ridge_penalty": 1e-4, "intercept_penalty": 0.0}
        clf = DaskLowRankClassifier(metric="micro-f1", threshold="holdout", random_state=0, **fixed)
        clf.fit(partitions)
        print(f"{clf.n_partitions_} partitions, rank {clf.rank_}, gap {clf.relative_gap_:.1e}")

        X = da.random.default_rng(3).standard_normal((2000, d), chunks=(500, d))
        decisions = clf.predict(X)  # nothing is computed yet
        print(f"{decisions.mean().compute():.0%} of {decisions.shape[0]} x {decisions.shape[1]} are yes")
    model = clf.to_local()  # an ordinary LowRankClassifier, which needs no cluster
    print(type(model).__name__, model.predict(np.ones((1, d)))[0, :5])
