"""Makes ratings.csv and new_ratings.csv, example files of the command line: ``python make_ratings.py``.

Stars that 60 people gave to some of 20 films. Each person prefers one of two kinds of films, more or less.
The second file has those of one more person.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

QUIET = "Ikiru, Ran, Ordet, Persona, Mirror, Stalker, Tokyo Story, Nostalghia, Late Spring, Sansho"
LOUD = "Jaws, Alien, Aliens, Speed, Heat, Ronin, The Rock, Predator, Die Hard, Con Air"
FILMS = [*QUIET.split(", "), *LOUD.split(", ")]
NEW = {"Alien": 5, "Predator": 5, "Ronin": 4, "Ikiru": 1, "Late Spring": 2}


def main(folder: Path) -> None:
    """Write the files."""
    rng = np.random.RandomState(0)
    taste = 1.6 * rng.standard_normal(60)
    kind = np.repeat([1.0, -1.0], 10)
    liked = np.outer(taste, kind) + 0.5 * rng.standard_normal(20) + 0.7 * rng.standard_normal((60, 20))
    stars = np.clip(np.round(3.2 + liked), 1, 5).astype(int)
    seen = rng.uniform(size=stars.shape) < 0.4
    with (folder / "ratings.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["user", "film", "stars"])
        for person, film in np.argwhere(seen):
            writer.writerow([f"p{person + 1:02d}", FILMS[film], stars[person, film]])
    with (folder / "new_ratings.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["user", "film", "stars"])
        for name, given in NEW.items():
            writer.writerow(["eve", name, given])


if __name__ == "__main__":
    main(Path(__file__).parent)
