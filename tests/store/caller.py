"""A caller of a workflow's tool: a real handler, in a process or a thread of its own."""

from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from mcp_baton import Server, step
from mcp_baton.aws import compose, dynamodb_store
from mcp_baton.local.dynamodb import http_client
from mcp_baton.protocol.json import JsonObject
from mcp_baton.settings import Settings
from tests.fakes import FunctionContext
from tests.support.client import Client

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

type Message = dict[str, Any]


class Queue:
    """A dispatcher that keeps the events."""

    def __init__(self) -> None:
        self.events: list[Message] = []

    def dispatch(self, event: JsonObject) -> None:
        self.events.append(dict(event))


WORKFLOWS = {"foreground": "fulfil", "background": "fulfil_later"}


def shop(charge: Callable[[str], str], **options: Any) -> Server:
    """Return a server whose two workflows call this tool, one of them in the background."""
    server = Server("shop", **options)
    server.add_tool(charge, name="charge")

    @server.workflow
    def fulfil(order: str) -> None:
        step("charge")(order=order)

    @server.workflow(background=True)
    def fulfil_later(order: str) -> None:
        step("charge")(order=order)

    return server


def serve(
    client: "DynamoDBClient", table: str, receive: Callable[[], Message | None], send: Callable[[Message], object]
) -> None:
    """Make the calls that are received until there is `None`.

    A call is `{mode, era, owner, order}`, with `holds` if its tool must wait for the next message, or with `at_ms` if
    the clock must stand still. `{work}` delivers the event of a job. Each reply is `{reply, events}`, and each call of
    the tool is `{effect}`.
    """
    message: Message = {}

    def charge(order: str) -> str:
        send({"effect": order})
        if message.get("holds"):
            receive()
        return f"charged for {order}"

    server = shop(charge)
    queue, settings = Queue(), Settings(table=table, state_key=b"0" * 32)
    while (received := receive()) is not None:
        message = received
        now_ms = partial(int, message["at_ms"]) if "at_ms" in message else None
        store = dynamodb_store(table, settings, connect=lambda: client, now_ms=now_ms)
        handler = compose(server, settings, store=store, dispatcher=queue)
        if "work" in message:
            send({"reply": handler(message["work"], FunctionContext(lambda: 900_000)), "events": []})
            continue
        as_task: Message = {"task": {}} if message["mode"] == "background" and message["era"] == "2025" else {}
        params = {"name": WORKFLOWS[message["mode"]], "arguments": {"order": message["order"]}, **as_task}
        answer = Client(handler, message["owner"], message["era"]).request("tools/call", params)
        events, queue.events[:] = list(queue.events), []
        send({"reply": answer.messages[-1], "events": events})


def call_in_process(url: str, table: str, connection: Connection) -> None:
    """As `serve`, in a process of its own."""
    serve(http_client(url), table, connection.recv, connection.send)
