"""Schemas written by hand: what pydantic makes of the same types, without it."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from mcp_baton.server import schema as schemas
from mcp_baton.server.functions import Labels, Tool
from mcp_baton.server.plain_schema import PLAIN_TYPES, plain_arguments, plain_schema
from mcp_baton.server.signature import read_signature


def every_type(a: str, b: int, c: float, d: bool, e: dict, f: list) -> dict:  # type: ignore[type-arg]
    return {"a": a, "b": b, "c": c, "d": d, "e": e, "f": f}


def defaults(a: str = "x", b: int = 1, c: float = 1.5, d: bool = True) -> str:
    return f"{a} {b} {c} {d}"


def some_required(b: int, a: str = "ü") -> list:  # type: ignore[type-arg]
    return [a, b]


def nothing() -> bool:
    return True


@pytest.mark.parametrize("function", [every_type, defaults, some_required, nothing], ids=lambda given: given.__name__)
def test_plain_arguments_have_the_schema_that_pydantic_makes(
    function: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    by_hand = Tool(function, "t", Labels()).definition
    monkeypatch.setattr(schemas, "plain_arguments", lambda _parameters: None)
    monkeypatch.setattr(schemas, "plain_schema", lambda _returns: None)

    assert by_hand == Tool(function, "t", Labels()).definition


@pytest.mark.parametrize("plain", PLAIN_TYPES, ids=lambda given: given.__name__)
def test_a_plain_type_has_the_schema_that_pydantic_makes(plain: type) -> None:
    from pydantic import TypeAdapter

    assert plain_schema(plain) == TypeAdapter(plain).json_schema(mode="serialization")


def mutable_default(a: list = []) -> None:  # type: ignore[type-arg]  # noqa: B006 - what is tested
    del a


def endless_default(a: float = float("inf")) -> None:
    del a


def other_type(a: list[int]) -> None:
    del a


@pytest.mark.parametrize("function", [mutable_default, endless_default, other_type], ids=lambda given: given.__name__)
def test_what_is_not_plain_is_left_to_pydantic(function: Callable[..., Any]) -> None:
    assert plain_arguments(read_signature(function, "tool 't'").parameters) is None


LIST_AND_CALL = """
import sys
from mcp_baton.server.functions import Labels, Tool

def add(a: int, b: int = 1) -> int:
    return a + b

tool = Tool(add, "add", Labels())
assert tool.definition["inputSchema"] and tool.definition["outputSchema"]
assert tool.input.bind({"a": 1}) == {"a": 1}
assert tool.result(tool.outcome(3))["structuredContent"] == {"result": 3}
print("pydantic" in sys.modules)
"""


def test_a_plain_tool_is_listed_and_called_without_pydantic() -> None:
    done = subprocess.run([sys.executable, "-c", LIST_AND_CALL], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.split() == ["False"]
