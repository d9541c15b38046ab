"""Concurrent continuations of one task in separate containers: races between processes, as on Lambda."""

import time
from typing import Any

import anyio

from tests.deployed.containers import containers_of, served_since
from tests.deployed.conversation import ALLOWED, Talk, paused_refund, talking
from tests.deployed.deployment import Stack

AT_ONCE = 16


def test_sixteen_concurrent_continuations_are_all_recorded(stack: Stack, keys: tuple[str, str]) -> None:
    caller = stack.caller(x_api_key=keys[0])
    metas: list[Any] = []
    started: list[float] = []

    async def race() -> dict[str, Any]:
        async with talking(stack.endpoint, caller) as talk:
            task_id = await paused_refund(talk)

            async def continue_task(number: int) -> None:
                async with talking(stack.endpoint, caller) as own:
                    barrier.append(number)
                    if len(barrier) == AT_ONCE:
                        started.append(time.time())
                        everyone.set()
                    await everyone.wait()
                    metas.append(await continuation(own, task_id, number))

            barrier: list[int] = []
            everyone = anyio.Event()
            async with anyio.create_task_group() as group:
                for number in range(AT_ONCE):
                    group.start_soon(continue_task, number)
            served.extend(served_since(stack, started[0]))
            return await talk.task("get", task_id)

    served: list[int] = []
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
    assert len(served) >= AT_ONCE // 2


async def continuation(talk: Talk, task_id: str, number: int) -> Any:
    """Call one of three tools: two are steps that the workflow waits for, and one is not part of the workflow."""
    calls = [
        ("issue_refund", ALLOWED),
        ("send_message", {"to": "kim@example.com", "text": f"mail {number}"}),
        ("extract_sales", {"month": "2026-09"}),
    ]
    tool, arguments = calls[number % len(calls)]
    _, meta = await talk.call(tool, arguments, task_id)
    return meta
