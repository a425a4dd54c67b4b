"""What tests of several folders share."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from labelgap.kernels.gpu.device import has_cuda, has_torch
from pairwise import mark_the_rest_slow

# Some versions of Triton warn where this is not said, and warnings are errors here.
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

# The suite draws the same few examples each time, so that it passes or fails for what changed.
# `make test-slow` draws more, and new ones: HYPOTHESIS_PROFILE=random. How long one takes says nothing
# on a machine that has other work.
settings.register_profile("repeatable", derandomize=True, max_examples=40, deadline=None)
settings.register_profile("random", derandomize=False, print_blob=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let the second process of pytest-xdist import the test modules from the last one on.

    Assertions are rewritten when a module is imported for the first time, and kept with its byte code. Two
    processes that go through the modules in the same order would both rewrite all of them.
    """
    here = Path(__file__).parent
    whole = [Path(argument).resolve() for argument in session.config.args] == [here]
    if os.environ.get("PYTEST_XDIST_WORKER") != "gw1" or not whole or sys.dont_write_bytecode:
        return
    for path in sorted(here.rglob("test_*.py"), reverse=True):
        if (path.parent / "__init__.py").exists():
            continue
        if str(path.parent) not in sys.path:
            sys.path.insert(0, str(path.parent))
        # What cannot be imported is told of when it is collected.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(path.stem)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what decorators leave no place to mark as slow, and skip what needs torch or a GPU.

    What needs torch is seen by a global of the module, a fixture, or a parameter that is its name.
    """
    mark_the_rest_slow(items)
    for item in items:
        if _takes_torch(item):
            item.add_marker(pytest.mark.torch)
        if item.get_closest_marker("torch") is not None and not has_torch():
            item.add_marker(pytest.mark.skip(reason="needs torch, which is not installed"))
        if item.get_closest_marker("gpu") is not None and not has_cuda():
            item.add_marker(pytest.mark.skip(reason="needs a GPU that torch can use, and there is none here"))


def _takes_torch(item: pytest.Item) -> bool:
    settings = getattr(getattr(item, "callspec", None), "params", {}).values()
    return (
        hasattr(getattr(item, "module", None), "torch")
        or "torch" in getattr(item, "fixturenames", ())
        or any(isinstance(one, str) and one in ("torch", "torch-cpu") for one in settings)
        or item.path.parent.name == "kernels_gpu"
    )


def pytest_collection_finish() -> None:
    """Exempt what was imported and collected from garbage collection: going through all of it takes long."""
    gc.freeze()


@pytest.fixture(scope="session")
def torch() -> Any:
    """torch itself; tests that take it are skipped where it is not installed."""
    return importlib.import_module("torch")


@pytest.fixture
def default_interrupts() -> Iterator[None]:
    """Interrupts as Python handles them, here and in the processes that a test starts.

    Whoever runs the tests may ignore them, as shells do for what they run in the background.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
