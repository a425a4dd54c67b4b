"""Install the rivals into the environment that runs this: ``python -m benchmarks.install_rivals``.

One by one, each with the flags that it needs. One that fails is named with the reason, and the others go on;
the benchmarks then say that it is missing. Already installed ones are left as they are.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.rivals import (
    cmfrec_als,
    cvxpy_scs,
    fancyimpute_soft,
    implicit_als,
    implicit_lmf,
    libmf_logistic,
    libmultilabel_linear,
    lightfm_logistic,
    sklearn_curve,
    sklearn_logistic,
    xcolumns_macro,
)

RIVALS = (
    sklearn_logistic,
    sklearn_curve,
    libmultilabel_linear,
    libmf_logistic,
    implicit_lmf,
    implicit_als,
    lightfm_logistic,
    cmfrec_als,
    xcolumns_macro,
    fancyimpute_soft,
    cvxpy_scs,
)
# As libmf's own Makefile builds it. Its package sets none of them, and is half as fast without.
_LIBMF_FLAGS = "-O3 -march=native -DUSESSE -DUSEOMP -fopenmp -pthread"


@dataclass(frozen=True)
class Step:
    """One call of pip."""

    what: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    otherwise: tuple[str, ...] = ()
    """The call to try if this one fails."""


STEPS = (
    # fancyimpute names a parameter that later versions do not have.
    Step("scikit-learn", ("scikit-learn>=1.6,<1.8",)),
    Step("implicit", ("implicit>=0.7.2",)),
    Step("xcolumns", ("xcolumns",)),
    Step("fancyimpute", ("fancyimpute>=0.7",)),
    Step("cvxpy and SCS", ("cvxpy>=1.5", "scs>=3.2")),
    Step(
        "liblinear-multicore", ("liblinear-multicore", "sparsekmeans", "psutil", "PyYAML", "tqdm", "pandas")
    ),
    # All that its linear half needs is in the step before; its own list may pin older versions.
    Step("libmultilabel", ("libmultilabel", "--no-deps")),
    Step(
        "libmf",
        ("libmf", "--no-binary", "libmf", "--no-cache-dir"),
        {"CFLAGS": _LIBMF_FLAGS, "CXXFLAGS": _LIBMF_FLAGS, "LDFLAGS": "-fopenmp"},
        ("libmf",),
    ),
    # Its setup.py is from before isolated builds.
    Step("a setuptools for lightfm", ("setuptools<70", "wheel")),
    Step("lightfm", ("lightfm", "--no-build-isolation", "--no-use-pep517"), {}, ("lightfm",)),
    Step("what cmfrec is built with", ("cython", "findblas")),
    Step("cmfrec (some minutes)", ("cmfrec", "--no-build-isolation"), {}, ("cmfrec",)),
)


def install(step: Step) -> str | None:
    """None, or the last line of pip's output if it failed."""
    said = None
    for arguments, extra in ((step.arguments, step.environment), (step.otherwise, {})):
        if not arguments:
            break
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--quiet",
            *arguments,
        ]
        done = subprocess.run(command, env={**os.environ, **extra}, capture_output=True, text=True)
        if done.returncode == 0:
            return None
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        said = next(
            (line for line in lines if line.lower().startswith("error")), (lines or ["no message"])[-1]
        )
    return said


def main() -> int:
    """Install all rivals that can be installed; always 0, so that these can be measured."""
    for step in STEPS:
        print(f"{step.what} ...", flush=True)
        failure = install(step)
        if failure is not None:
            print(f"  failed: {failure}", flush=True)
    missing = [line for line in _checked() if line]
    print("\n".join(missing) if missing else f"all {len(RIVALS)} rivals can run")
    return 0


def _checked() -> list[str]:
    """Whether each rival can run, from a fresh process in which the new packages are visible."""
    modules = ", ".join(rival.__name__ for rival in RIVALS)
    script = f"import {modules}\nfor r in ({modules},): print(r.unavailable() or '')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else [done.stderr.strip()]


if __name__ == "__main__":
    raise SystemExit(main())
