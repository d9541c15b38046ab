"""What finding repeated calls costs, as units and requests on the wire (ARCHITECTURE.md, Requests)."""

from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count

import pytest

from costs.places import Place
from mcp_baton.aws import compose, dynamodb_store
from mcp_baton.local.dynamodb import create_table
from mcp_baton.settings import Settings
from tests.fakes import FunctionContext
from tests.store.caller import shop
from tests.support.background import Queue
from tests.support.client import Client, Era

TABLES = count(1)
OFF, ON = timedelta(0), timedelta(minutes=2)

type Used = tuple[float, float, int]
"""Write units, read units and requests."""


def charge(order: str) -> str:
    return order


@dataclass(frozen=True, slots=True)
class Metered:
    """A client whose requests to DynamoDB are metered."""

    place: Place
    client: Client
    workflow: str

    def used_by_event(self) -> Used:
        event = {"workflow": self.workflow, "arguments": {"order": "A"}, "owner": "alice", "id": "e-1"}
        self.place.meter.take()
        self.client.handler({"batonStart": event}, FunctionContext())
        usage = self.place.meter.take()
        return usage.writes, usage.reads, usage.requests

    def used(self, *, is_prompt: bool = False, **arguments: str) -> Used:
        as_task: dict[str, object] = (
            {"task": {}} if self.workflow == "fulfil_later" and self.client.era == "2025" else {}
        )
        params = {"name": self.workflow, "arguments": {"order": "A", **arguments}, **({} if is_prompt else as_task)}
        self.place.meter.take()
        assert "result" in self.client.request("prompts/get" if is_prompt else "tools/call", params).messages[-1]
        usage = self.place.meter.take()
        return usage.writes, usage.reads, usage.requests


@pytest.fixture(params=["2025", "2026"])
def era(request: pytest.FixtureRequest) -> Era:
    return "2025" if request.param == "2025" else "2026"


@pytest.fixture(params=["fulfil", "fulfil_later"])
def metered(request: pytest.FixtureRequest, place: Place, era: Era) -> tuple[Metered, Metered]:
    """The same client of two servers: without and with repetitions."""
    name = f"starts-{next(TABLES)}"
    create_table(place.dynamodb, name)
    settings = Settings(table=name, state_key=b"0" * 32)

    def client(repeats: timedelta, owner: str) -> Metered:
        store = dynamodb_store(name, settings, connect=lambda: place.counted)
        handler = compose(shop(charge, repeats=repeats), settings, store=store, dispatcher=Queue())
        return Metered(place, Client(handler, owner, era), request.param)

    return client(OFF, "alice"), client(ON, "bobby")


def more(used: Used, than: Used) -> Used:
    return used[0] - than[0], used[1] - than[1], used[2] - than[2]


def test_a_first_start_by_the_tool_is_one_write_unit_more_and_no_read(metered: tuple[Metered, Metered]) -> None:
    off, on = metered
    assert more(on.used(), off.used()) == (1, 0, 1)


def test_a_call_with_new_is_one_write_unit_more_and_no_read(metered: tuple[Metered, Metered]) -> None:
    off, on = metered
    on.used()
    assert more(on.used(task_id="new"), off.used(task_id="new")) == (1, 0, 1)


def test_a_prompt_costs_nothing_more(metered: tuple[Metered, Metered]) -> None:
    off, on = metered
    assert on.used(is_prompt=True) == off.used(is_prompt=True)


def test_an_equal_call_later_is_one_write_and_one_read_more(metered: tuple[Metered, Metered]) -> None:
    _, on = metered
    first, second = on.used(), on.used()
    if on.workflow == "fulfil":
        assert more(second, first) == (1, 1, 2)
    else:
        # The job is open: a refused write, and reads of the job and of its workflow's task.
        assert second == (1, 2, 3)


def test_an_event_is_two_write_units_more_than_a_call_and_its_repetition_is_one(
    metered: tuple[Metered, Metered],
) -> None:
    off, on = metered
    job = replace(off, workflow="fulfil_later").used()
    assert more(on.used_by_event(), job) == (2, 0, 2)
    assert on.used_by_event() == (1, 0, 1)
