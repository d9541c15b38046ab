"""What frameworks make of the published input schemas: names, types, choices, defaults and requirements stay.

Each framework sends the tools of the sample, the examples and a server of odd types to the API of its provider. Where
a conversion loses something by design, `LOSSES` says what, README.md says it to users, and everything else is
compared.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Final

import pytest

from mcp_baton import Server
from mcp_baton.workflow.definition import ANSWERS
from mcp_baton.workflow.workflow_tool import REQUIRED
from tests.frameworks.conftest import ROOT, Framework, chosen, converted, published, served_here
from tests.frameworks.facts import Fact, Place, facts_of
from tests.frameworks.model_api import JsonDict
from tests.once import once

APPS: Final = {
    "sample": ROOT / "examples" / "sample" / "app.py",
    "expenses": ROOT / "examples" / "expenses" / "app.py",
    "incident": ROOT / "examples" / "incident" / "app.py",
    "report": ROOT / "examples" / "report" / "app.py",
    "odd": ROOT / "tests" / "frameworks" / "odd.py",
}


@dataclass(frozen=True, slots=True)
class Value:
    """A value in the published schema.

    Attributes:
        place: The name of its server, the name of its tool, and its place in the schema.
        facts: Those of the whole schema.
    """

    place: Place
    fact: Fact
    facts: dict[Place, Fact]

    @property
    def is_member(self) -> bool:
        """Whether it is in an object or a list, so not a parameter."""
        return len(self.place) > 3

    @property
    def is_of_map(self) -> bool:
        """Whether it is a member of an object that may have any names."""
        return "{}" in self.place

    @property
    def may_be_left_out(self) -> bool:
        return not self.fact.is_required

    def parents(self) -> Iterator[Fact]:
        for length in range(1, len(self.place) - 2):
            yield self.facts[self.place[2 : 2 + length]]


type Where = Callable[[Value], bool]


def anywhere(_: Value) -> bool:
    return True


def in_object_of_answer(value: Value) -> bool:
    """Whether it is a member of an object that answers a question."""
    return value.place[2] == ANSWERS and len(value.place) > 4


def in_member(value: Value) -> bool:
    return value.is_member


def in_map(value: Value) -> bool:
    return value.is_of_map


def of_any_type(value: Value) -> bool:
    return not value.fact.types


def of_several_types(value: Value) -> bool:
    return len(value.fact.types) > 1


def of_map(value: Value) -> bool:
    """Whether it is an object that may have any names."""
    return (*value.place[2:], "{}") in value.facts


def with_default(value: Value) -> bool:
    return value.fact.default is not None


def of_object(value: Value) -> bool:
    return bool(value.fact.types & {"object"}) or not value.fact.types


def in_optional_parameter(value: Value) -> bool:
    """Whether it is in an object or a list that may be null."""
    return any(parent.accepts_null and not parent.is_required and parent.default is None for parent in value.parents())


def left_out(value: Value) -> bool:
    return value.may_be_left_out


def either(*conditions: Where) -> Where:
    return lambda value: any(condition(value) for condition in conditions)


MISSING: Final = "missing"
"""The aspect of a value that the converted schema does not have at all."""

FORCED: Final = "forced"
"""The aspect of a value that a model must make up."""

ASPECTS: Final = ("types", "choices", "default", "is_required")
STRICT: Final[dict[str, Where]] = {"is_required": left_out}
"""Strict modes require everything. See `can_be_left_out`."""

LOSSES: Final[dict[str, dict[str, Where]]] = {
    "openai_agents-default": {},
    "openai_agents-strict": STRICT,
    "langchain-openai": {},
    "langchain-strict": {**STRICT, MISSING: in_map},
    "langchain-gemini": {
        "default": anywhere,
        "types": either(of_any_type, of_several_types, of_map),
        "is_required": in_object_of_answer,
        FORCED: in_object_of_answer,
        MISSING: in_map,
    },
    "langchain-anthropic": {},
    "pydantic_ai-openai": {},
    "pydantic_ai-strict": {
        **STRICT,
        "default": anywhere,
        MISSING: in_map,
        FORCED: with_default,
    },
    "pydantic_ai-gemini": {},
    "pydantic_ai-anthropic": {},
    "google_genai-gemini": {"default": lambda value: in_member(value) and of_several_types(value), MISSING: in_map},
    "ai_sdk-openai": {},
    "llama_index-openai": {MISSING: in_member, "description": in_member, "types": of_any_type},
    "smolagents-openai": {MISSING: in_optional_parameter, "types": of_any_type},
    "smolagents-structured": {MISSING: in_optional_parameter, "types": of_any_type},
    "semantic_kernel-openai": {},
    "autogen-openai": {},
    "crewai-openai": {
        **STRICT,
        "default": anywhere,
        "types": of_any_type,
        "description": of_object,
        MISSING: in_map,
    },
}
"""The values about which a framework may say less, by the aspect. Nothing else may be lost, and each loss occurs."""


def variants() -> Iterator[Any]:
    for framework in chosen():
        for variant in framework.variants:
            yield pytest.param((framework, variant), id=f"{framework}-{variant}")


@pytest.fixture
def conversion(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[JsonDict]:
    """The published schemas and those that the framework sends, by server and tool."""
    framework, variant = request.param
    framework.command()
    text = once(tmp_path_factory, f"conversion-{framework}-{variant}", lambda: convert(framework, variant))
    schemas: list[JsonDict] = json.loads(text)
    return schemas


def server_in(path: Path) -> Server:
    """Return the server of an application. Several have the file name `app.py`."""
    spec = spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    server: Server = module.server
    return server


def convert(framework: Framework, variant: str) -> str:
    with ExitStack() as stack:
        urls = {name: stack.enter_context(served_here(server_in(path))) for name, path in APPS.items()}
        before = {name: published(url) for name, url in urls.items()}
        after, errors = converted(framework, variant, urls)
    assert not errors
    return json.dumps([before, after])


def lost(before: JsonDict, after: JsonDict) -> Iterator[tuple[str, Value, Fact | None]]:
    """Yield what the converted schemas do not say: the aspect, the published value, and what was made of it."""
    for server, tools in before.items():
        for tool, schema in tools.items():
            facts, converted_facts = facts_of(schema), facts_of(after[server][tool])
            for place, fact in facts.items():
                value, found = Value((server, tool, *place), fact, facts), converted_facts.get(place)
                if found is None:
                    yield MISSING, value, None
                    continue
                for aspect in ASPECTS:
                    if getattr(fact, aspect) != getattr(found, aspect):
                        yield aspect, value, found
                if fact.description not in found.description:
                    yield "description", value, found
                if not can_be_left_out(fact, found):
                    yield FORCED, value, found


def can_be_left_out(fact: Fact, found: Fact) -> bool:
    """Whether a model can still leave out what it need not know: it writes null, the default, an object without
    members or, for the argument of a workflow, the same as in its first call."""
    return (
        fact.is_required
        or not found.is_required
        or found.accepts_null
        or found.default is not None
        or fact.types == {"object"}
        or REQUIRED in fact.description
    )


@pytest.mark.parametrize("conversion", list(variants()), indirect=True)
def test_conversions_lose_only_what_is_documented(conversion: list[JsonDict], request: pytest.FixtureRequest) -> None:
    before, after = conversion
    assert {name: set(tools) for name, tools in before.items()} == {name: set(tools) for name, tools in after.items()}
    allowed = LOSSES[request.node.callspec.id]
    unexpected, seen = [], set()
    for aspect, value, found in lost(before, after):
        if aspect in allowed and allowed[aspect](value):
            seen.add(aspect)
        else:
            unexpected.append(f"{'.'.join(value.place)}: {aspect} of {value.fact} became {found}")
    assert not unexpected, "\n".join(unexpected)
    assert seen == set(allowed), "the framework loses less than this table says: README.md can say so"
