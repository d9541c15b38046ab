"""Hooks for MkDocs (https://www.mkdocs.org/user-guide/configuration/#hooks).

The pages link to files of the repository that are not on the site and have no public address yet. The site shows only
the text of such a link. Dead links stay, so that MkDocs rejects them.
"""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]\n]+(?:\n[^\]\n]+)?)\]\((?P<to>\.\./[^)#\s]+)(?:#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the page without its links to files outside docs/."""
    folder = (DOCS / page.file.src_uri).parent
    return _LINK.sub(lambda link: _without(folder, link), markdown)


def _without(folder: Path, link: re.Match[str]) -> str:
    target = (folder / link["to"]).resolve()
    is_outside = target.is_relative_to(ROOT) and not target.is_relative_to(DOCS)
    return link["text"] if is_outside and target.exists() else link[0]
