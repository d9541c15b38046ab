"""Equal first calls of a workflow's tool through the real handler, on real engines (docs/workflows.md, Repeated calls).

On the embedded engine the callers are threads, as in `baton serve`; elsewhere each one is a process, as on Lambda.
`EQUAL_CALL_ROUNDS=200` sets the number of rounds.
"""

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from queue import SimpleQueue

import pytest

from mcp_baton.stores import DynamoDBStore
from mcp_baton.tasks.dynamodb.table import LazyClient, TaskTable
from mcp_baton.tasks.record import TaskRecord
from tests.store.caller import Message, call_in_process, serve
from tests.store.conftest import TABLE, Engine
from tests.store.fixture_types import run_on

ROUNDS = int(os.environ.get("EQUAL_CALL_ROUNDS", "2"))
CALLERS = 8
BOUND_S = 120.0
"""The time limit for a message. No wait takes that long unless a test fails."""

ON_REAL_ENGINES = run_on("embedded", "ministack", "dynamodb_local")
MODES = pytest.mark.parametrize("mode", ["foreground", "background"])

PROCESSES = multiprocessing.get_context("forkserver")
# Each process is a fork of one that has imported these.
PROCESSES.set_forkserver_preload(["pytest", "tests.store.caller"])

type Send = Callable[[Message], object]


class Callers:
    """Callers, and the messages of all of them with their numbers."""

    def __init__(self) -> None:
        self.sends: list[Send] = []
        self.messages: SimpleQueue[tuple[int, Message]] = SimpleQueue()

    def next(self) -> tuple[int, Message]:
        return self.messages.get(timeout=BOUND_S)

    def reply_to(self, number: int, message: Message) -> tuple[list[str], Message]:
        """Send a message. Return the effects until its reply, and the reply."""
        self.sends[number](message)
        effects: list[str] = []
        while "effect" in (received := self.next()[1]):
            effects.append(received["effect"])
        return effects, received


@contextmanager
def thread_caller(engine: Engine, report: Send) -> Iterator[Send]:
    inbox: SimpleQueue[Message | None] = SimpleQueue()
    thread = threading.Thread(target=serve, args=(engine.client, TABLE, inbox.get, report))
    thread.start()
    try:
        yield inbox.put
    finally:
        inbox.put(None)
        thread.join(BOUND_S)


@contextmanager
def process_caller(engine: Engine, report: Send) -> Iterator[Send]:
    assert engine.url is not None
    ours, theirs = PROCESSES.Pipe()

    def read() -> None:
        with suppress(EOFError):
            while True:
                report(ours.recv())

    process = PROCESSES.Process(target=call_in_process, args=(engine.url, TABLE, theirs))
    process.start()
    theirs.close()
    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield ours.send
    finally:
        ours.send(None)
        process.join(BOUND_S)
        reader.join(BOUND_S)
        ours.close()


@pytest.fixture(scope="module")
def callers_of_engine() -> Iterator[Callable[[Engine], Callers]]:
    with ExitStack() as stack:

        @cache
        def callers_of(engine: Engine) -> Callers:
            caller, callers = thread_caller if engine.url is None else process_caller, Callers()
            for number in range(CALLERS):
                report = partial(lambda number, message: callers.messages.put((number, message)), number)
                callers.sends.append(stack.enter_context(caller(engine, report)))
            return callers

        yield callers_of


@pytest.fixture
def callers(engine: Engine, callers_of_engine: Callable[[Engine], Callers]) -> Callers:
    """The eight callers of each engine in turn."""
    return callers_of_engine(engine)


def task_of(reply: Message) -> tuple[str | None, bool]:
    """Return the task that a reply names, and whether it is a repetition."""
    result = reply.get("result")
    if result is None:  # a client of the 2025 era accepts only a task
        assert "The equal call is starting" in reply["error"]["message"]
        return None, True
    meta = result.get("_meta", {})
    return result.get("taskId") or result.get("task", {}).get("taskId") or meta.get("task_id"), "repeats" in meta


def tasks_of(engine: Engine, owner: str) -> Sequence[TaskRecord]:
    return DynamoDBStore(TaskTable(TABLE, LazyClient(lambda: engine.client))).list(owner).tasks


@ON_REAL_ENGINES
@MODES
def test_eight_equal_calls_at_once_start_one_task_with_one_effect(
    callers: Callers, engine: Engine, owner: str, mode: str
) -> None:
    for number in range(ROUNDS):
        round_owner = f"{owner}-{mode}-{number}"
        effects: list[int] = []
        replies: list[tuple[str | None, bool]] = []
        events: list[Message] = []
        call = {"mode": mode, "era": ("2025", "2026")[number % 2], "owner": round_owner, "order": "A", "holds": True}
        for send in callers.sends:
            send(call)
        while len(replies) < CALLERS:
            caller, message = callers.next()
            if "effect" in message:
                effects.append(caller)
            else:
                replies.append(task_of(message["reply"]))
                events += message["events"]
            # The first call replies last: until then it runs, so the others are repetitions.
            if mode == "foreground" and len(replies) == CALLERS - 1 and effects:
                callers.sends[effects[0]]({})
        if mode == "background":
            assert len(events) == 1
            effects += [0 for _ in callers.reply_to(0, {"work": events[0]})[0]]
        assert len(effects) == 1, (number, effects)
        assert sorted(is_repetition for _, is_repetition in replies) == [False] + [True] * (CALLERS - 1), replies
        assert len({task_id for task_id, _ in replies if task_id is not None}) == 1
        tasks = tasks_of(engine, round_owner)
        assert len([task for task in tasks if task.workflow is not None]) == 1
        assert len(tasks) == (1 if mode == "foreground" else 2)


@ON_REAL_ENGINES
@MODES
def test_two_fast_equal_calls_start_two_tasks(callers: Callers, engine: Engine, owner: str, mode: str) -> None:
    at_ms = int(time.time() * 1_000)
    for number in range(ROUNDS):
        round_owner = f"{owner}-fast-{mode}-{number}"
        effects: list[str] = []
        task_ids = set()
        call = {"mode": mode, "era": ("2025", "2026")[number % 2], "owner": round_owner, "order": "A"}
        for caller in range(2):
            # A clock that stands still: the machine may be slow.
            new_effects, message = callers.reply_to(caller, {**call, "at_ms": at_ms})
            effects += new_effects
            for event in message["events"]:
                effects += callers.reply_to(caller, {"work": event, "at_ms": at_ms})[0]
            task_id, is_repetition = task_of(message["reply"])
            assert not is_repetition
            task_ids.add(task_id)
        assert effects == ["A", "A"]
        assert len(task_ids) == 2
        assert len(tasks_of(engine, round_owner)) == (2 if mode == "foreground" else 4)
