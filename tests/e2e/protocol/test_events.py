"""Every file in `events/` through the `lambda_handler` that it is for, over a DynamoDB in memory."""

import importlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support import Table, events_in
from tests.fakes import FunctionContext
from tests.starter import SERVER, needs_the_starter

ROOT = Path(__file__).parents[3]
EVENTS = ROOT / "events"
FUNCTION = ROOT / "examples" / "sample"
MODULES = ("app", "shop", "orders", "sales")
PATHS = {path.stem: path for path in EVENTS.rglob("*.json")}
FILES = sorted(PATHS)
TOOLS = ["send_message", "fetch_order", "issue_refund", "extract_sales", "validate_sales", "publish_report"]
WORKFLOWS = ["refund_order", "monthly_report"]
PAGE = "https://app.example.com"
STARTERS = "prompts-get-borrow-pauses"
"""The event that begins a task of the server in functions/mcp, which is deployed unless another one is named."""
PAUSED = ["completed", "completed", "failed", "pending"]

type Handler = Callable[[dict[str, Any], object], dict[str, Any]]

OUTCOMES: Mapping[str, Mapping[str, object]] = {
    "initialize": {
        "result/protocolVersion": "2025-11-25",
        "result/serverInfo/name": "shop",
        "result/capabilities/tasks": {"list": {}, "cancel": {}},
    },
    "initialized-notification": {"status": 202, "body": ""},
    "discover-2026": {
        "result/supportedVersions": ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"],
        "result/capabilities/extensions": {"io.modelcontextprotocol~tasks": {}},
        "result/resultType": "complete",
    },
    "tools-list": {"result/tools/*/name": [*TOOLS, *WORKFLOWS], "result/ttlMs": None},
    "tools-list-2026": {
        "result/tools/*/name": [*TOOLS, *WORKFLOWS],
        "result/resultType": "complete",
        "result/cacheScope": "public",
    },
    "prompts-list": {
        "result/prompts/*/name": ["apology", *WORKFLOWS],
        "result/prompts/1/arguments/*/required": [True, False],
    },
    "resources-templates-list": {"result/resourceTemplates/*/uriTemplate": ["policy://refunds/{category}"]},
    "resources-read": {
        "result/contents/*/mimeType": ["text/markdown"],
        "result/contents/0/text": (
            "# Refunds: electronics\n\n- Up to EUR 100.00 without an approval.\n"
            "- Above that a supervisor must approve, and is named in `approved_by`.\n"
            "- Never more than the order's total.\n"
        ),
    },
    "tools-call": {
        "result/structuredContent": {
            "order_id": "A-17",
            "email": "kim@example.com",
            "item": "Noise-cancelling headphones",
            "category": "electronics",
            "total": 240.0,
        },
        "result/isError": None,
    },
    "tools-call-tool-error": {
        "result/isError": True,
        "result/content/*/text": [
            "EUR 240.00 is above the EUR 100.00 that electronics are refunded without an approval"
        ],
        "result/_meta": None,
    },
    STARTERS: {"result/_meta/pause_reason/type": "answersRequired"},
    "prompts-get-apology": {
        "result/messages/*/role": ["user"],
        "result/messages/0/content/text": (
            "Write a short, warm apology to ada@example.com for the trouble with: A field guide to mosses (order A-18)."
        ),
    },
    "prompts-get-missing-argument": {
        "status": 200,
        "error/code": -32602,
        "error/message": "Invalid params: the argument 'order_id' is required",
    },
    "prompts-get-refund-completes": {
        "result/_meta/task_status": "completed",
        "result/_meta/steps/*/status": ["completed"] * 4,
        "result/_meta/pause_reason": None,
    },
    "prompts-get-refund-pauses": {
        "progress": ["Step 1/4: fetch", "Step 2/4: policy", "Step 3/4: refund"],
        "result/_meta/task_status": "working",
        "result/_meta/steps/*/status": PAUSED,
        "result/_meta/pause_reason/type": "toolError",
        "result/_meta/pause_reason/suggestedTool": "issue_refund",
    },
    "prompts-get-report-pauses-2026": {
        "progress": [
            "Step 1/5: extract",
            "3 of 10 rows",
            "6 of 10 rows",
            "9 of 10 rows",
            "10 of 10 rows",
            "Step 2/5: validate",
            "Step 3/5: summary",
        ],
        "result/_meta/steps/*/status": ["completed", "completed", "pending", "pending", "pending"],
        "result/_meta/pause_reason/type": "answersRequired",
        "result/_meta/pause_reason/questions/*/name": ["summary"],
        "result/_meta/pause_reason/suggestedTool": "monthly_report",
        "result/_meta/io.modelcontextprotocol~related-task": None,
    },
    "tools-call-continuation": {
        "result/structuredContent": {
            "refund_id": "R-A-17",
            "amount": 240.0,
            "approved_by": "supervisor@example.com",
        },
        "result/_meta/recorded": True,
        "result/_meta/task_status": "working",
        "result/_meta/steps/*/status": ["completed", "completed", "completed", "pending"],
        "result/_meta/pause_reason": None,
    },
    "prompts-get-resume": {
        "result/_meta/steps/*/status": PAUSED,
        "result/_meta/pause_reason/failedStep": "refund",
        "result/messages/2/content/text": 'Calling fetch_order with {"order_id": "A-17"}',
    },
    "tasks-get": {
        "result/status": "working",
        "result/ttl": 3_600_000,
        "result/_meta/_workflow.progress/steps/*/status": PAUSED,
        "result/_meta/_workflow.result.fetch/total": 240.0,
        "result/_meta/_workflow.pause_reason/type": "toolError",
    },
    "tasks-get-2026": {
        "result/status": "working",
        "result/ttlMs": 3_600_000,
        "result/_meta/_workflow.progress/steps/*/status": PAUSED,
    },
    "tasks-list": {"result/tasks/*/status": ["working"], "result/nextCursor": None},
    "tasks-result": {
        "error/code": -32600,
        "error/data/status": "working",
        "error/data/progress/goal": "refund_order: refund an order according to our policy",
    },
    "tasks-cancel": {"result/status": "cancelled"},
    "tasks-cancel-with-result": {"result/status": "completed"},
    "http-api-v2-tools-call": {"result/structuredContent/item": "Folding desk"},
    "base64-tools-call": {"result/structuredContent/text": "Größe 38 kommt zurück — danke!"},
    "get-not-allowed": {"status": 405, "error/code": -32600, "headers/Allow": "POST"},
    "preflight": {
        "status": 204,
        "body": "",
        "headers/Access-Control-Allow-Origin": PAGE,
        "headers/Access-Control-Allow-Methods": "POST",
        "headers/Access-Control-Allow-Headers": (
            "authorization, content-type, mcp-method, mcp-name, mcp-protocol-version"
        ),
        "headers/Access-Control-Allow-Credentials": None,
    },
}
"""By file: where in the answer, and what is there. `None` says that nothing is; `*` is every element of a list, and `~`
stands for a slash in a name. The status is 200 where nothing else is said."""


