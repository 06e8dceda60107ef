"""A Griffe extension for the roles and literal blocks of docstrings, which Markdown writes in another way."""

import re
from typing import Any

from griffe import Extension

ROLE = re.compile(r":[a-z:]+:`~?([^`]+)`")

LITERAL = re.compile(r"(^|\S)::$", re.MULTILINE)
"""End of a line before an indented block of code; alone on its line, or after a word."""


class DocstringRoles(Extension):
    """Replaces ``:class:`~package.Name``` by the name in code style, and ``::`` before code by a colon or nothing."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Change the docstring of an object that was read."""
        if obj.docstring is not None:
            text = ROLE.sub(lambda role: f"`{role[1].rpartition('.')[2]}`", obj.docstring.value)
            obj.docstring.value = LITERAL.sub(lambda end: f"{end[1]}:" if end[1] else "", text)
