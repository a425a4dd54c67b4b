"""The numbers of a page, as they are read from the file, against the library's own."""

from __future__ import annotations

import copy
import datetime
import itertools
import json
import re
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from report_pages import (
    at_entries,
    decoded,
    entries_of,
    figures_of,
    fitted,
    gappy,
    hostile_names,
    plug_in,
    small_problem,
    with_given_scores,
)
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import labelgap
from labelgap import (
    LinearFractional,
    LowRankClassifier,
    LowRankRegressor,
    MetricThreshold,
    ObservedLabels,
    PlugInClassifier,
    Recommender,
    best_threshold,
    get_metric,
)
from labelgap.exceptions import InvalidLabelsError, InvalidParameterError, LabelgapWarning
from labelgap.report import write_report

PROBLEM = small_problem()
MODEL = fitted(PROBLEM)
LABELS = gappy(PROBLEM.Y_test, 0.5, seed=1)
SCORES = at_entries(MODEL.decision_function(PROBLEM.X_test), LABELS)
WEIGHTED = LABELS.with_weights(np.random.RandomState(2).uniform(0.2, 3, LABELS.n_observed))
OWN = LinearFractional({"const": 1, "fn": -1, "fp": -0.25}, {"const": 1})
COUNTED = (
    "micro-f1",
    "macro-jaccard",
    "instance-f2",
    "instance-balanced-accuracy",
    "macro-balanced-precision",
)


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    return figures_of(MODEL, PROBLEM.X_test, LABELS, metrics=[OWN, "micro-f3"])


# -- entries and thresholds ----------------------------------------------------------------------------


def metric_from_page(metric: LinearFractional, figures: dict[str, Any], k: int) -> float:
    """Ψ at the k-th threshold from nothing but what the page holds."""
    entries, bins = entries_of(figures), decoded(figures["models"][0]["bins"])
    group = {"micro": np.zeros(len(bins), int), "instance": entries["row"], "macro": entries["label"]}
    of, yes, true = group[metric.average], bins > k, entries["value"] == 1
    weight = np.ones(len(bins)) if entries["weight"] is None else entries["weight"]
    counts = [
        np.bincount(of, weights=weight * cell, minlength=of.max() + 1)
        for cell in (yes & true, yes & ~true, ~yes & true, ~yes & ~true)
    ]
    return metric.from_counts(*counts)


@pytest.mark.parametrize("labels", [LABELS, WEIGHTED], ids=["plain", "weighted"])
def test_every_threshold_of_the_page_has_the_metric_of_its_decisions(labels: ObservedLabels) -> None:
    figures = figures_of(MODEL, PROBLEM.X_test, labels)
    thresholds = decoded(figures["models"][0]["thresholds"])
    for name in COUNTED:
        metric = get_metric(name)
        for k in range(0, len(thresholds), 7):
            expected = metric(labels, thresholds[k] <= SCORES)
            assert metric_from_page(metric, figures, k) == pytest.approx(expected, abs=1e-12), (name, k)


def test_the_thresholds_that_matter_are_there(page: dict[str, Any]) -> None:
    main = page["models"][0]
    thresholds = decoded(main["thresholds"]).tolist()
    assert {MODEL.threshold_, np.inf, -np.inf} <= set(thresholds)
    names = [metric["name"] for metric in page["metrics"]]
    for name in names:
        metric = OWN if name.startswith("micro (") else get_metric(name)
        # The page computes scores at the observed entries alone, which rounds them differently.
        best = best_threshold(SCORES, LABELS, metric).threshold
        assert best in thresholds or np.abs(np.array(thresholds[1:-1]) - best).min() < 1e-13, name
    assert names[:3] == ["micro-f1", "micro (1 - 0.25 fp - fn) / 1", "micro-f3"]
    averages = ("micro", "instance", "macro")
    assert {f"{a}-{b}" for a in averages for b in ("jaccard", "balanced-f2")} <= set(names)
    assert len(names) == len(set(names))
    assert main["value"] == MODEL.score(PROBLEM.X_test, LABELS)
    assert main["best_value"] == best_threshold(SCORES, LABELS, "micro-f1").value
    # One metric needs no list.
    for metric, name in (("macro-f3", "macro-f3"), (replace(OWN, name="mine"), "mine")):
        assert figures_of(MODEL, PROBLEM.X_test, LABELS, metrics=metric)["metrics"][1]["name"] == name


