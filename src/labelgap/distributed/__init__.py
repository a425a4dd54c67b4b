"""Fits to data that are spread over a Dask cluster, or larger than the memory of one machine.

It needs the extra ``labelgap[dask]``.
"""

from labelgap.distributed.clients import require_dask

require_dask()

from labelgap.distributed.classifier import DaskLowRankClassifier  # noqa: E402
from labelgap.distributed.recommender import DaskRecommender  # noqa: E402

__all__ = ["DaskLowRankClassifier", "DaskRecommender"]
