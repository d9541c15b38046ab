"""The built function under `sam local`: the sample's conversation, and every file of `events/`.

Nothing can take a stream there, so the same handler answers whole. DynamoDB is this machine's.
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from tests.deployed.conversation import whole_conversation
from tests.deployed.deployment import SAM, Twin, sam
from tests.deployed.machine import ROOT, architecture, environment, free_port

EVENTS = ROOT / "events"
FILES = sorted(path.stem for path in EVENTS.glob("*.json"))
TABLE = "tasks"
READY_WITHIN_S = 120.0
AT_ONCE = 4
STREAMED = {"prompts-get-refund-pauses", "prompts-get-report-pauses-2026"}
"""The events that ask for progress, and so for a stream."""


@dataclass(frozen=True, slots=True)
class Local:
    """How `sam local` is called for what was built.

    Attributes:
        template: The built template.
        variables: The file for `--env-vars`.
    """

    template: Path
    variables: Path

    @property
    def options(self) -> list[str]:
        options = ["--template", str(self.template), "--env-vars", str(self.variables), "--skip-pull-image"]
        options += ["--container-host", "127.0.0.1", "--add-host", "host.docker.internal:host-gateway"]
        options += ["--parameter-overrides", f"Architecture={architecture()}", "Auth=NONE"]
        return [*options, "AllowedOrigins=https://app.example.com"]


@pytest.fixture(scope="module")
def local(build: Path, twin: Twin, tmp_path_factory: pytest.TempPathFactory) -> Local:
    """The built template, its function told where this machine's DynamoDB is and what the table is called there."""
    port = twin.url.rsplit(":", 1)[1]
    where = f"AWS_ENDPOINT_URL_DYNAMODB: http://host.docker.internal:{port}"
    # `--env-vars` changes only what the template declares.
    text, found = re.subn(
        r"^( *)(AWS_LAMBDA_EXEC_WRAPPER:.*)$",
        rf"\1\2\n\1{where}",
        (build / "template.yaml").read_text(),
        flags=re.MULTILINE,
    )
    assert found == 1
    template = build / "local.yaml"
    template.write_text(text)
    variables = tmp_path_factory.mktemp("local") / "variables.json"
    variables.write_text(json.dumps({"McpFunction": {"BATON_TABLE": TABLE}}))
    keys = [("pk", "HASH"), ("sk", "RANGE")]
    twin.client("dynamodb").create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
    )
    return Local(template, variables)


@pytest.fixture(scope="module")
def endpoint(local: Local, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`sam local start-api`, until the tests are over."""
    port = free_port()
    log = tmp_path_factory.mktemp("start-api") / "sam.log"
    command = [str(SAM), "local", "start-api", "--port", str(port), "--warm-containers", "EAGER", *local.options]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=output, stderr=subprocess.STDOUT)
    try:
        await_ready(process, f"http://127.0.0.1:{port}", log)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(60)
        sys.stdout.write(log.read_text()[-20_000:])


def await_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    stop = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < stop and process.poll() is None:
        try:
            httpx2.get(url)
        except httpx2.TransportError:
            time.sleep(0.2)
        else:
            return
    pytest.fail(f"sam local start-api did not start:\n{log.read_text()}")


def invoke(local: Local, event: Path) -> dict[str, Any]:
    """What the function answers to the event in this file."""
    answer: dict[str, Any] = json.loads(sam(["local", "invoke", "McpFunction", "--event", str(event), *local.options]))
    return answer


def test_the_official_client_holds_the_whole_conversation_under_start_api(endpoint: str) -> None:
    anyio.run(whole_conversation, endpoint, {})


@pytest.fixture(scope="module")
def answers(local: Local, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, dict[str, Any]]:
    """The answer to every event, by its file's name. Some at a time, since each takes a container from scratch."""
    folder = tmp_path_factory.mktemp("events")
    paused = re.search(r'"task_id":"([^"]+)"', invoke(local, EVENTS / "prompts-get-refund-pauses.json")["body"])
    assert paused is not None

    def answer(name: str) -> dict[str, Any]:
        event = folder / f"{name}.json"
        event.write_text((EVENTS / f"{name}.json").read_text().replace("TASK_ID", paused[1]))
        return invoke(local, event)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(FILES, pool.map(answer, FILES), strict=True))


@pytest.mark.parametrize("name", FILES)
def test_an_event_is_answered_whole_by_sam_local_invoke(name: str, answers: Mapping[str, dict[str, Any]]) -> None:
    answer = answers[name]
    expected = {"initialized-notification": 202, "get-not-allowed": 405, "preflight": 204}.get(name, 200)
    assert answer["statusCode"] == expected
    assert (answer["headers"].get("Content-Type") == "text/event-stream") == (name in STREAMED)
    assert "internal error" not in answer["body"].lower()
