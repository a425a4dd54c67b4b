"""Kernels give the same digits in the process that compiles them and in later ones, which read the cache."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import labelgap.kernels

KERNELS = sorted(Path(labelgap.kernels.__file__).parent.glob("*.py"))
FITS = """
import hashlib

import numpy as np

from labelgap import LowRankClassifier, Recommender
from labelgap.labels import ObservedLabels

rng = np.random.default_rng(0)
Z = rng.standard_normal((300, 3)) @ rng.standard_normal((3, 120))
Y = np.where(rng.random(Z.shape) < 0.3, Z + rng.standard_normal(Z.shape) > 0, np.nan)
settings = {"ridge_penalty": 0.0, "threshold": "train", "random_state": 0}
found = hashlib.sha256()
for rank in (8, 20):
    model = Recommender(trace_penalty=1e-4, solver="alternating", rank=rank, max_iter=4, **settings)
    model.fit(ObservedLabels.from_dense(Y))
    found.update(np.ascontiguousarray(model.user_factors_).tobytes())
    found.update(np.ascontiguousarray(model.item_intercept_).tobytes())
X = rng.standard_normal((300, 10))
model = LowRankClassifier(trace_penalty=1e-3, intercept_penalty=0.0, **settings).fit(X, Y[:, :20])
found.update(np.ascontiguousarray(model.coef_).tobytes())
print(found.hexdigest())
"""


def compiled_functions():
    """From the name of each compiled function whose sums may be reassociated, to its options and its body."""
    found = {}
    for path in KERNELS:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.decorator_list:
                options = ast.unparse(node.decorator_list[0])
                if options.startswith("njit(") and ("OPTIONS" in options or "INLINED" in options):
                    found[node.name] = options, node
    return found


def test_what_kernels_call_is_part_of_them():
    functions = compiled_functions()
    assert len(functions) > 30
    called = {
        call.func.id
        for _, body in functions.values()
        for call in ast.walk(body)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in functions
    }
    apart = {name for name in called if "inline" not in functions[name][0].lower()}
    assert not apart, f"compile these with INLINED of kernels/options.py: {sorted(apart)}"


@pytest.mark.slow
def test_the_first_fit_has_the_digits_of_later_ones(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "LABELGAP_NUM_THREADS": "2"}
    first, second = (
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", FITS],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    )
    assert any(tmp_path.rglob("*.nbc"))
    assert first == second
