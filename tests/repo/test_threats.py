"""docs/threats.md: each threat says who, what stops it, which tests try it and what is left.

`tests/site/test_links.py` checks that the linked tests exist.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "threats.md"
FIELDS = ["Who", "What stops it", "Tests", "What is left"]
LINK = re.compile(r"\[([^\]]+)\]\((\.\./tests/[^)#]+)\)")


def threats() -> dict[str, str]:
    """The page's threats, by title."""
    _, *parts = re.split(r"^### ", PAGE.read_text(), flags=re.MULTILINE)
    return {part.partition("\n")[0]: part.partition("\n")[2].partition("\n## ")[0] for part in parts}


def test_a_threat_has_its_four_fields_and_links_to_tests() -> None:
    assert threats()
    for title, text in threats().items():
        fields = dict(re.findall(r"^- \*\*([^*]+):\*\* (.+?)(?=\n- \*\*|\Z)", text, re.MULTILINE | re.DOTALL))

        assert [*fields] == FIELDS, title
        assert LINK.search(fields["Tests"]), title


def test_a_test_file_that_is_there_is_linked_to_and_not_only_named() -> None:
    named = set(re.findall(r"`(tests/[\w/]+\.py)`", PAGE.read_text()))

    assert {path for path in named if (ROOT / path).exists()} == set()
