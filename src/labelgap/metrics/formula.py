"""Metrics from text: ``"tp / (tp + fp)"`` as a LinearFractional, by exact algebra and without running it."""

from __future__ import annotations

import ast
import re
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from labelgap._names import unknown_name
from labelgap.exceptions import InvalidMetricError, InvalidParameterError
from labelgap.metrics.linear_fractional import AVERAGES, KEYS, LinearFractional

Form: TypeAlias = tuple[Fraction, ...]
"""A linear function of the fractions: coefficients of const, tp, fp, fn, tn."""

MAX_LENGTH = 500
MAX_DEPTH = 100

_ZERO, _UNIT = Fraction(0), Fraction(1)
_ONE: Form = (_UNIT, _ZERO, _ZERO, _ZERO, _ZERO)
_COUNTS: dict[str, Form] = {
    key: tuple(_UNIT if place == at else _ZERO for place in range(len(KEYS)))
    for at, key in enumerate(KEYS)
    if key != "const"
}
_NAMES: dict[str, Form] = {
    **_COUNTS,
    "p": tuple(a + b for a, b in zip(_COUNTS["tp"], _COUNTS["fn"], strict=True)),
    "n": tuple(a + b for a, b in zip(_COUNTS["fp"], _COUNTS["tn"], strict=True)),
    # The fractions sum to 1, whatever they are.
    "total": _ONE,
}
_ALIASES = {"samples": "instance"}
_PREFIX = re.compile(r"\s*([A-Za-z]+)(-balanced)?\s*:(.*)", re.DOTALL)
_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<operator>\*\*|//|[-+*/()])"
)


class _Ratio(NamedTuple):
    """One linear form over another."""

    above: Form
    below: Form


def looks_like_formula(text: str) -> bool:
    """Whether a text is meant as a formula and not as a name: it has an operator that names do not have.

    Examples
    --------
    >>> looks_like_formula("tp - fp"), looks_like_formula("macro: tp/p"), looks_like_formula("macro-f1")
    (True, True, False)
    """
    if any(mark in text for mark in "+*/():"):
        return True
    # Names have hyphens too: a minus stands between counts and numbers.
    parts = [part.strip().lower() for part in text.split("-")]
    return len(parts) > 1 and all(part in _NAMES or re.fullmatch(r"[0-9.]*", part) for part in parts)


def parse_formula(
    text: str,
    average: str | None = None,
    *,
    zero_division: float = 0.0,
) -> LinearFractional:
    """The metric that a formula of the counts states, such as ``"2*tp / (2*tp + fp + fn)"``.

    Allowed are numbers, ``+ - * /``, parentheses, and the names tp, fp, fn, tn, p = tp + fn, n = fp + tn and
    total = tp + fp + fn + tn, in either case. As everywhere in labelgap these are fractions of the observed
    weight of a group, so total is 1, and a number beside a count is the ``const`` of LinearFractional. A
    formula in which only quotients of counts occur means the same of fractions and of counts.

    What comes out must be one linear function over another. Products of two counts and sums of fractions with
    different denominators are refused.

    Parameters
    ----------
    text : str
        The formula, at most 500 characters. In front, with a colon, may stand how to average: "macro: tp/p",
        or "macro-balanced: tp + tn".
    average : "micro", "instance" or "macro", default None
        How to average where the text does not say; None is "micro".
    zero_division : float, default 0.0
        The value of a group at 0/0.

    Examples
    --------
    >>> from labelgap.metrics import get_metric
    >>> parse_formula("1 / (1 + (fp + fn) / (2*tp))") == get_metric("micro-f1")
    True
    >>> parse_formula("macro: 1 - fn - fp/4")  # doctest: +ELLIPSIS
    LinearFractional({'const': 1.0, 'fp': -0.25, 'fn': -1.0}, {'const': 1.0}, average='macro', name=...)
    """
    if not isinstance(text, str):
        raise InvalidMetricError(f"A formula is a text such as 'tp/(tp + fp)', not {text!r}.")
    if len(text) > MAX_LENGTH:
        raise InvalidMetricError(f"The formula has {len(text)} characters; at most {MAX_LENGTH} are read.")
    average, balanced, formula = _take_prefix(text, average)
    above, below = _Algebra(formula).evaluate(_syntax_tree(formula))
    if _factor(above, below) is not None:
        raise InvalidMetricError(f"The formula {formula!r} is the same number for all decisions.")
    return LinearFractional(
        _floats(above, formula),
        _floats(below, formula),
        average=average,
        zero_division=zero_division,
        balanced=balanced,
        name=f"{average}{'-balanced' if balanced else ''}: {formula}",
    )


