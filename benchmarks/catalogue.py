"""The benchmarks by name, in the order of the documentation."""

from __future__ import annotations

BENCHMARKS: dict[str, str] = {
    "gate": "benchmarks.gate",
    "defaults": "benchmarks.default_fit",
    "search": "benchmarks.search_cost",
    "kernels": "benchmarks.kernels",
    "features": "benchmarks.features_fit",
    "one_bit": "benchmarks.one_bit",
    "certified": "benchmarks.certified_fit",
    "implicit": "benchmarks.implicit_sweep",
    "thresholds": "benchmarks.threshold_search",
    "trace_norm": "benchmarks.trace_norm",
    "growth": "benchmarks.growth",
    "top_items": "benchmarks.top_items",
    "startup": "benchmarks.startup",
    "unlabelled": "benchmarks.unlabelled_fit",
    "lists": "benchmarks.list_fit",
    "arriving": "benchmarks.arriving",
    "arriving_ratings": "benchmarks.arriving_ratings",
}
"""Name and module; a module has ``run(options) -> Report``."""
