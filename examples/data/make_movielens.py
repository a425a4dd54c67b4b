"""Makes the folder movielens, in the form of MovieLens 100k: ``python make_movielens.py``.

80 made-up people rated some of 60 made-up films. Some films are far better known than others, people like
some kinds of films better than others, and they choose what they expect to like. The files are as those of
MovieLens: u.data (user, film, stars, time), u.item (Latin-1, ``|`` between the columns) and u.user.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

GENRES = (
    *("unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama"),
    *("Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War"),
    "Western",
)
FIRST = ("Café", "Harbour", "Señor", "Midnight", "Étoile", "Garden", "Winter", "River", "Paper", "Orchard")
SECOND = (
    "Waltz",
    "Crossing",
    "Express",
    "Stories",
    "Blues",
    "Affair",
    "Shadows",
    "Letters",
    "Parade",
    "Echo",
)
JOBS = ("artist", "doctor", "educator", "engineer", "lawyer", "programmer", "retired", "student", "writer")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
N_USERS, N_FILMS, N_TASTES = 80, 60, 3


def main(folder: Path) -> None:
    """Write the three files."""
    rng = np.random.RandomState(0)
    folder.mkdir(exist_ok=True)

    # Every genre goes with one of the tastes; a film has one to three genres of its taste.
    taste_of = rng.randint(N_TASTES, size=len(GENRES))
    kind = rng.randint(N_TASTES, size=N_FILMS)
    flags = np.zeros((N_FILMS, len(GENRES)), dtype=int)
    for film in range(N_FILMS):
        own = np.flatnonzero(taste_of[1:] == kind[film]) + 1
        flags[film, rng.choice(own, min(len(own), rng.randint(1, 4)), replace=False)] = 1
    pairs = rng.permutation(len(FIRST) * len(SECOND))[:N_FILMS]
    years = rng.randint(1960, 1999, size=N_FILMS)
    with (folder / "u.item").open("w", encoding="latin-1", newline="\n") as file:
        for film in range(N_FILMS):
            title = f"{FIRST[pairs[film] // len(SECOND)]} {SECOND[pairs[film] % len(SECOND)]}"
            date = f"{rng.randint(1, 29):02d}-{MONTHS[rng.randint(12)]}-{years[film]}"
            row = [film + 1, f"{title} ({years[film]})", date, "", f"http://example.org/{film + 1}"]
            file.write("|".join(map(str, [*row, *flags[film]])) + "\n")

    taste = 1.3 * rng.standard_normal((N_USERS, N_TASTES))
    jobs = rng.randint(len(JOBS), size=N_USERS)
    ages = rng.randint(15, 70, size=N_USERS)
    with (folder / "u.user").open("w", encoding="latin-1", newline="\n") as file:
        for user in range(N_USERS):
            row = [user + 1, ages[user], "MF"[rng.randint(2)], JOBS[jobs[user]], rng.randint(10000, 99999)]
            file.write("|".join(map(str, row)) + "\n")

    quality, fame = 0.5 * rng.standard_normal(N_FILMS), 1.1 * rng.standard_normal(N_FILMS)
    liking = taste[:, kind] + quality
    seen_by = rng.gumbel(size=liking.shape) + 0.8 * liking + fame
    stars = np.clip(np.round(3.3 + 0.8 * liking + 0.6 * rng.standard_normal(liking.shape)), 1, 5).astype(int)
    seen = np.zeros(liking.shape, dtype=bool)
    for user in range(N_USERS):
        seen[user, np.argsort(-seen_by[user])[: 10 + int(rng.gamma(1.5, 8))]] = True
    for film in range(N_FILMS):
        # Somebody has seen even the least known film.
        seen[np.argsort(-seen_by[:, film])[:8], film] = True
    pairs = np.argwhere(seen)
    lines = [
        (user + 1, film + 1, stars[user, film], 874724710 + rng.randint(18_000_000)) for user, film in pairs
    ]
    with (folder / "u.data").open("w", encoding="latin-1", newline="\n") as file:
        for line in rng.permutation(len(lines)):
            file.write("\t".join(map(str, lines[line])) + "\n")


if __name__ == "__main__":
    main(Path(__file__).parent / "movielens")
