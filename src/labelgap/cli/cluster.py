"""``labelgap fit --cluster``: Parquet folders that need not fit into memory, on a Dask cluster."""

from __future__ import annotations

import contextlib
import logging
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from labelgap.cli.choices import choose_setting, option_name
from labelgap.cli.options import Setting
from labelgap.cli.training import Training
from labelgap.data.files.choosing import choose_columns, require_column
from labelgap.exceptions import ClusterError, DataFileError

_PANEL = "Cluster"
# Seconds in which a scheduler is to answer.
_PATIENCE = 10.0

Cluster: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="local|ADDRESS",
        rich_help_panel=_PANEL,
        show_default=False,
        help="Fit with Dask (pip install 'labelgap\\[dask]'): on processes of this machine (local), or on "
        "the cluster whose scheduler is at tcp://... DATA is a Parquet file or a folder of such, and may be "
        "larger than memory.",
    ),
]
Workers: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        rich_help_panel=_PANEL,
        show_default="one per core",
        help="With --cluster local: the number of processes, of one thread each.",
    ),
]
WorkerMemory: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--worker-memory",
        metavar="SIZE",
        rich_help_panel=_PANEL,
        show_default="a part of the machine's",
        help="With --cluster local: the memory of each process, such as 2GB; beyond it data go to the disk.",
    ),
]

# Bytes with which a worker can work at all.
LEAST_WORKER_MEMORY = 600e6
# Options that mean the same on a cluster.
_COMMON = ("metric", "loss", "unobserved", "rank", "trace_penalty", "tol", "threshold")
_USED = {
    Setting.features: (*_COMMON, "ridge_penalty", "device", "labels", "features", "id", "drop"),
    Setting.recommender: (*_COMMON, "positive", "user", "item", "value"),
}


def check_cluster_options(cluster: str | None, workers: int | None, memory: str | None) -> None:
    """Wrong usage if options of a local cluster were given for none, or for another one."""
    for option, given in (("--workers", workers), ("--worker-memory", memory)):
        if given is not None and cluster != "local":
            raise typer.BadParameter("it is for --cluster local.", param_hint=f"'{option}'")


@contextlib.contextmanager
def opened_cluster(address: str, workers: int | None, memory: str | None) -> Iterator[Any]:
    """A client of the cluster; a local one lasts as long as the command."""
    from labelgap.distributed.clients import FEWER_TIMERS, memory_settings, require_dask

    require_dask()
    import dask
    import distributed
    from dask.utils import parse_bytes

    # Its constructors have no types.
    library: Any = distributed
    if address != "local":
        try:
            client = library.Client(address, timeout=_PATIENCE)
        except (OSError, ValueError, TimeoutError) as error:
            raise ClusterError(
                f"There is no Dask scheduler at {address} ({error}). Give its address, such as "
                "tcp://10.0.0.5:8786, or --cluster local."
            ) from error
        with client:
            yield client
        return
    options: dict[str, Any] = {
        "n_workers": workers or len(os.sched_getaffinity(0)),
        "threads_per_worker": 1,
        "memory_limit": memory or "auto",
        "dashboard_address": ":0",
        "silence_logs": logging.ERROR,
    }
    try:
        limit = math.inf if memory is None else float(parse_bytes(memory))
        if limit < LEAST_WORKER_MEMORY:
            raise ValueError(
                f"{memory} is too little: a worker takes some 420 MB for itself. Give it 1GB or more."
            )
        held = {} if memory is None else memory_settings(limit)
        # Workers take the settings of the process that starts them.
        with dask.config.set({**FEWER_TIMERS, **held}):
            cluster = library.LocalCluster(**options)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--worker-memory'") from error
    with cluster, library.Client(cluster) as client:
        yield client


@dataclass
class ClusterJob:
    """A fit on a cluster: the estimator, what it is fitted to, and the model that is saved."""

    model: Any
    training: Training
    _local: Any = field(default=None)

    def fit(self, *arguments: Any, **options: Any) -> None:
        """Fit, and bring the model to this machine while the cluster is there."""
        self.model.fit(*arguments, **options)
        self._local = self.model.to_local()

    def local(self) -> Any:
        """The fitted model for one machine."""
        return self._local

    def described(self) -> Training:
        """The data, once they have been read."""
        return Training((), self.model.data_facts_)


class _FitsThenFetches:
    """An estimator whose fit also fetches the model; everything else is the estimator's."""

    def __init__(self, job: ClusterJob) -> None:
        self._job = job

    def fit(self, *arguments: Any, **options: Any) -> None:
        self._job.fit(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._job.model, name)


def cluster_job(
    client: Any, data: Path, setting: Setting, given: Mapping[str, Any], seed: int, format: str | None
) -> ClusterJob:
    """The estimator and the data, as the options in ``given`` say."""
    from labelgap.distributed import DaskLowRankClassifier, DaskRecommender

    chosen = choose_setting(setting, given, ratings_file=False)
    if chosen is Setting.regression:
        raise typer.BadParameter(
            "regression runs on one machine only; leave it out.", param_hint="'--cluster'"
        )
    _refuse_unused(chosen, given)
    _refuse_other_formats(data, format)
    options = {
        name: given[name]
        for name in _USED[chosen]
        if given.get(name) is not None and name not in ("labels", "features", "id", "drop")
    }
    if chosen is Setting.recommender:
        model = DaskRecommender(random_state=seed, client=client, **options)
        return ClusterJob(model, Training((str(data),), {}))
    frame, labels = _columns(data, given)
    model = DaskLowRankClassifier(random_state=seed, client=client, **options)
    return ClusterJob(model, Training((frame, labels), {}))


def fitting(job: ClusterJob) -> Any:
    """What the display fits: the model is fetched at the end, while the cluster is still there."""
    return _FitsThenFetches(job)


def _refuse_unused(setting: Setting, given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if value is not None and name not in _USED[setting]:
            raise typer.BadParameter(
                f"it has no use with --cluster in the setting {setting.value!r}. Leave it out, or fit on one "
                "machine.",
                param_hint=f"'{option_name(name)}'",
            )


def _refuse_other_formats(data: Path, format: str | None) -> None:
    parquet = data.is_dir() or data.suffix in (".parquet", ".pq") or format == "parquet"
    if not parquet:
        raise DataFileError(
            f"{data}: with --cluster the data are a Parquet file or a folder of such files, which workers "
            "can read in pieces. Convert the file, or fit on one machine."
        )


def _columns(data: Path, given: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """The table, without columns that are neither features nor labels, and the names of the labels."""
    from labelgap.distributed.inputs import read_parquet_folder

    if given["labels"] is None:
        raise DataFileError(
            f"{data}: which columns are labels? Say it with --labels, as in --labels 'tag_*'."
        )
    frame = read_parquet_folder(data)
    names = [str(name) for name in frame.columns]
    taken: dict[str, str] = {}
    if given["id"] is not None:
        require_column(data, names, given["id"], "the ids (--id)")
        taken[given["id"]] = "the id column"
    else:
        taken |= {name: "the id column" for name in names if name.lower() == "id"}
    for name in choose_columns(data, names, given["drop"] or (), "--drop", taken):
        taken[name] = "dropped"
    labels = list(choose_columns(data, names, given["labels"], "labels", taken))
    taken |= dict.fromkeys(labels, "a label")
    features = [name for name in names if name not in taken]
    if given["features"] is not None:
        features = list(choose_columns(data, names, given["features"], "features", taken))
    if not features:
        raise DataFileError(f"{data} has no features besides its labels.")
    return frame[[*features, *labels]], labels