@given(st.lists(st.one_of(st.floats(-5, 5), st.sampled_from([0.0, 1.0])), min_size=2, max_size=40))
def test_few_scores_are_cut_everywhere_and_a_bin_says_every_decision(given_scores: list[float]) -> None:
    z = np.array(given_scores)[:, None]
    model = with_given_scores(z, np.arange(len(z))[:, None] % 2)
    main = figures_of(model, z, np.arange(len(z))[:, None] % 2)["models"][0]
    thresholds = decoded(main["thresholds"])
    decisions = z >= thresholds
    np.testing.assert_array_equal(decisions, decoded(main["bins"])[:, None] > np.arange(len(thresholds)))
    assert (thresholds[0], thresholds[-1]) == (-np.inf, np.inf)
    assert np.all(np.diff(thresholds[1:-1]) > 0)
    assert model.threshold_ in thresholds
    found = {tuple(column) for column in decisions.T.tolist()}
    assert {tuple((z[:, 0] >= s).tolist()) for s in z[:, 0]} <= found


def test_many_scores_are_thinned_and_rare_positives_are_not_lost() -> None:
    rng = np.random.RandomState(0)
    z = np.concatenate([rng.standard_normal(50_000), 3 + rng.standard_normal(100)])[:, None]
    positive = np.arange(len(z))[:, None] >= 50_000
    thresholds = decoded(figures_of(with_given_scores(z, positive), z, positive)["models"][0]["thresholds"])
    assert 1000 < len(thresholds) <= 2100
    assert np.histogram(z[positive], bins=thresholds[1:-1])[0].max() <= 2
    assert np.histogram(z, bins=thresholds[1:-1])[0].max() <= 3 * len(z) / 1000


def test_entries_are_those_that_are_observed(page: dict[str, Any]) -> None:
    entries, data = entries_of(page), page["data"]
    np.testing.assert_array_equal(entries["row"], LABELS.rows)
    np.testing.assert_array_equal(entries["label"], LABELS.cols)
    np.testing.assert_array_equal(entries["value"], LABELS.values)
    assert (data["n_rows"], data["n_labels"], data["n_observed"]) == (90, 12, LABELS.n_observed)
    assert (data["n_empty_rows"], data["n_empty_labels"]) == (1, 1)
    assert decoded(page["labels"]["observed"]).tolist() == LABELS.label_counts().tolist()
    assert decoded(page["labels"]["positive"]).tolist() == LABELS.positive_counts().tolist()
    histogram = data["row_histogram"]
    assert histogram["counts"] == np.histogram(LABELS.row_counts(), bins=histogram["edges"])[0].tolist()
    grid = decoded(data["grid"]["levels"]).reshape(data["grid"]["height"], data["grid"]["width"])
    np.testing.assert_array_equal(grid > 0, ~np.isnan(LABELS.to_dense()))


@pytest.mark.parametrize("labels", [LABELS, WEIGHTED], ids=["plain", "weighted"])
def test_large_data_is_added_up_by_label(labels: ObservedLabels, monkeypatch: pytest.MonkeyPatch) -> None:
    # Real data that are large enough would take minutes.
    for place in ("collect", "binning"):
        monkeypatch.setattr(f"labelgap.report.{place}.MOST_ENTRIES", 10)
    figures = figures_of(MODEL, PROBLEM.X_test, labels)
    main = figures["models"][0]
    assert figures["entries"] is None
    assert main["bins"] is None
    counted, thresholds = main["counted"], decoded(main["thresholds"])
    label = np.repeat(np.arange(12), decoded(counted["label_counts"]))
    bins, positive, counts = (decoded(counted[part]) for part in ("bins", "positive", "counts"))
    assert counts.sum() == labels.n_observed
    mass = counts if labels.weights is None else decoded(counted["weights"])
    for k in range(0, len(thresholds), 11):
        tables = [
            np.bincount(label, weights=mass * ((bins > k) == yes) * (positive == value), minlength=12)
            for yes, value in ((True, 1), (True, 0), (False, 1), (False, 0))
        ]
        for name in ("micro-f1", "macro-f1"):
            expected = get_metric(name)(labels, thresholds[k] <= SCORES)
            assert get_metric(name).from_counts(*tables) == pytest.approx(expected, abs=1e-12)


# -- rows, labels and calibration ----------------------------------------------------------------------


