"""More is asked of a partition than it can bear: what began is durable, the rest is refused before anything ran."""

import random

import pytest

from mcp_baton import Server, Step, ToolError, Workflow
from mcp_baton.aws import compose, dynamodb_store
from mcp_baton.settings import Settings
from tests.e2e.conftest import Engine
from tests.e2e.support import Answer, Client, Table
from tests.e2e.throttling import Partition, Virtual

UNITS_S = 12.0
UNITS_A_RUN = 3.0
"""Its creation, its end, and the call that continues it."""

SECONDS = 5


def two_steps(ran: list[str]) -> Server:
    server = Server("s")

    @server.tool
    def one() -> int:
        ran.append("one")
        return 1

    @server.tool
    def two(again: bool = False) -> int:
        if not again:
            raise ToolError("no")
        return 2

    server.add_workflow(
        Workflow(name="flow", description="count", steps=[Step("one", tool=one), Step("two", tool=two)])
    )
    return server


@pytest.mark.parametrize("load", [1.2, 2.0])
def test_beyond_a_partitions_limit_runs_are_whole_or_refused(engine: Engine, table: Table, load: float) -> None:
    time, ran, runs, calls = Virtual(), list[str](), list[Answer](), list[Answer]()
    partition, drawn = Partition(UNITS_S, time), random.Random(7)
    settings = Settings(table=table.name)
    store = dynamodb_store(
        table.name,
        settings,
        connect=lambda: table.client,
        now_ms=time.now_ms,
        monotonic=time.monotonic,
        sleep=time.sleep,
        random=drawn.random,
    )
    made = compose(two_steps(ran), settings, store=store, clock=time.monotonic, sleep=time.sleep)
    client = Client(made, remaining_ms=lambda: 120_000)

    def come() -> None:
        runs.append(client.get_prompt("flow"))
        if "result" in runs[-1].messages[-1]:
            calls.append(client.call_tool("two", {"again": True}, task=runs[-1].task_id))

    arrivals = int(load * UNITS_S / UNITS_A_RUN * SECONDS)
    for number in range(arrivals):
        time.begin(number * SECONDS / arrivals, come)
    with partition.of(engine.client):
        time.run()
    served = [answer for answer in runs if "result" in answer.messages[-1]]
    refused = [answer.error for answer in runs if "error" in answer.messages[-1]]
    assert len(runs) == arrivals
    assert partition.refused > 0
    assert {error["message"] for error in refused} <= {"busy; nothing was run"}
    assert refused or load < 2.0
    assert len(ran) == len(served)
    assert all("persisted" not in answer.meta and answer.statuses == ["completed", "failed"] for answer in served)
    assert [answer.meta["recorded"] for answer in calls] == [True] * len(served)
    assert len(table.items) == len(served)
    assert all(set(client.task("get", answer.task_id).meta) >= {"_workflow.result.two"} for answer in served)
