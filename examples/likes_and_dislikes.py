"""Ratings of a few films by each of many people: recommendations, explanations, and a new person."""

import numpy as np

from labelgap import Recommender

rng = np.random.RandomState(0)
n_people, n_films = 300, 60

# The truth, which nobody knows: two tastes, films that everybody likes, and people who like everything.
taste = 1.2 * rng.standard_normal((n_people, 2)) @ rng.standard_normal((2, n_films))
truth = taste + rng.standard_normal(n_films) + 0.5 * rng.standard_normal((n_people, 1))
stars = np.clip(np.round(3 + truth + 0.5 * rng.standard_normal(truth.shape)), 1, 5)

# A third of the ratings were given; some of them are held out to judge by.
people, films = np.nonzero(rng.uniform(size=stars.shape) < 0.35)
given = stars[people, films]
known = rng.uniform(size=len(given)) < 0.8
people_names = np.array([f"person {i}" for i in range(n_people)])
film_names = np.array([f"film {j}" for j in range(n_films)])
ratings = (people_names[people], film_names[films], given)

model = Recommender(positive=4, random_state=0).fit(tuple(column[known] for column in ratings))
print(f"{known.sum()} ratings; {np.mean(given >= 4):.0%} are likes (4 stars or more)")
print(f"proved within {model.duality_gap_ / model.objective_:.1e} of the best possible fit")
held_out = tuple(column[~known] for column in ratings)
print(f"micro-F1 of the decisions on held-out ratings: {model.score(held_out):.2f}")

print("\nfor person 7:")
best = model.recommend("person 7", n=3)
print(best)
print(f"really likes: {[bool(stars[7, int(name.split()[1])] >= 4) for name in best.items]}")
print()
print(model.explain("person 7", best.items[-1], n=3))

# A new person has rated three films; nothing is fitted again.
later = model.fold_in((["newcomer"] * 3, ["film 0", "film 1", "film 2"], [5, 1, 5]))
print(f"\nlike film 0: {', '.join(model.similar_items('film 0', n=3).ids)}")
print(f"yes for the newcomer: {', '.join(later.decide('newcomer', exclude_seen=True)['newcomer'][:5])}, ...")
