"""Every file in `events/` is sent to the `lambda_handler` of its function, over a DynamoDB in memory."""

import importlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import FunctionContext
from tests.starter import SERVER, needs_the_starter
from tests.support.client import Table, events_in

ROOT = Path(__file__).parents[2]
EVENTS = ROOT / "events"
FUNCTION = ROOT / "examples" / "sample"
MODULES = ("app", "shop", "orders", "sales")
PATHS = {path.stem: path for path in EVENTS.rglob("*.json")}
FILES = sorted(PATHS)
TOOLS = [
    *("send_message", "fetch_order", "issue_refund", "extract_sales", "validate_sales", "publish_report"),
    *("find_regions", "count_orders", "add_orders", "best_region"),
]
WORKFLOWS = ["refund_order", "monthly_report", "regional_report"]
PAGE = "https://app.example.com"
STARTER_EVENT = "prompts-get-borrow-pauses"
"""The event that starts a task of the server in functions/mcp, which is the default deployment."""
PAUSE = "result/_meta/pause_reason/type"

type Handler = Callable[[dict[str, Any], object], dict[str, Any]]

OUTCOMES: Mapping[str, Mapping[str, object]] = {
    "initialize": {"result/serverInfo/name": "shop"},
    "initialized-notification": {"status": 202, "body": ""},
    "discover-2026": {"result/resultType": "complete"},
    "tools-list": {"result/tools/*/name": [*TOOLS, *WORKFLOWS]},
    "tools-list-2026": {"result/tools/*/name": [*TOOLS, *WORKFLOWS]},
    "prompts-list": {"result/prompts/*/name": ["apology", *WORKFLOWS]},
    "resources-templates-list": {"result/resourceTemplates/*/uriTemplate": ["policy://refunds/{category}"]},
    "resources-read": {"result/contents/*/mimeType": ["text/markdown"]},
    "tools-call": {"result/structuredContent/order_id": "A-17"},
    "tools-call-tool-error": {"result/isError": True, "result/content/*/type": ["text"]},
    STARTER_EVENT: {PAUSE: "answersRequired"},
    "prompts-get-apology": {"result/messages/*/role": ["user"]},
    "prompts-get-missing-argument": {"error/code": -32602},
    "prompts-get-refund-completes": {"result/_meta/task_status": "completed"},
    "prompts-get-refund-pauses": {
        "progress": ["Step 1/4: fetch", "Step 2/4: policy", "Step 3/4: refund"],
        PAUSE: "approvalRequired",
    },
    "prompts-get-report-pauses-2026": {PAUSE: "answersRequired"},
    "tools-call-continuation": {"result/_meta/recorded": True, "result/structuredContent/amount": 100.0},
    "prompts-get-resume": {"result/_meta/pause_reason/blockedStep": "refund", PAUSE: "approvalRequired"},
    "tasks-get": {"result/status": "working"},
    "tasks-get-2026": {"result/status": "working"},
    "tasks-list": {"result/tasks/*/status": ["working"]},
    "tasks-result": {"error/code": -32600},
    "tasks-cancel": {"result/status": "cancelled"},
    "tasks-cancel-with-result": {"result/status": "completed"},
    "http-api-v2-tools-call": {"result/structuredContent/item": "Folding desk"},
    "base64-tools-call": {"result/structuredContent/text": "Größe 38 kommt zurück — danke!"},
    "start-report": {"outcome": "started"},
    "get-not-allowed": {"status": 405, "error/code": -32600},
    "preflight": {"status": 204, "headers/Access-Control-Allow-Origin": PAGE},
}
"""For each file, paths in the answer and their values. `*` stands for all elements of a list. The default status is
200."""


@pytest.fixture
def function() -> Path:
    return FUNCTION


