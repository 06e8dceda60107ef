"""A MkDocs hook for links to files of the repository: the site does not hold these files, so it shows their paths."""

import os.path
import re
from pathlib import Path
from typing import Any

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\./[^()\s#]+)\)")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Replace links that lead out of the documentation by the path in the repository; one that is missing is kept."""
    docs = Path(config["docs_dir"])
    folder = docs / Path(page.file.src_uri).parent

    def shown(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(folder / link[2]))
        if target.is_relative_to(docs) or not target.exists():
            return link[0]
        path = target.relative_to(docs.parent).as_posix()
        return link[1] if target.name in link[1] else f"{link[1]} (`{path}`)"

    return LINK.sub(shown, markdown)
