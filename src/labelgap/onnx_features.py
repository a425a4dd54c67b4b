"""The features of a fitted model as nodes of an ONNX graph: X itself, or what a kernel makes of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelgap.exceptions import InvalidInputError
from labelgap.persistence.transformers import is_pipeline, transformer_name


def mapped_features(model: Any, graph: Any) -> str:
    """The name of the features that the weights of a model are about, from the input of the graph."""
    value: str = graph.features(int(model.n_features_in_))
    transformer = getattr(model, "feature_map_", None)
    if transformer is None:
        return value
    steps = [step for _, step in transformer.steps] if is_pipeline(transformer) else [transformer]
    for step in steps:
        value = _step(step, value, graph)
    return value


def width_of(model: Any) -> int:
    """The number of features that the weights of a model are about."""
    transformer = getattr(model, "feature_map_", None)
    if transformer is None:
        return int(model.n_features_in_)
    return int(np.shape(transformer.transform(np.zeros((1, model.n_features_in_))))[1])


def _step(step: Any, value: str, graph: Any) -> str:
    name = transformer_name(step)
    if name == "StandardScaler":
        moved = value if step.mean_ is None else graph.do("Sub", value, step.mean_)
        scaled: str = moved if step.scale_ is None else graph.do("Div", moved, step.scale_)
        return scaled
    if name == "Nystroem" and step.kernel == "rbf":
        return _kernel(step, value, graph)
    raise InvalidInputError(
        f"Features that a {type(step).__name__} makes cannot be exported to ONNX; those of a StandardScaler, "
        "of a Nystroem with an RBF kernel and of features='rbf' can. Transform X before the fit, and export "
        "the transformer on its own."
    )


def _kernel(step: Any, value: str, graph: Any) -> str:
    """``exp(−γ‖x − c‖²)`` for all landmarks c, times ``K_mm^(−1/2)``."""
    C = np.ascontiguousarray(step.components_, dtype=np.float64)
    gamma = 1.0 / C.shape[1] if step.gamma is None else float(step.gamma)
    squares = graph.do("ReduceSumSquare", value, axes=[1], keepdims=1)
    product = graph.do("MatMul", value, np.ascontiguousarray(-2.0 * C.T))
    distances = graph.do("Add", graph.do("Add", product, squares), np.sum(C**2, axis=1))
    # Rounding may leave a distance of 0 a little below it.
    kernel = graph.do("Exp", graph.do("Mul", graph.do("Max", distances, np.float64(0)), np.float64(-gamma)))
    found: str = graph.do("MatMul", kernel, np.ascontiguousarray(step.normalization_.T))
    return found