# -- text to tree --------------------------------------------------------------------------------------------


def _take_prefix(text: str, average: str | None) -> tuple[str, bool, str]:
    """Average, whether balanced, and what is left of the text."""
    found = _PREFIX.fullmatch(text)
    if found is None:
        named, balanced, formula = average or "micro", False, text
    else:
        named, balanced, formula = found[1].lower(), found[2] is not None, found[3]
    named = _ALIASES.get(named, named)
    if named not in AVERAGES:
        raise unknown_name("average in front of a formula", named, AVERAGES)
    if found is not None and average is not None and _ALIASES.get(average, average) != named:
        raise InvalidParameterError(f"average is {average!r}, but the formula {text!r} says {named!r}.")
    return named, balanced, " ".join(formula.split())


def _syntax_tree(formula: str) -> ast.expr:
    """The formula as a tree of operations. Only tokens that a formula may have ever reach Python's parser."""
    if not formula:
        raise InvalidMetricError("The formula is empty; write one such as tp/(tp + fp).")
    _check_tokens(formula)
    try:
        return ast.parse(formula.lower(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InvalidMetricError(
            f"The formula {formula!r} cannot be read: check its operators and parentheses."
        ) from error


def _check_tokens(formula: str) -> None:
    at, previous = 0, ""
    while at < len(formula):
        token = _TOKEN.match(formula, at)
        if token is None:
            raise InvalidMetricError(
                f"The formula {formula!r} has {formula[at]!r} at position {at + 1}; it may have numbers, "
                f"+ - * / ( ) and the names {', '.join(_NAMES)}."
            )
        kind, part = token.lastgroup or "", token[0]
        if part in ("**", "//"):
            raise InvalidMetricError(f"The formula {formula!r} has {part!r}; only + - * / are read.")
        if kind == "name" and part.lower() not in _NAMES:
            raise unknown_name("count in a formula", part, _NAMES)
        if previous and (kind in ("number", "name") or part == "("):
            raise InvalidMetricError(
                f"In the formula {formula!r} nothing stands between {previous!r} and {part!r}; write the * "
                "of a product."
            )
        if kind != "space":
            previous = part if kind in ("number", "name") or part == ")" else ""
        at = token.end()


# -- algebra -------------------------------------------------------------------------------------------------


class _Algebra:
    """Walks the tree of a formula; keeps its text, to quote the part that is not linear-fractional."""

    def __init__(self, formula: str) -> None:
        self.formula = formula

    def evaluate(self, node: ast.expr, depth: int = 0) -> _Ratio:
        if depth > MAX_DEPTH:
            raise InvalidMetricError(f"The formula is nested more than {MAX_DEPTH} deep; simplify it.")
        if isinstance(node, ast.Name):
            return _Ratio(_NAMES[node.id], _ONE)
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return _number(node.value)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
            inside = self.evaluate(node.operand, depth + 1)
            return inside if isinstance(node.op, ast.UAdd) else _scale(inside, -_UNIT)
        if isinstance(node, ast.BinOp):
            left, right = self.evaluate(node.left, depth + 1), self.evaluate(node.right, depth + 1)
            return self._combine(left, node.op, right, self._quote(node))
        raise InvalidMetricError(f"{self._quote(node)!r} is not part of a formula; only + - * / are read.")

    def _combine(self, x: _Ratio, operator: ast.operator, y: _Ratio, quoted: str) -> _Ratio:
        if isinstance(operator, ast.Add):
            return _add(x, y, quoted)
        if isinstance(operator, ast.Sub):
            return _add(x, _scale(y, -_UNIT), quoted)
        if isinstance(operator, ast.Mult):
            return _multiply(x, y, quoted)
        # The tokens allow no other operator than a quotient.
        if not any(_vertices(y.above)):
            raise InvalidMetricError(f"{quoted!r} divides by zero.")
        return _multiply(x, _Ratio(y.below, y.above), quoted)

    def _quote(self, node: ast.expr) -> str:
        return self.formula[node.col_offset : node.end_col_offset]


def _number(value: float) -> _Ratio:
    try:
        # By its decimal digits: 0.1 is a tenth.
        exact = Fraction(repr(value))
    except ValueError as error:
        raise InvalidMetricError(f"The number {value!r} in a formula is too large.") from error
    return _Ratio(_times(_ONE, exact), _ONE)


def _add(x: _Ratio, y: _Ratio, quoted: str) -> _Ratio:
    k = _factor(y.below, x.below)
    if k is not None:
        return _simplest(_plus(x.above, _times(y.above, 1 / k)), x.below)
    for a, b in ((x, y), (y, x)):
        number = _as_number(a)
        if number is not None:
            return _simplest(_plus(_times(b.below, number), b.above), b.below)
    raise InvalidMetricError(
        f"{quoted!r} is no linear function over another: it is the sum of two fractions with different "
        f"denominators, {_text(x.below)} and {_text(y.below)}."
    )


def _multiply(x: _Ratio, y: _Ratio, quoted: str) -> _Ratio:
    for a, b in ((x, y), (y, x)):
        k = _factor(a.above, b.below)
        if k is not None:
            return _simplest(_times(b.above, k), a.below)
    return _simplest(_product(x.above, y.above, quoted), _product(x.below, y.below, quoted))


def _product(f: Form, g: Form, quoted: str) -> Form:
    for one, other in ((f, g), (g, f)):
        k = _factor(one, _ONE)
        if k is not None:
            return _times(other, k)
    raise InvalidMetricError(
        f"{quoted!r} is no linear function over another: ({_text(f)})*({_text(g)}) is a product of two "
        "counts."
    )


def _simplest(above: Form, below: Form) -> _Ratio:
    """The same ratio, with the denominator 1 where it is a number."""
    ratio = _factor(above, below)
    if ratio is not None:
        return _Ratio(_times(_ONE, ratio), _ONE)
    k = _factor(below, _ONE)
    return _Ratio(above, below) if k is None else _Ratio(_times(above, 1 / k), _ONE)


def _as_number(ratio: _Ratio) -> Fraction | None:
    return _factor(ratio.above, ratio.below)


def _scale(ratio: _Ratio, k: Fraction) -> _Ratio:
    return _Ratio(_times(ratio.above, k), ratio.below)


def _times(form: Form, k: Fraction) -> Form:
    return tuple(k * a for a in form)


def _plus(f: Form, g: Form) -> Form:
    return tuple(a + b for a, b in zip(f, g, strict=True))


def _vertices(form: Form) -> Form:
    """The form where all weight lies on one of tp, fp, fn, tn; it is what tells two forms apart."""
    return tuple(form[0] + a for a in form[1:])


def _factor(f: Form, g: Form) -> Fraction | None:
    """k with f = k g for all fractions, or None if there is none; g is not zero."""
    top, bottom = _vertices(f), _vertices(g)
    k = next(a / b for a, b in zip(top, bottom, strict=True) if b)
    return k if all(a == k * b for a, b in zip(top, bottom, strict=True)) else None


def _text(form: Form) -> str:
    parts = [
        f"{'-' if a < 0 else '+'} {'' if abs(a) == 1 and key != 'const' else f'{float(abs(a)):g}'}"
        f"{'' if key == 'const' else ('' if abs(a) == 1 else '*') + key}"
        for key, a in zip(KEYS, form, strict=True)
        if a
    ]
    return " ".join(parts).removeprefix("+ ")


def _floats(form: Form, formula: str) -> dict[str, float]:
    try:
        return {key: float(a) for key, a in zip(KEYS, form, strict=True) if a}
    except OverflowError as error:
        raise InvalidMetricError(f"The numbers in the formula {formula!r} are too large.") from error
