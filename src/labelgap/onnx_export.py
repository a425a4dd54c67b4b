"""Fitted models as ONNX, for other languages and servers."""

from labelgap.persistence.onnx import to_onnx

__all__ = ["to_onnx"]