@pytest.fixture
def function() -> Path:
    """The folder of the function whose handler it is."""
    return FUNCTION


@pytest.fixture
def lambda_handler(monkeypatch: pytest.MonkeyPatch, table: Table, function: Path) -> Iterator[Handler]:
    """The handler as Lambda makes it: `app.py` imported with the function's folder on the path."""
    monkeypatch.setenv("BATON_TABLE", table.name)
    monkeypatch.setenv("BATON_ALLOWED_ORIGINS", PAGE)
    monkeypatch.setattr("mcp_baton.aws.dynamodb_client", lambda: table.client)
    monkeypatch.syspath_prepend(function)
    forget_modules()
    yield importlib.import_module("app").lambda_handler
    forget_modules()


def forget_modules() -> None:
    for name in MODULES:
        sys.modules.pop(name, None)


def run(handler: Handler, name: str, task_id: str = "") -> dict[str, Any]:
    """Run one event; its answer: status, headers, body, and the final message's members."""
    event = json.loads(PATHS[name].read_text().replace("TASK_ID", task_id))
    answer = handler(event, FunctionContext())
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


def at(value: Any, path: str) -> Any:
    """What stands at a path, `None` where nothing does."""
    head, _, rest = path.partition("/")
    if head == "*":
        return [at(item, rest) for item in value]
    if isinstance(value, list):
        value = value[int(head)]
    else:
        value = value.get(head.replace("~", "/")) if isinstance(value, dict) else None
    return at(value, rest) if rest else value


