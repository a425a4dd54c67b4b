"""Metrics from text, against the formula worked out with plain numbers."""

from __future__ import annotations

import contextlib
import operator
import random
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelgap.exceptions import InvalidMetricError, InvalidParameterError, UnknownNameError
from labelgap.metrics import LinearFractional, get_metric, parse_formula

Values = dict[str, Fraction]

# Text, and the same in Python, of shares.
FORMULAS: list[tuple[str, Callable[..., Fraction]]] = [
    ("tp/(tp+fp)", lambda tp, fp, fn, tn: tp / (tp + fp)),
    ("1 - fp/(fp+tn)", lambda tp, fp, fn, tn: 1 - fp / (fp + tn)),
    ("(tp+tn)/(tp+fp+fn+tn)", lambda tp, fp, fn, tn: tp + tn),
    ("(tp+tn)/total", lambda tp, fp, fn, tn: tp + tn),
    ("tp/(tp+0.5*(fp+fn))", lambda tp, fp, fn, tn: tp / (tp + (fp + fn) / 2)),
    ("1/(1+(fp+fn)/(2*tp))", lambda tp, fp, fn, tn: 1 / (1 + (fp + fn) / (2 * tp))),
    ("2/((tp+fp)/tp + (tp+fn)/tp)", lambda tp, fp, fn, tn: 2 / ((tp + fp) / tp + (tp + fn) / tp)),
    ("1 - fn - fp/4", lambda tp, fp, fn, tn: 1 - fn - fp / 4),
    ("-fp - -tn", lambda tp, fp, fn, tn: tn - fp),
    ("tp - fp", lambda tp, fp, fn, tn: tp - fp),
    ("(tp + 1)/(2 + fp)", lambda tp, fp, fn, tn: (tp + 1) / (2 + fp)),
    ("tp/p", lambda tp, fp, fn, tn: tp / (tp + fn)),
    ("tn/n", lambda tp, fp, fn, tn: tn / (fp + tn)),
    ("(tp/total)/((tp+fp)/total)", lambda tp, fp, fn, tn: tp / (tp + fp)),
    ("tp/(2*tp+2*fp) + fp/(tp+fp)", lambda tp, fp, fn, tn: (tp / 2 + fp) / (tp + fp)),
    ("tp/p * p/(p + fp)", lambda tp, fp, fn, tn: tp / (tp + fn + fp)),
    (
        "1e1*tp/(.1*tp + 1.*fp + 2.5e-1*fn + tn)",
        lambda tp, fp, fn, tn: 10 * tp / (tp / 10 + fp + fn / 4 + tn),
    ),
    ("TP / (TP +\n FP)", lambda tp, fp, fn, tn: tp / (tp + fp)),
]


def shares(rng: random.Random) -> Values:
    counts = {name: rng.randint(1, 40) for name in ("tp", "fp", "fn", "tn")}
    return {name: Fraction(count, sum(counts.values())) for name, count in counts.items()}


def test_formulas_have_the_value_that_they_state() -> None:
    rng = random.Random(0)
    for text, exact in FORMULAS:
        metric = parse_formula(text)
        for _ in range(20):
            given = shares(rng)
            # Counts of a thousand entries have the same shares as those of one.
            for times in (1, 1000):
                found = metric.from_counts(**{name: times * float(share) for name, share in given.items()})
                assert found == pytest.approx(float(exact(**given)), rel=1e-12, abs=1e-12), text


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("2*tp/(2*tp+fp+fn)", "micro-f1"),
        ("1/(1+(fp+fn)/(2*tp))", "micro-f1"),
        ("macro: 2*tp/(2*tp+fp+fn)", "macro-f1"),
        ("samples: tp/(tp+fp+fn)", "instance-jaccard"),
        ("instance:tp/(tp+fp)", "instance-precision"),
        ("tp/(tp+fn)", "micro-recall"),
        ("tp/p", "micro-recall"),
        ("1 - fp/n", "micro-specificity"),
        ("tp + tn", "micro-accuracy"),
        ("(tp + tn)/total", "micro-accuracy"),
        ("1 - (fp + fn)/(p + n)", "micro-accuracy"),
        ("5*tp/(5*tp + 4*fn + fp)", "micro-f2"),
        ("macro-balanced: tp + tn", "macro-balanced-accuracy"),
    ],
)
def test_formulas_of_named_metrics_are_those_metrics(text: str, name: str) -> None:
    metric, named = get_metric(text), get_metric(name)
    rng = random.Random(1)
    for _ in range(10):
        counts = {count: [rng.randint(0, 5) for _ in range(4)] for count in ("tp", "fp", "fn", "tn")}
        counts["tn"][0] = 1  # not all of them 0
        assert metric.from_counts(**counts) == pytest.approx(named.from_counts(**counts), rel=1e-12)
    assert (metric.average, metric.balanced) == (named.average, named.balanced)


def test_some_are_equal_to_the_named_ones_to_the_last_digit() -> None:
    for text, name in [("2*tp/(2*tp+fp+fn)", "micro-f1"), ("1 - fp/(fp+tn)", "micro-specificity")]:
        assert parse_formula(text) == get_metric(name)
    assert parse_formula("(tp + tn)/total") == get_metric("micro-accuracy")
    written = LinearFractional({"const": 1, "fn": -1, "fp": -0.25}, {"const": 1})
    assert parse_formula("1 - fn - fp/4") == written


