"""Aliases of pydantic's `Field`: callers use them wherever an argument has a name."""

from typing import Annotated, Any

import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field

from mcp_baton import Approval, Argument, Header, Server, ask_user, step
from mcp_baton.testing import Client, JsonRpcError, connect
from tests.support.handler import MakeClient

CHOICES: Any = Field(validation_alias=AliasChoices("orderId", "id"))
DEFAULT: Any = Field(validation_alias="orderId", default="-")
NAMED = {"orderId": "A"}


def structured(client: Client, tool: str, arguments: dict[str, Any] | None = None) -> Any:
    return client.call_tool(tool, arguments or {}).structured


def plain_alias(order_id: Annotated[str, Field(alias="orderId")]) -> str:
    return order_id


def validation_alias(order_id: Annotated[str, Field(validation_alias="orderId", max_length=3)]) -> str:
    return order_id


def both(order_id: Annotated[str, Field(alias="order", validation_alias="orderId")]) -> str:
    return order_id


def choices(order_id: Annotated[str, CHOICES]) -> str:
    return order_id


def as_default(order_id: str = DEFAULT) -> str:
    return order_id


def path(order_id: Annotated[str, Field(validation_alias=AliasPath("ids", 0))]) -> str:
    return order_id


def path_among_choices(
    order_id: Annotated[str, Field(validation_alias=AliasChoices(AliasPath("ids", 0), "orderId"))],
) -> str:
    return order_id


FUNCTIONS = [plain_alias, validation_alias, both, choices, as_default, path, path_among_choices]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_tool_and_a_prompt_take_the_name_that_is_listed_and_no_other(function: Any) -> None:
    server = Server("shop")
    server.add_tool(function, name="find")
    server.prompt(name="ask")(function)
    name = "order_id" if function is path else "orderId"
    with connect(server) as client:
        (tool,) = client.list_tools()
        assert list(tool["inputSchema"]["properties"]) == [name]
        assert client.call_tool("find", {name: "A"}).text == "A"
        assert client.get_prompt("ask", {name: "A"}).messages[0].text == "A"
        for unknown in ({name: "A", "order": "B"}, {"order": "A"}):
            assert "order: Unexpected keyword argument" in client.call_tool("find", unknown).text
            with pytest.raises(JsonRpcError, match="unknown argument 'order'"):
                client.get_prompt("ask", unknown)


def test_an_error_names_the_alias_and_a_default_still_holds() -> None:
    server = Server("shop")
    server.add_tool(validation_alias, name="find")
    server.add_tool(as_default, name="find_default")
    with connect(server) as client:
        assert "orderId: required" in client.call_tool("find").text
        assert "orderId: String should have at most 3" in client.call_tool("find", {"orderId": "long"}).text
        assert client.call_tool("find_default").text == "-"


@pytest.mark.parametrize("arguments", [NAMED, {"id": "A"}])
def test_every_choice_is_accepted_by_tools_prompts_workflows_and_steps(arguments: dict[str, str]) -> None:
    server = Server("shop")
    server.add_tool(choices, name="find")
    server.prompt(name="ask")(choices)

    @server.workflow
    def run(order_id: Annotated[str, CHOICES, Argument(description="The order")]) -> None:
        step("find")(orderId=order_id)

    @server.workflow
    def run_default(order_id: str = DEFAULT) -> None:
        step("find")(orderId=order_id)

    with connect(server) as client:
        assert client.call_tool("find", arguments).text == "A"
        assert client.get_prompt("ask", arguments).messages[0].text == "A"
        assert structured(client, "run", arguments)["results"] == {"find": "A"}
        assert client.get_prompt("run", arguments).completed
        assert structured(client, "run_default", {"orderId": "A"})["results"] == {"find": "A"}
        assert structured(client, "run_default")["results"] == {"find": "-"}


def test_two_names_of_one_argument_are_refused() -> None:
    server = Server("shop")
    server.add_tool(choices, name="find")
    with connect(server) as client:
        assert "id: Unexpected keyword argument" in client.call_tool("find", {"orderId": "A", "id": "B"}).text


def test_an_approval_covers_the_value_by_whichever_name_it_comes() -> None:
    server = Server("shop")
    server.add_tool(choices, name="find", approval=Approval("people", message="Find {orderId}?"))
    with connect(server) as client:
        waiting = structured(client, "find", {"id": "A"})["approval"]
        assert "A" in str(waiting)
        client.as_owner("kim", scopes=["people"]).approve(waiting["approvalId"])
        assert client.call_tool("find", {"id": "B"}).is_error
        assert client.call_tool("find", {"orderId": "A"}).text == "A"


def test_a_marked_header_is_compared_with_the_argument_by_any_of_its_names(make_client: MakeClient) -> None:
    server = Server("shop")

    @server.tool
    def find(order_id: Annotated[str, Header("Order"), CHOICES]) -> str:
        return order_id

    client = make_client(server, era="2026")
    for arguments in (NAMED, {"id": "A"}):
        call = {"name": "find", "arguments": arguments}
        assert client.request("tools/call", call, headers={"Mcp-Param-Order": "A"}).result["structuredContent"]
        assert client.request("tools/call", call, headers={"Mcp-Param-Order": "B"}).refusal == (400, -32020)


class ByAlias(BaseModel):
    ident: str = Field(alias="_id")


class ByValidationAlias(BaseModel):
    ident: str = Field(validation_alias="orderId")


class ByName(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    ident: str = Field(validation_alias=AliasChoices("orderId", AliasPath("ids", 0)))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (ByAlias, {"_id": "7"}),
        (ByValidationAlias, {"orderId": "7"}),
        (ByName, {"ident": "7"}),
        (ByName, {"orderId": "7"}),
        (ByName, {"ids": ["7"]}),
    ],
)
def test_arguments_and_answers_of_workflows_keep_the_names_that_their_type_accepts(kind: Any, value: Any) -> None:
    server = Server("shop")

    def show_both(first: kind, second: kind) -> str:
        return f"{first.ident} {second.ident}"

    show: Any = server.add_tool(show_both, name="show_both")

    @server.workflow
    def run(first: kind) -> None:
        """Show both."""
        second: Any = ask_user("second", "Which one?", returns=kind)
        step(show)(first=first, second=second)

    def text(client: Client, **arguments: Any) -> str:
        return str(structured(client, "run", arguments)["results"]["show_both"])

    with connect(server) as client:
        assert text(client, first=value, answers={"second": value}) == "7 7"
