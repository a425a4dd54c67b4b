"""Reports as tables: plain text for the terminal, Markdown for the documentation."""

from __future__ import annotations

from typing import Any

COLUMNS = ("what", "size", "seconds", "ratio", "target", "met", "the machine's bound")


def columns(line: dict[str, Any]) -> tuple[str, ...]:
    """One line of a report as text."""
    ratio = "" if line["ratio"] is None else f"{number(line['ratio'])} {line['against']}".strip()
    met = {True: "yes", False: "no", None: ""}[line["met"]]
    bound = "" if line["bound_seconds"] is None else f"{number(line['bound_seconds'])} s ({line['bound']})"
    seconds = "" if line["seconds"] is None else number(line["seconds"])
    note = f" ({line['note']})" if line["note"] else ""
    return line["what"] + note, line["size"], seconds, ratio, line["target"], met, bound


def number(value: float) -> str:
    """Three significant digits."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def bounds_text(report: dict[str, Any]) -> str:
    """The speed limits of the machine in that run."""
    bounds = report["bounds"]
    if "text" in bounds:
        return str(bounds["text"])
    return (
        f"copy {bounds['copy_bytes_per_second'] / 1e9:.1f} GB/s, GEMM "
        f"{bounds['gemm_flops_single'] / 1e9:.0f} GFLOP/s single and "
        f"{bounds['gemm_flops_double'] / 1e9:.0f} double, {bounds['threads']} threads"
    )


def text_table(report: dict[str, Any]) -> str:
    """The report as a table for a terminal."""
    rows = [COLUMNS, *map(columns, report["lines"])]
    widths = [max(len(row[c]) for row in rows) for c in range(len(COLUMNS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([*lines, f"bounds: {bounds_text(report)}", *report["remarks"]])


def markdown_table(report: dict[str, Any]) -> str:
    """The report as a Markdown table."""
    rows = [COLUMNS, tuple("---" for _ in COLUMNS), *map(columns, report["lines"])]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
