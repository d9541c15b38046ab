"""An approval covers the call as it was sent: no other call is equal to it, and it is equal to itself everywhere."""

import datetime
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable
from dataclasses import InitVar, dataclass
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, Field, SecretBytes, SecretStr, field_serializer

from mcp_baton import Approval, Argument, Context, Retry, Server, ToolError, item, step
from mcp_baton.testing import Connect
from tests.approvals.bank import approve_all, kim, waiting_ids
from tests.typed import taking

GUARD = Approval("refunds")


class Payment(BaseModel):
    amount: float
    iban: str = Field(exclude=True)


class Masked(BaseModel):
    iban: str

    @field_serializer("iban")
    def mask(self, iban: str) -> str:
        return iban[:0] + "***"


class Login(BaseModel):
    password: SecretStr


class Aliased(BaseModel):
    iban: SecretStr = Field(alias="IBAN")


@dataclass
class Signed:
    amount: int
    key: InitVar[str]

    def __post_init__(self, key: str) -> None:
        self.signed = key


@dataclass
class Slots:
    __slots__ = ("iban",)
    iban: Any


TWO_CALLS: list[tuple[Any, Any, Any]] = [
    (SecretStr, "good", "evil"),
    (SecretBytes, "good", "evil"),
    (SecretStr | None, "good", None),
    (list[SecretStr], ["good"], ["evil"]),
    (dict[str, Login], {"a": {"password": "good"}}, {"a": {"password": "evil"}}),
    (Aliased, {"IBAN": "good"}, {"IBAN": "evil"}),
    (Payment, {"amount": 1, "iban": "good"}, {"amount": 1, "iban": "evil"}),
    (list[Payment], [{"amount": 1, "iban": "good"}], [{"amount": 1, "iban": "evil"}]),
    (Masked, {"iban": "good"}, {"iban": "evil"}),
    (Signed, {"amount": 1, "key": "good"}, {"amount": 1, "key": "evil"}),
    (Slots, {"iban": 1}, {"iban": "1"}),
    (Iterable[str], ["good"], ["evil"]),
    (Any, 1, True),
    (Any, "1", 1),
    (Any, 2**53, 2**53 + 1),
    (Any, [1, [2]], [1, 2]),
    (Any, {"a": None}, {}),
    (Any, "\ud800", "\\ud800"),
    (int | str, 1, "1"),
]


def guarded(annotation: Any, default: Any = ...) -> tuple[Server, list[Any]]:
    return taking(annotation, default, approval=GUARD)


@pytest.mark.parametrize(("annotation", "approved", "called"), TWO_CALLS, ids=str)
def test_an_approval_does_not_cover_another_value(baton: Connect, annotation: Any, approved: Any, called: Any) -> None:
    server, values = guarded(annotation)
    client = baton(server)
    client.call_tool("pay", {"value": approved})
    approve_all(client)

    assert client.call_tool("pay", {"value": called}).is_error
    assert values == []
    assert not client.call_tool("pay", {"value": approved}).is_error


@pytest.mark.parametrize(("annotation", "first", "second"), TWO_CALLS, ids=str)
def test_calls_of_a_step_with_different_values_have_different_idempotency_keys(
    baton: Connect, annotation: Any, first: Any, second: Any
) -> None:
    server, keys = Server("bank"), list[str]()

    def charge(ctx: Context, value: Any) -> str:
        keys.append(ctx.idempotency_key)
        return "paid"

    charge.__annotations__["value"] = annotation
    pay = server.tool(name="pay")(charge)

    @server.tool
    def wait() -> str:
        raise RuntimeError

    @server.workflow
    def refund() -> None:
        step(pay)(value=step(wait)())  # type: ignore[no-untyped-call]

    client = baton(server)
    task = client.call_workflow("refund").task_id
    for value in (first, second, first):
        client.call_tool("pay", {"value": value}, task=task)

    assert len(keys) == 3
    assert (keys[0] == keys[2], len(set(keys))) == (True, 2)


@pytest.mark.parametrize(
    ("annotation", "default", "explicit", "is_covered"),
    [
        (int, 5, 5, True),
        (int, 5, "5", True),
        (float, 5.0, 5, True),
        (str, "", "", True),
        (list[int], [1], [1], True),
        (str | None, None, None, True),
        (Annotated[int, Field(gt=0)], 5, 5, True),
        (int, Field(5), 5, True),
        (datetime.date, datetime.date(2026, 1, 2), "2026-01-02", True),
        (datetime.timedelta, datetime.timedelta(hours=1), "PT1H", True),
        (list[Path], [Path("/a")], ["/a"], True),
        pytest.param(set[str], {"b", "a"}, ["a", "b"], True, id="a set"),  # whose text differs in each worker
        (int, 5, 6, False),
        (bool, False, 0.5, False),
        (SecretStr, SecretStr("good"), "**********", False),
        (str, Field(default_factory=lambda: "made"), "made", False),
    ],
    ids=str,
)
def test_a_static_default_is_equal_to_its_value(
    baton: Connect, annotation: Any, default: Any, explicit: Any, is_covered: bool
) -> None:
    server, values = guarded(annotation, default)
    client = baton(server)
    client.call_tool("pay", {})
    approve_all(client)
    client.call_tool("pay", {"value": explicit})

    assert len(values) == is_covered


