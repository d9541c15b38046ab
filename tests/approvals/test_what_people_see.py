"""What people see of a call: a value that a requester chose cannot hide another one or pass as the message."""

import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any

import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field, Json, RootModel, Secret, SecretStr

from mcp_baton import Approval, ApprovalRequest, Argument, Server, step
from mcp_baton.testing import Client, Connect
from tests.approvals.bank import approve_all, kim
from tests.typed import taking

DISGUISE = "\b\x1b[2J\u202e\u2066\u200b\u00ad\u3164\ufe0f\U000e0041"
HIDDEN = set(DISGUISE) - set("[2J")


def wire_server(message: str | None = None, listener: Any = None) -> Server:
    server = Server("bank")
    if listener:
        server.on_approval(listener)

    @server.tool(approval=Approval("refunds", message=message))
    def wire(memo: Any, to: str, amount: float = 7, urgent: bool = False) -> str:
        return "wired"

    return server


def record_of(client: Client, **arguments: Any) -> dict[str, Any]:
    """Call `wire` and return the approval that people see."""
    client.call_tool("wire", arguments)
    return dict(kim(client).approvals()[0])


@pytest.mark.parametrize(
    "memo",
    [
        "m" * 9_000,
        {f"key {number}": "m" * 100 for number in range(500)},
        {"m" * 9_000: 1},
        ["m"] * 9_000,
        [["m" * 500] * 50] * 50,
        "\0" * 9_000,
    ],
    ids=["text", "object", "key", "list", "nested list", "control characters"],
)
def test_a_long_value_hides_no_other_value(baton: Connect, memo: Any) -> None:
    record = record_of(baton(wire_server()), amount=987_654, to="t" * 1_000, memo=memo)
    seen = record["arguments"]

    assert list(seen) == ["memo", "to", "amount", "urgent"]
    assert (seen["to"], seen["amount"], seen["urgent"]) == ("t" * 1_000, 987_654, False)
    assert " more characters)" in str(seen["memo"])
    assert len(json.dumps(seen, ensure_ascii=False)) < 60_000


def test_the_view_says_how_many_characters_are_not_shown(baton: Connect) -> None:
    memo = record_of(baton(wire_server()), memo="m" * 9_000, to="a")["arguments"]["memo"]
    beginning, _, rest = memo.partition("… ")

    assert rest == f"({9_000 - len(beginning)} more characters)"


def test_all_short_parts_of_an_object_are_seen_beside_a_long_one(baton: Connect) -> None:
    payment = {"memo": "m" * 9_000, **{f"field {number}": f"value {number}" for number in range(30)}}
    seen = record_of(baton(wire_server()), memo={"payment": payment}, to="a" * 9_000)["arguments"]["memo"]["payment"]

    assert {name: value for name, value in payment.items() if name != "memo"}.items() <= seen.items()


@pytest.mark.parametrize(
    ("to", "shown"),
    [
        ("A-17", "A-17"),
        ("ann@example.com", "ann@example.com"),
        ("A-17: 1.00 EUR? (test) Ignore the rest: ", '"A-17: 1.00 EUR? (test) Ignore the rest: "'),
        ("A\n\nApproved by the CFO.", r'"A\n\nApproved by the CFO."'),
        ("A?Approved!", '"A?Approved!"'),
        ("", '""'),
        ("\u202eA", r'"\u202eA"'),
        ("A-17\u3164to\uffa0Ann", r'"A-17\u3164to\uffa0Ann"'),
        ("Zoë", "Zoë"),
    ],
)
def test_a_message_quotes_all_but_numbers_booleans_and_single_words(baton: Connect, to: str, shown: str) -> None:
    client = baton(wire_server("Wire {amount} to {to}, urgent: {urgent}?"))

    assert record_of(client, memo="", to=to, amount=5)["message"] == f"Wire 5.0 to {shown}, urgent: false?"


def test_a_long_value_hides_no_other_part_of_the_message_and_the_handoff(baton: Connect) -> None:
    server, listed = wire_server("Wire to {to} for {memo}: {amount} EUR?"), list[Any]()
    client = baton(server)
    text = client.call_tool("wire", {"memo": ["m" * 4_000], "to": "x" * 4_000, "amount": 9_999}).text
    listed += kim(client).approvals()

    assert len(listed) == 1
    assert "9999.0 EUR?" in text
    assert listed[0]["message"].endswith(": 9999.0 EUR?")


def test_invisible_characters_and_marks_of_direction_are_escaped_for_every_reader(baton: Connect) -> None:
    requests = list[ApprovalRequest]()
    client = baton(wire_server("Wire to {to}?", requests.append))
    reply = client.call_tool("wire", {"memo": {DISGUISE: [DISGUISE]}, "to": DISGUISE})
    [record] = kim(client).approvals()
    [request] = requests

    assert record["arguments"]["to"].isprintable()
    for view in (json.dumps(record, ensure_ascii=False), json.dumps(request.record, ensure_ascii=False), reply.text):
        assert not HIDDEN & set(view)
        assert r"\u202e" in view


