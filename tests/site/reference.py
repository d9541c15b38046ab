"""An extension of Griffe for the reference (https://mkdocstrings.github.io/griffe/).

It turns citations of pages in docstrings into links, and gives msgspec structs the signatures of their constructors. A
citation of a missing page or heading stops the build.
"""

import re
from typing import Any

import griffe

from tests.site.cited import CITED, DOCS, cited, headings


class Reference(griffe.Extension):
    """Adds links to docstrings, and signatures to structs."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Add the constructor of a struct. Griffe knows only those of dataclasses."""
        if not any(str(base) == "Struct" for base in cls.bases):
            return
        fields = [
            each for each in cls.attributes.values() if each.annotation is not None and not each.has_labels("property")
        ]
        kind = griffe.ParameterKind.positional_or_keyword
        parameters = [
            griffe.Parameter(each.name, annotation=each.annotation, kind=kind, default=each.value) for each in fields
        ]
        made = griffe.Function("__init__", parameters=griffe.Parameters(griffe.Parameter("self"), *parameters))
        cls.set_member("__init__", made)

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
