"""Only likes of films are recorded: a user who did not press the button may still like the film."""

import numpy as np

from labelgap import Recommender

rng = np.random.RandomState(0)
n_users, n_films = 200, 60

# The truth, which nobody knows: three tastes, generous and grumpy users, good and bad films.
scores = 3 * rng.standard_normal((n_users, 3)) @ rng.standard_normal((3, n_films)) - 2
scores += rng.standard_normal((n_users, 1)) + rng.standard_normal((1, n_films))
likes = rng.random_sample(scores.shape) < 1 / (1 + np.exp(-scores))

# Half of the likes are ever recorded, as pairs of a user and a film.
users, films = np.nonzero(likes & (rng.random_sample(likes.shape) < 0.5))
names = [f"film {j}" for j in films]
print(f"{len(users)} likes recorded, {likes.sum()} in truth")

model = Recommender(unobserved="unlabelled", random_state=0).fit((users, names))
low, high = model.flip_rate_interval_
print(f"estimated: {model.flip_rate_:.0%} of the likes were not recorded ({low:.0%} to {high:.0%})")

decided = model.decide_matrix().toarray() == 1
order = [int(name.split()[1]) for name in model.item_ids_]
silent = np.ones(likes.shape, dtype=bool)
silent[users, films] = False
truth, silent = likes[np.ix_(model.user_ids_, order)], silent[np.ix_(model.user_ids_, order)]
print(f"an unrecorded pair is liked in {truth[silent].mean():.0%} of cases,", end=" ")
print(f"one that is also decided yes in {truth[silent & decided].mean():.0%}")

best = model.recommend(0, n=5)
print("for user 0:", ", ".join(best.items.tolist()))
found = [bool(likes[0, int(name.split()[1])]) for name in best.items.tolist()]
print(f"of these five the user truly likes {sum(found)}")
