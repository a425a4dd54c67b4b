"""``python -m benchmarks.lists_command``: ten million likes to lists of ten items in one command.

The command is ``labelgap fit likes.parquet --for recommend --lists lists.parquet``, with the choice of all
settings. Its memory is the peak of its process above that of the same command for 6,000 likes, which is what
the libraries take, divided by the size of the likes as two int64 columns and of the factors in double
precision.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SMALL, LARGE = (400, 300, 6_000), (50_000, 10_000, 10_000_000)
# A process begins with the peak of the one that starts it, so that this one stays small: others make the
# likes and look at the model.
_MAKE = """
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
from benchmarks.list_fit import choices
users, items = choices(({0}, {1}), {2}, np.random.default_rng(0))
pq.write_table(pa.table({{"user": users, "item": items}}), {3!r})
print(len(users))
"""
_FACTORS = """
from labelgap import load
model = load({0!r})
print(model.user_factors_.nbytes + model.item_factors_.nbytes)
"""


def number_from(program: str) -> int:
    """The number that a program prints."""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return int(said.stdout)


def command(size: tuple[int, int, int], folder: Path) -> tuple[int, float, int, int]:
    """The number of likes, seconds, the peak in bytes, and the bytes of the factors."""
    data, model = (str(folder / name) for name in ("likes.parquet", "model.labelgap"))
    n_likes = number_from(_MAKE.format(*size, data))
    arguments = ["fit", data, "--for", "recommend", "--out", model, "--lists", str(folder / "lists.parquet")]
    began = time.perf_counter()
    started = subprocess.Popen([sys.executable, "-m", "labelgap", *arguments, "--force"])
    _, status, used = os.wait4(started.pid, 0)
    seconds = time.perf_counter() - began
    if status:
        raise SystemExit(os.waitstatus_to_exitcode(status))
    return n_likes, seconds, 1024 * used.ru_maxrss, number_from(_FACTORS.format(model))


def main() -> int:
    """Run the small command, which also compiles what has to be, and the large one."""
    with tempfile.TemporaryDirectory() as name:
        _, _, before, _ = command(SMALL, Path(name))
        n_likes, seconds, peak, factors = command(LARGE, Path(name))
    memory = (peak - before) / (16 * n_likes + factors)
    print(f"{n_likes:,} likes: {seconds:.0f} s, {memory:.2f} x likes and factors")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
