"""The best items on a device are those of the CPU, with the same scores."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from labelgap.recommending.device_top import top_items_on
from labelgap.recommending.top_items import Seen, UserItemFactors, top_items

torch = pytest.importorskip("torch", reason="no torch here, so there is no device to search on")

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def factors(n_users: int, n_items: int, k: int, seed: int = 0, ties: bool = False) -> UserItemFactors:
    rng = np.random.default_rng(seed)
    users, items, b = (rng.standard_normal(shape) for shape in ((n_users, k), (n_items, k), n_items))
    if ties:
        users, items, b = users.round(), items.round(), np.zeros(n_items)
    return UserItemFactors(users, items, b)


def seen_by(n_users: int, n_items: int, fraction: float) -> Seen:
    chosen = np.random.default_rng(1).random((n_users, n_items)) < fraction
    return Seen(np.append(0, np.cumsum(chosen.sum(axis=1))), np.nonzero(chosen)[1])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("shape", "n", "fraction", "ties"),
    [
        ((30, 1000, 5), 10, 0.0, False),
        ((30, 1000, 5), 10, 0.5, False),
        ((7, 129, 3), 4, 0.2, True),
        ((5, 6, 2), 10, 0.5, False),
        ((3, 2000, 1), 3, 0.99, True),
    ],
)
def test_the_same_items_and_scores(
    device: str, shape: tuple[int, int, int], n: int, fraction: float, ties: bool
) -> None:
    given = factors(*shape, ties=ties)
    seen = seen_by(*shape[:2], fraction) if fraction else None
    expected = top_items(given, n, seen)
    found = top_items_on(torch.device(device), given, n, seen)
    assert_array_equal(found[0], expected[0])
    assert_array_equal(found[1], expected[1])


def test_users_whom_the_first_blocks_do_not_settle(monkeypatch: pytest.MonkeyPatch) -> None:
    # With a coarse rounding assumed, nobody is settled before all blocks have been looked at.
    monkeypatch.setattr("labelgap.kernels.gpu.top._SWEEP_ROUNDING", 0.5)
    given = factors(4, 5000, 4)
    found = top_items_on(torch.device("cpu"), given, 5)
    assert_array_equal(found[0], top_items(given, 5)[0])


def test_scores_beyond_single_precision() -> None:
    given = factors(3, 300, 2)
    given = given._replace(users=1e25 * given.users, items=1e10 * given.items)
    assert_array_equal(top_items_on(torch.device("cpu"), given, 5)[0], top_items(given, 5)[0])


def test_tiles_of_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labelgap.kernels.gpu.device._CPU_BLOCKS", 1 << 16)
    given = factors(50, 700, 3)
    assert_array_equal(top_items_on(torch.device("cpu"), given, 4)[0], top_items(given, 4)[0])
