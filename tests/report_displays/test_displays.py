"""Every display draws the numbers that the rest of the library computes, and leaves matplotlib as it was."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import matplotlib
import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labelgap import (
    LowRankClassifier,
    LowRankRegressor,
    MetricThreshold,
    ObservedLabels,
    PlugInClassifier,
    Recommender,
    best_threshold,
)
from labelgap.arriving import Batch
from labelgap.data import make_low_rank_labels
from labelgap.exceptions import (
    InvalidInputError,
    InvalidLabelsError,
    InvalidParameterError,
    InvalidScoresError,
    MissingExtraError,
    UnknownNameError,
)
from labelgap.report import (
    BatchesDisplay,
    ConvergenceDisplay,
    ObservedDisplay,
    ReliabilityDisplay,
    ThresholdCurveDisplay,
    plot_batches,
    plot_convergence,
    plot_observed,
    plot_reliability,
    plot_threshold_curve,
)
from labelgap.report.displays.reliability import wilson_interval
from labelgap.solvers import Progress
from labelgap.thresholds import best_unlabelled_threshold

PROBLEM = make_low_rank_labels(n=120, n_labels=8, observed=0.4, n_test=80, random_state=0)
QUICK: dict[str, Any] = {"trace_penalty": 0.01, "ridge_penalty": 0.0, "random_state": 0}
NAN = float("nan")


@pytest.fixture(autouse=True)
def _no_screen() -> Iterator[None]:
    matplotlib.use("Agg")
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.fixture
def ax() -> Any:
    from matplotlib.figure import Figure

    return Figure().subplots()


@pytest.fixture(scope="module")
def low_rank() -> LowRankClassifier:
    return LowRankClassifier(**QUICK).fit(PROBLEM.X, PROBLEM.Y_observed)


@pytest.fixture(scope="module")
def plug_in() -> PlugInClassifier:
    return PlugInClassifier(random_state=0).fit(PROBLEM.X, PROBLEM.Y_observed)


@pytest.fixture(scope="module")
def answers() -> tuple[Any, Any, Any]:
    labels = ObservedLabels.from_dense(PROBLEM.Y_observed)
    return [f"u{i}" for i in labels.rows], [f"i{j}" for j in labels.cols], labels.values.tolist()


@pytest.fixture(scope="module")
def recommender(answers: Any) -> Recommender:
    return Recommender(trace_penalty=0.02, threshold="train", random_state=0).fit(answers)


def inside(curve: Any) -> tuple[Any, Any]:
    finite = np.isfinite(curve.thresholds)
    return curve.thresholds[finite], curve.values[finite]


def drawn(line: Any) -> Any:
    return np.array(line.get_data())


class TestThresholdCurve:
    @pytest.mark.parametrize("metric", ["micro-f1", "macro-jaccard", "instance-accuracy"])
    def test_scores_are_drawn_as_the_exact_search_has_them(self, ax: Any, metric: str) -> None:
        scores = np.random.RandomState(0).standard_normal(PROBLEM.Y.shape) + 2 * PROBLEM.Y
        display = ThresholdCurveDisplay.from_scores(scores, PROBLEM.Y_observed, metric=metric, ax=ax)
        best = best_threshold(scores, PROBLEM.Y_observed, metric, return_curve=True)
        np.testing.assert_array_equal(drawn(display.line_), inside(best.curve))
        assert display.threshold == best.threshold
        assert display.threshold_line_.get_xdata()[0] == best.threshold
        assert ax.get_ylabel() == metric
        assert display.ax_ is ax
        assert display.figure_ is ax.figure

    def test_of_a_model_on_both_scales(self, ax: Any, low_rank: LowRankClassifier) -> None:
        X, Y = PROBLEM.X_test, PROBLEM.Y_test
        display = plot_threshold_curve(low_rank, X, Y, ax=ax)
        best = best_threshold(low_rank.predict_proba(X), Y, "micro-f1", return_curve=True)
        np.testing.assert_allclose(drawn(display.line_), inside(best.curve), rtol=1e-12)
        assert display.threshold == low_rank.threshold_probability_
        assert "probability" in ax.get_xlabel()
        assert display.line_.get_label() == "LowRankClassifier"
        own = {"metric": "macro-f1", "response_method": "decision_function"}
        display = ThresholdCurveDisplay.from_estimator(low_rank, X, Y, **own, ax=ax)
        best = best_threshold(low_rank.decision_function(X), Y, "macro-f1", return_curve=True)
        np.testing.assert_allclose(drawn(display.line_), inside(best.curve), rtol=1e-9)
        assert display.threshold == low_rank.threshold_

    def test_the_curve_at_the_threshold_is_the_score(self, ax: Any, plug_in: PlugInClassifier) -> None:
        display = plot_threshold_curve(plug_in, PROBLEM.X_test, PROBLEM.Y_test, ax=ax)
        chosen = plug_in.score(PROBLEM.X_test, PROBLEM.Y_test)
        x, y = drawn(display.line_)
        above, below = np.searchsorted(-x, -display.threshold) - 1, np.searchsorted(-x, -display.threshold)
        assert chosen in (pytest.approx(y[above]), pytest.approx(y[below]))

    def test_of_scores_behind_a_threshold(self, ax: Any) -> None:
        scores = np.where(PROBLEM.Y == 1, 3.0, -3.0) + np.random.RandomState(1).standard_normal(
            PROBLEM.Y.shape
        )
        cut = MetricThreshold().fit(scores, PROBLEM.Y_observed)
        display = plot_threshold_curve(cut, scores, PROBLEM.Y_observed, ax=ax)
        assert display.threshold == cut.threshold_
        assert ax.get_xlabel() == "threshold θ on the score"
        with pytest.raises(InvalidParameterError, match="no probabilities"):
            plot_threshold_curve(cut, scores, PROBLEM.Y_observed, response_method="predict_proba", ax=ax)

    def test_of_a_recommender(self, ax: Any, recommender: Recommender, answers: Any) -> None:
        display = plot_threshold_curve(recommender, answers, ax=ax)
        scores = recommender.predict_proba(answers[0], answers[1])[:, None]
        best = best_threshold(scores, np.array(answers[2])[:, None], return_curve=True)
        np.testing.assert_allclose(drawn(display.line_), inside(best.curve), rtol=1e-9)

    def test_of_a_fit_to_recorded_positives(self, ax: Any) -> None:
        recorded = PROBLEM.Y * (np.random.RandomState(0).random_sample(PROBLEM.Y.shape) < 0.6)
        model = LowRankClassifier(
            unobserved="unlabelled", loss="squared", flip_rate=0.4, threshold="train", **QUICK
        ).fit(PROBLEM.X, recorded)
        for metric in ("micro-f1", "macro-f1"):
            display = plot_threshold_curve(
                model, PROBLEM.X, recorded, metric=metric, response_method="decision_function", ax=ax
            )
            scores = model.decision_function(PROBLEM.X)
            best = best_unlabelled_threshold(scores, recorded, metric, flip_rate=0.4, return_curve=True)
            np.testing.assert_allclose(drawn(display.line_), inside(best.curve), rtol=1e-9)
        with pytest.raises(InvalidParameterError, match="known negatives"):
            plot_reliability(model, PROBLEM.X, recorded, ax=ax)

    def test_inside_pipelines_and_searches(self, ax: Any) -> None:
        pipeline = make_pipeline(StandardScaler(), PlugInClassifier(LogisticRegression(), random_state=0))
        search = GridSearchCV(pipeline, {"pluginclassifier__threshold": ["holdout"]}, cv=2)
        search.fit(PROBLEM.X, PROBLEM.Y_observed)
        display = plot_threshold_curve(search, PROBLEM.X_test, PROBLEM.Y_test, ax=ax)
        best = best_threshold(
            search.best_estimator_.predict_proba(PROBLEM.X_test), PROBLEM.Y_test, return_curve=True
        )
        np.testing.assert_allclose(drawn(display.line_), inside(best.curve), rtol=1e-12)

    def test_a_threshold_beyond_the_ends_of_the_link_is_shown_by_scores(self, ax: Any) -> None:
        model = LowRankClassifier(loss="squared", **QUICK).fit(PROBLEM.X, PROBLEM.Y_observed)
        display = plot_threshold_curve(model, PROBLEM.X_test, PROBLEM.Y_test, ax=ax)
        assert display.threshold == model.threshold_probability_
        for threshold in (1.25, -1.25):
            model.threshold_ = threshold
            display = plot_threshold_curve(model, PROBLEM.X_test, PROBLEM.Y_test, ax=ax)
            assert display.threshold == threshold
            assert display.ax_.get_xlabel() == "threshold θ on the score"
            forced = plot_threshold_curve(
                model, PROBLEM.X_test, PROBLEM.Y_test, response_method="predict_proba", ax=ax
            )
            assert forced.threshold in (0.0, 1.0)
        model.threshold_ = np.inf
        assert plot_threshold_curve(model, PROBLEM.X_test, PROBLEM.Y_test, ax=ax).threshold == 1.0

    def test_a_single_label_with_names_and_gaps(self, ax: Any) -> None:
        y = np.array(["no", "yes", None, "yes", "no"], dtype=object)
        display = ThresholdCurveDisplay.from_scores([0.1, 0.9, 0.5, 0.7, 0.3], y, ax=ax)
        assert display.threshold == pytest.approx(0.5)
        assert display.line_.get_ydata().max() == 1.0

    def test_an_infinite_threshold_is_not_marked(self, ax: Any) -> None:
        display = ThresholdCurveDisplay.from_scores([0.9, 0.1], [0, 1], metric="micro-f1", ax=ax)
        assert display.threshold == -np.inf
        assert display.threshold_line_ is None
        marked = ThresholdCurveDisplay(display.curve, threshold=0.5)
        assert marked.plot(ax).threshold_line_ is not None
        assert marked.plot(ax, mark_threshold=False).threshold_line_ is None


class TestConvergence:
    def test_of_models_and_histories(
        self, ax: Any, low_rank: LowRankClassifier, recommender: Recommender
    ) -> None:
        display = plot_convergence(low_rank, ax=ax)
        expected = [[p.iteration, p.gap] for p in low_rank.history_]
        np.testing.assert_array_equal(drawn(display.line_).T, expected)
        assert display.tol_line_.get_ydata()[0] == low_rank.tol
        assert ax.get_yscale() == "log"
        for x in ("iteration", "seconds"):
            for y in ("objective", "rank"):
                ax.clear()
                display = ConvergenceDisplay.from_history(low_rank.history_, x=x, y=y, ax=ax)
                expected = [[getattr(p, x), getattr(p, y)] for p in low_rank.history_]
                np.testing.assert_array_equal(drawn(display.line_).T, expected)
                assert display.tol_line_ is None
        assert plot_convergence(recommender, ax=ax).line_.get_label() == "Recommender"
        regressor = LowRankRegressor(trace_penalty=0.1, random_state=0).fit(PROBLEM.X, PROBLEM.Y_observed)
        assert len(plot_convergence(regressor, ax=ax).history) == len(regressor.history_)

    def test_a_gap_of_nothing_can_be_drawn(self, ax: Any) -> None:
        display = plot_convergence([Progress(0, 1.0, 0.0, 0, 0.1)], ax=ax)
        assert ax.get_yscale() == "linear"
        display.figure_.canvas.draw()


class TestBatches:
    def test_metric_with_errors_expected_interval_and_drift(self, ax: Any) -> None:
        batches = [
            Batch(1, metric=0.8, standard_error=0.01),
            Batch(2),
            Batch(3, metric=0.7, standard_error=0.02, interval=(0.75, 0.85), drift="worse"),
        ]
        display = BatchesDisplay.from_batches(batches, ax=ax)
        np.testing.assert_allclose(drawn(display.line_), [[1, 3], [0.8, 0.7]])
        np.testing.assert_allclose(drawn(display.drift_), [[3], [0.7]])
        area = display.interval_.get_paths()[0].vertices
        assert (area[:, 0].min(), area[:, 0].max()) == (2.5, 3.5)
        assert (area[:, 1].min(), area[:, 1].max()) == (0.75, 0.85)

    def test_of_batches_that_a_model_learned_from(self, ax: Any) -> None:
        model = LowRankClassifier(trace_penalty=0.1, intercept_penalty=0, random_state=0)
        for part in (slice(0, 30), slice(30, 40)):
            model.partial_fit(PROBLEM.X[part], PROBLEM.Y_observed[part])
        display = plot_batches(model, ax=ax)
        assert drawn(display.line_)[1].tolist() == [batch.metric for batch in model.batches_]
        assert ax.get_ylabel() == "micro-f1 before learning"
        assert display.line_.get_label() == "LowRankClassifier"


class TestObserved:
    def test_every_cell_of_a_small_matrix(self, ax: Any) -> None:
        y = np.array([[1, 0, NAN], [NAN, NAN, 1], [0, 0, NAN], [NAN, NAN, NAN]])
        display = plot_observed(y, ax=ax)
        np.testing.assert_array_equal(display.yes, y == 1)
        np.testing.assert_array_equal(display.no, y == 0)
        picture = np.asarray(display.image_.get_array())
        assert len({tuple(cell) for cell in picture.reshape(-1, 3).round(6).tolist()}) == 3
        yes, both = display.label_bars_
        np.testing.assert_allclose(yes.get_data().values, (y == 1).mean(axis=0))
        np.testing.assert_allclose(both.get_data().values, np.isfinite(y).mean(axis=0))
        np.testing.assert_allclose(display.row_bars_[1].get_data().values, np.isfinite(y).mean(axis=1))

    def test_bins_add_up(self, ax: Any) -> None:
        display = plot_observed(PROBLEM.Y_observed, max_rows=7, max_labels=3, ax=ax)
        assert display.yes.shape == (7, 3)
        assert display.cells.sum() == PROBLEM.Y_observed.size
        rows, columns = display.row_edges, display.label_edges
        for i in range(7):
            for j in range(3):
                patch = PROBLEM.Y_observed[rows[i] : rows[i + 1], columns[j] : columns[j + 1]]
                assert display.yes[i, j] == np.sum(patch == 1)
                assert display.no[i, j] == np.sum(patch == 0)

    def test_a_matrix_that_would_not_fit(self, ax: Any) -> None:
        wide = ObservedLabels.from_triplets([0, 10**6 - 1], [10**6 - 1, 0], [1, 0], shape=(10**6, 10**6))
        display = plot_observed(wide, ax=ax)
        assert (display.yes.sum(), display.no.sum()) == (1, 1)
        assert display.yes[0, -1] == 1
        assert display.no[-1, 0] == 1

    def test_recorded_positives_and_recommenders(self, ax: Any, recommender: Recommender) -> None:
        display = plot_observed([[1, 0], [0, 1]], unobserved="unlabelled", ax=ax)
        assert display.no.sum() == 0
        assert [text.get_text() for text in ax.get_legend().get_texts()] == ["yes", "no", "unlabelled"]
        again = plot_observed(recommender, ax=ax, margins=False, legend=False)
        assert again.yes.sum() + again.no.sum() == recommender.answers_.n_observed
        assert ax.get_xlabel() == "item"
        assert again.ax_rows_ is None


class TestReliability:
    def test_as_scikit_learn_over_observed_entries(
        self, ax: Any, low_rank: LowRankClassifier, recommender: Recommender, answers: Any
    ) -> None:
        rng = np.random.RandomState(0)
        p = rng.random_sample((50, 4))
        complete = (rng.random_sample((50, 4)) < p**2).astype(int)
        X, Y = PROBLEM.X_test, PROBLEM.Y_test
        part = np.where(np.random.RandomState(0).random_sample(Y.shape) < 0.3, Y, NAN)
        known = np.isfinite(part)
        cases = [
            *((p, complete, p, {"n_bins": 6, "strategy": how}, p >= 0) for how in ("uniform", "quantile")),
            (low_rank, part, low_rank.predict_proba(X), {"n_bins": 4}, known),
        ]
        # Probabilities are those that are predicted.
        for thresholds in ("shared", "per-label"):
            for calibration in (None, "sigmoid", "isotonic"):
                model = PlugInClassifier(thresholds=thresholds, calibration=calibration, random_state=0)
                model.fit(PROBLEM.X, PROBLEM.Y_observed)
                cases.append((model, Y, model.predict_proba(X), {"n_bins": 4}, Y >= 0))
        for given, y, probabilities, options, here in cases:
            display = plot_reliability(given, *([] if given is p else [X]), y, **options, ax=ax)
            shares, means = calibration_curve(y[here], probabilities[here], **options)
            np.testing.assert_allclose(drawn(display.line_), [means, shares])
            assert display.counts.sum() == here.sum()
        assert plot_reliability(recommender, answers, ax=ax).counts.sum() == len(answers[0])

    def test_a_weight_of_two_is_an_entry_twice(self, ax: Any) -> None:
        labels = ObservedLabels.from_dense([[1, 0, 1]]).with_weights([2.0, 1.0, 1.0])
        weighted = plot_reliability([0.6, 0.7, 0.9], labels, n_bins=1, ax=ax)
        twice = plot_reliability([0.6, 0.6, 0.7, 0.9], [1, 1, 0, 1], n_bins=1, ax=ax)
        np.testing.assert_allclose(weighted.mean_predicted, twice.mean_predicted)
        np.testing.assert_allclose(weighted.yes_share, twice.yes_share)

    def test_weights_that_differ_make_the_intervals_longer(self, ax: Any) -> None:
        rng = np.random.RandomState(0)
        probabilities = rng.random_sample(200)
        y = (rng.random_sample(200) < probabilities).astype(int)
        labels = ObservedLabels.from_dense(y[:, None])
        plain = plot_reliability(probabilities, labels, n_bins=4, ax=ax)

        def ends(display: Any) -> Any:
            return np.array([segment[:, 1] for segment in display.interval_lines_.get_segments()])

        equal = plot_reliability(probabilities, labels.with_weights(np.full(200, 0.3)), n_bins=4, ax=ax)
        np.testing.assert_allclose(ends(equal), ends(plain))
        weights = np.where(rng.random_sample(200) < 0.1, 50.0, 0.5)
        display = plot_reliability(probabilities, labels.with_weights(weights), n_bins=4, ax=ax)
        for at, here in enumerate(np.minimum((probabilities * 4).astype(int), 3) == b for b in range(4)):
            size = weights[here].sum() ** 2 / (weights[here] ** 2).sum()
            assert display.effective_counts[at] == pytest.approx(size)
            share = np.average(y[here], weights=weights[here])
            expected = np.ravel(wilson_interval(np.array([share]), np.array([size])))
            np.testing.assert_allclose(ends(display)[at], expected)
        np.testing.assert_array_equal(display.counts, plain.counts)

    def test_the_margin_holds_the_counts_of_all(self, ax: Any) -> None:
        first = plot_reliability([0.1, 0.2, 0.9], [0, 0, 1], n_bins=2, ax=ax)
        second = plot_reliability([0.1, 0.8, 0.9], [0, 1, 1], n_bins=2, ax=ax)
        assert first.ax_counts_ is second.ax_counts_
        assert first.counts_.get_data().values.tolist() == [2, 1]
        assert second.counts_.get_data().values.tolist() == [1, 2]
        plain = plot_reliability(
            [0.1, 0.9], [0, 1], ref_line=False, intervals=False, margin_counts=False, ax=ax
        )
        assert plain.reference_line_ is plain.interval_lines_ is plain.ax_counts_ is None


DRAW = {
    "threshold curve": lambda **kwargs: plot_threshold_curve([0.9, 0.6, 0.1], [1, 1, 0], **kwargs),
    "batches": lambda **kwargs: plot_batches([Batch(1, metric=0.5, standard_error=0.1)], **kwargs),
    "convergence": lambda **kwargs: plot_convergence([Progress(0, 1.0, 0.1, 1, 0.1)], **kwargs),
    "observed": lambda **kwargs: plot_observed([[1, 0, None]], **kwargs),
    "reliability": lambda **kwargs: plot_reliability([0.9, 0.6, 0.1], [1, 1, 0], **kwargs),
}


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
def test_every_display_is_a_figure_and_leaves_matplotlib_as_it_was(
    draw: Any, ax: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dict(matplotlib.rcParams)
    display = draw()
    first = display.figure_
    first.savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert dict(matplotlib.rcParams) == before
    # It can be drawn again elsewhere, and without pyplot where axes are given.
    assert display.plot(ax, name="again") is display
    assert display.figure_ is ax.figure is not first
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    assert draw(ax=ax).figure_ is ax.figure
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"labelgap\[plot\]"):
        draw()


def test_bad_input_is_refused(
    ax: Any, low_rank: LowRankClassifier, plug_in: PlugInClassifier, recommender: Recommender, answers: Any
) -> None:
    X, Y, step = PROBLEM.X, PROBLEM.Y, [Progress(0, 1.0, 0.1, 0, 0.1)]
    yes = np.where(Y == 1, 1.0, NAN)
    values = ObservedLabels.from_dense([[2.5, 1.0]], binary=False)
    curve, reliability = plot_threshold_curve, plot_reliability
    bad, drawn_bins = InvalidParameterError, ReliabilityDisplay.from_probabilities
    for plot, given, options, error, said in (
        (curve, (LowRankClassifier(), X, Y), {}, NotFittedError, None),
        (curve, (Recommender(), (["a"], ["b"], [1])), {}, NotFittedError, None),
        (curve, (low_rank, X, yes), {}, InvalidLabelsError, "is a yes, and a threshold curve needs both"),
        (curve, ([[0.1, 0.2]], [[0, 0]]), {}, InvalidLabelsError, "is a no"),
        (curve, (low_rank, X), {}, InvalidLabelsError, "y is None"),
        (curve, (low_rank, X, Y[:-1]), {}, InvalidLabelsError, "were expected"),
        (curve, (LogisticRegression(), X, Y), {}, InvalidInputError, "MetricThreshold"),
        (curve, (low_rank, X, Y), {"unobserved": "unlabelled"}, bad, "was not fitted"),
        (curve, (low_rank, X, Y), {"response_method": "proba"}, UnknownNameError, "response_method"),
        (curve, (recommender, answers, [1]), {}, InvalidInputError, "leave y out"),
        (curve, (recommender, answers), {"unobserved": "negative"}, bad, "every pair"),
        (plot_convergence, (plug_in,), {}, InvalidInputError, "keeps no history"),
        (plot_convergence, (LowRankClassifier(),), {}, NotFittedError, None),
        (plot_convergence, ([],), {}, InvalidInputError, "empty"),
        (plot_convergence, (step,), {"y": "loss"}, UnknownNameError, "y"),
        (plot_batches, ([Batch(1)],), {}, InvalidInputError, "no batch that was judged"),
        (plot_batches, (plug_in,), {}, InvalidInputError, "no batch that was judged"),
        (plot_batches, (LowRankClassifier(),), {}, NotFittedError, None),
        (plot_observed, (low_rank,), {}, InvalidInputError, "does not keep the labels"),
        (plot_observed, (Recommender(),), {}, NotFittedError, None),
        (plot_observed, ([[NAN, NAN]],), {}, InvalidLabelsError, "No label is observed"),
        (plot_observed, (values,), {}, InvalidLabelsError, "yes and no"),
        (ObservedDisplay.from_labels, ([[1, 0]],), {"max_rows": 0}, bad, "max_rows"),
        (reliability, ([[0.5, 1.5]], [[1, 0]]), {}, InvalidScoresError, r"row 0, label 1 is 1.5"),
        (reliability, ([[0.5, 0.6]], [[1, 1]]), {}, InvalidLabelsError, "needs both"),
        (reliability, ([0.5, 0.6], [1, 0]), {"n_bins": 0}, bad, "n_bins"),
        (drawn_bins, ([0.5, 0.6], [1, 0]), {"strategy": "even"}, UnknownNameError, "strategy"),
        (reliability, (PlugInClassifier(), X, Y), {}, NotFittedError, None),
    ):
        with pytest.raises(error, match=said):
            plot(*given, **options, ax=ax)


def test_lines_in_one_picture_differ_and_take_settings(ax: Any) -> None:
    colours = [plot_threshold_curve([0.9, 0.6, 0.1], [1, 1, 0], ax=ax).line_.get_color() for _ in range(3)]
    assert len(set(colours)) == 3
    styled = plot_threshold_curve([0.9, 0.1], [1, 0], ax=ax, color="k", linestyle=":", name="mine")
    assert (styled.line_.get_color(), styled.line_.get_linestyle()) == ("k", ":")
    assert ax.get_legend() is not None