def test_wrong_rows_and_doubtful_labels_are_those_of_a_plain_sort() -> None:
    labels = ObservedLabels.from_dense(LABELS.to_dense(), row_names=[f"r{i}" for i in range(90)])
    Y, here = labels.to_dense(), np.isfinite(labels.to_dense())
    # Rounded scores have ties, and no probabilities.
    rounded = MODEL.decision_function(PROBLEM.X_test).round(1)
    for model, given_to in ((MODEL, PROBLEM.X_test), (with_given_scores(rounded, Y), rounded)):
        figures, theta = figures_of(model, given_to, labels), model.threshold_
        scores = model.decision_function(given_to)
        p = model.predict_proba(given_to) if model is MODEL else None
        wrong: dict[int, list[tuple[float, int, bool]]] = {i: [] for i in range(90)}
        doubts = []
        for i, j in zip(*np.nonzero(here & ((scores >= theta) != (Y == 1))), strict=True):
            far = abs(scores[i, j] - theta)
            wrong[i].append((-far, int(j), bool(scores[i, j] >= theta)))
            doubts.append((-far if p is None else -p[i, j] if Y[i, j] == 0 else p[i, j] - 1, int(i), int(j)))
        observed, found = here.sum(axis=1), figures["wrong_rows"]
        order = sorted(wrong, key=lambda i: (-len(wrong[i]), -len(wrong[i]) / max(observed[i], 1), i))
        expected = [i for i in order[:50] if wrong[i]]
        assert sum(map(bool, wrong.values())) > 50
        assert [row["name"] for row in found["rows"]] == [f"r{i}" for i in expected]
        for row, i in zip(found["rows"], expected, strict=True):
            furthest = sorted(wrong[i])[:5]
            assert row["observed"] == observed[i]
            assert row["false_yes"] == sum(yes for _, _, yes in wrong[i])
            assert row["false_no"] == sum(not yes for _, _, yes in wrong[i])
            assert [(one["label"], one["yes"]) for one in row["entries"]] == [one[1:] for one in furthest]
            for one in row["entries"]:
                assert one["probability"] == (None if p is None else pytest.approx(p[i, one["label"]]))
        judged = Counter(len(wrong[i]) for i in range(90) if observed[i])
        assert found["counts"] == [judged[k] for k in range(max(judged) + 1)]
        assert (found["n_rows"], found["n_all_right"]) == (89, judged[0])
        doubtful = figures["doubtful"]
        assert doubtful["n_wrong"] == len(doubts) > 30
        listed = [(one["row"], one["label"], one["recorded"]) for one in doubtful["entries"]]
        assert listed == [(f"r{i}", j, Y[i, j] == 1) for _, i, j in sorted(doubts)[:30]]
        assert all((one["probability"] is None) == (p is None) for one in doubtful["entries"])


def test_rows_without_names_are_numbered_and_right_ones_left_out() -> None:
    scores, labels = np.array([[0.9, 0.2], [0.6, 0.7]]), np.array([[1.0, 0.0], [0.0, np.nan]])
    model = MetricThreshold(metric="micro-f1").fit(scores, labels)
    right = figures_of(model, scores, labels)
    assert right["wrong_rows"]["rows"] == right["doubtful"]["entries"] == []
    labels[0, 1] = 1
    figures = figures_of(model, scores, labels)
    (row,), (one,) = figures["wrong_rows"]["rows"], figures["doubtful"]["entries"]
    assert row["name"] == "row 0"
    assert row["entries"] == [{"label": 1, "yes": False, "probability": None}]
    assert not figures["wrong_rows"]["has_names"]
    assert (one["row"], one["label"], one["recorded"], one["score"]) == ("row 0", 1, True, 0.2)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("levels", [4, 1000])
def test_each_label_has_the_figures_of_scikit_learn(levels: int, weighted: bool) -> None:
    for seed in range(3):
        rng = np.random.RandomState(seed)
        Y = (rng.uniform(size=(60, 9)) < 0.3).astype(float)
        Y[rng.uniform(size=Y.shape) < 0.4] = np.nan
        # A label with nothing observed at either end and in the middle, and two with one class.
        Y[:, [0, 4, 8]] = np.nan
        Y[:, 2], Y[:, 3] = np.where(np.isnan(Y[:, 2]), np.nan, 1.0), np.where(np.isnan(Y[:, 3]), np.nan, 0.0)
        labels = ObservedLabels.from_dense(Y)
        if weighted:
            labels = labels.with_weights(rng.uniform(0.1, 3.0, labels.n_observed))
        # Few levels make many ties.
        scores = rng.randint(levels, size=Y.shape) / levels - 0.5
        ranks = figures_of(with_given_scores(scores, labels), scores, labels)["label_ranks"]
        for key, figure in (("auc", roc_auc_score), ("average_precision", average_precision_score)):
            for label, found in enumerate(decoded(ranks[key])):
                here = labels.cols == label
                y, z = labels.values[here], scores[labels.rows[here], label]
                if len(np.unique(y)) < 2:
                    assert np.isnan(found), (seed, label)
                    continue
                weights = None if labels.weights is None else labels.weights[here]
                assert found == pytest.approx(figure(y, z, sample_weight=weights), abs=1e-12), (seed, label)


