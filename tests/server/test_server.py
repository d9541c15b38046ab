"""Registration of functions and workflows, and invalid definitions."""

import functools
import re
from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict, cast

import pytest
from pydantic import BaseModel, Field

from mcp_baton import (
    Argument,
    Context,
    Fetch,
    RegistrationError,
    Server,
    ToolStep,
    Workflow,
    WorkflowError,
    step_output,
)
from mcp_baton.aws import handler
from mcp_baton.protocol.json import Json
from mcp_baton.settings import Settings
from mcp_baton.tools.labels import Labels
from mcp_baton.tools.prompt import definition_of_prompt
from mcp_baton.tools.schema.signature import type_without_schema
from mcp_baton.tools.tool import Tool


@pytest.fixture
def server() -> Server:
    return Server("orders", version="1.0.0")


def test_decorators_with_and_without_parentheses_return_the_function(server: Server) -> None:
    def bare(order_id: str) -> dict[str, str]:
        """Fetch one order."""
        return {"id": order_id}

    async def waits() -> None:
        """Wait."""

    assert server.tool(bare) is bare
    assert server.tool()(waits) is waits
    assert server.tool(name="other", title="Another", description="Else.")(bare) is bare

    assert [(name, tool.labels.title, tool.labels.description) for name, tool in server.tools.items()] == [
        ("bare", None, "Fetch one order."),
        ("waits", None, "Wait."),
        ("other", "Another", "Else."),
    ]

    assert server.prompt(bare) is bare
    assert server.prompt(name="hello", title="Hello")(bare) is bare
    assert list(server.prompts) == ["bare", "hello"]


class Shop:
    def price(self, sku: str) -> int:
        """The price of one."""
        return len(sku)

    def __call__(self, sku: str, ctx: Context) -> int:
        """Sell one."""
        return len(sku) if ctx.owner else 0


class Later:
    async def __call__(self, sku: str) -> int:
        """Sell one later."""
        return len(sku)


def decorated(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*arguments: Any, **keywords: Any) -> Any:
        return function(*arguments, **keywords)

    return wrapper


def sell(count: int, sku: str) -> int:
    """Sell some."""
    return count * len(sku)


async def sell_later(count: int, sku: str) -> int:
    """Sell some later."""
    return count * len(sku)


@pytest.mark.parametrize(
    ("function", "description", "is_async"),
    [
        pytest.param(Shop().price, "The price of one.", False, id="method"),
        pytest.param(Shop(), "Sell one.", False, id="callable"),
        pytest.param(Later(), "Sell one later.", True, id="asynchronous callable"),
        pytest.param(functools.partial(sell, 1), "Sell some.", False, id="partial"),
        pytest.param(functools.partial(sell_later, 1), "Sell some later.", True, id="asynchronous partial"),
        pytest.param(functools.partial(functools.partial(Shop()), ctx=cast("Any", 0)), "Sell one.", False, id="deep"),
        pytest.param(decorated(Shop().price), "The price of one.", False, id="decorated"),
    ],
)
def test_any_callable_can_be_a_tool(function: Any, description: str, is_async: bool) -> None:
    tool = Tool(function, "sell", Labels())

    assert (tool.labels.description, tool.signature.is_async) == (description, is_async)
    assert tool.input.json_schema["properties"] == {"sku": {"type": "string"}}
    assert tool.input.json_schema["required"] == ["sku"]
    assert tool.input.bind({"sku": "abc"})["sku"] == "abc"


def test_a_partials_keyword_is_an_optional_argument() -> None:
    tool = Tool(functools.partial(sell, sku="abc"), "sell", Labels())

    assert tool.signature.required == {"count"}
    assert tool.input.json_schema["properties"]["sku"] == {"default": "abc", "type": "string"}


@pytest.mark.parametrize("nameless", [Shop(), lambda: None], ids=["callable", "lambda"])
def test_a_callable_without_a_name_needs_a_given_one(server: Server, nameless: Any) -> None:
    with pytest.raises(RegistrationError, match="name="):
        server.tool(nameless)
    assert server.tool(name="fine")(nameless) is nameless


