"""Concurrent continuations of one task in separate containers: races between processes, as on Lambda."""

import time
from typing import Any

import anyio

from tests.deployed.containers import containers_of, request_counts_since
from tests.deployed.conversation import ALLOWED, Session, connect, paused_refund
from tests.deployed.deployment import Stack

AT_ONCE = 16


def test_sixteen_concurrent_continuations_are_all_recorded(stack: Stack, keys: tuple[str, str]) -> None:
    caller = stack.caller(x_api_key=keys[0])
    metas: list[Any] = []
    start_times: list[float] = []

    async def race() -> dict[str, Any]:
        async with connect(stack.endpoint, caller) as session:
            task_id = await paused_refund(session)

            async def continue_task(number: int) -> None:
                async with connect(stack.endpoint, caller) as inner_session:
                    barrier.append(number)
                    if len(barrier) == AT_ONCE:
                        start_times.append(time.time())
                        all_ready.set()
                    await all_ready.wait()
                    metas.append(await continuation(inner_session, task_id, number))

            barrier: list[int] = []
            all_ready = anyio.Event()
            async with anyio.create_task_group() as group:
                for number in range(AT_ONCE):
                    group.start_soon(continue_task, number)
            request_counts.extend(request_counts_since(stack, start_times[0]))
            return await session.task("get", task_id)

    request_counts: list[int] = []
    task = anyio.run(race)
    variables = task["_meta"]
    assert [meta["recorded"] for meta in metas] == [True] * AT_ONCE
    assert [step["status"] for step in variables["_workflow.progress"]["steps"]] == ["completed"] * 4
    assert variables["_workflow.result.refund"]["refund_id"] == "R-A-17"
    assert variables["_workflow.result.notify"]["text"].startswith("mail ")
    assert variables["_workflow.extra.extract_sales"] is not None
    assert "_workflow.pause_reason" not in variables
    assert len(containers_of(stack)) >= AT_ONCE
    # A fast container may answer two requests, so the number of containers that served depends on the machine.
    assert len(request_counts) >= AT_ONCE // 2


async def continuation(session: Session, task_id: str, number: int) -> Any:
    """Call one of three tools: two are steps that the workflow waits for, and one is not part of the workflow."""
    calls = [
        ("issue_refund", ALLOWED),
        ("send_message", {"to": "kim@example.com", "text": f"mail {number}"}),
        ("extract_sales", {"month": "2026-09"}),
    ]
    tool, arguments = calls[number % len(calls)]
    _, meta = await session.call(tool, arguments, task_id)
    return meta
