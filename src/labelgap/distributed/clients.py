"""The cluster that the work runs on: its client, and its errors in words that say what to do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from labelgap._warn import warn
from labelgap.distributed.keeping import OWN_MEMORY
from labelgap.exceptions import ClusterError, InvalidParameterError, LabelgapWarning, MissingExtraError


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


def memory_settings(limit: float) -> dict[str, float]:
    """Settings of Dask for workers with so many bytes of memory: how much of it data may take.

    Dask's own settings are fractions of the whole limit: data go to the disk when they take 60 % of it, and
    workers wait for memory at 80 %. A process takes some memory for itself, which counts where the limit is
    small: a worker that waits for memory that it will never have does not go on. So here they are fractions
    of what is left.

    Examples
    --------
    >>> {name.split(".")[-1]: round(value, 2) for name, value in memory_settings(750e6).items()}
    {'target': 0.15, 'spill': 0.87, 'pause': 0.93, 'terminate': 0.98}
    """
    free = max(0.0, 1.0 - OWN_MEMORY / limit)
    memory = "distributed.worker.memory."
    return {
        # What data may take; the rest is for what partitions keep beside them, and for tasks at work.
        memory + "target": max(0.02, 0.35 * free),
        memory + "spill": 1.0 - 0.3 * free,
        memory + "pause": 1.0 - 0.15 * free,
        memory + "terminate": 1.0 - 0.05 * free,
    }


FEWER_TIMERS = {
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.worker.profile.enabled": False,
}
"""Settings of Dask for a cluster on one machine, whose scheduler and client share the cores with the workers.

By default each of these processes looks at the clock fifty times a second, and workers note a hundred times a
second where they are, which takes time from the tasks. Without that only the dashboard shows less.
"""


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


# Seconds of a round after which somebody looks whether workers wait for memory.
_PATIENCE = 60.0


def wait_for(client: Any, futures: Any) -> None:
    """Wait until the tasks have ended, well or not; say so where every worker waits for memory."""
    import distributed

    # It has no types.
    wait: Any = distributed.wait
    warned = False
    while True:
        try:
            # Also where the client is not the default one.
            with client.as_current():
                wait(futures, timeout=_PATIENCE)
            return
        except TimeoutError:
            workers = client.scheduler_info(n_workers=-1)["workers"].values()
            if not warned and workers and all(worker["status"] == "paused" for worker in workers):
                warned = True
                warn(
                    f"All {len(workers)} workers of the cluster wait for memory (distributed.worker.memory."
                    f"pause), and the fit does not go on. A worker takes some {OWN_MEMORY / 1e6:.0f} MB for "
                    "itself and a few times the size of a partition: give workers more memory, or make "
                    "partitions smaller.",
                    LabelgapWarning,
                )
