"""One cluster inside the test's process serves all fast tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("distributed", reason="no Dask here: install the extra labelgap[dask]")


@pytest.fixture(scope="session")
def client() -> Iterator[Any]:
    from distributed import Client, LocalCluster

    options = {"processes": False, "n_workers": 1, "threads_per_worker": 2, "dashboard_address": ":0"}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        yield client
