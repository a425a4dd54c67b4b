"""Sales of many products in shops that open for different numbers of hours, most of them never recorded."""

import numpy as np

from labelgap import LowRankRegressor

rng = np.random.RandomState(0)
n_shops, n_products, n_features = 300, 40, 10

# The features of each shop (size, footfall, ...), and how long it was open in the week that was counted.
X = rng.standard_normal((n_shops, n_features))
hours = rng.uniform(20, 80, size=n_shops)

# The truth, which nobody knows: products have two tastes in common, and sell at a rate per hour.
tastes = rng.standard_normal((n_features, 2)) @ rng.standard_normal((2, n_products))
rate = np.exp(0.25 * tastes.T @ X.T - rng.uniform(2, 4, size=(n_products, 1))).T
sold = rng.poisson(rate * hours[:, None]).astype(float)

# Only one count in ten was written down; NaN is "not recorded", 0 is "none sold".
recorded = np.where(rng.uniform(size=sold.shape) < 0.1, sold, np.nan)
old, new = slice(0, 200), slice(200, None)

model = LowRankRegressor(family="poisson", random_state=0)
model.fit(X[old], recorded[old], exposure=hours[old])

print(f"{np.isfinite(recorded[old]).sum()} counts recorded of {recorded[old].size}")
print(f"{model.rank_} patterns make up the sales of {n_products} products")
print(f"proved within {model.duality_gap_ / model.objective_:.1e} of the best possible fit")
explained = model.score(X[new], sold[new], exposure=hours[new])
print(f"in new shops {explained:.0%} of the deviance from each product's average rate is explained (D²)")

week = model.predict(X[new][:1], exposure=40)[0]
best = np.argsort(-week)[:3]
print("a new shop, in 40 hours: " + ", ".join(f"{week[j]:.0f} of product {j}" for j in best))
truth = 40 * rate[new][0]
print("on average it will be:   " + ", ".join(f"{truth[j]:.0f} of product {j}" for j in best))
