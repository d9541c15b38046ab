"""An extension of Griffe for the reference (https://mkdocstrings.github.io/griffe/).

It turns citations of pages in docstrings into links. A citation of a missing page or heading stops the build.
"""

import re
from typing import Any

import griffe

from tests.site.cited import CITED, DOCS, cited, headings


class Reference(griffe.Extension):
    """Adds links to docstrings."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Turn the docstring's citations into links."""
        if obj.docstring is not None:
            obj.docstring.value = CITED.sub(_linked, obj.docstring.value)


def _linked(match: re.Match[str]) -> str:
    page, heading = cited(match)
    known = headings(DOCS / f"{page}.md")
    if heading is None:
        return f"[{next(iter(known))}](../{page}.md)"
    rest = " ".join(match["after"].split())[len(heading) :]
    return f"[{heading}](../{page}.md#{known[heading]}){rest}"
