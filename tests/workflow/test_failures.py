"""The exception of a tool decides the pause reason, and not the way in which the tool was called."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

import mcp_baton
from mcp_baton import ListStep, Server, ToolError, ToolStep, Workflow, constant, item, public
from mcp_baton.testing import Client, connect
from tests.workflow.test_kinds import task_of

PUBLIC: Final = [getattr(mcp_baton, name) for name in public.__all__]
RAISED: Final[list[type[ToolError]]] = [
    kind for kind in PUBLIC if isinstance(kind, type) and issubclass(kind, ToolError)
]
"""The exceptions of Baton that a tool may raise."""

FAILURES: Final[list[Exception]] = [
    *(kind("down") for kind in RAISED),
    *(kind("down", retryable=False) for kind in RAISED),
    ValueError("down"),
]

OF_LISTS: Final = frozenset({"failedItems", "failedCount"})


def server_of(failure: Exception, *, each: bool = False, **options: Any) -> Server:
    """Return a server with a workflow whose step `s` fails, as a call or as a list with one element."""
    server = Server("failures")

    @server.tool
    def work(value: str) -> str:
        raise failure

    step = ToolStep("s", {"value": constant("x")}, tool="work", retryable=True)
    elements = ListStep("s", {"value": item()}, tool="work", each=constant(["x"]), retryable=True)
    steps = [elements if each else step]
    server.add_workflow(Workflow(name="flow", description="run", steps=steps, **options))
    return server


def run(client: Client) -> str:
    return client.call_workflow("flow").task_id


def worker(client: Client) -> str:
    client.start_task("flow").wait()
    return task_of(client)


def continuation(client: Client) -> str:
    task_id = run(client)
    assert client.call_tool("work", {"value": "x"}, task=f"{task_id}/s").recorded
    return task_id


def element(client: Client) -> str:
    task_id = run(client)
    assert client.call_tool("work", {"value": "x"}, task=f"{task_id}/s/0").recorded
    return task_id


WAYS: Final[Mapping[str, tuple[Callable[[Client], str], dict[str, Any]]]] = {
    "run": (run, {}),
    "parallel": (run, {"parallel": 2}),
    "worker": (worker, {"background": True}),
    "continuation": (continuation, {}),
    "list": (run, {"each": True}),
    "element": (element, {"each": True}),
}


def reason_after(failure: Exception, way: str) -> dict[str, Any]:
    """Return the stored reason without what differs between calls: the error, and what only lists have."""
    make, options = WAYS[way]
    with connect(server_of(failure, **options)) as client:
        task = client.task(make(client))
    assert task.steps == {"s": "failed"}
    reason = task.pause.to_dict()
    shown = {"error": "down" in str(reason["error"]), "errorId": bool(reason.get("errorId"))}
    return {name: value for name, value in reason.items() if name not in OF_LISTS} | shown


@pytest.mark.parametrize("failure", FAILURES, ids=repr)
@pytest.mark.parametrize("way", [way for way in WAYS if way != "run"])
def test_a_failure_has_the_same_reason_in_each_way(failure: Exception, way: str) -> None:
    assert reason_after(failure, way) == reason_after(failure, "run")
