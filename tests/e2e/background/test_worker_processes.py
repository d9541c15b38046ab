"""A background workflow through `baton serve`: hops between worker processes, some of which are killed."""

import sys
from collections import Counter
from pathlib import Path
from threading import Event

import httpx
import pytest

from mcp_baton.protocol.envelope import CAPABILITIES_KEY, TASKS_EXTENSION, VERSION_KEY
from tests.e2e.support import JsonDict
from tests.serving import served

SERVED = f"{Path(__file__).with_name('served_stock.py')}:server"
BATON = [sys.executable, "-c", "import sys; from mcp_baton.cli.app import main; sys.exit(main())", "serve"]
OPTIONS = ["--port", "0", "--worker-timeout", "8", "--worker-retries", "3,3,3,3,3"]
STEPS, FATAL = 12, 4
META = {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {"extensions": {TASKS_EXTENSION: {}}}}
POLLS = 60


def ask(client: httpx.Client, method: str, what: str, **params: object) -> JsonDict:
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": what}
    headers["Accept"] = "application/json, text/event-stream"
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
    answer: JsonDict = client.post("", json=body, headers=headers).raise_for_status().json()
    result: JsonDict = answer["result"]
    return result


def ended(client: httpx.Client, task: str) -> JsonDict:
    """A task, as soon as it is over."""
    for _ in range(POLLS):
        found = ask(client, "tasks/get", task, taskId=task)
        if found["status"] != "working":
            return found
        Event().wait(0.5)
    raise AssertionError(f"the task does not end: {found}")


@pytest.mark.first
def test_processes_hand_a_workflow_over_to_each_other_and_none_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOCK", str(tmp_path))
    monkeypatch.setenv("BATON_WRITE_RESERVE_MS", "500")
    with served([*BATON, SERVED, *OPTIONS], tmp_path / "log") as url, httpx.Client(base_url=url, timeout=60) as client:
        call = ask(client, "tools/call", "stock", name="stock", arguments={})
        task = ended(client, call["taskId"])

    assert (task["status"], task["result"]["structuredContent"]["task_status"]) == ("completed", "completed")
    done = sorted(int(path.name.split("-")[1]) for path in tmp_path.glob("done-*"))
    assert done == list(range(STEPS))
    calls = Counter(map(int, (tmp_path / "calls").read_text().split()))
    assert calls[FATAL] > 1
    # The server itself, the worker process that was killed, and the one after it.
    assert len(list(tmp_path.glob("process-*"))) >= 3
