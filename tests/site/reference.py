"""An extension of Griffe for the reference (https://mkdocstrings.github.io/griffe/).

It turns citations of pages in docstrings into links, and gives msgspec structs the signatures of their constructors. A
citation of a missing page or heading stops the build.
"""

import re
from typing import Any

import griffe

from tests.site.cited import CITATION, DOCS, headings, resolve_citation


class Reference(griffe.Extension):
    """Adds links to docstrings, and signatures to structs."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Add the constructor of a struct. Griffe knows only those of dataclasses."""
        if not any(str(base) == "Struct" for base in cls.bases):
            return
        attributes = [attribute for attribute in cls.attributes.values() if attribute.annotation is not None]
        fields = [attribute for attribute in attributes if not attribute.has_labels("property")]
        kind = griffe.ParameterKind.positional_or_keyword
        parameters = [
            griffe.Parameter(field.name, annotation=field.annotation, kind=kind, default=field.value)
            for field in fields
        ]
        constructor = griffe.Function("__init__", parameters=griffe.Parameters(griffe.Parameter("self"), *parameters))
        cls.set_member("__init__", constructor)

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Turn the docstring's citations into links."""
        if obj.docstring is not None:
            obj.docstring.value = CITATION.sub(_link, obj.docstring.value)


def _link(match: re.Match[str]) -> str:
    page, heading = resolve_citation(match)
    titles = headings(DOCS / f"{page}.md")
    if heading is None:
        return f"[{next(iter(titles))}](../{page}.md)"
    rest = " ".join(match["after"].split())[len(heading) :]
    return f"[{heading}](../{page}.md#{titles[heading]}){rest}"
