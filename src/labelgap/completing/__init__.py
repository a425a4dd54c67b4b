"""Decisions for the unobserved entries of training rows, by what their observed labels say beside X."""

from labelgap.completing.completion import Completion, RowCandidate

__all__ = ["Completion", "RowCandidate"]
