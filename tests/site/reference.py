"""What the reference makes of the code besides what Griffe does (https://mkdocstrings.github.io/griffe/).

`mcp_baton.light_dataclasses` stands for the standard library's decorator, which Griffe knows by name. And docstrings
cite pages: the reference links there. A page or heading that is not there stops the build.
"""

import re
from typing import Any

import griffe

from tests.site.cited import CITED, DOCS, cited, headings

_LIGHT, _STANDARD = "mcp_baton.light_dataclasses.dataclass", "dataclasses.dataclass"


class Reference(griffe.Extension):
    """The two changes."""

    def on_alias_instance(self, *, alias: griffe.Alias, **_: Any) -> None:
        """See the standard library's decorator in ours."""
        if alias.target_path == _LIGHT:
            alias.target_path = _STANDARD

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
