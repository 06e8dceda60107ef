"""Pages of results: self-contained HTML files, which need no server or network."""

import base64
import html
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from string import Template
from urllib.parse import quote

from ..core import scratch_folder, write_durably
from .plots import darkened


def write_page(path: Path, title: str, lead: str, sections: Iterable[str], notes: str) -> Path:
    """Write a page atomically to ``path`` and return ``path``.

    Args:
        path: HTML file.
        title: title of the page.
        lead: line below the title.
        sections: HTML of the sections, in order.
        notes: explanations at the end of the page.
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
    """Return an HTML table.

    Args:
        header: text of the header cells.
        rows: text of the cells of each row.
        numbers_from: first column of numbers, which are aligned to the right.
        keyed: whether the first column holds keys.
    """

    def kind(column: int) -> str:
        return ' class="key"' if keyed and column == 0 else ' class="number"' if column >= numbers_from else ""

    head = "".join(f"<th{kind(column)}>{html.escape(cell)}</th>" for column, cell in enumerate(header))
    body = "".join(
        "<tr>" + "".join(f"<td{kind(column)}>{html.escape(cell)}</td>" for column, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def figure(draw: Callable[[Path], Path], about: str) -> str:
    """Return the HTML of an embedded picture in a light and a dark version.

    Args:
        draw: draws the picture in the theme ``LIGHT`` to a file (.svg), and returns the file.
        about: description of the picture.
    """
    with scratch_folder() as folder:
        plot = draw(Path(folder, "plot.svg")).read_text(encoding="utf-8")
    light, dark = (data_url(version.encode(), "image/svg+xml") for version in (plot, darkened(plot)))
    source = f'<source media="(prefers-color-scheme: dark)" srcset="{dark}">'
    return f'<figure><picture>{source}<img src="{light}" alt="{html.escape(about)}"></picture></figure>'


def relative(target: Path, page: Path) -> str:
    """Return the address of the file ``target`` in ``page``."""
    return quote(Path(os.path.relpath(target.resolve(), page.resolve().parent)).as_posix())


def data_url(data: bytes, kind: str) -> str:
    """Return ``data`` as a data URL of media type ``kind``."""
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"
