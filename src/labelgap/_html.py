"""Small pieces of HTML that notebooks show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def table(header: Sequence[object], rows: Iterable[Sequence[object]], caption: str | None = None) -> str:
    """A table; the first column holds names, the others what belongs to them.

    Examples
    --------
    >>> table(["label", "yes"], [["a<b", 3]])
    '<table><thead><tr><th>label</th><th>yes</th></tr></thead><tbody><tr><th>a&lt;b</th><td>3</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(str(name))}</th>" for name in header)
    head = f"<thead><tr>{head}</tr></thead>" if header else ""
    body = "".join(
        f"<tr><th>{escape(str(first))}</th>{''.join(f'<td>{escape(str(one))}</td>' for one in rest)}</tr>"
        for first, *rest in rows
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}{head}<tbody>{body}</tbody></table>"


def paragraph(text: str) -> str:
    """A paragraph.

    Examples
    --------
    >>> paragraph("3 > 2")
    '<p>3 &gt; 2</p>'
    """
    return f"<p>{escape(text)}</p>"