def assert_calibrated(found: dict[str, Any], p: Any, y: Any, w: Any) -> None:
    """Bins against a loop: they lie one above the other, and their means are those of what is in them."""
    assert sum(b["count"] for b in found["bins"]) == p.size
    error = 0.0
    for b in found["bins"]:
        here = (p >= b["lowest"] - 1e-15) & (p <= b["highest"] + 1e-15)
        assert here.sum() == b["count"]
        assert b["predicted"] == pytest.approx(np.average(p[here], weights=w[here]))
        assert b["observed"] == pytest.approx(np.average(y[here], weights=w[here]))
        assert 0 <= b["low"] <= b["observed"] + 1e-14
        assert b["observed"] - 1e-14 <= b["high"] <= 1
        error += w[here].sum() / w.sum() * abs(b["predicted"] - b["observed"])
    assert all(one["highest"] < after["lowest"] for one, after in itertools.pairwise(found["bins"]))
    assert found["error"] == pytest.approx(error)


@pytest.mark.parametrize("weighted", [False, True])
def test_calibration_against_a_loop(weighted: bool) -> None:
    labels = WEIGHTED if weighted else LABELS
    w = labels.weights if weighted else np.ones(labels.n_observed)
    figures = figures_of(MODEL, PROBLEM.X_test, labels)
    assert not figures["rare"]
    p = at_entries(MODEL.predict_proba(PROBLEM.X_test), labels)
    assert_calibrated(figures["calibration"], p, labels.values, w)
    # Bins of rare labels have equally many expected yes at the top.
    rng = np.random.RandomState(0)
    p = 0.005 * rng.pareto(1.2, (4000, 1)).clip(0, 150)
    y, x = (rng.uniform(size=p.shape) < p).astype(float), np.log(p / (1 - p))
    model = PlugInClassifier(random_state=0).fit(x, y)
    labels = ObservedLabels.from_dense(y)
    w = rng.uniform(0.2, 3.0, p.size) if weighted else np.ones(p.size)
    figures = figures_of(model, x, labels.with_weights(w))
    assert figures["rare"]
    p = model.predict_proba(x).ravel()
    assert_calibrated(figures["calibration"], p, y.ravel(), w)
    # The last of six parts of Σ ωp.
    last = figures["calibration"]["bins"][-1]
    inside = p >= last["lowest"] - 1e-15
    assert w[inside] @ p[inside] == pytest.approx(w @ p / 6, rel=0.1)
    assert last["lowest"] > np.quantile(p, 0.95)


# -- features ------------------------------------------------------------------------------------------


def test_strongest_features_are_coefficient_times_spread() -> None:
    X = np.random.RandomState(0).poisson(1.0, size=(90, 6)) * 40
    halves = sp.csr_array(X.astype(float))
    parts = (np.repeat(halves.data / 2, 2), np.repeat(halves.indices, 2), halves.indptr * 2)
    forms = {
        "dense": (PROBLEM.X_test, PROBLEM.X_test, 1e-9),
        "sparse": (sp.csr_array(PROBLEM.X_test), PROBLEM.X_test, 1e-9),
        **{str(kind): (sp.csr_array(X.astype(kind)), X, 1e-9) for kind in (np.uint8, np.int32, np.float32)},
        "columns": (sp.csc_matrix(X.astype(float)), X, 1e-9),
        "triplets": (sp.coo_array(X.astype(float)), X, 1e-9),
        "entries in parts": (sp.csr_array(parts, shape=X.shape), X, 1e-9),
        "far from 0": (sp.csr_array(PROBLEM.X_test + 1e8), PROBLEM.X_test, 1e-6),
    }
    for form, (given_X, dense, tolerance) in forms.items():
        details = figures_of(MODEL, given_X, PROBLEM.Y_test)["details"]
        names = np.array(details["names"])[decoded(details["places"])].reshape(-1, 6)
        values = decoded(details["values"]).reshape(-1, 6)
        effect = MODEL.coef_ * dense.std(axis=0)[:, None]
        for row, label in enumerate(decoded(details["labels"])):
            order = np.argsort(-np.abs(effect[:, label]))
            assert names[row].tolist() == [f"feature {one}" for one in order], form
            np.testing.assert_allclose(values[row], effect[order, label], rtol=tolerance, err_msg=form)


def test_only_the_most_observed_labels_have_details() -> None:
    rng = np.random.RandomState(0)
    X, Y = rng.standard_normal((40, 3)), (rng.uniform(size=(40, 520)) < 0.5) * 1.0
    Y[:2], Y[2:][rng.uniform(size=(38, 520)) < 0.3] = [[0.0], [1.0]], np.nan
    model = LowRankClassifier(trace_penalty=0.01, ridge_penalty=0.0, threshold="train").fit(X, Y)
    kept = decoded(figures_of(model, X, Y)["details"]["labels"])
    counts = np.isfinite(Y).sum(axis=0)
    assert len(kept) == 500
    assert counts[kept].min() >= np.delete(counts, kept).max()


