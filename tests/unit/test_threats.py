"""docs/threats.md: each threat says who, what stops it, which tests try it and what is left; those tests are there."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "threats.md"
SAYS = ["Who", "What stops it", "Tests", "What is left"]
LINK = re.compile(r"\[([^\]]+)\]\((\.\./tests/[^)#]+)\)")


def threats() -> dict[str, str]:
    """The page's threats, by title."""
    _, *parts = re.split(r"^### ", PAGE.read_text(), flags=re.MULTILINE)
    return {part.partition("\n")[0]: part.partition("\n")[2].partition("\n## ")[0] for part in parts}


def links() -> list[tuple[str, str]]:
    """The tests that the page links to: a test function in backticks or a description, and the file."""
    return [(re.sub(r"\s+", " ", text), path) for text, path in LINK.findall(PAGE.read_text())]


def functions(path: Path) -> set[str]:
    """The names of a Python file's functions."""
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_a_threat_says_who_what_stops_it_which_tests_try_it_and_what_is_left() -> None:
    assert threats()
    for title, text in threats().items():
        fields = dict(re.findall(r"^- \*\*([^*]+):\*\* (.+?)(?=\n- \*\*|\Z)", text, re.MULTILINE | re.DOTALL))

        assert [*fields] == SAYS, title
        assert LINK.search(fields["Tests"]), title


def test_a_test_that_is_linked_to_is_there() -> None:
    there = {path: functions(PAGE.parent / path) for path in {path for _, path in links()}}
    named = [(match[1], path) for text, path in links() if (match := re.fullmatch(r"`(test_\w+)`", text))]

    assert named
    assert [(name, path) for name, path in named if name not in there[path]] == []


def test_a_test_file_that_is_there_is_linked_to_and_not_only_named() -> None:
    named = set(re.findall(r"`(tests/[\w/]+\.py)`", PAGE.read_text()))

    assert {path for path in named if (ROOT / path).exists()} == set()