def slashes(expected: object) -> object:
    if isinstance(expected, dict):
        return {key.replace("~", "/"): value for key, value in expected.items()}
    return expected


def paused_task(handler: Handler) -> str:
    """The id of a refund that waits for an approval."""
    task_id = at(run(handler, "prompts-get-refund-pauses"), "result/_meta/task_id")
    assert isinstance(task_id, str)
    return task_id


def test_every_event_has_a_documented_outcome() -> None:
    readme = (EVENTS / "README.md").read_text()

    assert set(FILES) == OUTCOMES.keys()
    assert [name for name in FILES if f"`{name}.json`" not in readme] == []


@pytest.mark.parametrize("name", sorted(set(FILES) - {STARTERS}))
def test_an_event_gives_its_documented_outcome(name: str, lambda_handler: Handler) -> None:
    text = PATHS[name].read_text()
    task_id = paused_task(lambda_handler) if "TASK_ID" in text or name == "tasks-list" else ""

    answer = run(lambda_handler, name, task_id)

    expected = {"status": 200, **OUTCOMES[name]}
    assert {path: at(answer, path) for path in expected} == {path: slashes(value) for path, value in expected.items()}


@needs_the_starter
@pytest.mark.parametrize("function", [SERVER.parent])
@pytest.mark.parametrize("name", sorted(path.stem for path in EVENTS.glob("*.json")))
def test_an_event_that_does_not_need_the_sample_succeeds_in_the_default_deployment(
    name: str, lambda_handler: Handler
) -> None:
    text = PATHS[name].read_text()
    begins = "TASK_ID" in text or name == "tasks-list"
    task_id = at(run(lambda_handler, STARTERS), "result/_meta/task_id") if begins else ""

    answer = run(lambda_handler, name, task_id)

    expected = OUTCOMES[name]
    assert (answer["status"], at(answer, "error/code")) == (expected.get("status", 200), expected.get("error/code"))
    assert at(answer, "result/_meta/pause_reason/type") == expected.get("result/_meta/pause_reason/type")


def test_the_continuation_and_a_resume_complete_the_refund(lambda_handler: Handler) -> None:
    task_id = paused_task(lambda_handler)
    run(lambda_handler, "tools-call-continuation", task_id)

    resumed = run(lambda_handler, "prompts-get-resume", task_id)

    assert at(resumed, "result/_meta/task_status") == "completed"
    assert at(resumed, "result/_meta/steps/*/status") == ["completed"] * 4
    assert at(run(lambda_handler, "tasks-result", task_id), "result/result") == {
        "completed": True,
        "steps_completed": 4,
    }


def test_an_event_names_nobody_real() -> None:
    for name in FILES:
        event = json.loads(PATHS[name].read_text())
        if name == "preflight":
            # A browser asks before it says on whose behalf.
            assert "authorizer" not in event["requestContext"]
            assert "authorization" not in map(str.lower, event["headers"])
            continue
        claims = at(event, "requestContext/authorizer/claims") or at(event, "requestContext/authorizer/jwt/claims")
        assert claims["sub"] == "6f1d2c1e-0b52-4c43-9a55-3f1f0f7a9d21"
        assert {value for key, value in event["headers"].items() if key.lower() == "authorization"} == {
            "Bearer REDACTED"
        }
