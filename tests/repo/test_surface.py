"""The names that `mcp_baton` exports. tests/site/test_site.py compares them with docs/reference/index.md."""

import re
import subprocess
import sys

import pytest

import mcp_baton
from mcp_baton import exceptions, public


def test_every_public_name_can_be_imported() -> None:
    assert mcp_baton.__all__
    assert {name for name in mcp_baton.__all__ if hasattr(mcp_baton, name)} == set(mcp_baton.__all__)
    assert set(mcp_baton.__all__) <= set(dir(mcp_baton))


def test_a_name_is_the_same_object_wherever_it_is_imported_from() -> None:
    assert [name for name in mcp_baton.__all__ if getattr(mcp_baton, name) is not getattr(public, name)] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Sever'"):
        mcp_baton.Sever  # noqa: B018


def test_importing_the_package_imports_none_of_its_modules() -> None:
    report = "import sys, mcp_baton; print(*(name for name in sys.modules if name.startswith('mcp_baton.')))"
    command = [sys.executable, "-c", report]
    process = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)

    assert process.stdout.split() == []


def test_the_tree_of_exceptions_is_as_drawn() -> None:
    path, drawn = list[str](), set[tuple[str, str]]()
    for line in str(exceptions.__doc__).partition("```")[2].splitlines():
        if found := re.match(r"((?:│   |    )*(?:├── |└── )?)(\w+)", line):
            path[len(found[1]) // 4 :] = [found[2]]
            drawn.add((path[-2] if len(path) > 1 else "", path[-1]))
    defined = {kind for kind in vars(exceptions).values() if isinstance(kind, type)}
    defined = {kind for kind in defined if kind.__module__ == exceptions.__name__}

    assert {pair for pair in drawn if pair[0]} == {
        (kind.__bases__[0].__name__, kind.__name__) for kind in defined if kind is not exceptions.WrongResult
    }
