"""What the reference makes of the code besides what Griffe does (https://mkdocstrings.github.io/griffe/).

Docstrings cite pages of docs/, and the reference links to them. A page or heading that does not exist stops the build.
"""

import re
from typing import Any

import griffe

from tests.site.cited import CITED, DOCS, cited, headings


class Reference(griffe.Extension):
    """Links in docstrings."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Link what the docstring cites."""
        if obj.docstring is not None:
            obj.docstring.value = CITED.sub(_linked, obj.docstring.value)


def _linked(match: re.Match[str]) -> str:
    page, heading = cited(match)
    known = headings(DOCS / f"{page}.md")
    if heading is None:
        return f"[{next(iter(known))}](../{page}.md)"
    rest = " ".join(match["after"].split())[len(heading) :]
    return f"[{heading}](../{page}.md#{known[heading]}){rest}"
