"""Documents with tags that somebody added; a tag that is not there may only have been forgotten."""

import numpy as np

from labelgap import LowRankClassifier, get_metric, sensitivity
from labelgap.data import make_low_rank_labels

# 400 documents and 20 tags. The complete tags, which nobody has, are kept aside to judge by.
problem = make_low_rank_labels(n=400, n_labels=20, noise=True, observed=1.0, random_state=0)
added = problem.Y * (np.random.RandomState(0).random_sample(problem.Y.shape) < 0.4)
print(f"{added.mean():.0%} of the entries have a tag; in truth {problem.Y.mean():.0%} should")

# The squared loss is the fastest; leave loss= out to get probabilities from the logistic loss.
settings = {"loss": "squared", "ridge_penalty": 0, "random_state": 0}
model = LowRankClassifier(unobserved="unlabelled", **settings).fit(problem.X, added)
low, high = model.flip_rate_interval_
print(
    f"estimated: {model.flip_rate_:.0%} of the tags were forgotten ({low:.0%} to {high:.0%}); in truth 60 %"
)

f1 = get_metric("micro-f1")
silence = LowRankClassifier(unobserved="negative", **settings).fit(problem.X, added)
for name, decided in {
    "recorded tags only, the rest unlabelled": model.predict(problem.X_test),
    "a missing tag read as a no": silence.predict(problem.X_test),
    "every tag on every document": np.ones_like(problem.Y_test),
}.items():
    print(f"micro-F1 on new documents {f1(problem.Y_test, decided):.3f}: {name}")

# How the decisions change if another fraction of the tags was forgotten.
print(sensitivity(model, problem.X, added, flip_rates=(0.4, 0.5, 0.6, 0.7)))
