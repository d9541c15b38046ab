"""The built function under `sam local`: the sample's conversation, every file in `events/`, and the documentation's
commands.

`sam local` cannot stream, so the handler returns whole responses there. It has no authorizer, so callers are anonymous.
The table is in the emulator; the documentation's commands use the one of `make local-dynamodb`. All events go through
one `sam local start-lambda`, because its start takes longer than they do; `sam local invoke` and `start-api` are among
the documentation's commands.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.deployed.callers import HeaderCaller
from tests.deployed.conversation import Era, whole_conversation
from tests.deployed.deployment import SAM, Emulator, Stack, await_ready, client_of, running
from tests.deployed.evidence import LOG_FILES
from tests.deployed.machine import ROOT, architecture, free_port
from tests.deployed.page import Page, PageRun

EVENTS = {path.stem: path for path in (ROOT / "events").rglob("*.json")}
FILES = sorted(name for name in EVENTS if not name.startswith("start-"))
"""The events for the function. The others are for the worker."""
PAGE_URL = "http://127.0.0.1:3000"
"""The address at which the documentation's commands serve."""
PAGE_WITHIN_S = 300.0
"""The time limit for these commands: before they serve, they build an image and invoke the function."""
STREAMED = {"prompts-get-refund-pauses", "prompts-get-report-pauses-2026"}
"""The events that ask for progress, and so for a streamed response."""
ORIGIN = "https://app.example.com"
"""An origin whose pages may call; one of the events has it."""
OWNER = "6f1d2c1e-0b52-4c43-9a55-3f1f0f7a9d21"
"""The owner in the events."""
TASK_ID = re.compile(r"\b[0-9a-hjkmnp-tv-z]{37}\b")


@pytest.fixture(scope="module")
def options(build: Path, emulator: Emulator, stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The options of `sam local`. They give the function the address of the emulator's DynamoDB and its table's
    name.
    """
    port = emulator.url.rsplit(":", 1)[1]
    function_variables = {
        "AWS_ENDPOINT_URL_DYNAMODB": f"http://host.docker.internal:{port}",
        "BATON_TABLE": stack.outputs["TaskTableName"],
    }
    variables = tmp_path_factory.mktemp("local") / "variables.json"
    variables.write_text(json.dumps({"McpFunction": function_variables}))
    files = ["--template", str(build / "template.yaml"), "--env-vars", str(variables), "--skip-pull-image"]
    host = ["--container-host", "127.0.0.1", "--add-host", "host.docker.internal:host-gateway"]
    return [*files, *host, "--parameter-overrides", f"Architecture={architecture()}", f"AllowedOrigins={ORIGIN}"]


@pytest.fixture(scope="module")
def local_lambda(options: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A client of `sam local start-lambda`, which keeps one container."""
    log = tmp_path_factory.mktemp("start-lambda") / "start-lambda.log"
    LOG_FILES.append(log)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [str(SAM), "local", "start-lambda", "--port", str(port), "--warm-containers", "EAGER", *options]
    with running(command, log) as process, closing(client_of("lambda", url)) as client:
        await_ready(process, url, log)
        yield client


def answer(local_lambda: Any, event: str) -> Any:
    """Return the function's response to an event."""
    return json.loads(local_lambda.invoke(FunctionName="McpFunction", Payload=event)["Payload"].read())


@pytest.mark.parametrize("name", FILES)
def test_an_event_gets_a_whole_response_under_sam_local(name: str, local_lambda: Any) -> None:
    text, owner = EVENTS[name].read_text(), f"owner of {name}"
    if "TASK_ID" in text:
        pause_response = answer(local_lambda, EVENTS["prompts-get-refund-pauses"].read_text().replace(OWNER, owner))
        text = text.replace("TASK_ID", TASK_ID.findall(pause_response["body"])[0])

    response = answer(local_lambda, text.replace(OWNER, owner))

    expected = {"initialized-notification": 202, "get-not-allowed": 405, "preflight": 204}.get(name, 200)
    assert response["statusCode"] == expected
    assert (response["headers"].get("Content-Type") == "text/event-stream") == (name in STREAMED)
    assert "internal error" not in response["body"].lower()


@pytest.fixture(scope="module")
def page_run(serving_page: PageRun) -> PageRun:
    """The documentation's commands, once the last one serves."""
    await_ready(serving_page.process, PAGE_URL, serving_page.log, within_s=PAGE_WITHIN_S)
    return serving_page


def test_the_documented_commands_invoke_the_function_and_store_its_task(page_run: PageRun) -> None:
    [response_line] = [line for line in page_run.output.read_text().splitlines() if '"statusCode"' in line]

    body = json.loads(response_line[response_line.index("{") :])["body"]
    [result] = [json.loads(line.removeprefix("data: ")) for line in body.splitlines() if '"result"' in line]
    assert result["result"]["_meta"]["task_status"] == "working"
    assert TASK_ID.fullmatch(result["result"]["_meta"]["task_id"])


def test_the_documented_request_to_start_api_is_answered_and_stores_its_task(page_run: PageRun, page: Page) -> None:
    process = subprocess.run(["bash", "-euc", page.request], capture_output=True, text=True, check=True, timeout=120)

    meta = json.loads(process.stdout)["result"]["_meta"]
    assert (meta["task_status"], meta["pause_reason"]["type"]) == ("working", "approvalRequired")
    assert f"TASK#{meta['task_id']}" in tasks_of_the_page()


@pytest.mark.parametrize("era", ["2025", "2026"])
def test_the_official_client_completes_the_conversation_through_start_api(page_run: PageRun, era: Era) -> None:
    task_id = anyio.run(whole_conversation, f"{PAGE_URL}/mcp", HeaderCaller(), era)

    assert f"TASK#{task_id}" in tasks_of_the_page()


def tasks_of_the_page() -> list[str]:
    """Return the sort keys of the tasks in the table that the documentation's commands create."""
    database = client_of("dynamodb", "http://127.0.0.1:8001")
    pages = database.get_paginator("scan").paginate(TableName="baton")
    return [item["sk"]["S"] for page in pages for item in page["Items"]]