def docs_faq() -> str:
    """Frequently asked questions."""
    return ""


def flow(tool: Any, *, name: str = "w") -> Workflow:
    return Workflow(name=name, description="d", steps=[ToolStep("s", tool=tool)])


def test_a_prompt_and_a_workflow_cannot_share_a_name(server: Server) -> None:
    server.tool(docs_faq)
    server.add_workflow(flow("docs_faq", name="docs_faq"))

    for add in (lambda: server.add_workflow(flow("docs_faq", name="docs_faq")), lambda: server.prompt(docs_faq)):
        with pytest.raises(RegistrationError, match="taken"):
            add()

    other_server = Server("other")
    other_server.prompt(docs_faq)
    with pytest.raises(WorkflowError, match="taken") as error_info:
        other_server.add_workflow(flow("docs_faq", name="docs_faq"))
    assert error_info.value.workflow == "docs_faq"


def test_a_workflow_may_be_added_before_its_tools_but_is_checked_with_them(server: Server) -> None:
    server.add_workflow(flow("docs_faq"))
    with pytest.raises(WorkflowError, match="unknown tool 'docs_faq'"):
        server.check()

    server.tool(docs_faq)

    server.check()  # raises if there is an error


OTHER = Server("other")
OTHER.tool(name="more")(docs_faq)


def page(topic: str) -> str:
    return topic


@pytest.mark.parametrize(
    ("target", "add"),
    [
        ("workflow 'w'", lambda server: server.add_workflow(flow("faq"))),
        ("tool 'docs_faq'", lambda server: server.tool(docs_faq)),
        ("prompt 'docs_faq'", lambda server: server.prompt(docs_faq)),
        ("resource 'docs://b'", lambda server: server.resource("docs://b")(docs_faq)),
        ("completion 'docs://{topic} topic'", lambda server: server.completion("docs://{topic}", "topic")(list)),
        ("tool 'more'", lambda server: server.include(OTHER)),
    ],
)
def test_nothing_can_be_added_to_a_made_handler(server: Server, target: str, add: Callable[[Server], object]) -> None:
    server.tool(name="faq")(docs_faq)
    server.resource("docs://{topic}")(page)
    handler(server, settings=Settings())

    with pytest.raises(RegistrationError, match=rf"^{re.escape(target)}: handler\(server\) has checked and closed"):
        add(server)

    handler(server, settings=Settings())  # a second handler may be made
    assert (list(server.tools), list(server.workflows), list(server.prompts)) == (["faq"], [], [])


class Order(BaseModel):
    total: float


def test_only_the_full_check_checks_paths_into_pydantic_models(server: Server) -> None:
    @server.tool
    def fetch() -> Order:
        return Order(total=1.0)

    @server.tool
    def pay(amount: float) -> None: ...

    steps = [
        ToolStep("fetch", tool=fetch),
        ToolStep("pay", tool=pay, arguments={"amount": step_output("fetch", "totl")}),
    ]
    server.add_workflow(Workflow(name="w", description="d", steps=steps))

    handler(server, settings=Settings())  # does not create schemas with pydantic
    with pytest.raises(WorkflowError, match=r"has no 'totl', only total; did you mean 'total'\?"):
        server.check()


def add_default(server: Server, kind: Any, default: Json) -> None:
    arguments = [Argument("n", type=kind, default=default)]
    step = Fetch("s", resources=["docs://faq"])
    server.add_workflow(Workflow(name="w", description="d", arguments=arguments, steps=[step]))


@pytest.mark.parametrize(("kind", "default", "at_the_handler"), [(int, "many", True), (list[int], ["many"], False)])
def test_a_default_of_another_type_is_refused(server: Server, kind: Any, default: Json, at_the_handler: bool) -> None:
    add_default(server, kind, default)

    with pytest.raises(WorkflowError, match="the default of the argument 'n' does not convert"):
        server.check()
    with pytest.raises(WorkflowError) if at_the_handler else nullcontext():
        handler(server, settings=Settings())


