"""Defaults that a function can change: each call gets a copy, so that no caller sees the data of another."""

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from mcp_baton import Context, Depends, RegistrationError, Server, ToolError, step
from mcp_baton.testing import Client, connect
from mcp_baton.tools.labels import Labels
from mcp_baton.tools.tool import Tool

SECRET = "secret-of-alice"


@dataclass(eq=False)
class Basket:
    """Its instances have the hash of their identity."""

    tags: list[str] = field(default_factory=list)


@dataclass(unsafe_hash=True)
class Label:
    text: str = "none"


class Model(BaseModel):
    tags: list[str] = []


class Lock:
    """Not data, and cannot be copied."""

    def __deepcopy__(self, memo: object) -> "Lock":
        raise TypeError("a lock cannot be copied")


LOCK: Any = Lock()
BASKET: Any = Field(default=Basket())


def of_a_list(note: str, tags: list[str] = []) -> str:  # noqa: B006 - what is tested
    tags.append(note)
    return " ".join(tags)


def of_a_list_beside_a_type_of_pydantic(note: str, tags: list[str] = [], limit: Decimal = Decimal(1)) -> str:  # noqa: B006
    return of_a_list(note, tags)


async def of_a_dict_in_a_coroutine(note: str, seen: dict[str, Any] = {"notes": []}) -> str:  # noqa: B006
    seen["notes"].append(note)
    return " ".join(seen["notes"])


def of_a_tuple_with_a_list(note: str, tags: tuple[list[str]] = ([],)) -> str:
    return of_a_list(note, tags[0])


def of_any(note: str, tags: Any = []) -> str:  # noqa: B006
    return of_a_list(note, tags)


def of_a_dataclass(note: str, basket: Basket = Basket()) -> str:  # noqa: B008
    return of_a_list(note, basket.tags)


def of_a_hashable_dataclass(note: str, label: Label = Label()) -> str:  # noqa: B008
    earlier, label.text = label.text, note
    return f"{earlier} {note}".removeprefix("none ")


def of_a_model(note: str, model: Model = Model()) -> str:  # noqa: B008
    return of_a_list(note, model.tags)


def of_a_field(note: str, basket: Basket = BASKET) -> str:
    return of_a_list(note, basket.tags)


def of_an_annotated_field(note: str, basket: Annotated[Basket, Field(default=Basket())]) -> str:
    return of_a_list(note, basket.tags)


TOOLS = [
    of_a_list,
    of_a_list_beside_a_type_of_pydantic,
    of_a_dict_in_a_coroutine,
    of_a_tuple_with_a_list,
    of_any,
    of_a_dataclass,
    of_a_hashable_dataclass,
    of_a_model,
    of_a_field,
    of_an_annotated_field,
]


def alice_and_bob(server: Server, call: Callable[[Client, str], str]) -> tuple[str, str]:
    with connect(server, owner="alice") as alice:
        return call(alice, SECRET), call(alice.as_owner("bob"), "note")


@pytest.mark.parametrize("function", TOOLS)
def test_a_tool_does_not_see_what_another_call_did_to_a_default(function: Callable[..., Any]) -> None:
    server = Server("shop")
    server.add_tool(function, name="add")
    assert alice_and_bob(server, lambda client, note: client.call_tool("add", {"note": note}).text) == (SECRET, "note")


def test_what_a_call_did_to_a_default_is_not_published() -> None:
    default: list[str] = []

    def add(note: str, tags: list[str] = default) -> str:
        return of_a_list(note, tags)

    tool = Tool(add, "add", Labels())
    add(**tool.input.bind({"note": SECRET}))
    default.append(SECRET)  # the function's own object
    assert tool.definition["inputSchema"]["properties"]["tags"]["default"] == []  # type: ignore[index,call-overload]


def test_prompts_and_steps_get_a_copy_too() -> None:
    server = Server("shop")
    server.prompt(name="add")(of_a_list)
    server.add_tool(of_a_list, name="add_in_a_step")

    @server.workflow
    def run(note: str, tags: list[str] = []) -> None:  # noqa: B006
        step("add_in_a_step", name="omitted")(note=note)
        step("add_in_a_step", name="passed")(note=note, tags=tags)

    def prompt(client: Client, note: str) -> str:
        return client.get_prompt("add", {"note": note}).messages[0].text

    def workflow(client: Client, note: str) -> str:
        run_result: Any = client.call_tool("run", {"note": note}).structured
        results = run_result["results"]
        return f"{results['omitted']}, {results['passed']}"

    assert alice_and_bob(server, prompt) == (SECRET, "note")
    assert alice_and_bob(server, workflow) == (f"{SECRET}, {SECRET}", "note, note")


def test_completions_and_factories_get_a_copy_too() -> None:
    server = Server("shop")

    def history(ctx: Context, notes: list[str] = []) -> list[str]:  # noqa: B006
        notes.append(ctx.owner or "")
        return notes

    @server.tool
    def show(notes: Annotated[list[str], Depends(history)]) -> list[str]:
        return [" ".join(notes)]

    @server.prompt
    def greet(name: str) -> str:
        return name

    @server.completion("greet", "name")
    def names(value: str, known: dict[str, str], *, seen: list[str] = []) -> list[str]:  # noqa: B006
        seen.append(value)
        return seen

    def complete(client: Client, note: str) -> str:
        params = {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": note}}
        return str(client.request("completion/complete", params)["completion"])

    assert alice_and_bob(server, lambda client, _: client.call_tool("show").value[0]) == ("alice", "bob")
    assert SECRET not in alice_and_bob(server, complete)[1]


def test_a_default_that_is_not_data_is_shared() -> None:
    server = Server("shop")
    seen = []

    def connection(lock: Any = LOCK) -> None:
        seen.append(lock)

    @server.tool
    def use(_: Annotated[None, Depends(connection)]) -> None:
        """Use the connection."""

    with connect(server) as client:
        client.call_tool("use")
    assert seen == [LOCK]


def test_a_default_that_is_data_and_cannot_be_copied_is_refused_by_its_parameters_name() -> None:
    with pytest.raises(RegistrationError, match=r"'locks'.*cannot be copied for each call .*; use None"):

        @Server("shop").tool
        def use(locks: list[Any] = [LOCK]) -> str:  # noqa: B006
            raise ToolError(str(locks))