def test_features_behind_a_pipeline_keep_their_names() -> None:
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import FunctionTransformer

    pandas = pytest.importorskip("pandas")
    numbered, words = [f"feature {j}" for j in range(6)], [f"word {j}" for j in range(6)]
    frame = pandas.DataFrame(PROBLEM.X_test, columns=words)
    for X, steps, names in (
        (PROBLEM.X_test, [StandardScaler()], numbered),
        (PROBLEM.X_test, [PCA(3)], ["pca0", "pca1", "pca2"]),
        (frame, [StandardScaler()], words),
        (frame, [make_pipeline(StandardScaler()), StandardScaler()], words),
        # A step that does not say what comes out of it.
        (PROBLEM.X_test, [FunctionTransformer(lambda X: X[:, ::2])], numbered[:3]),
    ):
        pipeline = make_pipeline(*steps, fitted(PROBLEM)).fit(X, PROBLEM.Y_test)
        assert set(figures_of(pipeline, X, PROBLEM.Y_test)["details"]["names"]) == set(names)


# -- models and fits -----------------------------------------------------------------------------------


def test_the_fit_is_told_and_how_it_ended(page: dict[str, Any]) -> None:
    fit = page["fit"]
    assert fit["rank"] == MODEL.rank_
    assert fit["relative_gap"] == MODEL.relative_gap_
    assert fit["singular_values"] == MODEL.singular_values_.tolist()
    assert [step["objective"] for step in fit["history"]] == [step.objective for step in MODEL.history_]
    assert [one["metric"] for one in fit["candidates"]] == [one.metric_value for one in MODEL.candidates_]
    assert fit["ended"] == "reached"

    def ended(model: Any) -> Any:
        return figures_of(model, PROBLEM.X_test, LABELS)["fit"]

    capped = ended(fitted(PROBLEM, rank=1))
    assert (capped["ended"], capped["rank_cap"]) == ("capped", 1)
    model = copy.copy(MODEL)
    model.relative_gap_ = 2 * model.tol
    assert ended(model)["ended"] == "short"
    model.interrupted_ = True
    assert ended(model)["ended"] == "interrupted"


def test_a_search_is_named_by_what_it_was_judged_by_and_what_an_absent_entry_meant() -> None:
    recorded = replace(PROBLEM, Y_observed=np.nan_to_num(PROBLEM.Y_observed))
    own = LinearFractional({"const": 1, "fp": -0.25}, {"const": 1})
    negative, sparse = fitted(PROBLEM, unobserved="negative"), sp.csr_array(PROBLEM.Y_test)
    silent = fitted(recorded, unobserved="unlabelled", flip_rate=0.4)
    for model, y, criterion, meaning in (
        (MODEL, PROBLEM.Y_test, "micro-f1", ("missing", False)),
        (negative, sparse, "micro-f1", ("negative", True)),
        (silent, PROBLEM.Y_test, "corrected micro-f1", ("unlabelled", False)),
        (fitted(PROBLEM, metric=own), PROBLEM.Y_test, "micro: (1 + -0.25*fp) / (1)", ("missing", False)),
    ):
        figures = figures_of(model, PROBLEM.X_test, y)
        assert figures["fit"]["criterion"] == {"metric": criterion, "loss": "loss"}
        assert (figures["fitted_to"], figures["absent_is_no"]) == meaning
        # An absent entry that counts as no was not recorded.
        assert (figures["doubtful"] is None) == figures["absent_is_no"]


def test_models_side_by_side_pipelines_and_searches() -> None:
    other, pipeline = plug_in(PROBLEM), make_pipeline(StandardScaler(), fitted(PROBLEM))
    figures = figures_of(MODEL, PROBLEM.X_test, LABELS, compare={"plug-in": other})
    ours, theirs = figures["models"]
    assert (ours["name"], theirs["name"]) == ("LowRankClassifier", "plug-in")
    assert theirs["value"] == other.score(PROBLEM.X_test, LABELS)
    assert theirs["threshold"] == other.threshold_
    assert len(decoded(theirs["bins"])) == LABELS.n_observed
    assert figures_of(other, PROBLEM.X_test, LABELS)["fit"] is None
    search = GridSearchCV(pipeline, {"lowrankclassifier__trace_penalty": [1e-3, 3e-3]}, cv=2)
    search.fit(PROBLEM.X, PROBLEM.Y_observed)
    best = search.best_estimator_
    figures = figures_of(search, PROBLEM.X_test, PROBLEM.Y_test, compare={"alone": best})
    assert figures["models"][0]["value"] == search.score(PROBLEM.X_test, PROBLEM.Y_test)
    assert figures["models"][1]["value"] == best.score(PROBLEM.X_test, PROBLEM.Y_test)
    assert figures["words"]["model"] == "LowRankClassifier"
    # A single label, and given scores without probabilities.
    scores, y = np.array([0.3, -1.0, 2.0, 0.1]), ["no", "no", "yes", "yes"]
    model = with_given_scores(scores, y)
    figures = figures_of(model, scores, y)
    assert figures["calibration"] is figures["models"][0]["probabilities"] is figures["details"] is None
    assert figures["models"][0]["value"] == model.score(scores, y)