@pytest.mark.filterwarnings("ignore:Default value UTC is not JSON")
def test_a_call_with_a_default_that_is_not_json_is_equal_to_itself(baton: Connect) -> None:
    server, values = guarded(Any, datetime.UTC)
    client = baton(server)
    client.call_tool("pay")
    approve_all(client)
    client.call_tool("pay")

    assert len(values) == 1


def test_a_call_is_equal_to_itself_although_its_values_change_at_each_conversion(baton: Connect) -> None:
    numbers = count()
    stamped = Annotated[str, AfterValidator(lambda text: f"{text}-{next(numbers)}")]
    server, values = guarded(stamped)
    server_with_factory, made_values = guarded(str, Field(default_factory=lambda: str(next(numbers))))
    for client, arguments in ((baton(server), {"value": "a"}), (baton(server_with_factory), {})):
        client.call_tool("pay", arguments)
        approve_all(client)
        client.call_tool("pay", arguments)

    assert (len(values), len(made_values)) == (1, 1)


PROGRAM = """
from mcp_baton import Approval, Argument, Server, step
from mcp_baton.testing import connect

server = Server("bank")

@server.tool(approval=Approval("refunds"))
def notify(people: set[str], others: frozenset[str] = frozenset("abcdef")) -> str:
    return "notified"

@server.workflow
def tell(people: set[str]) -> None:
    "tell"
    step(notify)(people=people)

with connect(server, owner="ann") as client:
    kim = client.as_owner("kim", scopes=["refunds"])
    client.call_tool("notify", {"people": ["ann", "bob", "cy", "di", "eve"]})
    print(kim.approvals()[0]["digest"])
    client.call_workflow("tell", {"people": ["ann", "bob", "cy", "di", "eve"]})
    print(kim.approvals()[0]["arguments"]["people"])
"""


def test_a_call_with_sets_has_the_same_digest_in_each_process() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }

    assert len(outputs) == 1


@pytest.mark.parametrize("kind", [Iterable[str], Generator[str]])
def test_a_value_that_can_be_read_once_reaches_the_tool_whole(baton: Connect, kind: Any) -> None:
    seen, values = list[list[str]](), list[list[str]]()
    server = Server("bank")

    def read(value: Iterable[str]) -> bool:
        seen.append(list(value))
        return True

    def charge(value: Any) -> str:
        values.append(list(value))
        if len(values) == 1:
            raise ToolError("try again", retryable=True)
        return "paid"

    charge.__annotations__["value"] = kind
    approval_of_all = Approval("refunds", message="Pay {value}?", when=read)
    pay = server.tool(name="pay", approval=approval_of_all, idempotent=True)(charge)

    @server.workflow
    def refund(value: list[str]) -> None:
        step(pay, retry=Retry(attempts=2, first_s=0))(value=value)  # type: ignore[no-untyped-call]

    client = baton(server)
    task = client.call_workflow("refund", {"value": ["ann", "bob"]}).task_id
    [approval] = kim(client).approvals()
    approve_all(client)

    assert client.call_workflow("refund", task=task).completed
    assert values == [["ann", "bob"]] * 2
    assert (seen[0], approval["arguments"]["value"], approval["message"]) == (
        ["ann", "bob"],
        ["ann", "bob"],
        'Pay ["ann", "bob"]?',
    )


@pytest.mark.parametrize("make", [lambda: guarded(SecretStr), lambda: guarded(Login), lambda: guarded(Aliased)])
def test_a_secret_of_a_type_is_in_no_record(baton: Connect, make: Callable[[], tuple[Server, list[Any]]]) -> None:
    client = baton(make()[0])
    for value in ("hunter2", {"password": "hunter2"}, {"IBAN": "hunter2"}):
        client.call_tool("pay", {"value": value})
    [approval] = kim(client).approvals()

    assert "hunter2" not in str(approval)
    assert "<secret>" in str(approval["arguments"])


def test_an_argument_of_a_workflow_reaches_the_tool_with_its_masked_and_excluded_parts(baton: Connect) -> None:
    server, values = Server("bank"), list[Any]()

    @server.tool
    def pay(payment: Payment, login: Login) -> str:
        values.append((payment.iban, login.password.get_secret_value()))
        return "paid"

    @server.workflow
    def refund(payment: Payment, login: Annotated[Login, Argument(secret=True)]) -> None:
        step(pay)(payment=payment, login=login)

    client = baton(server)
    assert client.call_workflow("refund", {"payment": {"amount": 1, "iban": "i"}, "login": {"password": "p"}}).completed
    assert values == [("i", "p")]


def test_each_element_is_bound_to_what_was_sent(baton: Connect) -> None:
    server, paid = Server("bank"), list[str]()

    @server.tool(approval=GUARD)
    def pay(payment: Payment) -> str:
        paid.append(payment.iban)
        return "paid"

    @server.workflow
    def refund(payments: list[dict[str, Any]]) -> None:
        step(pay, each=payments)(payment=item())

    client = baton(server)
    run = client.call_workflow("refund", {"payments": [{"amount": 1, "iban": iban} for iban in ("a", "b")]})
    first, second = waiting_ids(client)
    kim(client).approve(first)
    client.call_workflow("refund", task=run.task_id)

    assert len(paid) == 1
    kim(client).approve(second)
    assert client.call_workflow("refund", task=run.task_id).completed
    assert sorted(paid) == ["a", "b"]
