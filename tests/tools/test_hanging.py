"""DynamoDB hangs at the end of a run. Its reply must come before the function's time ends (docs/storage.md,
Throttling)."""

import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from random import Random
from types import SimpleNamespace

import pytest

from mcp_baton import Server, ToolStep, Workflow, constant
from mcp_baton.settings import Settings
from tests.hanging import Hang, values_in
from tests.support.background import container
from tests.support.client import Answer, Client, Table
from tests.support.handler import Engine
from tests.support.throttling import Virtual

FUNCTION_S = 12.0
RESERVE_S = 5.0
TOOLS_S = FUNCTION_S - RESERVE_S - 0.01
"""The tool returns when only the write reserve is left."""

HEAD_S = 2.5
REPLY_S = 0.3
ATTEMPT_S = 1.0
FOR_EVER_S = 1_000.0
ZIP_S = 0.1
"""The time to compress 262,144 bytes on a busy machine."""

VALUES = [Random(seed).randbytes(500_000).hex() for seed in range(5)]

STEPS = [f"s{number}" for number in range(len(VALUES))]


class SlowZip:
    """The compressor of zlib, slowed down as on a busy machine."""

    def __init__(self, time: Virtual) -> None:
        self._time = time
        self._zip = zlib.compressobj(wbits=31)

    def compress(self, data: bytes) -> bytes:
        self._time.sleep(ZIP_S)
        return self._zip.compress(data)

    def flush(self) -> bytes:
        return self._zip.flush()


class Run:
    """A run whose last step returns when only the write reserve is left. From then on, requests hang.

    Args:
        hanging_s: How long requests hang, by operation, in seconds.
    """

    def __init__(self, engine: Engine, table: Table, hanging_s: dict[str, float]) -> None:
        self.time = Virtual()
        self.hangs = {name: Hang(self.time, seconds, on=False) for name, seconds in hanging_s.items()}
        self.replied_s = 0.0
        self.answers = list[Answer]()
        self._engine = engine
        time, settings = self.time, Settings(table=table.name)
        handler = container(self._server(), table, settings, time)
        self.client = Client(handler, remaining_ms=lambda: int((FUNCTION_S - time.s) * 1000))

    def _server(self) -> Server:
        server = Server("s")

        @server.tool
        def large(number: int) -> str:
            if number == len(VALUES) - 1:
                self.time.s = TOOLS_S
                for hang in self.hangs.values():
                    hang.on = True
            return VALUES[number]

        steps = [
            ToolStep(name, tool=large, arguments={"number": constant(number)}) for number, name in enumerate(STEPS)
        ]
        server.add_workflow(Workflow(name="flow", description="work", steps=steps))
        return server

    def _slow_zip(self, **_: object) -> SlowZip:
        return SlowZip(self.time)

    def go(self) -> Answer:
        """Run the workflow and record the time of its reply."""

        def send() -> None:
            self.answers.append(self.client.get_prompt("flow"))
            self.replied_s = self.time.s

        self.time.begin(0.0, send)
        with self._in_virtual_time():
            self.time.run()
        for hang in self.hangs.values():
            hang.on = False
        # Later requests go to another function, which has all its time.
        self.client = replace(self.client, remaining_ms=lambda: int(FUNCTION_S * 1000))
        return self.answers[0]

    @contextmanager
    def _in_virtual_time(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(values_in(self.time))
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            patch.setattr(
                "mcp_baton.tasks.texts.zlib", SimpleNamespace(**{**vars(zlib), "compressobj": self._slow_zip})
            )
            for name, hang in self.hangs.items():
                stack.enter_context(hang.of(self._engine.client, name))
            yield


@pytest.mark.parametrize("limit_s", [ATTEMPT_S, FOR_EVER_S], ids=["times out", "never ends"])
def test_a_run_replies_in_time_when_values_and_the_head_hang(engine: Engine, table: Table, limit_s: float) -> None:
    """A request hangs until the client's time limit, or longer, as if its response arrived byte by byte."""
    run = Run(engine, table, {"dynamodb.PutItem": limit_s, "dynamodb.UpdateItem": ATTEMPT_S})
    answer = run.go()
    items, heads = (hang.began_s for hang in run.hangs.values())
    zip_s = items[0] - TOOLS_S
    assert 0.7 <= zip_s <= 0.7 + 2 * ZIP_S
    assert [round(FUNCTION_S - start_s, 1) for start_s in heads] == [2.5, 1.4]
    assert FUNCTION_S - run.replied_s >= REPLY_S
    assert answer.meta["persisted"] == "unknown"
    assert answer.statuses == ["completed"] * len(VALUES)
    assert all(value in answer.body for value in VALUES)


def test_if_only_values_hang_the_task_item_is_written_with_notes_in_their_place(engine: Engine, table: Table) -> None:
    run = Run(engine, table, {"dynamodb.PutItem": FOR_EVER_S})
    answer = run.go()
    assert FUNCTION_S - run.replied_s >= HEAD_S
    assert "persisted" not in answer.meta
    assert answer.meta["oversized"] == STEPS
    assert run.client.task("get", answer.task_id).meta["_workflow.result.s0"] == {
        "error": f"result of {len(VALUES[0]) + 2} bytes could not be written outside the task's item"
    }
