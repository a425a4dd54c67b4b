"""The numbers of a page against the library's own."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from report_pages import (
    decoded,
    entries_of,
    fitted,
    gappy,
    hostile_names,
    plug_in,
    small_problem,
    with_given_scores,
)
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labelgap import (
    LinearFractional,
    LowRankRegressor,
    ObservedLabels,
    Recommender,
    best_threshold,
    get_metric,
)
from labelgap.exceptions import InvalidLabelsError, InvalidParameterError, LabelgapWarning
from labelgap.report import collect as collect_module
from labelgap.report import write_report
from labelgap.report.calibration import reliability
from labelgap.report.collect import collect
from labelgap.report.fit_figures import describe_fit
from labelgap.report.html import render
from labelgap.report.judged import judge
from labelgap.report.label_details import column_spreads

PROBLEM = small_problem()
MODEL = fitted(PROBLEM)
COUNTED = [
    "micro-f1",
    "macro-jaccard",
    "instance-f2",
    "instance-balanced-accuracy",
    "macro-balanced-precision",
]


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


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", COUNTED)
def test_every_threshold_of_the_page_has_the_metric_of_its_decisions(name: str, weighted: bool) -> None:
    labels = gappy(PROBLEM.Y_test, 0.5, seed=1)
    if weighted:
        labels = labels.with_weights(np.random.RandomState(2).uniform(0.2, 3, labels.n_observed))
    figures = collect(MODEL, PROBLEM.X_test, labels)
    thresholds = decoded(figures["models"][0]["thresholds"])
    scores, metric = judge(MODEL, PROBLEM.X_test, labels).scores, get_metric(name)
    for k in range(0, len(thresholds), 7):
        expected = metric(labels, scores >= thresholds[k])
        assert metric_from_page(metric, figures, k) == pytest.approx(expected, abs=1e-12)


def test_the_thresholds_that_matter_are_there() -> None:
    labels = gappy(PROBLEM.Y_test, 0.6, seed=1)
    own = LinearFractional({"const": 1, "fn": -1, "fp": -0.25}, {"const": 1})
    figures = collect(MODEL, PROBLEM.X_test, labels, metrics=[own, "micro-f3"])
    judged = judge(MODEL, PROBLEM.X_test, labels)
    thresholds = decoded(figures["models"][0]["thresholds"]).tolist()
    assert {MODEL.threshold_, np.inf, -np.inf} <= set(thresholds)
    for metric in figures["metrics"]:
        name = metric["name"]
        psi = own if name.startswith("micro (") else get_metric(name)
        best = best_threshold(judged.scores, labels, psi)
        assert best.threshold in thresholds, name
    names = [metric["name"] for metric in figures["metrics"]]
    assert names[:3] == ["micro-f1", "micro (1 - 0.25 fp - fn) / 1", "micro-f3"]
    assert {f"{a}-{b}" for a in ("micro", "instance", "macro") for b in ("jaccard", "balanced-f2")} <= set(
        names
    )
    assert len(names) == len(set(names))
    main = figures["models"][0]
    assert main["value"] == MODEL.score(PROBLEM.X_test, labels)
    assert main["best_value"] == best_threshold(judged.scores, labels, "micro-f1").value


def test_entries_are_those_that_are_observed() -> None:
    labels = gappy(PROBLEM.Y_test, 0.5, seed=1)
    figures = collect(MODEL, PROBLEM.X_test, labels)
    entries = entries_of(figures)
    np.testing.assert_array_equal(entries["row"], labels.rows)
    np.testing.assert_array_equal(entries["label"], labels.cols)
    np.testing.assert_array_equal(entries["value"], labels.values)
    data = figures["data"]
    assert (data["n_rows"], data["n_labels"], data["n_observed"]) == (90, 12, labels.n_observed)
    assert (data["n_empty_rows"], data["n_empty_labels"]) == (1, 1)
    assert decoded(figures["labels"]["observed"]).tolist() == labels.label_counts().tolist()
    assert decoded(figures["labels"]["positive"]).tolist() == labels.positive_counts().tolist()
    histogram = data["row_histogram"]
    assert histogram["counts"] == np.histogram(labels.row_counts(), bins=histogram["edges"])[0].tolist()
    grid = decoded(data["grid"]["levels"]).reshape(data["grid"]["height"], data["grid"]["width"])
    np.testing.assert_array_equal(grid > 0, ~np.isnan(labels.to_dense()))


def test_large_data_is_added_up_by_label(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = gappy(PROBLEM.Y_test, 0.5, seed=1)
    monkeypatch.setattr(collect_module, "MOST_ENTRIES", 10)
    figures = collect(MODEL, PROBLEM.X_test, labels)
    main = figures["models"][0]
    assert figures["entries"] is None
    assert main["bins"] is None
    counted = main["counted"]
    scores, thresholds = judge(MODEL, PROBLEM.X_test, labels).scores, decoded(main["thresholds"])
    label = np.repeat(np.arange(12), decoded(counted["label_counts"]))
    bins, positive, counts = (decoded(counted[part]) for part in ("bins", "positive", "counts"))
    for k in range(0, len(thresholds), 11):
        tables = [
            np.bincount(label, weights=counts * ((bins > k) == yes) * (positive == value), minlength=12)
            for yes, value in ((True, 1), (True, 0), (False, 1), (False, 0))
        ]
        for name in ("micro-f1", "macro-f1"):
            expected = get_metric(name)(labels, scores >= thresholds[k])
            assert get_metric(name).from_counts(*tables) == pytest.approx(expected, abs=1e-12)


def test_the_fit_is_told() -> None:
    fit = collect(MODEL, PROBLEM.X, PROBLEM.Y_observed)["fit"]
    assert fit["rank"] == MODEL.rank_
    assert fit["relative_gap"] == MODEL.relative_gap_
    assert fit["singular_values"] == MODEL.singular_values_.tolist()
    assert [step["objective"] for step in fit["history"]] == [step.objective for step in MODEL.history_]
    assert [one["metric"] for one in fit["candidates"]] == [one.metric_value for one in MODEL.candidates_]
    assert collect(plug_in(PROBLEM), PROBLEM.X_test, PROBLEM.Y_test)["fit"] is None


def test_calibration_against_a_loop() -> None:
    rng = np.random.RandomState(0)
    p = rng.choice([0.1, 0.2, 0.35, 0.5, 0.9, 0.91], size=500)
    y, w = (rng.uniform(size=500) < p) * 1, rng.uniform(0.5, 2, size=500)
    found = reliability(p, y, w, n_bins=4)
    assert sum(b["count"] for b in found["bins"]) == 500
    error, last = 0.0, -1.0
    for b in found["bins"]:
        here = (p >= b["lowest"]) & (p <= b["highest"])
        assert here.sum() == b["count"]
        assert b["lowest"] > last
        last = b["highest"]
        assert b["predicted"] == pytest.approx(np.average(p[here], weights=w[here]))
        assert b["observed"] == pytest.approx(np.average(y[here], weights=w[here]))
        error += w[here].sum() / w.sum() * abs(b["predicted"] - b["observed"])
    assert found["error"] == pytest.approx(error)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_strongest_features_are_coefficient_times_spread(make: Any) -> None:
    X = make(PROBLEM.X_test)
    figures = collect(MODEL, X, PROBLEM.Y_test)
    details, d = figures["details"], 6
    names = np.array(details["names"])[decoded(details["places"])].reshape(-1, d)
    values = decoded(details["values"]).reshape(-1, d)
    effect = MODEL.coef_ * PROBLEM.X_test.std(axis=0)[:, None]
    for row, label in enumerate(decoded(details["labels"])):
        order = np.argsort(-np.abs(effect[:, label]))
        assert names[row].tolist() == [f"feature {one}" for one in order]
        np.testing.assert_allclose(values[row], effect[order, label], rtol=1e-9, atol=1e-12)


def test_only_the_most_observed_labels_have_details(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labelgap.report.label_details.MOST_LABELS", 3)
    labels = gappy(PROBLEM.Y_test, 0.5, seed=1)
    kept = decoded(collect(MODEL, PROBLEM.X_test, labels)["details"]["labels"])
    counts = labels.label_counts()
    assert len(kept) == 3
    assert counts[kept].min() >= np.delete(counts, kept).max()


def test_models_side_by_side() -> None:
    labels = gappy(PROBLEM.Y_test, 0.5, seed=1)
    other = plug_in(PROBLEM)
    figures = collect(MODEL, PROBLEM.X_test, labels, compare={"plug-in": other})
    ours, theirs = figures["models"]
    assert (ours["name"], theirs["name"]) == ("LowRankClassifier", "plug-in")
    assert theirs["value"] == other.score(PROBLEM.X_test, labels)
    assert theirs["threshold"] == other.threshold_
    assert len(decoded(theirs["bins"])) == labels.n_observed


def test_a_pipeline_is_judged_by_what_its_last_step_sees() -> None:
    pipeline = make_pipeline(StandardScaler(), fitted(PROBLEM)).fit(PROBLEM.X, PROBLEM.Y_observed)
    figures = collect(pipeline, PROBLEM.X_test, PROBLEM.Y_test)
    assert figures["models"][0]["value"] == pipeline.score(PROBLEM.X_test, PROBLEM.Y_test)
    assert figures["words"]["model"] == "LowRankClassifier"


def test_a_search_is_judged_by_what_it_found() -> None:
    pipeline = make_pipeline(StandardScaler(), fitted(PROBLEM))
    search = GridSearchCV(pipeline, {"lowrankclassifier__trace_penalty": [1e-3, 3e-3]}, cv=2)
    search.fit(PROBLEM.X, PROBLEM.Y_observed)
    figures = collect(search, PROBLEM.X_test, PROBLEM.Y_test, compare={"alone": search.best_estimator_})
    assert figures["models"][0]["value"] == search.score(PROBLEM.X_test, PROBLEM.Y_test)
    assert figures["models"][1]["value"] == figures["models"][0]["value"]
    unfinished = GridSearchCV(pipeline, {"lowrankclassifier__rank": [2]})
    with pytest.raises(InvalidParameterError, match="search that has refitted one"):
        collect(unfinished, PROBLEM.X_test, PROBLEM.Y_test)


def test_features_behind_a_pipeline_keep_their_names() -> None:
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import FunctionTransformer

    def names_behind(*steps: Any, X: Any = PROBLEM.X_test) -> set[str]:
        pipeline = make_pipeline(*steps, fitted(PROBLEM)).fit(X, PROBLEM.Y_test)
        return set(collect(pipeline, X, PROBLEM.Y_test)["details"]["names"])

    pandas = pytest.importorskip("pandas")
    words = [f"word {j}" for j in range(6)]
    assert names_behind(StandardScaler()) == {f"feature {j}" for j in range(6)}
    assert names_behind(PCA(3)) == {"pca0", "pca1", "pca2"}
    frame = pandas.DataFrame(PROBLEM.X_test, columns=words)
    assert names_behind(StandardScaler(), X=frame) == set(words)
    inner = make_pipeline(StandardScaler())
    assert names_behind(inner, StandardScaler(), X=frame) == set(words)
    # A step that does not say what comes out of it.
    assert names_behind(FunctionTransformer(lambda X: X[:, ::2])) == {f"feature {j}" for j in range(3)}


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.float32, np.float64])
def test_spreads_of_sparse_columns_of_every_type(kind: Any) -> None:
    dense = (np.random.RandomState(0).poisson(1.0, size=(50, 7)) * 40).astype(kind)
    expected = dense.astype(np.float64).std(axis=0)
    for make in (sp.csr_array, sp.csc_matrix, sp.coo_array):
        np.testing.assert_allclose(column_spreads(make(dense)), expected, rtol=1e-12)


def test_spreads_of_sparse_columns_do_not_cancel_and_parts_of_an_entry_add_up() -> None:
    far = 1e8 + np.random.RandomState(0).uniform(size=(200, 2))
    np.testing.assert_allclose(column_spreads(sp.csr_array(far)), far.std(axis=0), rtol=1e-6)
    in_parts = sp.csr_array((np.array([1.0, 2.0, 5.0]), np.array([0, 0, 0]), np.array([0, 2, 3, 3])))
    np.testing.assert_allclose(column_spreads(in_parts), [np.std([3.0, 5.0, 0.0])])
    assert in_parts.nnz == 3


def test_one_metric_needs_no_list() -> None:
    own = LinearFractional({"const": 1, "fp": -0.25}, {"const": 1}, name="mine")
    for metrics, name in (("macro-f3", "macro-f3"), (own, "mine")):
        figures = collect(MODEL, PROBLEM.X_test, PROBLEM.Y_test, metrics=metrics)
        assert figures["metrics"][1]["name"] == name


def test_how_a_fit_ended() -> None:
    model = fitted(PROBLEM)
    assert describe_fit(model)["ended"] == "reached"
    capped = fitted(PROBLEM, rank=1)
    assert describe_fit(capped)["ended"] == "capped"
    assert describe_fit(capped)["rank_cap"] == 1
    model.relative_gap_ = 2 * model.tol
    assert describe_fit(model)["ended"] == "short"
    model.interrupted_ = True
    assert describe_fit(model)["ended"] == "interrupted"


def test_what_an_absent_entry_meant() -> None:
    figures = collect(fitted(PROBLEM, unobserved="negative"), PROBLEM.X_test, sp.csr_array(PROBLEM.Y_test))
    assert (figures["fitted_to"], figures["absent_is_no"]) == ("negative", True)
    figures = collect(MODEL, PROBLEM.X_test, PROBLEM.Y_test)
    assert (figures["fitted_to"], figures["absent_is_no"]) == ("missing", False)


def test_a_single_label_and_given_scores_without_probabilities() -> None:
    scores, y = np.array([0.3, -1.0, 2.0, 0.1]), ["no", "no", "yes", "yes"]
    model = with_given_scores(scores, y)
    figures = collect(model, scores, y)
    assert figures["calibration"] is None
    assert figures["models"][0]["probabilities"] is None
    assert figures["models"][0]["value"] == model.score(scores, y)
    assert figures["details"] is None


# -- recommenders ----------------------------------------------------------------------------------------


def answers(seed: int, unobserved: str = "missing") -> tuple[list[str], list[str], list[int]]:
    rng = np.random.RandomState(seed)
    taste = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 12))
    rows, cols = np.nonzero(rng.uniform(size=taste.shape) < 0.5)
    likes = (taste[rows, cols] > 0).astype(int)
    kept = likes == 1 if unobserved == "unlabelled" else np.ones(len(rows), bool)
    users, items = [f"user {i}" for i in rows[kept]], [f"item {j}" for j in cols[kept]]
    return users, items, likes[kept].tolist()


def test_a_recommender_is_judged_by_its_answers() -> None:
    given = answers(0)
    model = Recommender(trace_penalty=0.01, random_state=0).fit(given)
    figures = collect(model, None, given)
    assert figures["models"][0]["value"] == model.score(given)
    assert figures["words"] == {"row": "user", "label": "item", "model": "Recommender"}
    details = figures["details"]
    per = details["per_label"]
    first = figures["labels"]["names"][int(decoded(details["labels"])[0])]
    alike = model.similar_items(first, n=per)
    assert [details["names"][place] for place in decoded(details["places"])[:per]] == alike.ids
    np.testing.assert_array_equal(decoded(details["values"])[:per], alike.similarities)


def test_lists_of_items_are_judged_beside_popularity() -> None:
    users, items, likes = answers(0)
    model = Recommender(unobserved="negative", trace_penalty=0.005, random_state=0)
    model.fit((users[20:], items[20:], likes[20:]))
    held = (users[:20], items[:20], likes[:20])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelgapWarning)
        figures, expected = collect(model, None, held), model.evaluate_ranking(held)
    found = figures["ranking"]
    # Its candidates were judged by their lists, not by the metric of decisions.
    assert figures["fit"]["criterion"]["metric"] == "NDCG@10"
    assert figures["fit"]["candidates"][-1]["silence_weight"] == model.candidates_[-1].silence_weight
    assert [(row["name"], row["model"], row["popularity"]) for row in found["rows"]] == expected.rows()
    assert found["notes"] == expected.notes()
    assert found["popularity_wins"] == expected.popularity_wins
    # Ratings of the fit say nothing about lists.
    assert collect(model, None, (users[20:], items[20:], likes[20:]))["ranking"] is None


def test_ratings_of_unknown_users_and_items_are_judged_as_average() -> None:
    users, items, likes = answers(0)
    model = Recommender(trace_penalty=0.01, random_state=0).fit((users, items, likes))
    model.set_item_titles({"item 0": "The first"})
    more = ([*users, "nobody", "user 1"], [*items, "item 0", "new"], [*likes, 1, 0])
    with pytest.warns(LabelgapWarning, match="does not know 1 users and 1 items"):
        figures = collect(model, None, more)
    assert figures["models"][0]["value"] == model.score(more, unknown="average")
    assert "The first" in figures["labels"]["names"]
    assert "item 0" not in figures["details"]["names"]


def test_silence_that_means_no_is_judged_as_the_recommender_does() -> None:
    users, items, _ = answers(0, "unlabelled")
    model = Recommender(unobserved="negative", trace_penalty=0.01, random_state=0).fit((users, items))
    some = (users[:20], items[:20])
    assert collect(model, None, some)["models"][0]["value"] == model.score(some)


def test_recorded_likes_are_left_out_where_they_are_a_yes_anyway() -> None:
    liked = answers(0, "unlabelled")
    model = Recommender(unobserved="unlabelled", flip_rate=0.2, trace_penalty=0.01, random_state=0).fit(
        liked[:2]
    )
    known = set(liked[0])
    checked = tuple(zip(*(line for line in zip(*answers(0), strict=True) if line[0] in known), strict=True))
    figures = collect(model, None, checked)
    assert figures["n_left_out"] == len(liked[0])
    assert figures["data"]["n_observed"] == len(checked[0]) - len(liked[0])
    with pytest.raises(InvalidLabelsError, match="known negatives"):
        collect(model, None, liked)


# -- regressors ------------------------------------------------------------------------------------------


def test_a_regressor_has_a_page_of_its_own(tmp_path: Path) -> None:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((80, 4))
    Y = X @ rng.standard_normal((4, 5)) + rng.standard_normal((80, 5))
    Y[rng.uniform(size=Y.shape) < 0.4] = np.nan
    model = LowRankRegressor(trace_penalty=0.01, ridge_penalty=0.01, random_state=0).fit(X, Y)
    figures = collect(model, X, Y)
    found = figures["regression"]
    assert found["explained"] == model.score(X, Y)
    assert found["deviance"] == pytest.approx(model.deviance(X, Y))
    errors = (model.predict(X) - Y) ** 2
    np.testing.assert_allclose(decoded(found["label_deviances"]), np.nanmean(errors, axis=0))
    np.testing.assert_allclose(decoded(found["label_means"]), np.nanmean(Y, axis=0))
    assert "models" not in figures
    assert write_report(tmp_path / "page.html", model, X, Y).exists()
    with pytest.raises(InvalidParameterError, match="regressor"):
        collect(model, X, Y, metrics=["micro-f1"])


def counts_with_hours() -> tuple[Any, Any, Any]:
    rng = np.random.RandomState(0)
    X, hours = rng.standard_normal((80, 3)), rng.uniform(1, 9, size=80)
    Y = rng.poisson(np.exp(0.5 * X @ rng.standard_normal((3, 4))) * hours[:, None]).astype(float)
    Y[rng.uniform(size=Y.shape) < 0.4] = np.nan
    return X, Y, hours


def test_a_regressor_with_exposure_is_judged_with_it() -> None:
    X, Y, hours = counts_with_hours()
    model = LowRankRegressor("poisson", trace_penalty=0.01, ridge_penalty=0.01, random_state=0)
    model.fit(X, Y, exposure=hours)
    assert model.has_offsets_ is True
    weights = np.random.RandomState(1).uniform(0.5, 2, size=len(X))
    for known in (
        {"exposure": hours},
        {"offset": np.log(hours)},
        {"exposure": hours, "sample_weight": weights},
    ):
        figures = collect(model, X, Y, **known)
        found = figures["regression"]
        assert found["explained"] == model.score(X, Y, **known)
        assert found["deviance"] == pytest.approx(model.deviance(X, Y, **known))
        assert found["has_offsets"]
    assert figures["data"]["weighted"]
    means = np.where(np.isnan(Y), np.nan, model.predict(X, exposure=hours))
    shown = decoded(collect(model, X, Y, exposure=hours)["regression"]["label_predictions"])
    np.testing.assert_allclose(shown, np.nanmean(means, axis=0))
    with pytest.raises(InvalidParameterError, match="Pass exposure= or offset="):
        collect(model, X, Y)
    carried = ObservedLabels.from_dense(Y, binary=False)
    carried = carried.with_offsets(np.log(hours)[carried.rows])
    assert collect(model, X, carried)["regression"]["explained"] == pytest.approx(
        model.score(X, Y, exposure=hours)
    )
    assert model.fit(X, carried).has_offsets_ is True
    assert model.fit(X, Y).has_offsets_ is False
    assert not collect(model, X, Y)["regression"]["has_offsets"]


def test_known_parts_are_for_regressors(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameterError, match="exposure= belongs to"):
        write_report(tmp_path / "page.html", MODEL, PROBLEM.X_test, PROBLEM.Y_test, exposure=2.0)
    with pytest.raises(InvalidParameterError, match="LowRankClassifier"):
        collect(MODEL, PROBLEM.X_test, PROBLEM.Y_test, sample_weight=np.ones(90))
    assert not list(tmp_path.iterdir())


def test_a_regressor_of_whole_numbers_that_are_sparse() -> None:
    _, Y, _ = counts_with_hours()
    X = sp.csr_array(np.random.RandomState(0).poisson(1.0, size=(80, 5)) * 40).astype(np.uint8)
    model = LowRankRegressor("poisson", trace_penalty=0.01, ridge_penalty=0.01, random_state=0).fit(X, Y)
    details = collect(model, X, Y)["details"]
    effect = model.coef_ * X.toarray().astype(np.float64).std(axis=0)[:, None]
    strongest = np.sort(-np.abs(effect), axis=0)
    np.testing.assert_allclose(-np.abs(decoded(details["values"]).reshape(4, 5)).T, strongest, rtol=1e-9)


# -- the file --------------------------------------------------------------------------------------------


def test_the_same_input_makes_the_same_bytes(tmp_path: Path) -> None:
    pages = []
    for name in ("a.html", "b.html"):
        write_report(tmp_path / name, MODEL, PROBLEM.X_test, PROBLEM.Y_test, title="Same", date="today")
        pages.append((tmp_path / name).read_bytes())
    assert pages[0] == pages[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "b.html"]


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


def test_what_cannot_be_reported_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="MetricThreshold"):
        collect(StandardScaler(), PROBLEM.X, PROBLEM.Y)
    with pytest.raises(InvalidParameterError, match="compare must be a mapping"):
        collect(MODEL, PROBLEM.X, PROBLEM.Y, compare=[MODEL])
    with pytest.raises(InvalidLabelsError, match="shape"):
        collect(MODEL, PROBLEM.X, PROBLEM.Y[:, :3])
    positives = ObservedLabels.from_any(sp.csr_array(PROBLEM.Y), unobserved="unlabelled")
    with pytest.raises(InvalidLabelsError, match="known negatives"):
        collect(MODEL, PROBLEM.X, positives)
    given = answers(0)
    model = Recommender(trace_penalty=0.01, random_state=0).fit(given)
    with pytest.raises(InvalidParameterError, match="no X"):
        collect(model, PROBLEM.X, given)


def test_models_that_read_other_entries_are_not_compared() -> None:
    # Every second entry is known; a stored 0 is a no, and what is absent is one to the other model only.
    places = np.arange(0, PROBLEM.Y_test.size, 2)
    stored = PROBLEM.Y_test.ravel()[places], np.divmod(places, PROBLEM.Y_test.shape[1])
    Y = sp.csr_array(stored, shape=PROBLEM.Y_test.shape)
    negative = fitted(PROBLEM, unobserved="negative")
    with pytest.raises(InvalidParameterError, match="other observed entries"):
        collect(MODEL, PROBLEM.X_test, Y, compare={"other": negative})


def test_the_page_is_a_page() -> None:
    page = render(collect(MODEL, PROBLEM.X_test, PROBLEM.Y_test)).decode()
    assert page.startswith("<!doctype html>")
    assert not re.search(r"\{\{\w+\}\}", page)


def test_yes_alone_are_refused_after_any_fit_but_one_to_silence_as_no() -> None:
    problem = small_problem()
    model = fitted(problem)
    with pytest.raises(InvalidLabelsError, match="takes known negatives"):
        collect(model, problem.X_test, np.where(problem.Y_test == 1, 1.0, np.nan))
