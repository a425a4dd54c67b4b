"""Fitted models as ONNX, to be served without Python, scikit-learn or labelgap.

W stays in its two factors. Everything is computed in double precision, so that decisions are those of the
model. What goes in and comes out is described at :func:`to_onnx`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from labelgap._names import check_choice
from labelgap._types import Floats
from labelgap._version import __version__
from labelgap.confidence.calibration import LEAST_PROBABILITY, SigmoidMap
from labelgap.estimators.low_rank import LowRankClassifier
from labelgap.estimators.metric_threshold import MetricThreshold
from labelgap.estimators.plug_in import PlugInClassifier
from labelgap.estimators.recommender import Recommender
from labelgap.estimators.regressor import LowRankRegressor
from labelgap.estimators.score_models import DirectModel, GivenScores, LabelModels
from labelgap.exceptions import InvalidInputError, MissingExtraError
from labelgap.losses import FAMILIES, LOSSES, Loss
from labelgap.metrics import LinearFractional
from labelgap.onnx_features import mapped_features, width_of
from labelgap.persistence.container import atomic_write
from labelgap.persistence.registry import is_logistic_regression

OPSET, IR_VERSION = 17, 8
"""Versions of 2022: old enough for every runtime, new enough for comparisons of doubles."""
DTYPES = ("float32", "float64")
# A model is one protocol-buffer message, and those end here.
_LARGEST = 2**31 - 2**20


def to_onnx(model: Any, path: str | os.PathLike[str] | None = None, *, dtype: str = "float64") -> Any:
    """A fitted model as an ONNX model, written to a file if a path is given.

    ==================  =====================================  ============================================
    model               inputs                                 outputs
    ==================  =====================================  ============================================
    LowRankClassifier   ``features`` (n x d)                   ``scores``, ``probabilities``, ``decisions``
    PlugInClassifier    ``features`` (n x d)                   ``scores``, ``probabilities``, ``decisions``
    MetricThreshold     ``features`` (n x d), or scores        ``scores``, ``probabilities``, ``decisions``
    LowRankRegressor    ``features`` (n x d)                   ``scores``, ``means``
    Recommender         ``users``, ``items`` (int64, n each)   ``scores``, ``probabilities``, ``decisions``
    ==================  =====================================  ============================================

    n is free. Outputs are n x L (n for a recommender; L = 1 after a fit to a 1-d y), ``decisions`` int64 with
    1 for yes. Users and items are given by their positions in ``user_ids_`` and ``item_ids_``, from 0. A
    regressor's offset is 0 and its exposure 1. Nothing checks the features: NaN gives NaN, and a no.

    The metadata of the model hold ``labelgap_version``, ``estimator``, and where there are such ``metric``,
    ``threshold``, ``thresholds`` (texts, where labels have their own), ``classes``, ``label_names``, ``loss``
    or ``family``, ``user_ids`` and ``item_ids``; the metric and all lists are JSON.

    Parameters
    ----------
    model : fitted LowRankClassifier, LowRankRegressor, MetricThreshold, PlugInClassifier or Recommender
        A regressor with features; a PlugInClassifier of ``LogisticRegression``; a MetricThreshold of scores
        (its ``features`` are then the scores; ``probabilities`` take a ``calibration``), of one
        ``LogisticRegression`` per label, or of a LowRankClassifier or PlugInClassifier. A ``calibration`` is
        "sigmoid". Features may be linear or "rbf", or made by a StandardScaler, a Nystroem with an RBF
        kernel, or a pipeline of these.
    path : str, path or None, default None
        Replaced in one step if it exists.
    dtype : {"float64", "float32"}, default "float64"
        The type of the features and of the real outputs. The work in between is done in float64 anyway.

    Returns
    -------
    onnx.ModelProto

    Examples
    --------
    >>> from labelgap import LowRankClassifier
    >>> from labelgap.data import make_low_rank_labels
    >>> from labelgap.onnx_export import to_onnx
    >>> problem = make_low_rank_labels(n=100, n_labels=5, observed=0.5, random_state=0)
    >>> clf = LowRankClassifier(trace_penalty=0.01).fit(problem.X, problem.Y_observed)
    >>> exported = to_onnx(clf, "tags.onnx")
    >>> [output.name for output in exported.graph.output]
    ['scores', 'probabilities', 'decisions']
    """
    onnx = _onnx()
    check_choice("dtype", dtype, DTYPES)
    writer = _WRITERS.get(type(model))
    if writer is None:
        names = ", ".join(kind.__name__ for kind in _WRITERS)
        raise InvalidInputError(
            f"A {type(model).__name__} cannot be exported to ONNX; {names} can. Fit one of these, or serve "
            "the model from Python: model.save and labelgap.load."
        )
    check_is_fitted(model)
    graph = _Graph(onnx, dtype)
    metadata = {"labelgap_version": __version__, "estimator": type(model).__name__, **writer(model, graph)}
    exported = graph.model(metadata)
    if path is not None:
        with atomic_write(path) as file:
            file.write(exported.SerializeToString())
    return exported


def _onnx() -> Any:
    try:
        import onnx
    except ImportError as error:
        raise MissingExtraError(
            "Export to ONNX needs the package onnx, which is not installed: pip install 'labelgap[onnx]'."
        ) from error
    return onnx


class _Graph:
    """A graph under construction: nodes, constants, inputs and outputs. Values are known by their names."""

    def __init__(self, onnx: Any, dtype: str) -> None:
        self._onnx, self._helper = onnx, onnx.helper
        self._outer = getattr(onnx.TensorProto, {"float32": "FLOAT", "float64": "DOUBLE"}[dtype])
        self._nodes: list[Any] = []
        self._constants: dict[str, NDArray[Any]] = {}
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def do(self, operation: str, *inputs: Any, name: str | None = None, **settings: Any) -> str:
        """The name of what the operation gives; an input is a name, or a constant."""
        output = name or f"{operation.lower()}_{len(self._nodes)}"
        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        self._nodes.append(self._helper.make_node(operation, names, [output], **settings))
        return output

    def _constant(self, value: Any) -> str:
        name = f"constant_{len(self._constants)}"
        self._constants[name] = np.asarray(value)
        return name

    def features(self, width: int) -> str:
        """The input of rows of features, in double precision."""
        self._inputs.append(self._helper.make_tensor_value_info("features", self._outer, ["n", width]))
        return self.do("Cast", "features", to=self._onnx.TensorProto.DOUBLE)

    def positions(self, name: str) -> str:
        """An input of whole numbers."""
        self._inputs.append(self._helper.make_tensor_value_info(name, self._onnx.TensorProto.INT64, ["n"]))
        return name

    def give(self, name: str, value: str, shape: list[Any], *, whole: bool = False) -> None:
        """Make the value an output of that name."""
        kind = self._onnx.TensorProto.INT64 if whole else self._outer
        self.do("Cast", value, name=name, to=kind)
        self._outputs.append(self._helper.make_tensor_value_info(name, kind, shape))

    def model(self, metadata: dict[str, str]) -> Any:
        """The complete ONNX model, checked."""
        size = sum(array.nbytes for array in self._constants.values())
        size += sum(len(text) for text in metadata.values())
        if size > _LARGEST:
            raise InvalidInputError(
                f"The model takes {size / 2**30:.1f} GiB, and an ONNX file holds 2. Use model.save and "
                "labelgap.load, or fit with a smaller rank."
            )
        numbers = [self._onnx.numpy_helper.from_array(a, name) for name, a in self._constants.items()]
        graph = self._helper.make_graph(
            self._nodes, "labelgap", self._inputs, self._outputs, initializer=numbers
        )
        exported = self._helper.make_model(
            graph,
            producer_name="labelgap",
            producer_version=__version__,
            opset_imports=[self._helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
        )
        self._helper.set_model_props(exported, metadata)
        self._onnx.checker.check_model(exported, full_check=True)
        return exported


# -- one model at a time -------------------------------------------------------------------------------


def _write_classifier(model: LowRankClassifier, graph: _Graph) -> dict[str, str]:
    scores = _low_rank_scores(model, graph)
    probabilities = _calibrated(graph, model, scores, _mean(graph, model.loss_, scores))
    _decide(graph, scores, probabilities, model._cut(), ["n", model.n_labels_])
    return _decision_metadata(model) | {"loss": model.loss_.name}


def _write_regressor(model: LowRankRegressor, graph: _Graph) -> dict[str, str]:
    if not model._has_features:
        raise InvalidInputError(
            "This LowRankRegressor was fitted without features (X=None), so an exported model would have no "
            "input. Use model.save and labelgap.load."
        )
    scores, shape = _low_rank_scores(model, graph), ["n", model.n_labels_]
    means = _mean(graph, model.family_, scores)
    graph.give("scores", scores, shape)
    graph.give("means", means, shape)
    return _name_metadata(model) | {"family": model.family_.name}


def _write_plug_in(model: PlugInClassifier, graph: _Graph) -> dict[str, str]:
    scores = _scores_per_label(model, model._model, graph)
    probabilities = _calibrated(graph, model, scores, scores)
    _decide(graph, scores, probabilities, model._cut(), ["n", model.n_labels_])
    return _decision_metadata(model)


def _write_threshold(model: MetricThreshold, graph: _Graph) -> dict[str, str]:
    inner, shape = model._model, ["n", model.n_labels_]
    probabilities: Any = None
    if isinstance(inner, GivenScores):
        scores = graph.features(model.n_labels_)
    elif isinstance(inner, LabelModels):
        scores = probabilities = _scores_per_label(model, inner, graph)
    elif isinstance(inner, DirectModel) and isinstance(inner.estimator, LowRankClassifier):
        scores = _low_rank_scores(inner.estimator, graph)
        probabilities = _mean(graph, inner.estimator.loss_, scores)
        probabilities = _calibrated(graph, inner.estimator, scores, probabilities)
    elif isinstance(inner, DirectModel) and isinstance(inner.estimator, PlugInClassifier):
        scores = _scores_per_label(inner.estimator, inner.estimator._model, graph)
        probabilities = _calibrated(graph, inner.estimator, scores, scores)
    else:
        raise _not_exported("MetricThreshold", model.estimator_)
    probabilities = _calibrated(graph, model, scores, probabilities)
    _decide(graph, scores, probabilities, model._cut(), shape)
    return _decision_metadata(model)


def _scores_per_label(model: Any, inner: LabelModels, graph: _Graph) -> str:
    """The probabilities of one LogisticRegression per label."""
    fitted = {label: one for label, one in enumerate(inner.estimators) if one is not None}
    for estimator in fitted.values():
        # With a softmax over two classes the odds are squared, in versions that have that choice.
        if not is_logistic_regression(estimator) or getattr(estimator, "multi_class", "") == "multinomial":
            raise _not_exported(type(model).__name__, estimator)
    width = next((estimator.n_features_in_ for estimator in fitted.values()), None)
    W = np.zeros((width_of(model) if width is None else width, model.n_labels_))
    b = np.zeros(model.n_labels_)
    for label, estimator in fitted.items():
        W[:, label], b[label] = estimator.coef_[0], estimator.intercept_[0]
    logits = graph.do("Add", graph.do("MatMul", mapped_features(model, graph), W), b)
    constant = np.array([estimator is None for estimator in inner.estimators])
    return graph.do("Where", constant, inner.constants, graph.do("Sigmoid", logits))


def _not_exported(name: str, estimator: Any) -> InvalidInputError:
    return InvalidInputError(
        f"A {name} of {type(estimator).__name__} cannot be exported to ONNX; one of LogisticRegression (with "
        "its own choice of multi_class) can. Fit with that."
    )


def _write_recommender(model: Recommender, graph: _Graph) -> dict[str, str]:
    users, items = graph.positions("users"), graph.positions("items")
    U, V = _at_least_one_column(model.user_factors_), _at_least_one_column(model.item_factors_)
    product = graph.do("Mul", graph.do("Gather", U, users), graph.do("Gather", V, items))
    low_rank = graph.do("ReduceSum", product, np.array([1]), keepdims=0)
    scores = graph.do("Add", low_rank, graph.do("Gather", model.item_intercept_, items))
    recorded = _recorded(model, graph, users, items) if model.answers_.unobserved == "unlabelled" else None
    probabilities = _mean(graph, model.loss_, scores)
    _decide(graph, scores, probabilities, model.threshold_, ["n"], recorded)
    return {
        "metric": _metric(model.metric_),
        "threshold": str(model.threshold_),
        "loss": model.loss_.name,
        "user_ids": _json("user_ids_", model.user_ids_),
        "item_ids": _json("item_ids_", model.item_ids_),
    }


_WRITERS: dict[type, Callable[[Any, _Graph], dict[str, str]]] = {
    LowRankClassifier: _write_classifier,
    LowRankRegressor: _write_regressor,
    MetricThreshold: _write_threshold,
    PlugInClassifier: _write_plug_in,
    Recommender: _write_recommender,
}


# -- parts of graphs -----------------------------------------------------------------------------------


def _low_rank_scores(model: LowRankClassifier | LowRankRegressor, graph: _Graph) -> str:
    A, B = _at_least_one_column(model.coef_left_), _at_least_one_column(model.coef_right_)
    inner = graph.do("MatMul", mapped_features(model, graph), A)
    return graph.do("Add", graph.do("MatMul", inner, np.ascontiguousarray(B.T)), model.intercept_)


def _at_least_one_column(factors: Floats) -> Floats:
    """The factors with a column of zeros at rank 0, where not every runtime can multiply them."""
    return factors if factors.shape[1] else np.zeros((len(factors), 1))


def _mean(graph: _Graph, loss: Loss, scores: str) -> str:
    """From scores to probabilities or means."""
    if type(loss) not in (*LOSSES.values(), *FAMILIES.values()):
        raise InvalidInputError(
            f"{loss!r} is made of functions, which cannot be exported to ONNX. Fit with one of the losses "
            "and families that have a name."
        )
    if loss.name in ("logistic", "bernoulli"):
        return graph.do("Sigmoid", scores)
    if loss.name == "exponential":
        return graph.do("Sigmoid", graph.do("Mul", scores, np.float64(2)))
    if loss.name == "poisson":
        # The loss caps its scores in the same way, before e^z overflows.
        cap = np.log(np.finfo(np.float64).max) / 2
        return graph.do("Exp", graph.do("Min", scores, cap))
    if loss.name == "gaussian":
        return scores
    # The squared kind: (1 + z) / 2, from 0 to 1.
    half = graph.do("Div", graph.do("Add", scores, np.float64(1)), np.float64(2))
    return graph.do("Clip", half, np.float64(0), np.float64(1))


def _calibrated(graph: _Graph, model: Any, scores: str, probabilities: Any) -> Any:
    """The probabilities after the model's calibration, or as they are without one."""
    found = model._calibrator
    if found is None:
        return probabilities
    if not isinstance(found, SigmoidMap):
        raise InvalidInputError(
            "calibration='isotonic' cannot be exported to ONNX. Fit with calibration='sigmoid', or use "
            "model.save and labelgap.load."
        )
    z = scores
    if found.of_probabilities:
        p = graph.do("Clip", scores, np.float64(LEAST_PROBABILITY), np.float64(1 - LEAST_PROBABILITY))
        z = graph.do("Sub", graph.do("Log", p), graph.do("Log", graph.do("Sub", np.float64(1), p)))
    slope, intercept = np.float64(found.slope), np.float64(found.intercept)
    return graph.do("Sigmoid", graph.do("Add", graph.do("Mul", z, slope), intercept))


