"""Kernels are compiled once and kept for later processes, and give the same digits in all of them.

Where no folder can be written they are compiled in every process, and what needs no kernel compiles none.
"""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import labelgap.kernels
from labelgap import LowRankClassifier, save

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
TWO_THRESHOLDS = """
import labelgap
scores = [[0.1], [0.4], [0.8]]
print(labelgap.best_threshold(scores, [[0], [1], [1]], "micro-f1").value)
print(labelgap.best_threshold(scores, [[0], [1], [0]], "micro-f1").value)
"""
PREDICTION = """
import sys
import labelgap
model = labelgap.load(sys.argv[1])
X = [[1.0, -2.0], [-1.0, 0.5]]
print(model.predict(X).shape, model.predict_proba(X).shape, model.predict(X, output="sparse").shape)
print("numba" in sys.modules)
"""


def compiled_functions():
    """From the name of each compiled function whose sums may be reassociated, to its options and its body."""
    found = {}
    for path in KERNELS:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.decorator_list:
                options = ast.unparse(node.decorator_list[0])
                if options.startswith("compiled(") and ("OPTIONS" in options or "INLINED" in options):
                    found[node.name] = options, node
    return found


def test_what_kernels_call_is_part_of_them_and_every_kernel_can_do_without_a_cache():
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
    own = [path.name for path in KERNELS if "njit" in path.read_text(encoding="utf-8")]
    assert own == ["options.py"], "use the decorator compiled of kernels/options.py"


@pytest.mark.slow
def test_the_first_fit_has_the_digits_of_later_ones(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "LABELGAP_NUM_THREADS": "2"}
    command = [sys.executable, "-W", "ignore", "-c", FITS]
    first, second = (
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert any(tmp_path.rglob("*.nbc"))
    assert first == second


@pytest.fixture
def run_without_cache(tmp_path):
    """Runs a program with the package in another folder, in which nothing that is compiled can be kept."""
    ours, theirs = Path(labelgap.__file__).parent, tmp_path / "packages" / "labelgap"
    theirs.mkdir(parents=True)
    for part in ours.iterdir():
        if part.name not in ("kernels", "__pycache__"):
            (theirs / part.name).symlink_to(part)
    shutil.copytree(ours / "kernels", theirs / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    for taken in (theirs / "kernels" / "__pycache__", tmp_path / "no home"):
        taken.touch()
    environment = os.environ | {"PYTHONPATH": str(theirs.parent), "HOME": str(tmp_path / "no home")}
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        environment.pop(name, None)

    def run(program, *arguments, warnings):
        command = [sys.executable, "-W", warnings, "-c", program, *map(str, arguments)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        assert not any(theirs.rglob("*.nb*"))
        return done

    return run


def test_without_a_folder_for_the_cache_a_process_compiles_and_warns_once(run_without_cache):
    done = run_without_cache(TWO_THRESHOLDS, warnings="default")
    assert (done.returncode, done.stdout.split()) == (0, ["1.0", "0.6666666666666666"]), done.stderr
    assert done.stderr.count("KernelCacheWarning") == 1
    assert "NUMBA_CACHE_DIR" in done.stderr
    # In the name of the program's own line, not of an import inside the package.
    assert done.stderr.startswith("<string>:4: KernelCacheWarning")


def test_a_linear_model_is_loaded_and_predicts_without_the_compiler(run_without_cache, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2))
    model = LowRankClassifier(metric="micro-f1", trace_penalty=0.02, ridge_penalty=0.0, random_state=0)
    save(model.fit(X, (X @ rng.standard_normal((2, 3)) > 0).astype(float)), tmp_path / "m.labelgap")
    done = run_without_cache(PREDICTION, tmp_path / "m.labelgap", warnings="error")
    assert done.stdout.splitlines() == ["(2, 3) (2, 3) (2, 3)", "False"], done.stderr
