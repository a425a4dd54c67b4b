"""Fitted models in notebooks: what there is to tell, beside scikit-learn's diagram of the parameters."""

from __future__ import annotations

from typing import Any

from labelgap._html import table
from labelgap.estimators.description import describe, in_lines


class NotebookView:
    """Adds a table about the fit to what a notebook shows of an estimator: threshold, certificate, sizes."""

    def _repr_html_inner(self) -> str:
        return str(super()._repr_html_inner()) + self._fit_as_html()  # type: ignore[misc]

    def _repr_mimebundle_(self, **settings: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**settings)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._fit_as_html()
        return bundle

    def _fit_as_html(self) -> str:
        """A table of the facts; nothing before the fit."""
        if not (hasattr(self, "threshold_") or hasattr(self, "family_")):
            return ""
        return table((), in_lines(describe(self)), caption=f"Fitted {type(self).__name__}")
