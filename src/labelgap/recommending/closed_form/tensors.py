"""R in torch's tensors, on a GPU."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import scipy.sparse as sp
import torch

from labelgap.recommending.closed_form.matrix import ScaledLikes
from labelgap.recommending.closed_form.settings import ListSettings, Ratings


class TensorLikes(ScaledLikes):
    """As :class:`ScaledLikes`, with products of tensors."""

    def __init__(self, ratings: Ratings, settings: ListSettings, mean: float, place: torch.device) -> None:
        super().__init__(ratings, settings, mean)
        self._place = place
        self.example = torch.zeros(0, dtype=torch.float32, device=place)
        indptr, indices, data = self._rows
        R = sp.csr_array((data, indices, indptr), shape=self.shape)
        self._tensors = {
            torch.float32: (self._sent(R, torch.float32), self._sent(R.T.tocsr(), torch.float32))
        }
        self._host = R
        if self._gram is not None:
            self._gram = torch.as_tensor(self._gram, device=place)

    @classmethod
    def on(cls, place: torch.device) -> Callable[[Ratings, ListSettings, float], TensorLikes]:
        """What makes R on a device."""
        return lambda ratings, settings, mean: cls(ratings, settings, mean, place)

    def _sent(self, R: sp.csr_array, dtype: torch.dtype) -> torch.Tensor:
        parts = (torch.as_tensor(part.astype("int64"), device=self._place) for part in (R.indptr, R.indices))
        data = torch.as_tensor(R.data, device=self._place, dtype=dtype)
        with warnings.catch_warnings():
            # That torch calls them a beta is nothing that a user can act on.
            warnings.filterwarnings("ignore", "Sparse CSR tensor", UserWarning)
            # Unchecked: scipy's arrays are in order, and a torch that is not told either way may warn.
            return torch.sparse_csr_tensor(*parts, data, size=R.shape, check_invariants=False)

    def _in(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        if dtype not in self._tensors:
            self._tensors[dtype] = (self._sent(self._host, dtype), self._sent(self._host.T.tocsr(), dtype))
        return self._tensors[dtype]

    def times(self, V: Any) -> Any:
        return self._in(V.dtype)[0] @ V

    def transposed_times(self, U: Any) -> Any:
        return self._in(U.dtype)[1] @ U

    def some_times(self, users: Any, V: Any) -> Any:
        return self._sent(self._host[users], V.dtype) @ V