# -- recommenders --------------------------------------------------------------------------------------


def answers(seed: int, unobserved: str = "missing") -> tuple[list[str], list[str], list[int]]:
    rng = np.random.RandomState(seed)
    taste = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 12))
    rows, cols = np.nonzero(rng.uniform(size=taste.shape) < 0.5)
    likes = (taste[rows, cols] > 0).astype(int)
    kept = likes == 1 if unobserved == "unlabelled" else np.ones(len(rows), bool)
    users, items = [f"user {i}" for i in rows[kept]], [f"item {j}" for j in cols[kept]]
    return users, items, likes[kept].tolist()


@pytest.fixture(scope="module")
def rated() -> Recommender:
    return Recommender(trace_penalty=0.01, random_state=0).fit(answers(0))


def test_a_recommender_is_judged_by_its_answers(rated: Recommender) -> None:
    users, items, likes = answers(0)
    figures = figures_of(rated, None, answers(0))
    assert figures["models"][0]["value"] == rated.score(answers(0))
    assert figures["words"] == {"row": "user", "label": "item", "model": "Recommender"}
    assert figures["doubtful"] is None
    details = figures["details"]
    per = details["per_label"]
    first = figures["labels"]["names"][int(decoded(details["labels"])[0])]
    alike = rated.similar_items(first, n=per)
    assert [details["names"][place] for place in decoded(details["places"])[:per]] == alike.ids
    np.testing.assert_array_equal(decoded(details["values"])[:per], alike.similarities)
    # Unknown users and items are judged as average.
    model = copy.copy(rated)
    model.set_item_titles({"item 0": "The first"})
    more = ([*users, "nobody", "user 1"], [*items, "item 0", "new"], [*likes, 1, 0])
    with pytest.warns(LabelgapWarning, match="does not know 1 users and 1 items"):
        figures = figures_of(model, None, more)
    assert figures["models"][0]["value"] == model.score(more, unknown="average")
    assert "The first" in figures["labels"]["names"]
    assert "item 0" not in figures["details"]["names"]


def test_lists_of_items_are_judged_beside_popularity() -> None:
    users, items, likes = answers(0)
    model = Recommender(unobserved="negative", random_state=0)
    model.fit((users[20:], items[20:], likes[20:]))
    held = (users[:20], items[:20], likes[:20])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelgapWarning)
        figures, expected = figures_of(model, None, held), model.evaluate_ranking(held)
    found = figures["ranking"]
    # Its candidates were judged by their lists, not by the metric of decisions.
    assert figures["fit"]["criterion"]["metric"] == "NDCG@20"
    assert figures["fit"]["candidates"][-1]["lists"] == str(model.list_settings_)
    assert [(row["name"], row["model"], row["popularity"]) for row in found["rows"]] == expected.rows()
    assert found["notes"] == expected.notes()
    assert found["popularity_wins"] == expected.popularity_wins
    # Ratings of the fit say nothing about lists.
    assert figures_of(model, None, (users[20:], items[20:], likes[20:]))["ranking"] is None


def test_silence_that_means_no_or_nothing_is_judged_as_the_recommender_does() -> None:
    liked = answers(0, "unlabelled")
    users, items, _ = liked
    model = Recommender(unobserved="negative", trace_penalty=0.01, random_state=0).fit((users, items))
    some = (users[:20], items[:20])
    assert figures_of(model, None, some)["models"][0]["value"] == model.score(some)
    # Recorded likes are left out where they are a yes anyway.
    options = {"unobserved": "unlabelled", "flip_rate": 0.2, "trace_penalty": 0.01, "random_state": 0}
    model = Recommender(**options).fit(liked[:2])
    known = [line for line in zip(*answers(0), strict=True) if line[0] in set(users)]
    figures = figures_of(model, None, tuple(zip(*known, strict=True)))
    assert figures["n_left_out"] == len(users)
    assert figures["data"]["n_observed"] == len(known) - len(users)
    with pytest.raises(InvalidLabelsError, match="known negatives"):
        figures_of(model, None, liked)


# -- regressors ----------------------------------------------------------------------------------------


