"""The real Lambda handler, driven as API Gateway drives it, and the table behind it, seen as an operator sees it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Literal

from mcp_baton import ToolError
from mcp_baton.aws import LambdaContext
from mcp_baton.protocol.envelope import (
    CAPABILITIES_KEY,
    RELATED_TASK_KEY,
    SERVER_INFO_KEY,
    TASK_ID_KEY,
    TASKS_EXTENSION,
    VERSION_KEY,
)
from mcp_baton.server.workflows.task_view import VARIABLES_KEY, variables_in
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.items import key_of
from tests.fakes import FunctionContext

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

BOUND_S = 20.0
"""Nothing here takes that long; it only keeps a failing test from waiting forever."""

NAMED_IN_HEADER = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

type JsonDict = dict[str, Any]
type Era = Literal["2025", "2026"]
type Handler = Callable[[dict[str, Any], LambdaContext], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Answer:
    """A proxy response, read as a client reads it."""

    status: int
    headers: Mapping[str, str]
    body: str

    @property
    def messages(self) -> list[JsonDict]:
        """The JSON-RPC messages, whether they came as one JSON object or as events of a stream."""
        if self.headers.get("Content-Type") == "text/event-stream":
            return events_in(self.body)
        return [json.loads(self.body)] if self.body else []

    @property
    def notifications(self) -> list[JsonDict]:
        """What was said before the answer: the params of each notification."""
        return [message["params"] for message in self.messages[:-1]]

    @property
    def result(self) -> JsonDict:
        """The result of a request that went well."""
        answer = self.messages[-1]
        assert "result" in answer, answer
        assert self.status == 200
        result: JsonDict = answer["result"]
        return result

    @property
    def meta(self) -> JsonDict:
        """The result's `_meta`, without the server info that the 2026 era puts into every one."""
        return {name: value for name, value in self.result.get("_meta", {}).items() if name != SERVER_INFO_KEY}

    @property
    def task_id(self) -> str:
        """The task that a workflow prompt has made."""
        task_id: str = self.meta["task_id"]
        return task_id

    @property
    def statuses(self) -> list[str]:
        """The status of each step, as `_meta` tells it."""
        return [step["status"] for step in self.meta["steps"]]

    @property
    def conversation(self) -> list[tuple[str, str]]:
        """A prompt's messages: role and text."""
        return [(message["role"], message["content"]["text"]) for message in self.result["messages"]]

    @property
    def handoff(self) -> str:
        """A paused prompt's last message."""
        role, text = self.conversation[-1]
        assert role == "assistant"
        return text

    @property
    def error(self) -> JsonDict:
        """The JSON-RPC error of a request that was refused."""
        answer = self.messages[-1]
        assert "error" in answer, answer
        error: JsonDict = answer["error"]
        return error

    @property
    def refusal(self) -> tuple[int, int]:
        """A refused request's HTTP status and error code."""
        return self.status, self.error["code"]


def events_in(stream: str) -> list[JsonDict]:
    """The messages in a server-sent event stream."""
    return [
        json.loads(line.removeprefix("data: "))
        for event in stream.split("\n\n")
        for line in event.split("\n")
        if line.startswith("data: ")
    ]


