"""Pages of results: one HTML file each, without a server or network."""

import base64
import html
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from string import Template

from ..core import write_durably
from .plots import DARK, LIGHT, Theme


def write_page(path: Path, title: str, lead: str, sections: Iterable[str], notes: str) -> Path:
    """Write a page to ``path``, at once for all who read it, and return ``path``.

    Args:
        path: HTML file.
        title: of the page.
        lead: line below it.
        sections: HTML, in their order.
        notes: what readers should know, at the end.
    """
    page = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8")).substitute(
        title=html.escape(title), lead=html.escape(lead), content="\n".join(sections), notes=html.escape(notes)
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, page.encode())
    return path


def section(title: str, content: str, boxed: bool = True) -> str:
    """Return a section with HTML ``content``."""
    inner = f'<div class="box">{content}</div>' if boxed else content
    return f"<h2>{html.escape(title)}</h2>\n{inner}"


def table(header: Iterable[str], rows: Iterable[Iterable[str]], numbers_from: int = 99, keyed: bool = False) -> str:
    """Return an HTML table of text; columns from ``numbers_from`` on are numbers, the first one may be a key."""

    def kind(column: int) -> str:
        return ' class="key"' if keyed and column == 0 else ' class="number"' if column >= numbers_from else ""

    head = "".join(f"<th{kind(column)}>{html.escape(cell)}</th>" for column, cell in enumerate(header))
    body = "".join(
        "<tr>" + "".join(f"<td{kind(column)}>{html.escape(cell)}</td>" for column, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def figure(draw: Callable[[Path, Theme], Path], about: str) -> str:
    """Return a picture in the page, for light and dark screens.

    Args:
        draw: draws it in a theme to a file (.svg), which it returns.
        about: what it shows.
    """
    with tempfile.TemporaryDirectory() as folder:
        plots = [draw(Path(folder, "plot.svg"), theme).read_bytes() for theme in (LIGHT, DARK)]
    light, dark = (data_url(plot, "image/svg+xml") for plot in plots)
    source = f'<source media="(prefers-color-scheme: dark)" srcset="{dark}">'
    return f'<figure><picture>{source}<img src="{light}" alt="{html.escape(about)}"></picture></figure>'


def data_url(data: bytes, kind: str) -> str:
    """Return the content of a file as an address that holds it."""
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"
