"""Background tasks in the deployed worker: a function, and so a container, of its own."""

import json
import subprocess
import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from tests.deployed.containers import SERVED, containers_of, said_by_worker
from tests.deployed.conversation import REVISIONS, Talk, ask, talking
from tests.deployed.deployment import Stack
from tests.deployed.machine import ROOT, environment

WITHIN_S = 120
POLL_S = 0.2
BATON = ROOT / ".venv" / "bin" / "baton"


def begun(stack: Stack, tool: str, **arguments: Any) -> str:
    """Call a tool as a task, in the words of the 2025 era, which the client does not know any more; the task's id."""
    params = {"name": tool, "arguments": arguments, "task": {"ttl": 600_000}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    caller = stack.caller(x_api_key=stack.api_key, mcp_protocol_version=REVISIONS["2025"])
    answer = json.loads(ask(stack.endpoint, caller, body.encode()).body)
    task_id: str = answer["result"]["task"]["taskId"]
    return task_id


async def until(talk: Talk, task_id: str, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Poll a task until it has come so far."""
    with anyio.fail_after(WITHIN_S):
        while True:
            task = await talk.task("get", task_id)
            if reached(task):
                return task
            await anyio.sleep(POLL_S)


def within(stack: Stack, talked: Callable[[Talk], Awaitable[Any]]) -> Any:
    """What comes of a talk with the stack's endpoint."""

    async def talk() -> Any:
        async with talking(stack.endpoint, stack.caller(x_api_key=stack.api_key)) as own:
            return await talked(own)

    return anyio.run(talk)


def over(task: dict[str, Any]) -> bool:
    return str(task["status"]) != "working"


def test_a_task_of_the_sample_is_worked_on_in_a_container_of_the_workers(stack: Stack) -> None:
    async def exported(talk: Talk) -> tuple[dict[str, Any], dict[str, Any]]:
        task_id = begun(stack, "extract_sales", month="2026-09")
        return await until(talk, task_id, over), await talk.task("result", task_id)

    task, result = within(stack, exported)
    assert task["status"] == "completed"
    assert len(result["structuredContent"]["result"]) == 10
    workers, servers = containers_of(stack, worker=True), containers_of(stack)
    assert sum(worker.logs().count(SERVED) for worker in workers) >= 1
    assert f"task {task['taskId']}: completed" in said_by_worker(stack)
    assert not {worker.id for worker in workers} & {server.id for server in servers}


def test_the_worker_logs_under_the_id_of_the_request_that_created_the_task(stack: Stack) -> None:
    async def exported(talk: Talk) -> str:
        task_id = begun(stack, "extract_sales", month="2026-09")
        await until(talk, task_id, over)
        return task_id

    task_id = within(stack, exported)
    lines = [line for line in said_by_worker(stack).splitlines() if line.startswith("{")]
    [logged] = [told for line in lines if f"task {task_id}" in str((told := json.loads(line)).get("message"))]
    table = stack.twin.client("dynamodb").scan(TableName=stack.outputs["TaskTableName"])["Items"]
    [item] = [item for item in table if task_id in item["sk"]["S"]]
    assert logged["correlation_id"] in str(item["work"])
    assert logged["correlation_id"] != logged["function_request_id"]


def test_a_task_is_cancelled_from_another_container_and_stays_so(probe: Stack) -> None:
    async def cancelled(talk: Talk) -> tuple[dict[str, Any], dict[str, Any]]:
        task_id = begun(probe, "linger", seconds=8)
        running = await until(talk, task_id, lambda task: "in " in task.get("statusMessage", "") or over(task))
        await talk.task("cancel", task_id)
        await until(talk, task_id, lambda _: f"task {task_id}: " in said_by_worker(probe))
        return running, await talk.task("get", task_id)

    running, task = within(probe, cancelled)
    assert running["status"] == "working"
    assert task["status"] == "cancelled"
    # It stopped at its next call of the context, long before its eight seconds were over.
    assert f"task {task['taskId']}: stopped" in said_by_worker(probe)


def test_a_workflow_that_one_invocation_has_no_time_for_goes_on_in_another(probe: Stack) -> None:
    async def slept(talk: Talk) -> tuple[dict[str, Any], dict[str, Any]]:
        task_id = begun(probe, "night")
        return await until(talk, task_id, over), await talk.task("result", task_id)

    task, result = within(probe, slept)
    assert task["status"] == "completed"
    text = json.dumps(result)
    assert [f"{number} in " in text for number in range(6)] == [True] * 6
    assert said_by_worker(probe).count('"TasksHandedOver"') >= 1


def test_an_event_that_fails_for_good_is_a_dead_letter_that_can_be_put_back(stack: Stack) -> None:
    sqs, queue = stack.twin.client("sqs"), stack.outputs["DeadLetterQueueUrl"]

    def waiting() -> int:
        attributes = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
        return int(attributes["ApproximateNumberOfMessages"])

    def wait_for(count: int) -> None:
        stop = time.monotonic() + WITHIN_S
        while waiting() != count:
            assert time.monotonic() < stop, f"{waiting()} dead letters instead of {count}"
            time.sleep(POLL_S)

    # No dispatch is named, which the worker refuses as often as it is tried.
    event = {"batonTask": {"owner": "kim", "taskId": "t-1"}}
    worker = stack.outputs["Worker"]
    stack.twin.client("lambda").invoke(FunctionName=worker, InvocationType="Event", Payload=json.dumps(event).encode())
    wait_for(1)

    command = [str(BATON), "redrive", "--queue", queue, "--function", worker]
    done = subprocess.run(
        command, env=environment(AWS_ENDPOINT_URL=stack.twin.url), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "task t-1: sent again"), done.stderr
    # The same event fails again, which shows that the worker had it.
    wait_for(1)
    [message] = sqs.receive_message(QueueUrl=queue)["Messages"]
    assert json.loads(message["Body"])["requestPayload"] == event
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
