"""One HTML file with everything in it."""

from __future__ import annotations

import base64
import datetime
import hashlib
import html
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from labelgap.metrics import LinearFractional
from labelgap.persistence.container import atomic_write
from labelgap.report.collect import collect

# In this order: what stands later uses what stands earlier.
_SCRIPTS = (
    "decode.js",
    "format.js",
    "elements.js",
    "metric.js",
    "sweep.js",
    "axis.js",
    "charts.js",
    "state.js",
    "summary.js",
    "data.js",
    "threshold.js",
    "formula.js",
    "fit.js",
    "search.js",
    "calibration.js",
    "whole_rows.js",
    "labels.js",
    "wrong_rows.js",
    "doubtful.js",
    "details.js",
    "compare.js",
    "ranking.js",
    "regression.js",
    "origin.js",
    "theme.js",
    "main.js",
)
_PLACE = re.compile(r"\{\{(\w+)\}\}")


def write_report(
    path: str | os.PathLike[str],
    model: Any,
    X: Any,
    y: Any,
    *,
    compare: Mapping[str, Any] | None = None,
    title: str | None = None,
    metrics: str | LinearFractional | Iterable[str | LinearFractional] | None = None,
    offset: Any = None,
    exposure: Any = None,
    sample_weight: Any = None,
    feature_names: Sequence[str] | None = None,
    name: str | None = None,
    data_name: str | None = None,
    date: str | datetime.date | None = None,
) -> Path:
    """Write a report on a fitted model as one HTML file that needs nothing else, not even a network.

    The page shows what is observed, the metric at every threshold with a slider and any metric of the
    linear-fractional family (computed in the page, exactly as here), the fit and its certificate, whether the
    probabilities are right, every label with its AUC and average precision, the rows that are decided wrongly
    most often, the labels to look at again, and other models beside this one; of a recommender also how good
    its lists of 10 items are, beside popularity. Its foot says the version, the data, the settings and the
    date. It judges the observed entries of ``y`` and nothing else; on the rows that the model was fitted to
    its figures are too good.

    Parameters
    ----------
    path : str or path
        Where to write; replaced if it exists, and never left half written.
    model : fitted LowRankClassifier, PlugInClassifier, MetricThreshold, Recommender or LowRankRegressor
        Or a pipeline that ends in one, or a finished search for one.
    X : features of the rows; None for a Recommender
    y : labels, values or, for a Recommender, likes and dislikes, in any form that the model's ``fit`` takes
        Known negatives are needed, except for a regressor.
    compare : mapping from name to fitted model, default None
        Models to set beside it, judged on the same data.
    title : str, default None
        The heading; None names the kind of model.
    metrics : str, LinearFractional or iterable of them, default None
        Metrics to offer besides all named ones.
    offset, exposure, sample_weight : as for ``LowRankRegressor.score``, default None
        Of the rows in ``X``, for a regressor only. After a fit with an offset or an exposure one of them is
        needed here too (or an ``y`` that holds offsets).
    feature_names : sequence of str, default None
        What the page calls the features, where neither the model nor a pipeline around it has names for them.
    name : str, default None
        What the page calls the model where others stand beside it, such as the name of its file; None is the
        kind of model.
    data_name : str, default None
        Where ``X`` and ``y`` are from, such as the name of a file, for the foot of the page.
    date : str, date or datetime, default None
        The date in the foot of the page; None is now, or what the environment variable SOURCE_DATE_EPOCH
        says. The same input with the same date makes the same bytes.

    Returns
    -------
    pathlib.Path
        Where the page is.

    Examples
    --------
    >>> from labelgap import MetricThreshold
    >>> scores, labels = [[0.9, 0.2], [0.6, 0.1]], [[1, 0], [0, float("nan")]]
    >>> model = MetricThreshold(metric="micro-f1").fit(scores, labels)
    >>> write_report("report.html", model, scores, labels).name
    'report.html'
    """
    path = Path(path)
    figures = collect(
        model,
        X,
        y,
        compare=compare,
        title=title,
        metrics=metrics,
        offset=offset,
        exposure=exposure,
        sample_weight=sample_weight,
        feature_names=feature_names,
        name=name,
        data_name=data_name,
        date=date,
    )
    page = render(figures)
    with atomic_write(path) as file:
        file.write(page)
    return path


def render(figures: dict[str, Any]) -> bytes:
    """The page around what :func:`labelgap.report.collect.collect` found."""
    style, script = _asset("page.css"), _script()
    parts = {
        "title": html.escape(figures["title"]),
        "policy": html.escape(_policy(style, script)),
        "style": style,
        "script": script,
        "data": embed(figures),
    }
    # One pass over the template alone, so that nothing in the data is taken for a place to fill.
    page = _PLACE.sub(lambda place: parts[place[1]], _asset("page.html"))
    # A lone surrogate in a title has no UTF-8; a reference shows a replacement character instead.
    return page.encode("utf-8", errors="xmlcharrefreplace")


def embed(figures: Any) -> str:
    """JSON that cannot end the script element it stands in, nor be read as markup.

    Examples
    --------
    >>> embed({"name": "</script>"})
    '{"name":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(figures, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _policy(style: str, script: str) -> str:
    """What the page may do: run its own script and style, known by their digests, and nothing else."""
    allowed = {
        "default-src": "'none'",
        "script-src": _digest(script),
        "style-src": _digest(style),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{what} {source}" for what, source in allowed.items())


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _script() -> str:
    body = "\n".join(_asset(name) for name in _SCRIPTS)
    return f'(() => {{\n"use strict";\n{body}}})();\n'


def _asset(name: str) -> str:
    return (files("labelgap.report") / "page" / name).read_text(encoding="utf-8")
