"""A client that calls the real Lambda handler with API Gateway events, and direct access to the table."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Literal

from mcp_baton import ToolError
from mcp_baton.aws import LambdaContext
from mcp_baton.present.mcp_task import VARIABLES_KEY
from mcp_baton.present.prompt_messages import REQUESTS
from mcp_baton.present.view import variables_in
from mcp_baton.protocol.envelope import (
    CAPABILITIES_KEY,
    RELATED_TASK_KEY,
    SERVER_INFO_KEY,
    TASK_ID_KEY,
    TASKS_EXTENSION,
    VERSION_KEY,
)
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.items import key_of
from tests.fakes import FunctionContext

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

BOUND_S = 60.0
"""The time limit for waits in these tests. No wait takes that long unless a test fails."""

NAMED_IN_HEADER = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

type JsonDict = dict[str, Any]
type Era = Literal["2025", "2026"]
type Handler = Callable[[dict[str, Any], LambdaContext], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Answer:
    """A proxy response with the JSON-RPC messages in it."""

    status: int
    headers: Mapping[str, str]
    body: str

    @property
    def messages(self) -> list[JsonDict]:
        """Return the JSON-RPC messages of a JSON body or of an event stream."""
        if self.headers.get("Content-Type") == "text/event-stream":
            return events_in(self.body)
        return [json.loads(self.body)] if self.body else []

    @property
    def notifications(self) -> list[JsonDict]:
        """Return the params of each notification that came before the answer."""
        return [message["params"] for message in self.messages[:-1]]

    @property
    def result(self) -> JsonDict:
        """Return the result. Fail if the request was refused."""
        answer = self.messages[-1]
        assert "result" in answer, answer
        assert self.status == 200
        result: JsonDict = answer["result"]
        return result

    @property
    def meta(self) -> JsonDict:
        """Return the result's `_meta` without the server info that each answer of the 2026 era has."""
        return {name: value for name, value in self.result.get("_meta", {}).items() if name != SERVER_INFO_KEY}

    @property
    def task_id(self) -> str:
        """Return the id of the task that a workflow prompt has created."""
        task_id: str = self.meta["task_id"]
        return task_id

    @property
    def statuses(self) -> list[str]:
        """Return the status of each step in `_meta`."""
        return [step["status"] for step in self.meta["steps"]]

    @property
    def conversation(self) -> list[tuple[str, str]]:
        """Return the role and the text of each message of a prompt."""
        return [(message["role"], message["content"]["text"]) for message in self.result["messages"]]

    @property
    def handoff(self) -> str:
        """Return the last message of the assistant. The user's request follows it."""
        (role, text), (last_role, request) = self.conversation[-2:]
        assert (role, last_role) == ("assistant", "user")
        assert request in REQUESTS
        return text

    @property
    def error(self) -> JsonDict:
        """Return the JSON-RPC error of a refused request."""
        answer = self.messages[-1]
        assert "error" in answer, answer
        error: JsonDict = answer["error"]
        return error

    @property
    def refusal(self) -> tuple[int, int]:
        """Return the HTTP status and the error code of a refused request."""
        return self.status, self.error["code"]


def events_in(stream: str) -> list[JsonDict]:
    """Return the messages in a stream of server-sent events."""
    return [
        json.loads(line.removeprefix("data: "))
        for event in stream.split("\n\n")
        for line in event.split("\n")
        if line.startswith("data: ")
    ]