def about_task(method: str, named: str, params: JsonDict) -> tuple[JsonDict, dict[str, str]]:
    """A request of the 2026 era by a client that can have tasks: the message, and its headers."""
    meta = {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {"extensions": {TASKS_EXTENSION: {}}}}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    return message, {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": named}


def proxy_event(body: str | None, owner: str | None, headers: Mapping[str, str], **changes: Any) -> JsonDict:
    """A request as a REST API with a Cognito authorizer passes it on; `changes` replaces members of the event."""
    return {
        "resource": "/mcp",
        "path": "/mcp",
        "httpMethod": "POST",
        "headers": {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers},
        "multiValueHeaders": None,
        "queryStringParameters": None,
        "requestContext": {"requestId": "api-1", **({"authorizer": {"claims": {"sub": owner}}} if owner else {})},
        "body": body,
        "isBase64Encoded": False,
        **changes,
    }


@dataclass(frozen=True, slots=True)
class Client:
    """An MCP client of one owner and one era."""

    handler: Handler
    owner: str | None = "alice"
    era: Era = "2025"
    remaining_ms: Callable[[], int] = field(default=lambda: 30_000)
    claims: JsonDict = field(default_factory=dict)

    def as_owner(self, owner: str | None) -> "Client":
        """Another's client of the same server."""
        return replace(self, owner=owner)

    def in_era(self, era: Era) -> "Client":
        """The same owner's client of another era."""
        return replace(self, era=era)

    def with_claims(self, **claims: Any) -> "Client":
        """The same owner's client with another token."""
        return replace(self, claims=claims)

    def post(self, body: str | None, headers: Mapping[str, str] | None = None, **changes: Any) -> Answer:
        """Post any body at all; `changes` replaces members of the proxy event."""
        event = proxy_event(body, self.owner, headers or {}, **changes)
        event["requestContext"].get("authorizer", {}).get("claims", {}).update(self.claims)
        response = self.handler(event, FunctionContext(self.remaining_ms))
        if not response:
            return Answer(200, {}, "")
        return Answer(response["statusCode"], response["headers"], response["body"])

    def request(
        self,
        method: str,
        params: JsonDict | None = None,
        meta: JsonDict | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request in the client's era; `headers` are more than those that the era wants."""
        sent = {**(params or {})}
        if meta or self.era == "2026":
            sent["_meta"] = {**self._own_meta(), **(meta or {})}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": sent})
        return self.post(body, {**self._headers(method, sent), **(headers or {})})

    def get_prompt(
        self, name: str, arguments: JsonDict | None = None, *, task: str | None = None, meta: JsonDict | None = None
    ) -> Answer:
        """Get a prompt: run a workflow, or with a task resume it."""
        return self.request("prompts/get", {"name": name, "arguments": arguments or {}}, naming(task, meta))

    def call_tool(
        self, name: str, arguments: JsonDict | None = None, *, task: str | None = None, meta: JsonDict | None = None
    ) -> Answer:
        """Call a tool, or with a task continue it."""
        return self.request("tools/call", {"name": name, "arguments": arguments or {}}, naming(task, meta))

    def task(self, method: str, task_id: str, **params: Any) -> Answer:
        """Send `tasks/<method>` for a task."""
        return self.request(f"tasks/{method}", {"taskId": task_id, **params})

    def task_with(self, values: object, task_id: str) -> Answer:
        """Send `tasks/get` for a task and say which values it is to show."""
        return self.request("tasks/get", {"taskId": task_id}, {VARIABLES_KEY: values})

    def variables(self, task_id: str) -> JsonDict:
        """All task variables, as `tasks/get` gives them."""
        return variables_in(self.task_with("all", task_id).meta)

    def _own_meta(self) -> JsonDict:
        if self.era == "2025":
            return {}
        return {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {"extensions": {TASKS_EXTENSION: {}}}}

    def _headers(self, method: str, params: JsonDict) -> dict[str, str]:
        if self.era == "2025":
            return {"MCP-Protocol-Version": "2025-11-25"}
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
        named_by = NAMED_IN_HEADER.get(method, "taskId")
        return {**headers, "Mcp-Name": str(params[named_by])} if named_by in params else headers


def naming(task: str | None, meta: JsonDict | None = None) -> JsonDict:
    """The `_meta` that names a task."""
    return {**(meta or {}), **({TASK_ID_KEY: task} if task else {})}


def related(era: Era, task_id: str) -> JsonDict:
    """What `_meta` says of a task in the 2025 era beside `task_id`."""
    return {RELATED_TASK_KEY: {"taskId": task_id}} if era == "2025" else {}


@dataclass(frozen=True, slots=True)
class Table:
    """The table, past the code under test."""

    client: "DynamoDBClient"
    name: str

    @property
    def items(self) -> list[Item]:
        """Everything in it."""
        return list(self.client.scan(TableName=self.name, ConsistentRead=True)["Items"])

    @property
    def statuses(self) -> list[str]:
        """The status of every task in it."""
        return [item["status"]["S"] for item in self.items if "status" in item]

    def item(self, task_id: str, owner: str = "alice") -> Item:
        """One task's item."""
        return self.client.get_item(TableName=self.name, Key=key_of(owner, task_id), ConsistentRead=True)["Item"]

    def replace(self, item: Item) -> None:
        """Put an item there as an operator would who edits it in the console."""
        self.client.put_item(TableName=self.name, Item=item)

    def mark_step(self, task_id: str, place: int, status: str, owner: str = "alice") -> None:
        """Give a step a status."""
        self.client.update_item(
            TableName=self.name,
            Key=key_of(owner, task_id),
            UpdateExpression=f"SET #v.#p.#s[{place}].#t = :status",
            ExpressionAttributeNames={"#v": "variables", "#p": "_workflow.progress", "#s": "steps", "#t": "status"},
            ExpressionAttributeValues={":status": {"S": status}},
        )

    def delete(self, task_id: str, owner: str = "alice") -> None:
        """Take a task away, as DynamoDB does some time after its lifetime is over."""
        self.client.delete_item(TableName=self.name, Key=key_of(owner, task_id))

    def expire(self, task_id: str, owner: str = "alice") -> None:
        """Let a task's lifetime be over; as in DynamoDB, the item stays for a while."""
        self.replace({**self.item(task_id, owner), "expires_at": {"N": "1"}})


@dataclass(slots=True)
class Clock:
    """The function's time: stands still until it is set."""

    ms: int = 30_000

    def __call__(self) -> int:
        """Milliseconds until the function is stopped."""
        return self.ms


def begin(client: Client, clock: Clock, workflow: str = "flow") -> str:
    """A task of which no step has run: there was no time for the first."""
    clock.ms = 2_000
    answer = client.get_prompt(workflow)
    clock.ms = 30_000
    assert set(answer.statuses) == {"pending"}
    return answer.task_id


@dataclass(slots=True)
class Script:
    """What a server's tools do as the test goes along.

    Attributes:
        called: The tools that were called, in order.
        errors: Tools that fail, and with what.
        meanwhile: What happens, once, while a tool runs.
    """

    called: list[str] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    meanwhile: dict[str, Callable[[], object]] = field(default_factory=dict)

    def play[Value](self, tool: str, value: Value) -> Value:
        """Note a call, let happen what is to happen, and fail if it is to fail."""
        self.called.append(tool)
        if tool in self.meanwhile:
            self.meanwhile.pop(tool)()
        if tool in self.errors:
            raise ToolError(self.errors[tool])
        return value

    def take(self) -> list[str]:
        """The calls since the last look."""
        taken, self.called = self.called, []
        return taken


class Sink:
    """The client's end of a stream: each message can be had as soon as it was written."""

    def __init__(self) -> None:
        self._messages: SimpleQueue[JsonDict] = SimpleQueue()

    def open(self, status: int, headers: Mapping[str, str]) -> "Sink":
        """Begin the answer."""
        assert status == 200
        assert headers["Content-Type"] == "text/event-stream"
        return self

    def write(self, data: bytes) -> None:
        """Take what was sent."""
        for message in events_in(data.decode()):
            self._messages.put(message)

    def next(self) -> JsonDict:
        """The next message, as soon as it is there."""
        return self._messages.get(timeout=BOUND_S)

    def next_told(self) -> JsonDict:
        """The params of the next message, a notification."""
        params: JsonDict = self.next()["params"]
        return params