def _decide(
    graph: _Graph,
    scores: str,
    probabilities: str | None,
    threshold: float | Floats,
    shape: list[Any],
    recorded: str | None = None,
) -> None:
    yes = graph.do("GreaterOrEqual", scores, np.asarray(threshold, dtype=np.float64))
    graph.give("scores", scores, shape)
    if probabilities is not None:
        graph.give("probabilities", probabilities, shape)
    graph.give("decisions", yes if recorded is None else graph.do("Or", yes, recorded), shape, whole=True)


def _recorded(model: Recommender, graph: _Graph, users: str, items: str) -> str:
    """Whether the pair is a recorded like, by a binary search in the user's row, which is sorted."""
    likes = model.answers_
    indices, pointers = likes.indices.astype(np.int64), likes.indptr
    last, one = np.int64(len(indices) - 1), np.int64(1)
    low = graph.do("Gather", pointers, users)
    end = high = graph.do("Gather", pointers, graph.do("Add", users, one))
    for _ in range(int(likes.row_counts().max()).bit_length()):
        middle = graph.do("Div", graph.do("Add", low, high), np.int64(2))
        here = graph.do("Gather", indices, graph.do("Min", middle, last))
        searching = graph.do("Less", low, high)
        below = graph.do("And", searching, graph.do("Less", here, items))
        low = graph.do("Where", below, graph.do("Add", middle, one), low)
        high = graph.do("Where", graph.do("And", searching, graph.do("Not", below)), middle, high)
    found = graph.do("Gather", indices, graph.do("Min", low, last))
    return graph.do("And", graph.do("Less", low, end), graph.do("Equal", found, items))


# -- metadata ------------------------------------------------------------------------------------------


def _decision_metadata(model: LowRankClassifier | MetricThreshold | PlugInClassifier) -> dict[str, str]:
    cut = model._cut()
    # JSON has no infinity.
    texts = None if isinstance(cut, float) else [str(one) for one in cut.tolist()]
    return {
        "metric": _metric(model.metric_),
        "threshold": str(model.threshold_),
        **({} if texts is None else {"thresholds": _json("thresholds_", texts)}),
        "classes": _json("classes_", model.classes_.tolist()),
        **_name_metadata(model),
    }


def _name_metadata(model: Any) -> dict[str, str]:
    return (
        {}
        if model.label_names_ is None
        else {"label_names": _json("label_names_", model.label_names_.tolist())}
    )


def _metric(metric: LinearFractional) -> str:
    parts = ("name", "numerator", "denominator", "average", "zero_division", "balanced")
    return _json("metric", {part: getattr(metric, part) for part in parts})


def _json(what: str, value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{what} of the model cannot be written as JSON ({error}), as the metadata of an ONNX file are. "
            "Use text or whole numbers, and fit again."
        ) from error