def about_task(method: str, mcp_name: str, params: JsonDict) -> tuple[JsonDict, dict[str, str]]:
    """Return the message and the headers of a request about a task, in the 2026 era."""
    meta = {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {"extensions": {TASKS_EXTENSION: {}}}}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    return message, {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": mcp_name}


def proxy_event(body: str | None, owner: str | None, headers: Mapping[str, str], **changes: Any) -> JsonDict:
    """Return the event that a REST API with a Cognito authorizer sends. `changes` replaces members of the event."""
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
        """Return a client of the same server for another owner."""
        return replace(self, owner=owner)

    def in_era(self, era: Era) -> "Client":
        """Return a client of the same owner for another era."""
        return replace(self, era=era)

    def with_claims(self, **claims: Any) -> "Client":
        """Return a client of the same owner with another token."""
        return replace(self, claims=claims)

    def post(self, body: str | None, headers: Mapping[str, str] | None = None, **changes: Any) -> Answer:
        """Post any body. `changes` replaces members of the proxy event."""
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
        """Send a request in the client's era. `headers` are added to those that the era requires."""
        all_params = {**(params or {})}
        if meta or self.era == "2026":
            all_params["_meta"] = {**self._own_meta(), **(meta or {})}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": all_params})
        return self.post(body, {**self._headers(method, all_params), **(headers or {})})

    def get_prompt(
        self, name: str, arguments: JsonDict | None = None, *, task: str | None = None, meta: JsonDict | None = None
    ) -> Answer:
        """Get a prompt: run a workflow, or resume it if `task` is given."""
        return self.request("prompts/get", {"name": name, "arguments": arguments or {}}, task_meta(task, meta))

    def call_tool(
        self, name: str, arguments: JsonDict | None = None, *, task: str | None = None, meta: JsonDict | None = None
    ) -> Answer:
        """Call a tool. With `task` the call is a continuation."""
        return self.request("tools/call", {"name": name, "arguments": arguments or {}}, task_meta(task, meta))

    def task(self, method: str, task_id: str, **params: Any) -> Answer:
        """Send `tasks/<method>` for a task."""
        return self.request(f"tasks/{method}", {"taskId": task_id, **params})

    def task_with(self, values: object, task_id: str) -> Answer:
        """Send `tasks/get` for a task with the choice of values to show."""
        return self.request("tasks/get", {"taskId": task_id}, {VARIABLES_KEY: values})

    def variables(self, task_id: str) -> JsonDict:
        """Return all task variables that `tasks/get` shows."""
        return variables_in(self.task_with("all", task_id).meta)

    def _own_meta(self) -> JsonDict:
        if self.era == "2025":
            return {}
        return {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {"extensions": {TASKS_EXTENSION: {}}}}

    def _headers(self, method: str, params: JsonDict) -> dict[str, str]:
        if self.era == "2025":
            return {"MCP-Protocol-Version": "2025-11-25"}
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
        name_param = NAMED_IN_HEADER.get(method, "taskId")
        return {**headers, "Mcp-Name": str(params[name_param])} if name_param in params else headers


def task_meta(task: str | None, meta: JsonDict | None = None) -> JsonDict:
    """Return a `_meta` that names the task."""
    return {**(meta or {}), **({TASK_ID_KEY: task} if task else {})}


def related_meta(era: Era, task_id: str) -> JsonDict:
    """Return the member that `_meta` has beside `task_id` in the 2025 era."""
    return {RELATED_TASK_KEY: {"taskId": task_id}} if era == "2025" else {}


@dataclass(frozen=True, slots=True)
class Table:
    """Direct access to the table, without the code under test."""

    client: "DynamoDBClient"
    name: str

    @property
    def items(self) -> list[Item]:
        return list(self.client.scan(TableName=self.name, ConsistentRead=True)["Items"])

    @property
    def statuses(self) -> list[str]:
        return [item["status"]["S"] for item in self.items if "status" in item]

    def item(self, task_id: str, owner: str = "alice") -> Item:
        return self.client.get_item(TableName=self.name, Key=key_of(owner, task_id), ConsistentRead=True)["Item"]

    def replace(self, item: Item) -> None:
        """Put an item, as an operator does in the console."""
        self.client.put_item(TableName=self.name, Item=item)

    def delete(self, task_id: str, owner: str = "alice") -> None:
        """Delete a task's item, as DynamoDB does some time after it expired."""
        self.client.delete_item(TableName=self.name, Key=key_of(owner, task_id))

    def expire(self, task_id: str, owner: str = "alice") -> None:
        """Let a task expire. The item stays, as it does in DynamoDB for a while."""
        self.replace({**self.item(task_id, owner), "expires_at": {"N": "1"}})


@dataclass(slots=True)
class Clock:
    """The function's remaining time. It changes only if a test sets it."""

    ms: int = 30_000

    def __call__(self) -> int:
        """Return the milliseconds until the function's time ends."""
        return self.ms


def begin(client: Client, clock: Clock, workflow: str = "flow") -> str:
    """Return the id of a task whose steps are all pending, because there was no time for the first one."""
    clock.ms = 2_000
    answer = client.get_prompt(workflow)
    clock.ms = 30_000
    assert set(answer.statuses) == {"pending"}
    return answer.task_id


@dataclass(slots=True)
class Script:
    """Controls what a server's tools do.

    Attributes:
        errors: The error texts of the tools that fail, by tool.
        meanwhile: By tool, a function that runs once, during the tool's next call.
    """

    calls: list[str] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    meanwhile: dict[str, Callable[[], object]] = field(default_factory=dict)

    def play[Value](self, tool: str, value: Value) -> Value:
        """Record a call, run the function for it in `meanwhile`, and raise the tool's error or return `value`."""
        self.calls.append(tool)
        if tool in self.meanwhile:
            self.meanwhile.pop(tool)()
        if tool in self.errors:
            raise ToolError(self.errors[tool])
        return value

    def run(self, tool: str) -> str:
        """As `play`, for a tool that returns its name."""
        return self.play(tool, tool)

    def take(self) -> list[str]:
        """Return the calls since the last `take`."""
        calls, self.calls = self.calls, []
        return calls


class Sink:
    """The client's end of a stream. Each message is available as soon as it is written."""

    def __init__(self) -> None:
        self._messages: SimpleQueue[JsonDict] = SimpleQueue()

    def open(self, status: int, headers: Mapping[str, str]) -> "Sink":
        """Start the answer."""
        assert status == 200
        assert headers["Content-Type"] == "text/event-stream"
        return self

    def write(self, data: bytes) -> None:
        """Queue the messages in `data`."""
        for message in events_in(data.decode()):
            self._messages.put(message)

    def next(self) -> JsonDict:
        """Wait for the next message and return it."""
        return self._messages.get(timeout=BOUND_S)

    def next_params(self) -> JsonDict:
        """Return the params of the next message, a notification."""
        params: JsonDict = self.next()["params"]
        return params
