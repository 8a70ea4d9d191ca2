"""Small tables for notebooks: plain HTML, escaped, with nothing loaded from anywhere."""

from __future__ import annotations

from html import escape

_CELL = 'style="text-align:left;padding:0 1em 0 0"'


def table(title: str, rows: list[tuple[str, object]]) -> str:
    """Names and values in two columns, under a title."""
    body = "".join(
        f"<tr><th {_CELL}>{escape(name)}</th><td {_CELL}>{escape(str(value))}</td></tr>" for name, value in rows
    )
    return f"<table><caption {_CELL}><b>{escape(title)}</b></caption><tbody>{body}</tbody></table>"


def size(n: int) -> str:
    """Bytes for people: "1.5 MiB"."""
    value, unit = float(n), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{n} bytes" if unit == "bytes" else f"{value:,.1f} {unit}"