@pytest.fixture
def lambda_handler(monkeypatch: pytest.MonkeyPatch, table: Table, function: Path) -> Iterator[Handler]:
    """The handler as Lambda loads it: `app.py` is imported with the function's folder on the path."""
    monkeypatch.setenv("BATON_TABLE", table.name)
    monkeypatch.setenv("BATON_ALLOWED_ORIGINS", PAGE)
    monkeypatch.setenv("BATON_WORKER", "baton-worker:live")
    monkeypatch.setattr("mcp_baton.aws.dynamodb_client", lambda: table.client)
    monkeypatch.setattr("mcp_baton.aws.lambda_client", Queue)
    monkeypatch.syspath_prepend(function)
    forget_modules()
    yield importlib.import_module("app").lambda_handler
    forget_modules()


class Queue:
    """Stands in for Lambda's client: it accepts each event for the worker, and delivers none."""

    def invoke(self, **_: object) -> dict[str, int]:
        return {"StatusCode": 202}


def forget_modules() -> None:
    for name in MODULES:
        sys.modules.pop(name, None)


def run(handler: Handler, name: str, task_id: str = "") -> dict[str, Any]:
    """Run one event. Return its status, headers, body, progress messages and the members of its final message."""
    event = json.loads(PATHS[name].read_text().replace("TASK_ID", task_id))
    answer = handler(event, FunctionContext())
    if "batonStart" in event:  # the outcome, for the log
        return {"status": 200, **answer}
    assert not answer["isBase64Encoded"]
    is_stream = answer["headers"].get("Content-Type") == "text/event-stream"
    messages = events_in(answer["body"]) if is_stream else [json.loads(answer["body"] or "{}")]
    return {
        "status": answer["statusCode"],
        "headers": answer["headers"],
        "body": answer["body"],
        "progress": [message["params"]["message"] for message in messages[:-1]],
        **messages[-1],
    }


def value_at(value: Any, path: str) -> Any:
    """Return the value at the path, or `None` if there is none."""
    head, _, tail = path.partition("/")
    if head == "*":
        return [value_at(item, tail) for item in value]
    if isinstance(value, list):
        value = value[int(head)]
    elif isinstance(value, dict):
        value = value.get(head)
    else:
        value = None
    return value_at(value, tail) if tail else value


def paused_task(handler: Handler) -> str:
    """Return the id of a refund that waits for an approval."""
    task_id = value_at(run(handler, "prompts-get-refund-pauses"), "result/_meta/task_id")
    assert isinstance(task_id, str)
    return task_id


def test_every_event_has_a_documented_outcome() -> None:
    readme = (EVENTS / "README.md").read_text()

    assert set(FILES) == OUTCOMES.keys()
    assert [name for name in FILES if f"`{name}.json`" not in readme] == []


@pytest.mark.parametrize("name", sorted(set(FILES) - {STARTER_EVENT}))
def test_an_event_gives_its_documented_outcome(name: str, lambda_handler: Handler) -> None:
    text = PATHS[name].read_text()
    task_id = paused_task(lambda_handler) if "TASK_ID" in text or name == "tasks-list" else ""

    answer = run(lambda_handler, name, task_id)

    expected = {"status": 200, **OUTCOMES[name]}
    assert {path: value_at(answer, path) for path in expected} == expected


@needs_the_starter
@pytest.mark.parametrize("function", [SERVER.parent])
@pytest.mark.parametrize("name", sorted(path.stem for path in EVENTS.glob("*.json")))
def test_an_event_without_the_sample_succeeds_in_the_default_deployment(name: str, lambda_handler: Handler) -> None:
    text = PATHS[name].read_text()
    needs_task = "TASK_ID" in text or name == "tasks-list"
    task_id = value_at(run(lambda_handler, STARTER_EVENT), "result/_meta/task_id") if needs_task else ""

    answer = run(lambda_handler, name, task_id)

    expected = OUTCOMES[name]
    assert (answer["status"], value_at(answer, "error/code")) == (
        expected.get("status", 200),
        expected.get("error/code"),
    )
    assert value_at(answer, PAUSE) == expected.get(PAUSE)
