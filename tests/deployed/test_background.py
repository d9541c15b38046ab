"""Background tasks in the deployed worker, which is a function of its own and so has its own containers."""

import json
import subprocess
import time
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from tests.deployed.callers import Caller
from tests.deployed.containers import REPORT_LINE, containers_of, log_stream_of, worker_logs
from tests.deployed.conversation import REVISIONS, Session, ask, in_session
from tests.deployed.deployment import Stack
from tests.deployed.machine import ROOT, environment

LINGER_OUTPUT = "lingered to the end"
"""The probe prints this if its task is not cancelled."""
WITHIN_S = 180
POLL_S = 0.2
REPORT = REPORT_LINE.decode()
BATON = ROOT / ".venv" / "bin" / "baton"
PYTHON = ROOT / ".venv" / "bin" / "python"


def start_task(stack: Stack, tool: str, **arguments: Any) -> str:
    """Call a tool as a task, with the stack's API key. Return the task's id."""
    return start_task_as(stack, stack.caller(x_api_key=stack.api_key), tool, **arguments)


def start_task_as(stack: Stack, caller: Caller, tool: str, **arguments: Any) -> str:
    """Call a tool as a task with a 2025 request, which the client no longer supports. Return the task's id."""
    params = {"name": tool, "arguments": arguments, "task": {"ttl": 600_000}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    response = json.loads(ask(stack.endpoint, caller, body.encode(), mcp_protocol_version=REVISIONS["2025"]).body)
    task_id: str = response["result"]["task"]["taskId"]
    return task_id


async def poll(session: Session, task_id: str, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Poll a task until `condition` accepts it."""
    with anyio.fail_after(WITHIN_S):
        while True:
            task = await session.task("get", task_id)
            if condition(task):
                return task
            await anyio.sleep(POLL_S)


def wait_until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(POLL_S)


def is_over(task: dict[str, Any]) -> bool:
    return str(task["status"]) != "working"


def test_the_worker_function_runs_a_background_task_in_its_own_container(stack: Stack) -> None:
    async def export(session: Session) -> tuple[dict[str, Any], dict[str, Any]]:
        task_id = start_task(stack, "extract_sales", month="2026-09")
        return await poll(session, task_id, is_over), await session.task("result", task_id)

    task, result = in_session(stack, export)
    assert task["status"] == "completed"
    assert len(result["structuredContent"]["result"]) == 10
    workers, servers = containers_of(stack, worker=True), containers_of(stack)
    assert worker_logs(stack).count(REPORT) >= 1
    assert not {worker.id for worker in workers} & {server.id for server in servers}


CREATE_SCRIPT = """
import sys
from mcp_baton.aws import dynamodb_store
from mcp_baton.local.dynamodb import http_client
from mcp_baton.settings import Settings
from mcp_baton.tasks.record import JobSpec, NewTask
table, url = sys.argv[1:]
store = dynamodb_store(table, Settings(), lambda: http_client(url))
work = JobSpec("extract_sales", request_id="a-lost-request", revision="2025-11-25")
print(store.create(NewTask("kim", {}, arguments={"month": "2026-09"}, work=work)).task_id)
"""


def create_without_event(stack: Stack) -> str:
    """Create a task as a request does, but do not invoke the worker. Return the task's id."""
    command = [str(PYTHON), "-c", CREATE_SCRIPT, stack.outputs["TaskTableName"], stack.emulator.url]
    process = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    return process.stdout.strip()


def item_of(stack: Stack, task_id: str) -> dict[str, Any]:
    """Read a task's item from the table, without a poll."""
    items = stack.emulator.client("dynamodb").scan(TableName=stack.outputs["TaskTableName"])["Items"]
    [item] = [item for item in items if task_id in item["sk"]["S"]]
    return dict(item)


@pytest.fixture(scope="session")
def lost_task(stack: Stack) -> str:
    """A task for which the worker was not invoked. A sweep does so while other tests run."""
    return create_without_event(stack)


def test_a_task_is_in_the_outbox_before_its_worker_runs(stack: Stack, lost_task: str) -> None:
    assert "listed_at" in item_of(stack, lost_task)


@pytest.mark.last
def test_a_task_whose_event_was_lost_completes_without_a_poll(stack: Stack, lost_task: str) -> None:
    """The stack's schedule invokes the function every minute. It finds the task when the task is due."""
    wait_until(lambda: item_of(stack, lost_task)["status"]["S"] != "working")
    item = item_of(stack, lost_task)

    assert (item["status"]["S"], item["dispatches"]["N"], "listed_at" in item) == ("completed", "2", False)


def test_the_worker_reports_under_the_id_of_the_request_that_created_the_task(stack: Stack) -> None:
    async def export(session: Session) -> str:
        task_id = start_task(stack, "extract_sales", month="2026-09")
        await poll(session, task_id, is_over)
        return task_id

    task_id = in_session(stack, export)
    items = stack.emulator.client("dynamodb").scan(TableName=stack.outputs["TaskTableName"])["Items"]
    [job] = [json.loads(item["work"]["S"]) for item in items if task_id in item["sk"]["S"]]
    wait_until(lambda: f'"correlation_id":"{job["request_id"]}"' in worker_logs(stack).replace(" ", ""))


@pytest.fixture(scope="session")
def night(probe: Stack) -> str:
    """Start the workflow `night`, which rests longer than one invocation of the worker may take. Return its task's
    id.
    """
    return start_task(probe, "night")


def test_a_cancel_in_another_container_stops_the_task(probe: Stack, night: str) -> None:
    async def cancel_task(session: Session) -> tuple[dict[str, Any], dict[str, Any]]:
        task_id = start_task(probe, "linger", seconds=20)
        running = await poll(session, task_id, lambda task: "in " in task.get("statusMessage", "") or is_over(task))
        # Another worker container runs the task of `night`.
        workers = containers_of(probe, worker=True)
        [worker] = [container for container in workers if log_stream_of(container) in running["statusMessage"]]
        reports_before = worker.logs().count(REPORT_LINE)
        await session.task("cancel", task_id)
        return running, await poll(session, task_id, lambda _: worker.logs().count(REPORT_LINE) > reports_before)

    running, task = in_session(probe, cancel_task)
    assert running["status"] == "working"
    assert task["status"] == "cancelled"
    # The tool stopped at a call of its context and did not reach its end.
    assert LINGER_OUTPUT not in worker_logs(probe)


@pytest.mark.last
def test_a_workflow_longer_than_one_invocation_continues_in_another(probe: Stack, night: str) -> None:
    async def wait_for_end(session: Session) -> tuple[dict[str, Any], dict[str, Any]]:
        return await poll(session, night, is_over), await session.task("result", night)

    task, result = in_session(probe, wait_for_end)
    assert task["status"] == "completed", task
    assert {step["status"] for step in result["structuredContent"]["steps"]} == {"completed"}, result
    wait_until(lambda: '"TasksHandedOver"' in worker_logs(probe))


def test_a_failed_event_becomes_a_dead_letter_and_can_be_redriven(stack: Stack) -> None:
    sqs, queue = stack.emulator.client("sqs"), stack.outputs["DeadLetterQueueUrl"]

    def message_count() -> int:
        attributes = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
        return int(attributes["ApproximateNumberOfMessages"])

    # The worker rejects an event without a dispatch number, however often Lambda retries it.
    event = {"batonTask": {"owner": "kim", "taskId": "t-1"}}
    worker = stack.outputs["Worker"]
    stack.emulator.client("lambda").invoke(
        FunctionName=worker, InvocationType="Event", Payload=json.dumps(event).encode()
    )
    wait_until(lambda: message_count() == 1)

    command = [str(BATON), "redrive", "--queue", queue, "--function", worker]
    process = subprocess.run(
        command, env=environment(AWS_ENDPOINT_URL=stack.emulator.url), capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stdout.splitlines()[0]) == (0, "task t-1: sent again"), process.stderr
    # The same event fails again, so the worker has received it.
    wait_until(lambda: message_count() == 1)
    [message] = sqs.receive_message(QueueUrl=queue)["Messages"]
    assert json.loads(message["Body"])["requestPayload"] == event
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
