"""The two sides of the scores on a device, and what all data terms there have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import array_api_compat.torch as array_namespace
import numpy as np
import torch

from labelgap.kernels.gpu.losses import Tensor
from labelgap.kernels.gpu.pattern import as_tensor
from labelgap.objective.cpu.design import DesignGradient
from labelgap.objective.protocol import Factors, Rowwise, ScoreBounds, may_form
from labelgap.objective.torch.features import TensorFeatures, TensorIdentity


@dataclass(frozen=True)
class TensorDesign:
    """Features of the rows and of the labels (the identity where labels have none)."""

    rows: TensorFeatures
    columns: TensorFeatures
    device: Any
    dtype: Any = torch.float64

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of W."""
        return self.rows.n_features, self.columns.n_features

    @property
    def n_labels(self) -> int:
        return self.columns.n_rows

    @property
    def n_stored(self) -> int:
        return self.rows.n_stored + self.columns.n_stored

    def tensor(self, array: Any) -> Tensor:
        """An array in the design's precision, on its device."""
        return as_tensor(array, self.device, self.dtype)

    def array(self, numbers: Any) -> Tensor:
        """A copy of some numbers, as the terms of this design know them."""
        return self.tensor(np.array(numbers))

    def zeros(self, *shape: int) -> Tensor:
        return torch.zeros(shape, dtype=self.dtype, device=self.device)

    def left(self, A: Tensor) -> Tensor:
        """``P = XA``."""
        return self.rows.product(A.contiguous()).contiguous()

    def right(self, B: Tensor) -> Tensor:
        """``Q = FB``."""
        return self.columns.product(B.contiguous()).contiguous()

    def back(self, P: Tensor, Q: Tensor, intercept: Tensor) -> Factors:
        """A gradient in (P, Q, b) as one in (A, B, b)."""
        return Factors(self.rows.transposed_product(P), self.columns.transposed_product(Q), intercept)


class TensorTerm:
    """What the data terms of this folder have in common; a subclass sets ``design`` and ``n_stored``."""

    design: TensorDesign
    n_stored: int
    has_intercept: bool
    bounds: ScoreBounds | None = None
    xp: Any = array_namespace

    @property
    def shape(self) -> tuple[int, int]:
        return self.design.shape

    @property
    def n_labels(self) -> int:
        return self.design.n_labels

    @property
    def dtype(self) -> Any:
        return self.design.dtype

    @property
    def may_form(self) -> bool:
        return may_form(self.shape, self.n_stored)

    def starting_intercept(self) -> Tensor:
        return self.design.zeros(self.n_labels)

    def rowwise(self, dtype: Any) -> Rowwise | None:
        """None, unless a subclass has Newton steps row by row."""
        return None


class TensorGradient(DesignGradient):
    """``Xᵀ G F`` as a linear map, for a G that a subclass knows how to multiply with."""

    _design: Any

    def __init__(self, design: TensorDesign) -> None:
        self._design = design

    def matrix(self) -> Tensor:
        by_features: Tensor = self._by_features()
        columns = self._design.columns
        if isinstance(columns, TensorIdentity) and columns.scales is None:
            return by_features
        return columns.transposed_product(by_features.T.contiguous()).T
