"""``python -m benchmarks.page``: put the figures of the last run into ``docs/performance.md``.

The page has a place for each benchmark, between ``<!-- NAME -->`` and ``<!-- /NAME -->``. The text there
is made from the JSON file of that name; the rest is written by hand. Figures of aarch64, which are in a
folder of that name, have places of their own, ``<!-- aarch64/NAME -->``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from benchmarks.__main__ import BENCHMARKS
from benchmarks.harness import RESULTS, bounds_text, markdown_table

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"


def section(report: dict[str, Any]) -> str:
    """A report as Markdown."""
    parts = [report["method"], markdown_table(report), f"Bounds in this run: {bounds_text(report)}."]
    parts += [f"- {remark}" for remark in report["remarks"]]
    return "\n\n".join(parts)


def filled(page: str, folder: Path = RESULTS) -> str:
    """The page with all figures that have been measured."""
    # A GPU has a benchmark of its own, on a machine of its own.
    for name in (*BENCHMARKS, "gpu", *(f"aarch64/{name}" for name in BENCHMARKS)):
        path = folder / f"{name}.json"
        if not path.exists():
            continue
        text = section(json.loads(path.read_text()))
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        page = pattern.sub(lambda found, text=text: f"{found[1]}\n{text}\n\n{found[2]}", page)
    return page


def main() -> int:
    """Rewrite the page."""
    PAGE.write_text(filled(PAGE.read_text()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
