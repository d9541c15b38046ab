"""Retries of steps, through the real handler, with the test's clock.

The errors that are retried and the waits are tested in tests/workflow/test_retry_rules.py.
"""

from collections.abc import Callable
from typing import Any, cast

from mcp_baton import Retry, Server, ToolError, ToolStep, Workflow, constant
from mcp_baton.testing import Connect

EVEN = Retry(attempts=3, first_s=4, factor=2, jitter=False)


def one_step(tool: Callable[..., Any], **step: Any) -> Server:
    server = Server("shop")
    server.tool(name="work")(tool)
    server.add_workflow(Workflow(name="flow", description="work", steps=[ToolStep("work", tool="work", **step)]))
    return server


def test_each_attempt_gets_unchanged_arguments(baton: Connect) -> None:
    calls: list[list[str]] = []

    def pack(items: list[str]) -> int:
        calls.append(list(items))
        items.clear()
        if len(calls) < 3:
            raise ToolError("the box broke")
        return len(calls)

    client = baton(one_step(pack, arguments={"items": constant(["lamp", "desk"])}, retry=EVEN))
    start_s = client.clock.monotonic_s()

    assert client.get_prompt("flow").completed
    assert client.clock.monotonic_s() - start_s >= 12
    assert calls == [["lamp", "desk"]] * 3


def test_an_error_with_retryable_false_ends_the_attempts_and_the_pause_is_not_retryable(baton: Connect) -> None:
    def refuse() -> None:
        raise ToolError("no", retryable=False)

    client = baton(one_step(refuse, retry=EVEN, retryable=True))

    assert client.get_prompt("flow").pause.retryable is False
    assert len(client.calls("work")) == 1


def test_a_tool_that_returns_a_wrong_type_is_not_retried(baton: Connect) -> None:
    def work() -> int:
        text: Any = "no number"
        return cast("int", text)

    client = baton(one_step(work, retry=Retry(on=(Exception,), first_s=0)))

    assert client.get_prompt("flow").paused
    assert len(client.calls("work")) == 1