@pytest.mark.parametrize("default", ["5", 5, " 5 "])
def test_a_default_that_converts_is_accepted(server: Server, default: Json) -> None:
    add_default(server, int, default)

    server.check(in_full=False)  # raises if there is an error


class Opaque:
    """A class that pydantic has no schema for."""


class Colour(Enum):
    RED = "red"


class Pair(NamedTuple):
    one: int
    other: int


class Line(TypedDict):
    sku: str


class Marked:
    """Defines its own pydantic schema."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return handler(str)


def test_a_return_type_without_a_schema_is_refused_with_its_tool(server: Server) -> None:
    @server.tool
    def fetch() -> Callable[[int], str]:
        return str

    bindings = {"t": step_output("a", "x")}
    steps = [ToolStep("a", tool=fetch), Fetch("b", resources=["a://{t}"], template_bindings=bindings)]
    server.add_workflow(Workflow(name="w", description="d", steps=steps))

    for read in (server.check, lambda: server.tools["fetch"].definition):
        with pytest.raises(RegistrationError, match=r"tool 'fetch': its return type .*Callable.* has no schema"):
            read()


@pytest.mark.parametrize(
    "kind", [datetime, Decimal, Path, re.Pattern[str], Colour, Pair, Line, Order, Marked, Callable[[int], str]]
)
def test_a_type_that_pydantic_may_support_is_left_to_it(kind: Any) -> None:
    assert type_without_schema(kind) is type_without_schema(list[kind]) is type_without_schema(kind | None) is None
    assert type_without_schema(Annotated[Opaque, Marked()]) is None  # annotations may add a schema


@pytest.mark.parametrize(
    "annotation", [Opaque, list[Opaque], Opaque | None, dict[str, list[Opaque]], Annotated[Opaque, "It"]]
)
def test_a_class_that_pydantic_cannot_support_is_found_inside_a_type(annotation: Any) -> None:
    assert type_without_schema(annotation) is Opaque


@pytest.mark.parametrize("name", ["", "a.b", "1st", "n" * 65, "größe"])
def test_a_tools_name_must_be_valid_in_every_host(server: Server, name: str) -> None:
    with pytest.raises(RegistrationError, match="1 to 64"):
        Tool(docs_faq, name, Labels())
    Tool(docs_faq, "n" * 64, Labels())


def test_a_parameters_name_must_be_valid_in_every_host(server: Server) -> None:
    def send(from_: Annotated[str, Field(alias="from.whom")]) -> None: ...

    with pytest.raises(RegistrationError, match=r"tool 'send': the parameter 'from\.whom'"):
        server.tool(send)


def positional(value: int, /) -> None: ...
def two_contexts(first_context: Context, second_context: Context) -> None: ...


@pytest.mark.parametrize("function", [positional, two_contexts, max])
def test_a_signature_that_cannot_be_published_is_refused_with_its_name(server: Server, function: Any) -> None:
    with pytest.raises(RegistrationError, match=function.__name__):
        server.tool(function)
    assert server.tools == {}


def test_a_prompts_arguments_come_from_its_signature(server: Server) -> None:
    @server.prompt(title="Ask")
    def ask(
        ctx: Context,
        name: Annotated[str, Field(description="Whom to ask")],
        tone: Annotated[str, "How to ask"] = "kind",
        times: int = Field(default=1, ge=1, description="How often"),
        from_: str = Field(default="me", alias="from"),
    ) -> str:
        """Ask somebody."""
        return name

    prompt = server.prompts["ask"]

    assert prompt.arguments[1].type is str  # the description does not make it a type that only pydantic knows
    assert definition_of_prompt("ask", prompt.labels, prompt.arguments) == {
        "name": "ask",
        "title": "Ask",
        "description": "Ask somebody.",
        "arguments": [
            {"name": "name", "description": "Whom to ask", "required": True},
            {"name": "tone", "description": "How to ask", "required": False},
            {"name": "times", "description": "How often", "required": False},
            {"name": "from", "required": False},
        ],
    }
