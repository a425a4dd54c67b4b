"""The cases that a test marked pairwise keeps in the fast suite."""

from __future__ import annotations

from itertools import combinations, product

from pairwise import covering


def test_every_pair_of_settings_is_met_by_few_cases() -> None:
    axes = {"loss": "abcd", "features": "def", "intercept": "yn", "weights": "yn", "rank": "012"}
    cases = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    # What cannot be together is not asked for.
    cases = [case for case in cases if (case["loss"], case["features"]) != ("a", "d")]
    chosen = [cases[at] for at in covering(cases)]
    for one, other in combinations(axes, 2):
        assert {(c[one], c[other]) for c in chosen} == {(c[one], c[other]) for c in cases}
    assert len(chosen) <= 16 < len(cases)


def test_a_single_setting_keeps_all_its_values() -> None:
    assert covering([{"loss": name} for name in "abcd"]) == [0, 1, 2, 3]
    assert covering([{"loss": "a"}, {"loss": "a"}]) == [0]