def test_a_regressor_has_a_page_of_its_own() -> None:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((80, 4))
    Y = X @ rng.standard_normal((4, 5)) + rng.standard_normal((80, 5))
    Y[rng.uniform(size=Y.shape) < 0.4] = np.nan
    model = LowRankRegressor(trace_penalty=0.01, ridge_penalty=0.01, random_state=0).fit(X, Y)
    figures = figures_of(model, X, Y)
    found = figures["regression"]
    assert found["explained"] == model.score(X, Y)
    assert found["deviance"] == pytest.approx(model.deviance(X, Y))
    np.testing.assert_allclose(
        decoded(found["label_deviances"]), np.nanmean((model.predict(X) - Y) ** 2, axis=0)
    )
    np.testing.assert_allclose(decoded(found["label_means"]), np.nanmean(Y, axis=0))
    assert figures["fit"]["criterion"]["metric"].startswith("D²")
    assert "models" not in figures
    with pytest.raises(InvalidParameterError, match="regressor"):
        figures_of(model, X, Y, metrics=["micro-f1"])


def test_a_regressor_with_exposure_is_judged_with_it() -> None:
    rng = np.random.RandomState(0)
    X, hours = rng.standard_normal((80, 3)), rng.uniform(1, 9, size=80)
    Y = rng.poisson(np.exp(0.5 * X @ rng.standard_normal((3, 4))) * hours[:, None]).astype(float)
    Y[rng.uniform(size=Y.shape) < 0.4] = np.nan
    model = LowRankRegressor("poisson", trace_penalty=0.01, ridge_penalty=0.01, random_state=0)
    model.fit(X, Y, exposure=hours)
    weights = np.random.RandomState(1).uniform(0.5, 2, size=len(X))
    for known in (
        {"exposure": hours},
        {"offset": np.log(hours)},
        {"exposure": hours, "sample_weight": weights},
    ):
        figures = figures_of(model, X, Y, **known)
        found = figures["regression"]
        assert found["explained"] == model.score(X, Y, **known)
        assert found["deviance"] == pytest.approx(model.deviance(X, Y, **known))
        assert found["has_offsets"]
        assert figures["data"]["weighted"] == ("sample_weight" in known)
    means = np.where(np.isnan(Y), np.nan, model.predict(X, exposure=hours))
    shown = decoded(figures_of(model, X, Y, exposure=hours)["regression"]["label_predictions"])
    np.testing.assert_allclose(shown, np.nanmean(means, axis=0))
    with pytest.raises(InvalidParameterError, match="Pass exposure= or offset="):
        figures_of(model, X, Y)
    carried = ObservedLabels.from_dense(Y, binary=False)
    carried = carried.with_offsets(np.log(hours)[carried.rows])
    explained = figures_of(model, X, carried)["regression"]["explained"]
    assert explained == pytest.approx(model.score(X, Y, exposure=hours))
    assert model.fit(X, carried).has_offsets_ is True
    assert model.fit(X, Y).has_offsets_ is False
    assert not figures_of(model, X, Y)["regression"]["has_offsets"]


# -- where a page comes from, and the file -------------------------------------------------------------


def test_the_origin_of_a_page_and_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    def origin(model: Any = MODEL, **options: Any) -> dict[str, Any]:
        return figures_of(model, PROBLEM.X_test, PROBLEM.Y_test, **options)["origin"]

    found = origin(name="tags", data_name="new.csv", date=datetime.date(2024, 2, 1))
    assert (found["version"], found["model"]) == (labelgap.__version__, "tags")
    assert (found["data"], found["date"]) == ("new.csv", "2024-02-01")
    changed = {one["name"]: one["value"] for one in found["settings"] if one["changed"]}
    assert changed == {"random_state": "0", "ridge_penalty": "0.001", "trace_penalty": "0.003"}
    assert {one["name"] for one in found["settings"]} == set(MODEL.get_params(deep=False))
    # Settings are short and have no addresses.
    settings = {
        "trace_penalty": (np.float64(0.25), "0.25"),
        "max_iter": (None, "None"),
        "ridge_penalty": ([1, 2], "[1, 2]"),
        "flip_rate": (np.ones(3), "array of shape (3,)"),
        "random_state": (np.random.RandomState(0), "RandomState"),
        "metric": (LinearFractional({"tp": 1}, {"const": 1}), "'micro tp / 1'"),
        "solver": (MetricThreshold(metric="macro-f1"), "MetricThreshold(metric='macro-f1')"),
        "loss": (np.mean, "mean"),
    }
    odd = copy.copy(MODEL).set_params(**{name: value for name, (value, _) in settings.items()})
    shown = {one["name"]: one["value"] for one in origin(odd)["settings"]}
    assert {name: shown[name] for name in settings} == {name: text for name, (_, text) in settings.items()}
    inner = PlugInClassifier(LogisticRegression(C=3.0), random_state=0).fit(PROBLEM.X, PROBLEM.Y_observed)
    shown = {one["name"]: one["value"] for one in origin(inner)["settings"]}
    assert shown["estimator"] == "LogisticRegression(C=3.0)"
    east = datetime.timezone(datetime.timedelta(hours=2))
    for date, text in (
        (datetime.datetime(2024, 2, 1, 1, 30, tzinfo=east), "2024-01-31 23:30 UTC"),
        (datetime.datetime(2024, 2, 1, 9, 30), "2024-02-01 09:30"),
        ("today", "today"),
    ):
        assert origin(date=date)["date"] == text
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    assert origin()["date"] == "1970-01-01 00:00 UTC"
    for wrong in ("soon", "1e30", "9" * 30):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", wrong)
        with pytest.raises(InvalidParameterError, match="SOURCE_DATE_EPOCH"):
            origin()
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert origin()["date"].endswith(" UTC")


