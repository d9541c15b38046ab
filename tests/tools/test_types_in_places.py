"""A type means the same wherever a value of it comes from: a client, a step, a stored task, an answer, a callback."""

import enum
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, TypedDict
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, Strict

from mcp_baton import Context, Server, ask_model, item, step, wait_for_callback
from mcp_baton.protocol.json import dumps
from mcp_baton.testing import Client, Connect


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 2


class Address(TypedDict):
    city: str
    since: NotRequired[date]


class Place(NamedTuple):
    x: int
    name: str = "here"


@dataclass
class Tree:
    number: int
    parts: "list[Tree]" = field(default_factory=list)


class Cat(BaseModel):
    kind: Literal["cat"]
    born: date | None = None


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str = Field(alias="fullName")


class Box[T](BaseModel):
    content: T


class Exact(BaseModel):
    model_config = ConfigDict(strict=True)
    day: date
    color: Color = Color.RED
    numbers: dict[int, tuple[UUID, Decimal]] = {}


OrderId = NewType("OrderId", int)
type Json = dict[str, Json] | list[Json] | int
DAY, ID = "2026-01-02", "12345678-1234-5678-1234-567812345678"

VALUES: list[tuple[Any, Any]] = [
    (int, 5),
    (float, 5),
    (bool, True),
    (str, '{"a": 1}\n\u2028ä'),
    (int | None, 5),
    (OrderId, 5),
    (Json, {"a": [1, {"b": 2}]}),
    (Level, 2),
    (Literal["a", 1], 1),
    (datetime, "2026-01-02T03:04:05+02:00"),
    (time, "03:04:05"),
    (timedelta, "PT1H"),
    (bytes, "ä"),
    (Path, "/a/b"),
    (IPv4Address, "1.2.3.4"),
    (dict[date, Mapping[str, Decimal]], {DAY: {"a": "1.10"}}),
    (tuple[Color, ...], ["red", "red"]),
    (deque[Sequence[int]], [[2, 1], []]),
    (set[int] | frozenset[str], [3, 1]),
    (Address, {"city": "Bern", "since": DAY}),
    (Place, [1]),
    (Tree, {"number": 1, "parts": [{"number": 2}]}),
    (Annotated[Cat | Dog, Field(discriminator="kind")], {"kind": "dog", "fullName": "Rex"}),
    (RootModel[list[Box[UUID]]], [{"content": ID}]),
    (Exact, {"day": DAY, "color": "red", "numbers": {"1": [ID, "1.10"]}}),
    (Annotated[date, Strict()], DAY),
]


def typed(function: Callable[[Any], Any], takes: Any, returns: Any = Any) -> Callable[[Any], Any]:
    def value_function(value: Any) -> Any:
        return function(value)

    value_function.__annotations__ = {"value": takes, "return": returns}
    return value_function


def server_with(kind: Any, log: list[str]) -> Server:
    server = Server("places")

    @server.tool
    def prepare(ctx: Context) -> None:
        ctx.callback_url("sent")

    def note(value: Any) -> str:
        log.append(repr(value))
        return "noted"

    server.add_tool(typed(note, kind), name="note")
    server.add_tool(typed(lambda value: value, kind, kind), name="echo")
    server.add_tool(typed(lambda value: [value, value], kind, list[kind]), name="twice")
    server.prompt(name="prompt")(typed(note, kind))

    def of_argument(value: Any) -> None:
        step("note")(value=value)

    def of_step(value: Any) -> None:
        step("note")(value=step("echo", checkpoint=True)(value=value))

    def of_list(value: Any) -> None:
        step("note", each=step("twice")(value=value))(value=item())

    for function in (of_argument, of_step, of_list):
        function.__annotations__["value"] = kind
        server.workflow(function)

    @server.workflow
    def of_answer() -> None:
        step("note")(value=ask_model("answer", "Which?", returns=kind))

    @server.workflow
    def of_callback() -> None:
        step(prepare)()
        step("note")(value=wait_for_callback("sent", kind, within=timedelta(hours=1)))

    return server


def resumed(client: Client, value: Any) -> None:
    with client.killed_after("PutItem"):
        client.call_workflow("of_step", {"value": value})
    client.clock.advance(46)
    [task] = [task for task in client.tasks() if task.status == "working"]
    assert client.resume(task.task_id).completed


def called_back(client: Client, value: Any) -> None:
    task_id = client.call_workflow("of_callback").task_id
    client.send_callback(task_id, "sent", value)
    assert client.resume(task_id).completed


PLACES: Mapping[str, Callable[[Client, Any], object]] = {
    "argument": lambda client, value: client.call_workflow("of_argument", {"value": value}),
    "text": lambda client, value: client.get_prompt(
        "of_argument", {"value": value if isinstance(value, str) else dumps(value)}
    ),
    "step": lambda client, value: client.call_workflow("of_step", {"value": value}),
    "list": lambda client, value: client.call_workflow("of_list", {"value": value}),
    "answer": lambda client, value: client.call_workflow("of_answer", {"answers": {"answer": value}}),
    "kill": resumed,
    "callback": called_back,
    "prompt": lambda client, value: client.get_prompt("prompt", {"value": value}),
}


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=str)
def test_a_value_is_the_same_wherever_it_comes_from(baton: Connect, kind: Any, value: Any) -> None:
    log: list[str] = []
    client = baton(server_with(kind, log))
    client.call_tool("note", {"value": value})
    expected, values = log.copy(), dict[str, list[str]]()
    for place, send in PLACES.items():
        log.clear()
        send(client, value)
        values[place] = log[:1]
    assert values == dict.fromkeys(PLACES, expected)


def test_the_error_of_an_exact_type_names_the_field_also_beside_half_a_surrogate_pair(baton: Connect) -> None:
    arguments: Any = {"value": {"day": 5, "color": "\ud800"}}
    result = baton(server_with(Exact, [])).call_tool("note", arguments)
    assert "value.day: Input should be a valid date" in result.text
