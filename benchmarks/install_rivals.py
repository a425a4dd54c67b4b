"""Install the rivals into the environment that runs this: ``python -m benchmarks.install_rivals``.

One by one, each with the flags that it needs. One that fails is named with the reason, and the others go on;
the benchmarks then say that it is missing. Already installed ones are left as they are.
"""

from __future__ import annotations

import subprocess
import sys

# What is installed, and the calls of pip that are tried in turn.
STEPS: dict[str, tuple[str, ...]] = {
    "implicit": ("implicit>=0.7.2",),
    "xcolumns": ("xcolumns",),
    # Its setup.py is from before isolated builds.
    "a setuptools for lightfm": ("setuptools<70 wheel",),
    "lightfm": ("lightfm --no-build-isolation --no-use-pep517", "lightfm"),
}


def install(calls: tuple[str, ...]) -> str | None:
    """None, or the line of pip's output that says why the last call failed."""
    said = None
    for call in calls:
        command = ["pip", "install", "--disable-pip-version-check", "--quiet", *call.split()]
        done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True)
        if done.returncode == 0:
            return None
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["no message"]
        said = next((line for line in lines if line.lower().startswith("error")), lines[-1])
    return said


def main() -> int:
    """Install all rivals that can be installed; always 0, so that these can be measured."""
    for what, calls in STEPS.items():
        print(f"{what} ...", flush=True)
        failure = install(calls)
        if failure is not None:
            print(f"  failed: {failure}", flush=True)
    # In a fresh process, in which the new packages are visible.
    script = "from benchmarks import rivals\nfor name in rivals.MODULES: print(rivals.missing(name) or name)"
    subprocess.run([sys.executable, "-c", script], check=False)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
