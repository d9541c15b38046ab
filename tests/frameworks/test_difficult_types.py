"""What frameworks make of the types that `baton check` warns of (README.md, Types)."""

import json
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final, Literal

import pytest
from pydantic import BaseModel, create_model

from mcp_baton import Server
from mcp_baton.local.framework_types import LARGE_SCHEMA, LITERALS, RECURSIVE, UNION, difficulties
from tests.frameworks.conftest import Framework, chosen, converted, published, served_here
from tests.frameworks.facts import facts_of
from tests.frameworks.model_api import JsonDict

ALL_LOST: Final = "no tool of the server can be used"
TOOL_LOST: Final = "the tool is not listed"
CHANGED: Final = "the model sees other types, or no members"
DANGLING: Final = "a reference has no target, which APIs of models refuse"
KEPT: Final = "kept"


class Node(BaseModel):
    name: str
    children: "list[Node]" = []


class Card(BaseModel):
    number: str


class Cash(BaseModel):
    tendered: float


@dataclass(frozen=True)
class Level:
    number: Literal[1, 2]


def large_type() -> Any:
    """Return a type whose schema is longer than 20 KB without references."""
    level: Any = Card
    for number in range(9):
        level = create_model(f"Level{number}", left=(level, ...), right=(level, ...))
    return level


KINDS: Final[dict[str, tuple[Any, tuple[str, str]]]] = {
    "recursive": (Node, RECURSIVE),
    "numbers": (Literal[1, 2], LITERALS),
    "member": (Level, LITERALS),
    "union": (Card | Cash, UNION),
    "large": (large_type(), LARGE_SCHEMA),
}
"""A type of each kind, and the warning."""

EFFECTS: Final[dict[str, dict[str, str]]] = {
    "openai_agents": {},
    "langchain-openai": {"recursive": CHANGED},
    "langchain-strict": {"recursive": CHANGED},
    "langchain-gemini": {"recursive": CHANGED, "numbers": ALL_LOST, "member": ALL_LOST},
    "langchain-anthropic": {"recursive": CHANGED},
    "pydantic_ai": {},
    "google_genai": {"recursive": CHANGED},
    "ai_sdk": {},
    "llama_index": {"recursive": ALL_LOST, "member": CHANGED, "union": CHANGED},
    "smolagents": {"recursive": ALL_LOST, "union": CHANGED},
    "semantic_kernel": {"recursive": DANGLING, "large": DANGLING},
    "autogen": {"recursive": DANGLING, "large": DANGLING},
    "crewai": {"recursive": CHANGED},
}
"""What is not kept, by framework or variant."""

NAMES: Final = {
    "langchain-gemini": "LangChain with Gemini",
    "llama_index": "LlamaIndex",
    "smolagents": "smolagents",
    "semantic_kernel": "Semantic Kernel",
    "autogen": "AutoGen",
}
"""The names of frameworks in warnings."""


def server_with(target: Any) -> Server:
    """Return a server with a tool that takes this type, and a plain one."""
    server = Server("difficult")

    def hard(value: Any) -> None:
        """Take a difficult type."""

    hard.__annotations__["value"] = target
    server.tool(hard)

    @server.tool
    def fine(text: str) -> None:
        """Take a text."""

    return server


def outcomes(framework: Framework, variant: str) -> str:
    """Return the outcome of each kind, as JSON."""
    with ExitStack() as stack:
        urls = {kind: stack.enter_context(served_here(server_with(target))) for kind, (target, _) in KINDS.items()}
        before = {kind: published(url)["hard"] for kind, url in urls.items()}
        after, errors = converted(framework, variant, urls)
    return json.dumps({kind: outcome_of(before[kind], after.get(kind), errors.get(kind)) for kind in KINDS})


def outcome_of(schema: JsonDict, tools: dict[str, JsonDict] | None, error: str | None) -> str:
    if error is not None or tools is None or "fine" not in tools:
        return ALL_LOST
    if "hard" not in tools:
        return TOOL_LOST
    try:
        found = facts_of(tools["hard"])
    except KeyError:
        return DANGLING
    for place, fact in facts_of(schema).items():
        if place not in found or (fact.types, fact.choices) != (found[place].types, found[place].choices):
            return CHANGED
    return KEPT


@pytest.fixture(
    params=[
        # Each variant starts a process that imports the framework. The others run each night.
        pytest.param(
            (framework, variant),
            id=f"{framework}-{variant}",
            marks=() if variant == framework.variants[0] else pytest.mark.nightly,
        )
        for framework in chosen()
        for variant in framework.variants
    ]
)
def effects(request: pytest.FixtureRequest) -> tuple[str, str, dict[str, str]]:
    """The names of a framework and its variant, and the outcome of each kind."""
    framework, variant = request.param
    framework.command()
    found: dict[str, str] = json.loads(outcomes(framework, variant))
    return str(framework), f"{framework}-{variant}", found


def test_each_type_has_the_effect_that_the_table_says(effects: tuple[str, str, dict[str, str]]) -> None:
    framework, variant, found = effects
    expected = EFFECTS.get(variant) or EFFECTS.get(framework, {})
    assert found == {kind: expected.get(kind, KEPT) for kind in KINDS}


def test_the_warning_names_each_framework_that_cannot_use_the_type() -> None:
    """A change of a recursive type leaves its first level, and LlamaIndex changes the members of every object."""
    tolerable = {(kind, CHANGED) for kind in ("recursive", "member")}
    for kind, (_, (problem, _)) in KINDS.items():
        for framework, effects in EFFECTS.items():
            if kind in effects and (kind, effects[kind]) not in tolerable:
                name = NAMES.get(framework) or NAMES[framework.partition("-")[0]]
                assert name in problem, (kind, framework)


def test_baton_check_warns_of_each_kind_and_of_no_other_type() -> None:
    for target, warning in KINDS.values():
        schema: Any = server_with(target).tools["hard"].definition["inputSchema"]
        [(parameter, *found)] = difficulties(schema)
        assert (parameter, tuple(found)) == (None if warning is LARGE_SCHEMA else "value", warning)
    plain: Any = server_with(str).tools["fine"].definition["inputSchema"]
    assert list(difficulties(plain)) == []