@pytest.mark.parametrize("secret", ["hunter2-hunter2", "12345"])
def test_a_secret_that_a_tool_returned_is_hidden_from_people(baton: Connect, secret: str) -> None:
    server, sent = Server("bank"), list[Any]()
    server.on_approval(lambda request: sent.append(str(request.record)))

    @server.tool
    def log_in(pin: str) -> dict[str, Any]:
        return {"token": f"token {pin}", "parts": [pin]}

    @server.tool(approval=Approval("refunds", message="Pay with {token} and {parts}?"))
    def pay(token: str, parts: list[str]) -> str:
        sent.append((token, parts))
        return "paid"

    @server.workflow
    def refund(pin: Annotated[str, Argument(secret=True)]) -> None:
        session = step(log_in)(pin=pin)
        step(pay)(token=session["token"], parts=session["parts"])

    client = baton(server)
    run = client.call_workflow("refund", {"pin": secret})
    [record] = kim(client).approvals()

    assert record["arguments"] == {"token": "token <secret pin>", "parts": ["<secret pin>"]}
    for view in (str(record), str(sent), run.text, str(run.meta["pause_reason"])):
        assert secret not in view
    approve_all(client)
    assert client.call_workflow("refund", {"pin": secret}, task=run.task_id).completed
    assert sent[-1] == (f"token {secret}", [secret])


def test_a_record_is_the_same_from_the_list_and_by_its_id(baton: Connect) -> None:
    client = baton(wire_server())
    record = record_of(client, memo="m" * 9_000, to="a")
    read: Mapping[str, Any] = kim(client).wire.http("GET", f"/approvals/{record['approvalId']}")

    assert read == record


class Card(BaseModel):
    pin: Secret[int] = Field(alias="PIN")
    expires: Secret[date] | None = Field(default=None, validation_alias=AliasChoices("until", "end"))
    limit: int = 1


def test_a_secret_of_another_type_than_text_is_hidden_from_people(baton: Connect) -> None:
    server, calls = Server("bank"), list[Any]()

    @server.tool(approval=Approval("refunds", message="Change {pin}?"))
    def change(pin: Secret[int], others: dict[str, list[Secret[float]]], card: Card) -> None:
        calls.append((pin.get_secret_value(), card.pin.get_secret_value()))

    client = baton(server)
    arguments: dict[str, Any] = {
        "pin": 17,
        "others": {"a": [18]},
        "card": {"PIN": "19", "end": "2026-01-02", "limit": "20"},
    }
    client.call_tool("change", arguments)
    [record] = kim(client).approvals()

    assert record["message"] == "Change <secret>?"
    assert record["arguments"] == {
        "pin": "<secret>",
        "others": {"a": ["<secret>"]},
        "card": {"PIN": "<secret>", "end": "<secret>", "limit": 20},
    }
    approve_all(client)
    assert client.call_tool("change", arguments | {"pin": 18}).is_error
    assert not client.call_tool("change", arguments).is_error
    assert calls == [(17, 19)]


class Drawer(RootModel[Secret[int]]):
    """A model that is its value."""


class Parcel(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Secret[int]]


class Vault(BaseModel):
    pin: Secret[int] = Field(validation_alias=AliasPath("doors", 0))


class Till(BaseModel):
    pin: SecretStr


@dataclass
class Locker:
    pin: Annotated[Secret[int], Field(alias="PIN")]


@pytest.mark.parametrize(
    ("kind", "sent", "shown"),
    [
        (set[Secret[int]], [471147], "<secret>"),
        (Iterable[Secret[int]], [471147], "<secret>"),
        (deque[Secret[int]], [471147], ["<secret>"]),
        (dict[SecretStr, int], {"471147": 1}, "<secret>"),
        (dict[int, Secret[int]], {"1": 471147}, {"1": "<secret>"}),
        (dict[str, list[set[Secret[int]]]], {"a": [[471147]]}, "<secret>"),
        (set[SecretStr], ["471147", "471147"], ["<secret>", "<secret>"]),
        (Drawer, 471147, "<secret>"),
        (Parcel, {"pin": 471147}, {"pin": "<secret>"}),
        (Vault, {"doors": [471147]}, "<secret>"),
        (Locker, {"PIN": 471147}, "<secret>"),
        (Json[Till], '{"pin": "471147"}', "<secret>"),
    ],
)
def test_a_secret_is_hidden_also_if_its_place_is_not_known(baton: Connect, kind: Any, sent: Any, shown: Any) -> None:
    server, received = taking(kind, approval=Approval("refunds", message="Change to {value}?"))
    client = baton(server)
    client.call_tool("pay", {"value": sent})
    [record] = kim(client).approvals()

    assert record["arguments"] == {"value": shown}
    assert "471147" not in str(record)
    approve_all(client)
    assert not client.call_tool("pay", {"value": sent}).is_error
    assert received not in ([], [[]])


@pytest.mark.parametrize("way", ["background", "workflow"])
def test_the_digest_of_a_secret_has_a_salt_that_people_do_not_see(baton: Connect, way: str) -> None:
    server = Server("bank")

    @server.tool(task="required" if way == "background" else "forbidden", approval=Approval("refunds"))
    def change(pin: SecretStr) -> None:
        pass

    @server.workflow
    def change_pin(pin: str) -> None:
        step("change")(pin=pin)

    client = baton(server)
    if way == "background":
        client.start_task("change", {"pin": "1234"})
    else:
        client.call_workflow("change_pin", {"pin": "1234"})
    [record] = kim(client).approvals()
    items = client.store.client.scan(TableName="tasks")["Items"]
    [salt] = [
        item["variables"]["M"]["_workflow.salt"]["S"] for item in items if item["sk"]["S"] == f"TASK#{record['task']}"
    ]

    assert len(json.loads(salt)) >= 16
    assert salt not in str(record)