def test_the_same_input_makes_the_same_bytes(tmp_path: Path) -> None:
    pages = []
    for name in ("a.html", "b.html"):
        write_report(tmp_path / name, MODEL, PROBLEM.X_test, PROBLEM.Y_test, title="Same", date="today")
        pages.append((tmp_path / name).read_bytes())
    assert pages[0] == pages[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "b.html"]
    assert pages[0].startswith(b"<!doctype html>")
    assert not re.search(rb"\{\{\w+\}\}", pages[0])


def test_names_cannot_break_out_of_the_data(tmp_path: Path) -> None:
    labels = gappy(PROBLEM.Y_test, 0.5, seed=1, names=hostile_names(12))
    title = "</title><script>window.hacked = 3</script>\ud83d"
    write_report(tmp_path / "page.html", MODEL, PROBLEM.X_test, labels, title=title)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    data = text.split('id="figures">')[1].split("</script>")[0]
    assert not set("<>&\u2028\u2029") & set(data)
    figures = json.loads(data)
    assert figures["labels"]["names"] == hostile_names(12)
    assert figures["title"] == title
    assert text.count("</script>") == 2
    assert "default-src &#x27;none&#x27;" in text
    # No address to load anything from; the only one is the name of SVG's elements.
    assert text.replace("http://www.w3.org/2000/svg", "").count("://") == 0


def test_what_cannot_be_reported_is_refused_and_nothing_written(rated: Recommender, tmp_path: Path) -> None:
    X, Y, X_test, Y_test = PROBLEM.X, PROBLEM.Y, PROBLEM.X_test, PROBLEM.Y_test
    positives = ObservedLabels.from_any(sp.csr_array(Y), unobserved="unlabelled")
    # Every second entry is known; a stored 0 is a no, and what is absent is one to the other model only.
    places = np.arange(0, Y_test.size, 2)
    halved = sp.csr_array((Y_test.ravel()[places], np.divmod(places, 12)), shape=Y_test.shape)
    other = {"other": fitted(PROBLEM, unobserved="negative")}
    unfinished = GridSearchCV(make_pipeline(StandardScaler(), MODEL), {"lowrankclassifier__rank": [2]})
    yes_alone = np.where(Y_test == 1, 1.0, np.nan)
    bad = InvalidParameterError
    for model, x, y, options, error, said in (
        (StandardScaler(), X, Y, {}, bad, "MetricThreshold"),
        (unfinished, X_test, Y_test, {}, bad, "search that has refitted one"),
        (MODEL, X, Y, {"compare": [MODEL]}, bad, "compare must be a mapping"),
        (MODEL, X_test, halved, {"compare": other}, bad, "other observed entries"),
        (MODEL, X, Y, {"name": "tags", "compare": {"tags": MODEL}}, bad, "would have the name 'tags'"),
        (MODEL, X, Y[:, :3], {}, InvalidLabelsError, "shape"),
        (MODEL, X, positives, {}, InvalidLabelsError, "known negatives"),
        (MODEL, X_test, yes_alone, {}, InvalidLabelsError, "takes known negatives"),
        (MODEL, X_test, Y_test, {"exposure": 2.0}, bad, "exposure= belongs to"),
        (MODEL, X_test, Y_test, {"sample_weight": np.ones(90)}, bad, "LowRankClassifier"),
        (MODEL, X_test, Y_test, {"date": 20240201}, bad, "date must be"),
        (MODEL, X_test, Y_test, {"feature_names": ["a"]}, bad, "one for each of the 6 features; got 1 names"),
        (rated, X, answers(0), {}, bad, "no X"),
    ):
        with pytest.raises(error, match=said):
            write_report(tmp_path / "page.html", model, x, y, **options)
    assert not list(tmp_path.iterdir())
