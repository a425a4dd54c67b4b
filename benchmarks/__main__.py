"""``python -m benchmarks`` (or ``make bench``): every benchmark in turn."""

from __future__ import annotations

from benchmarks import bibtex_fit, startup, threshold_sweep, unlabelled_fit


def main() -> int:
    """Run all; the number of benchmarks that exceeded a limit."""
    exceeded = 0
    for benchmark in (startup, threshold_sweep, bibtex_fit, unlabelled_fit):
        print(f"== {benchmark.__name__.rpartition('.')[2]}", flush=True)
        exceeded += benchmark.main() if benchmark is startup else benchmark.main([])
    return exceeded


if __name__ == "__main__":
    raise SystemExit(main())
