"""Calibration of rare labels, what a search was judged by, and where a page comes from."""

from __future__ import annotations

import datetime
import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from report_pages import fitted, plug_in, small_problem

import labelgap
from labelgap import LinearFractional, MetricThreshold, PlugInClassifier, get_metric
from labelgap.exceptions import InvalidParameterError
from labelgap.report.calibration import reliability, with_intervals
from labelgap.report.collect import collect
from labelgap.report.fit_figures import describe_criterion, describe_fit
from labelgap.report.provenance import date_text, describe_settings, setting_text
from labelgap.solvers.certificate import Penalties
from labelgap.solvers.loop import Candidate

PROBLEM = small_problem()
MODEL = fitted(PROBLEM)


# -- calibration -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_bins_of_rare_labels_have_equally_many_expected_yes_at_the_top(weighted: bool) -> None:
    rng = np.random.RandomState(0)
    p = 0.005 * rng.pareto(1.2, 4000).clip(0, 150)
    y = (rng.uniform(size=p.size) < p).astype(float)
    w = rng.uniform(0.2, 3.0, p.size) if weighted else None
    plain, rare = (with_intervals(reliability(p, y, w, rare=rare)) for rare in (False, True))
    for found in (plain, rare):
        assert sum(one["count"] for one in found["bins"]) == p.size
        ends = [(one["lowest"], one["highest"]) for one in found["bins"]]
        assert all(low <= high for low, high in ends)
        assert all(before[1] < after[0] for before, after in itertools.pairwise(ends))
        assert all(0 <= one["low"] <= one["observed"] <= one["high"] <= 1 for one in found["bins"])
    weights = np.ones(p.size) if w is None else w
    # The last of six parts of Σ ωp.
    last = rare["bins"][-1]
    inside = p >= last["lowest"]
    assert weights[inside] @ p[inside] == pytest.approx(weights @ p / 6, rel=0.1)
    assert last["lowest"] > plain["bins"][-1]["lowest"]
    assert last["predicted"] == pytest.approx(np.average(p[inside], weights=weights[inside]))


def test_collect_says_which_labels_are_rare() -> None:
    scores = np.linspace(0.01, 0.99, 60).reshape(20, 3)
    Y = (scores > 0.95).astype(float)
    often = (scores > 0.5).astype(float)
    model = MetricThreshold(metric="micro-f1").fit(scores, Y)
    assert collect(model, scores, Y)["rare"] is True
    assert collect(model, scores, often)["rare"] is False


# -- the search ------------------------------------------------------------------------------------------


def stand_in(silence_weight: float | None = None, **attributes: Any) -> Any:
    """What describe_criterion looks at in a fitted model."""
    judged = Candidate(Penalties(0.1), 0.5, float("nan"), 0.7, 3.0, silence_weight=silence_weight)
    return SimpleNamespace(candidates_=(judged,), metric_=get_metric("micro-f1"), **attributes)


def test_a_search_is_named_by_what_it_was_judged_by() -> None:
    # A recommender that counts silence is judged by its lists, whatever the metric of its decisions is.
    assert describe_criterion(stand_in(silence_weight=0.1))["metric"] == "NDCG@10"
    assert describe_criterion(stand_in(_unobserved="negative"))["metric"] == "micro-f1"
    assert describe_criterion(stand_in(_unobserved="unlabelled"))["metric"] == "corrected micro-f1"
    assert describe_criterion(stand_in(family_="gaussian"))["metric"].startswith("D²")
    own = stand_in()
    own.metric_ = LinearFractional({"const": 1, "fp": -0.25}, {"const": 1})
    assert describe_criterion(own)["metric"] == "micro: (1 + -0.25*fp) / (1)"
    assert describe_fit(MODEL)["criterion"] == {"metric": "micro-f1", "loss": "loss"}


# -- where a page comes from -----------------------------------------------------------------------------


def test_the_origin_of_a_page() -> None:
    figures = collect(
        MODEL,
        PROBLEM.X_test,
        PROBLEM.Y_test,
        name="tags",
        data_name="new.csv",
        date=datetime.date(2024, 2, 1),
    )
    origin = figures["origin"]
    assert (origin["version"], origin["model"]) == (labelgap.__version__, "tags")
    assert (origin["data"], origin["date"]) == ("new.csv", "2024-02-01")
    changed = {one["name"]: one["value"] for one in origin["settings"] if one["changed"]}
    assert changed == {"random_state": "0", "ridge_penalty": "0.001", "trace_penalty": "0.003"}
    assert {one["name"] for one in origin["settings"]} == set(MODEL.get_params(deep=False))
    assert figures["models"][0]["name"] == "tags"


def test_a_name_is_not_given_twice() -> None:
    with pytest.raises(InvalidParameterError, match="Two models would have the name 'tags'"):
        collect(MODEL, PROBLEM.X_test, PROBLEM.Y_test, name="tags", compare={"tags": plug_in(PROBLEM)})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float64(0.25), "0.25"),
        (None, "None"),
        ([1, 2], "[1, 2]"),
        (np.ones(3), "array of shape (3,)"),
        (np.random.RandomState(0), "RandomState"),
        (LinearFractional({"tp": 1}, {"const": 1}), "'micro tp / 1'"),
        (MetricThreshold(metric="macro-f1"), "MetricThreshold(metric='macro-f1')"),
        (np.mean, "mean"),
    ],
)
def test_settings_are_short_and_have_no_addresses(value: Any, text: str) -> None:
    assert setting_text(value) == text


def test_a_setting_that_is_an_estimator_shows_what_was_set_in_it() -> None:
    from sklearn.linear_model import LogisticRegression

    settings = describe_settings(PlugInClassifier(LogisticRegression(C=3.0)))
    assert next(one for one in settings if one["name"] == "estimator")["value"] == "LogisticRegression(C=3.0)"


def test_dates(monkeypatch: pytest.MonkeyPatch) -> None:
    east = datetime.timezone(datetime.timedelta(hours=2))
    assert date_text(datetime.datetime(2024, 2, 1, 1, 30, tzinfo=east)) == "2024-01-31 23:30 UTC"
    assert date_text(datetime.datetime(2024, 2, 1, 9, 30)) == "2024-02-01 09:30"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    assert date_text(None) == "1970-01-01 00:00 UTC"
    for wrong in ("soon", "1e30", "9" * 30):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", wrong)
        with pytest.raises(InvalidParameterError, match="SOURCE_DATE_EPOCH"):
            date_text(None)
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert date_text(None).endswith(" UTC")
    with pytest.raises(InvalidParameterError, match="date must be"):
        date_text(20240201)
