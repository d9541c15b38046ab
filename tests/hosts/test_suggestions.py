"""Models that follow the first suggestion of every pause literally: the server refuses none, and none leads back to
the same pause (docs/workflows.md, Pausing)."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pytest

from mcp_baton import Argument, Server, Step, ToolError, Workflow, constant, prompt_arg, step_output, task_variable
from mcp_baton.tasks.record import LEASE_MS
from mcp_baton.testing import Connect
from mcp_baton.testing.client import Client
from mcp_baton.testing.wire import Era
from tests.hosts.phrases import FINISH, GO_ON, NEXT, NUMBERED, PLACEHOLDER, Call, read

type JsonDict = dict[str, Any]
type Do = Callable[["Trip", Client], object]

MOST_CALLS = 20
NOTHING: Mapping[str, Any] = MappingProxyType({})
TO_READ = re.compile(r"[Rr]ead the resource (\S+?)(?:, then|[.\n]|$)")
REFUSED = ("Nothing was run", "Not recorded", "Invalid arguments", "Invalid params")


class Trip:
    """What five workflows do, and what goes wrong in them."""

    def __init__(self) -> None:
        self.raises: list[Exception] = []
        self.broken: Exception | None = None
        self.shelf_is_locked = False
        self.called: list[str] = []
        server = self.server = Server("trips")
        server.tool(self.search_flights)
        server.tool(self.search_all)
        server.tool(self.book)
        server.tool(self.mail)
        server.tool(self.transfer)
        server.tool(self.sign)
        server.resource("shelf://{number}")(self.shelf)
        trip = [Argument("to", "Where to", required=True)]
        search = Step("search", tool="search_flights", arguments={"to": prompt_arg("to")})
        first = step_output("search", "flights.0")
        mail = Step("mail", tool="mail", arguments={"text": step_output("book")})

        def add(name: str, *steps: Step, arguments: list[Argument] = trip) -> None:
            workflow = Workflow(name=name, description="travel", arguments=arguments, steps=list(steps))
            server.add_workflow(workflow)

        booking = Step("book", tool="book", arguments={"flight_id": first})
        add("travel", search, booking, mail)
        add("choose", search, Step("book", tool="book"), mail)
        eighth = {"flight_id": step_output("search", "flights.7")}
        coloured = Step("tell", tool="mail", arguments={"text": task_variable("colour")})
        add("guess", search, Step("book", tool="book", arguments=eighth), coloured)
        shelf = Step("book", tool="book", arguments={"flight_id": first}, resources=["shelf://3"])
        add("read", Step("rules", resources=["shelf://1"]), search, shelf, mail)
        pin = Argument("pin", "The PIN", required=True, secret=True)
        paid = {"pin": prompt_arg("pin")}
        last = Step("sign", tool="sign", arguments=paid)
        lost = {"flight_id": step_output("search_all", "flights.0")}
        found = Step("search_all", tool="search_all", arguments={"to": prompt_arg("to")})
        add(
            "large",
            found,
            Step("first", tool="book", arguments={"flight_id": constant("1")}),
            Step("book", tool="book", arguments=lost),
        )
        add("pay", Step("transfer", tool="transfer", arguments=paid), last, arguments=[pin])

    def _begin(self, tool: str) -> None:
        self.called.append(tool)
        if self.broken:
            raise self.broken
        if self.raises:
            raise self.raises.pop(0)

    def search_flights(self, to: str) -> dict[str, list[str]]:
        """Search flights."""
        self.called.append("search_flights")
        return {"flights": [f"{to}-1"]}

    def search_all(self, to: str) -> dict[str, list[str]]:
        """Search flights, and return more than a task keeps."""
        self.called.append("search_all")
        return {"flights": [f"{to}-1", "x" * 6_500_000]}

    def book(self, flight_id: str) -> str:
        """Book a flight."""
        self._begin("book")
        return f"booked {flight_id}"

    def mail(self, text: str) -> str:
        """Send a mail."""
        self.called.append("mail")
        return text

    def transfer(self, pin: str) -> str:
        """Transfer the money."""
        self._begin("transfer")
        return f"paid with {len(pin)} digits"

    def sign(self, pin: str, name: str) -> str:
        """Sign for it."""
        self._begin("sign")
        return f"{name}, {len(pin)}"

    def shelf(self, number: int) -> str:
        """What is on a shelf."""
        if self.shelf_is_locked:
            raise ToolError("the shelf is locked")
        return f"rule {number}"

    def repaired(self) -> None:
        """Somebody has corrected what was wrong."""
        self.broken, self.shelf_is_locked = None, False


@dataclass(frozen=True)
class Case:
    """What happens, and which pause it causes.

    Attributes:
        pause: The type of the first pause.
        arrange: Done before the workflow is begun.
        meanwhile: Done after the first reply.
        knows: What the model's user answers, by an argument's name.
        suggests: What the first suggestion is.
        looks: Whether the model begins by looking at a task that it has heard of.
    """

    name: str
    workflow: str
    pause: str
    arrange: Do = lambda _trip, _client: None
    meanwhile: Do = lambda _trip, _client: None
    knows: Mapping[str, Any] = NOTHING
    suggests: str = ""
    arguments: Mapping[str, Any] = field(default_factory=lambda: {"to": "Rome"})
    looks: bool = False

    def __str__(self) -> str:
        return self.name


def fails(*errors: Exception) -> Do:
    return lambda trip, _: trip.raises.extend(errors)


def breaks(trip: Trip, _: Client) -> None:
    trip.broken = RuntimeError("the database of the airline")


def locks(trip: Trip, _: Client) -> None:
    trip.shelf_is_locked = True


def time_runs_out(_: Trip, client: Client) -> None:
    client.during("search_flights", lambda: client.remaining_s(5.5))


def time_is_plenty(_: Trip, client: Client) -> None:
    client.remaining_s(120)


def is_killed(_: Trip, client: Client) -> None:
    with client.killed_after("book"):
        client.call_workflow("travel", {"to": "Rome"})
    client.clock.advance(LEASE_MS / 1000 + 1)


PIN: Mapping[str, Any] = MappingProxyType({"pin": "4711-0815"})
CASES = [
    Case("a tool fails once", "travel", "toolError", fails(ToolError("full")), suggests="book"),
    Case(
        "a tool of a secret fails",
        "pay",
        "toolError",
        fails(ToolError("no")),
        knows={**PIN, "name": "Ada"},
        arguments=PIN,
        suggests="transfer",
    ),
    Case("an error is hidden", "travel", "toolError", breaks, suggests="travel"),
    Case("a value is missing", "choose", "schemaMismatch", knows={"flight_id": "Rome-9"}, suggests="book"),
    Case("a resource cannot be read", "read", "toolError", locks, suggests="shelf://1"),
    Case("the time is used up", "travel", "deadlineExceeded", time_runs_out, time_is_plenty, suggests="travel"),
    Case(
        "a secret was given and only the end is left",
        "pay",
        "schemaMismatch",
        knows={**PIN, "name": "Ada"},
        arguments=PIN,
        suggests="sign",
    ),
    Case("a run was killed", "travel", "interrupted", is_killed, suggests="search_flights", looks=True),
    Case("a result was too large to keep", "large", "toolError", fails(ToolError("no")), knows={"flight_id": "x"}),
    Case("an output lacks a path", "guess", "unresolvableParams", knows={"flight_id": "x", "text": "red"}),
]


class Literal:
    """A model that does the first thing that a text suggests. It fills in what only its user knows, and corrects what
    it is told to correct; every other placeholder it sends back as it is."""

    def __init__(self, trip: Trip, client: Client, case: Case) -> None:
        self.trip = trip
        self.client = client
        self.case = case
        self.story: list[str] = []
        self.pauses: list[str] = []

    def finish(self) -> None:
        """Follow suggestions until the workflow is done."""
        arguments = {"task_id": task_of(self.client), "task_action": "show"} if self.case.looks else self.case.arguments
        text = self._call(Call(self.case.workflow, dict(arguments)))
        self.case.meanwhile(self.trip, self.client)
        first = suggestion(text)
        assert self.case.suggests in (first.tool if isinstance(first, Call) else first or ""), self.told()
        while not read(text).done:
            assert len(self.story) < MOST_CALLS, self.told()
            text = self._follow(text)

    def _follow(self, text: str) -> str:
        if "correct the cause" in text or "tell the user" in text:
            self.trip.repaired()
        following = suggestion(text)
        assert following is not None, self.told()
        if isinstance(following, Call):
            return self._call(following)
        self.story.append(f"> read {following}\n{self.client.read_resource(following).text}")
        # What was read is in the conversation: the next suggestion of the same text is what follows it.
        return re.sub(rf"[Rr]ead the resource {re.escape(following)}(?:, then )?", "", text, count=1)

    def _call(self, call: Call) -> str:
        call = Call(call.tool, {name: self._value(name, value) for name, value in call.arguments.items()})
        before = None if call.arguments.get("task_action") else self.pause()
        result = self.client.request("tools/call", {"name": call.tool, "arguments": call.arguments})
        content: Any = result["content"]
        text = "\n".join(block["text"] for block in content if block["type"] == "text")
        self.story.append(f"> {call}\n{text}")
        assert not any(word in text for word in REFUSED), self.told()
        after = self.pause()
        assert after is None or after != before, self.told()
        if after is not None:
            self.pauses.append(after[0]["type"])
        return text

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, str) and PLACEHOLDER.fullmatch(value) and value.startswith(("<missing", "<inv", "<sec")):
            assert name in self.case.knows, self.told()
            return self.case.knows[name]
        return value

    def pause(self) -> tuple[JsonDict, JsonDict] | None:
        """Why its task is paused, and how far it is."""
        if not self.client.tasks():
            return None
        task = self.client.task(task_of(self.client))
        reason: Any = task.variables.get("_workflow.pause_reason")
        return (reason, dict(task.steps)) if reason else None

    def told(self) -> str:
        """What it did and was told, for a failed assertion."""
        return "\n\n".join(self.story)


def task_of(client: Client) -> str:
    [task] = client.tasks()
    return task.task_id


def suggestion(text: str) -> Call | str | None:
    """What a text suggests first: a call, or the URI of a resource to read."""
    found = [(it.start(1), it) for phrase in (NUMBERED, NEXT, GO_ON, FINISH) for it in phrase.finditer(text)]
    reads = [(it.start(), it[1]) for it in TO_READ.finditer(text)]
    if reads and (not found or min(reads)[0] < min(at for at, _ in found)):
        return min(reads)[1]
    if not found:
        return None
    place, _ = min(found, key=lambda one: one[0])
    reading = read(text)
    calls = [*reading.calls, *([reading.go_on] if reading.go_on else [])]
    return next(call for call in calls if text.startswith(call.tool, place))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_first_suggestion_of_each_pause_works(baton: Connect, era: Era, case: Case) -> None:
    trip = Trip()
    client = baton(trip.server, era=era)
    case.arrange(trip, client)
    model = Literal(trip, client, case)
    model.finish()
    assert model.pauses[0] == case.pause, model.told()
    assert client.task(task_of(client)).status == "completed", model.told()
