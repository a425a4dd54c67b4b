"""The features X of some rows on a device, as a linear map: dense, sparse, the identity, or several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from labelgap._types import Floats
from labelgap.kernels.gpu.device import block_bytes
from labelgap.kernels.gpu.losses import Tensor
from labelgap.kernels.gpu.pattern import TensorPattern, as_tensor


class TensorFeatures:
    """What an objective on a device needs of X; a subclass is one kind of X."""

    n_rows: int
    n_features: int
    n_stored: int = 0

    def product(self, M: Tensor) -> Tensor:
        """``X M``."""
        raise NotImplementedError

    def transposed_product(self, M: Tensor) -> Tensor:
        """``Xᵀ M``."""
        raise NotImplementedError

    def squared_transposed_product(self, M: Tensor) -> Tensor:
        """``(X∘X)ᵀ M``."""
        raise NotImplementedError

    def square_length(self) -> float:
        """Sum of ``‖x_i‖²`` over the rows."""
        raise NotImplementedError

    def transposed_matrix(self, pattern: TensorPattern, data: Tensor) -> Tensor:
        """``Xᵀ S`` as a dense d x L matrix, some labels at a time, so that nothing of size n x L appears."""
        step = max(1, block_bytes(data.device) // (8 * max(self.n_rows, self.n_features, 1) * 4))
        parts = [
            self.transposed_product(pattern.columns(data, start, min(start + step, pattern.n_labels)))
            for start in range(0, pattern.n_labels, step)
        ]
        return torch.cat(parts, dim=1)


class TensorIdentity(TensorFeatures):
    """``X = I`` or, with scales, ``X = diag(s)``: each row has parameters of its own. Never formed."""

    def __init__(self, n_rows: int, scales: Tensor | None = None) -> None:
        self.n_rows = self.n_features = n_rows
        self.scales = scales

    def product(self, M: Tensor) -> Tensor:
        return M if self.scales is None else self.scales[:, None].to(M.dtype) * M

    def transposed_product(self, M: Tensor) -> Tensor:
        return self.product(M)

    def squared_transposed_product(self, M: Tensor) -> Tensor:
        return M if self.scales is None else torch.square(self.scales)[:, None].to(M.dtype) * M

    def square_length(self) -> float:
        return float(self.n_rows if self.scales is None else torch.sum(torch.square(self.scales)))


class TensorSparse(TensorFeatures):
    """CSR features, with the transpose beside them; ``scales`` multiply the columns."""

    def __init__(self, X: Any, scales: Floats | None, device: Any, dtype: Any) -> None:
        rows = sp.csr_array(X, dtype=np.float64)
        if scales is not None:
            rows = sp.csr_array(rows @ sp.diags_array(scales))
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        self.n_rows, self.n_features = rows.shape
        self.n_stored = 2 * rows.nnz
        self._pattern = TensorPattern(rows.indptr, rows.indices, self.n_features, device)
        self._data = as_tensor(rows.data, device, dtype)
        self._by_column = self._pattern.in_label_order(self._data)

    def product(self, M: Tensor) -> Tensor:
        return self._pattern.times(self._data.to(M.dtype), M)

    def transposed_product(self, M: Tensor) -> Tensor:
        return self._pattern.by_label.product(self._by_column.to(M.dtype), M)

    def squared_transposed_product(self, M: Tensor) -> Tensor:
        return self._pattern.by_label.product(torch.square(self._by_column).to(M.dtype), M)

    def square_length(self) -> float:
        return float(torch.sum(torch.square(self._data), dtype=torch.float64))


class TensorDense(TensorFeatures):
    """Dense features, in the coordinates of the frame."""

    def __init__(self, X: Floats, device: Any, dtype: Any) -> None:
        self._X = as_tensor(X, device, dtype)
        self.n_rows, self.n_features = self._X.shape
        self.n_stored = self._X.numel()

    def product(self, M: Tensor) -> Tensor:
        return self._X @ M

    def transposed_product(self, M: Tensor) -> Tensor:
        return self._X.T @ M

    def squared_transposed_product(self, M: Tensor) -> Tensor:
        return torch.square(self._X).T @ M

    def transposed_matrix(self, pattern: TensorPattern, data: Tensor) -> Tensor:
        if self.n_rows * pattern.n_labels <= 8 * len(pattern):
            return super().transposed_matrix(pattern, data)
        return pattern.transposed_times(data, self._X).T

    def square_length(self) -> float:
        return float(torch.sum(torch.square(self._X), dtype=torch.float64))


class TensorStacked(TensorFeatures):
    """Several blocks of features side by side, such as the identity and what is known of each row."""

    def __init__(self, parts: Sequence[TensorFeatures]) -> None:
        self._parts = tuple(parts)
        self.n_rows = parts[0].n_rows
        self._lengths = [part.n_features for part in parts]
        self.n_features = sum(self._lengths)
        self.n_stored = sum(part.n_stored for part in parts)

    @property
    def first(self) -> TensorFeatures:
        return self._parts[0]

    @property
    def others(self) -> TensorFeatures:
        """All but the first block."""
        return self._parts[1] if len(self._parts) == 2 else TensorStacked(self._parts[1:])

    def product(self, M: Tensor) -> Tensor:
        blocks = zip(self._parts, torch.split(M, self._lengths), strict=True)
        first, *rest = (part.product(block.contiguous()) for part, block in blocks)
        for other in rest:
            first = first + other
        return first

    def transposed_product(self, M: Tensor) -> Tensor:
        return torch.cat([part.transposed_product(M) for part in self._parts])

    def squared_transposed_product(self, M: Tensor) -> Tensor:
        return torch.cat([part.squared_transposed_product(M) for part in self._parts])

    def transposed_matrix(self, pattern: TensorPattern, data: Tensor) -> Tensor:
        return torch.cat([part.transposed_matrix(pattern, data) for part in self._parts])

    def square_length(self) -> float:
        return sum(part.square_length() for part in self._parts)