# -- random trees -------------------------------------------------------------------------------------------

OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
LEAVES = st.sampled_from(["tp", "fp", "fn", "tn", "p", "n", "total", "1", "2", "0.5", "3"])
TREES = st.recursive(LEAVES, lambda inside: st.tuples(inside, st.sampled_from("+-*/"), inside), max_leaves=8)


def written(tree: object) -> str:
    if isinstance(tree, str):
        return tree
    left, sign, right = tree  # type: ignore[misc]
    return f"({written(left)} {sign} {written(right)})"


def worked_out(tree: object, values: Values) -> Fraction:
    if isinstance(tree, str):
        return values[tree] if tree in values else Fraction(tree)
    left, sign, right = tree  # type: ignore[misc]
    return OPERATIONS[sign](worked_out(left, values), worked_out(right, values))  # type: ignore[no-any-return]


@given(TREES, st.integers(0, 2**32))
def test_any_tree_is_refused_or_worth_what_it_says(tree: object, seed: int) -> None:
    try:
        metric = parse_formula(written(tree))
    except InvalidMetricError:
        return
    except UnknownNameError:  # pragma: no cover
        pytest.fail("only known names were used")
    values = shares(random.Random(seed))
    floats = {name: float(value) for name, value in values.items()}
    values |= {"p": values["tp"] + values["fn"], "n": values["fp"] + values["tn"], "total": Fraction(1)}
    try:
        expected = float(worked_out(tree, values))
    except ZeroDivisionError:
        return
    assert metric.from_counts(**floats) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(st.text(alphabet="tpfn+-*/().0123e:_ ,[]'\"=;\n\\l", max_size=40))
def test_any_text_is_a_metric_or_an_error_of_ours(text: str) -> None:
    with contextlib.suppress(InvalidMetricError, UnknownNameError):
        assert isinstance(parse_formula(text), LinearFractional)


# -- refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tp*fp/p", r"'tp\*fp' is no linear .*\(tp\)\*\(fp\) is a product of two counts"),
        ("tp/(p*n)", r"\(tp \+ fn\)\*\(fp \+ tn\) is a product"),
        ("tp/(tp+fp) + tp/(tp+fn)", "different denominators, tp [+] fp and tp [+] fn"),
        ("tp + fp/(fp+tn)", "different denominators, 1 and fp [+] tn"),
        ("tp**2", "[*][*]"),
        ("tp//p", "//"),
        ("2tp + fp", "between '2' and 'tp'; write the [*]"),
        ("tp(fp)", "between 'tp' and '[(]'"),
        ("1/0 + tp", "divides by zero"),
        ("tp/(1 - total)", "divides by zero"),
        ("tp/tp", "same number"),
        ("total + 1", "same number"),
        ("tp +", "cannot be read"),
        ("((tp)", "cannot be read"),
        ("()+tp", "not part of a formula"),
        ("tp + fp; fn", "';' at position 8"),
        ("tp + fp.real", "'.' at position 8"),
        ("tp + '1'", "\"'\" at position 6|'\\\\'' at position 6"),
        ("macro:", "is empty"),
        ("1e999*tp", "too large"),
        ("1e300*1e300*tp", "too large"),
        ("+".join(["tp"] * 150), "more than 100 deep"),
        ("-" * 150 + "tp", "more than 100 deep"),
        ("(" * 240 + "tp" + ")" * 240, "cannot be read|not part"),
        ("tp+" * 200 + "tp", "602 characters; at most 500"),
        ("(1-tp)/(tp+fp)", "no bound"),
        ("tp/(tp-fp)", "vanish"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidMetricError, match=message):
        get_metric(text)


def test_unknown_names_are_named() -> None:
    with pytest.raises(UnknownNameError, match=r"'tq'.*Did you mean 't"):
        parse_formula("tq/(tp + fp)")
    with pytest.raises(UnknownNameError, match="'__import__'"):
        parse_formula("__import__('os')")
    with pytest.raises(
        UnknownNameError, match=r"average in front of a formula 'makro'.*Did you mean 'macro'"
    ):
        get_metric("makro: tp/p")
    with pytest.raises(UnknownNameError, match=r"'micro-recal'.*Did you mean 'micro-recall'"):
        get_metric("micro-recal")
    for name in ("tp", "", "macro", "2tp", "tp_fp"):
        with pytest.raises(UnknownNameError, match="Unknown metric"):
            get_metric(name)


def test_averages() -> None:
    assert parse_formula("tp/p", average="macro").average == "macro"
    assert parse_formula("tp/p").average == "micro"
    assert parse_formula("macro: tp/p", average="macro") == parse_formula("MACRO :tp/p")
    with pytest.raises(InvalidParameterError, match=r"average is 'micro', but"):
        parse_formula("macro: tp/p", average="micro")


def test_parameters_and_name() -> None:
    metric = get_metric("macro:  tp/p", zero_division=1.0)
    assert metric.zero_division == 1.0
    assert metric.name == "macro: tp/p"
    assert get_metric(metric.name, zero_division=1.0) == metric
    with pytest.raises(InvalidParameterError, match="no parameter 'beta'"):
        get_metric("tp/p", beta=2)
    with pytest.raises(InvalidMetricError, match="A formula is a text"):
        parse_formula(3)  # type: ignore[arg-type]
