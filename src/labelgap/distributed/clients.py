"""The cluster that the work runs on: its client, and its errors in words that say what to do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from labelgap.exceptions import ClusterError, InvalidParameterError, MissingExtraError


def require_dask() -> None:
    """Raise unless Dask is installed."""
    try:
        import dask
        import distributed  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            f"labelgap.distributed needs Dask, which is not installed ({error}). Install it with "
            "pip install 'labelgap[dask]'."
        ) from error
    del dask


def the_client(client: Any = None) -> Any:
    """The client that was given, or the one that is current."""
    require_dask()
    from distributed import Client, get_client

    if client is not None:
        if not isinstance(client, Client) or client.asynchronous:
            raise InvalidParameterError(
                f"client must be a distributed.Client that is not asynchronous; got {client!r}."
            )
        return client
    try:
        return get_client()
    except ValueError as error:
        raise InvalidParameterError(
            "There is no Dask client. Make one first: `from distributed import Client; client = Client()` "
            "works on the cores of this machine, Client('tcp://...') on a cluster; or pass client=..."
        ) from error


# What a worker's process takes before it holds any data.
_OWN_MEMORY = 350e6


def memory_settings(limit: float) -> dict[str, float]:
    """Settings of Dask for workers with so many bytes of memory: how much of it data may take.

    By default data go to the disk when they take 60 % of the limit. A process takes some memory for itself,
    which counts where the limit is small.

    Examples
    --------
    >>> memory_settings(500e6)
    {'distributed.worker.memory.target': 0.1}
    """
    return {"distributed.worker.memory.target": max(0.1, 0.6 - _OWN_MEMORY / limit)}


@contextlib.contextmanager
def cluster_errors() -> Iterator[None]:
    """Turns the errors of the cluster itself into one of labelgap's; those of the work pass through."""
    from distributed import CancelledError, KilledWorker
    from distributed.client import FutureCancelledError
    from distributed.comm.core import CommClosedError

    try:
        yield
    except KilledWorker as error:
        raise ClusterError(
            f"{error} A task is given up when so many workers have died in it "
            "(distributed.scheduler.allowed-failures). Mostly a partition is too large for the memory of a "
            "worker: make partitions smaller, or give workers more memory."
        ) from error
    except (FutureCancelledError, CancelledError, CommClosedError, TimeoutError) as error:
        raise ClusterError(
            f"The work on the cluster was ended from outside ({error}): the scheduler or the client was "
            "closed, or somebody cancelled its tasks. Fit again on a cluster that stays; with checkpoint=... "
            "a fit resumes where it was."
        ) from error


@contextlib.contextmanager
def large_graphs() -> Iterator[None]:
    """Factors are sent as part of a graph, so that they can be made again: no reason to warn."""
    import dask

    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "100GB"}):
        yield
