"""Steps that call a tool for each element of a list (docs/workflows.md, Lists)."""

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypedDict, cast

import pytest

from mcp_baton import (
    Approval,
    Context,
    ListStep,
    Retry,
    Server,
    ToolError,
    ToolStep,
    Workflow,
    constant,
    item,
    step,
    step_output,
)
from mcp_baton.exceptions import WorkflowError
from mcp_baton.testing import Client, connect
from tests.sent import Requests
from tests.support.client import Client as E2EClient
from tests.support.client import Clock, Table
from tests.support.handler import ON_MINISTACK, MakeClient


class Person(TypedDict):
    email: str


ITEMS = "_workflow.items.notify"
ELEMENTS = "_workflow.elements.notify"


class Sites:
    """A server that notifies each site of a list.

    Attributes:
        found_sites: The return value of `find_sites`.
        down_sites: The sites that cannot be notified. With `checkpoint_find`, the list is stored before the first one.
        notifications: The site and the idempotency key of each call of `notify`.
        during_call: By site, a function that runs once during its next call.
    """

    def __init__(
        self, *, parallel: int = 1, checkpoint: bool = False, checkpoint_find: bool = False, retry: Retry | None = None
    ) -> None:
        self.found_sites: Any = ["a", "b", "c"]
        self.down_sites: set[str] = set()
        self.notifications: list[tuple[str, str]] = []
        self.during_call: dict[str, Callable[[], object]] = {}
        self.server = Server("sites", task_ids="text")
        for tool in (self.find_sites, self.notify, self.count):
            self.server.tool(tool)
        self.server.add_workflow(
            Workflow(
                name="report",
                description="notify all sites",
                steps=[
                    ToolStep("find", tool="find_sites", checkpoint=checkpoint_find),
                    ListStep(
                        "notify",
                        {"to": item(), "text": constant("hello")},
                        tool="notify",
                        each=step_output("find"),
                        parallel=parallel,
                        checkpoint=checkpoint,
                        retry=retry,
                    ),
                    ToolStep("count", {"sent": step_output("notify")}, tool="count"),
                ],
            )
        )

    def find_sites(self) -> Any:
        return self.found_sites

    def notify(self, ctx: Context, to: str, text: str) -> str:
        """Notify a site."""
        self.notifications.append((to, ctx.idempotency_key))
        self.during_call.pop(to, lambda: None)()
        if to in self.down_sites:
            raise ToolError(f"{to} is down")
        return f"{text} {to}"

    def count(self, sent: list[str]) -> int:
        """Count the mails."""
        return len(sent)

    def calls(self) -> list[str]:
        """Return the sites of the calls since the last time."""
        sites = [site for site, _ in self.notifications]
        self.notifications.clear()
        return sites


def variables(client: Client, task_id: str) -> dict[str, Any]:
    return dict(client.task(task_id).variables)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({"a": 1}, "each: a list is needed, and the value is an object"),
        ("abc", "each: a list is needed, and the value is a text"),
        (None, "each: a list is needed, and the value is null"),
        (["a"] * 1_001, "each: the list has 1,001 elements; at most 1,000 are possible"),
    ],
)
def test_a_value_that_is_not_a_list_or_is_too_long_fails_the_step(value: object, error: str) -> None:
    sites = Sites()
    sites.found_sites = value
    with connect(sites.server) as client:
        run = client.call_workflow("report")

    assert (run.pause.type, run.pause.error) == ("toolError", error)
    assert sites.calls() == []


def test_the_other_elements_finish_if_some_fail_and_a_resume_runs_only_the_failed_ones() -> None:
    sites = Sites()
    sites.down_sites = {"a", "c"}
    with connect(sites.server) as client:
        run = client.call_workflow("report")
        values = variables(client, run.task_id)
        keys = dict(sites.notifications)
        first_calls = sites.calls()
        sites.down_sites = {"c"}
        sites.found_sites = ["x"]  # the elements of the first run are kept
        second_run = client.call_workflow("report", task=run.task_id)
        second_calls = sites.calls()
        sites.down_sites = set()
        last_run = client.call_workflow("report", task=run.task_id)
        last_values = variables(client, run.task_id)

    assert first_calls == ["a", "b", "c"]
    assert run.steps == {"find": "completed", "notify": "failed", "count": "pending"}
    assert run.pause.failed_items == [{"index": 0, "error": "a is down"}, {"index": 2, "error": "c is down"}]
    assert run.pause.failed_count == 2
    assert (values[ELEMENTS], values[ITEMS]) == (["a", "b", "c"], [None, "hello b", None])
    assert second_calls == ["a", "c"]
    assert second_run.pause.failed_items == [{"index": 2, "error": "c is down"}]
    assert sites.notifications == [("c", keys["c"])]
    assert last_run.completed
    assert last_values["_workflow.result.notify"] == ["hello a", "hello b", "hello c"]
    assert ITEMS not in last_values


def test_each_element_has_its_own_idempotency_key_even_if_elements_are_equal() -> None:
    sites = Sites()
    sites.found_sites = ["a", "a", "b"]
    with connect(sites.server) as client:
        client.call_workflow("report")

    assert len({key for _, key in sites.notifications}) == 3


def members(*elements: Any) -> Server:
    server = Server("s")

    @server.tool
    def mail(to: str, text: str = "hello") -> str:
        return f"{text} {to}"

    @server.workflow
    def write() -> None:
        step(mail, each=list(elements))(to=item("email"))

    return server


def test_a_call_that_repeats_that_of_an_element_is_not_recorded_in_another_one() -> None:
    with connect(members({"email": "a"}, {})) as client:
        run = client.call_workflow("write")
        client.call_tool("mail", {"to": "a", "text": "hello"}, task=run.task_id)
        values = variables(client, run.task_id)

    assert values["_workflow.items.mail"][0] == "hello a"
    assert values["_workflow.extra.mail"] == "hello a"


def test_a_pause_says_what_failed_and_what_has_no_approval_until_only_the_approval_is_missing() -> None:
    server = Server("s")
    errors = {"a": 1}

    @server.tool(approval=Approval("people", message="Mail {to}?"))
    def mail(to: str) -> str:
        if errors.pop(to, 0):
            raise ToolError(f"{to} has no mailbox")
        return to

    @server.workflow
    def write() -> None:
        """Write to two people."""
        step(mail, each=["a", "b"])(to=item())

    with connect(server, owner="kim") as client:
        people = client.as_owner("ada", scopes=["people"])

        def approve_a() -> None:
            [approval] = [entry for entry in people.approvals() if entry["arguments"] == {"to": "a"}]
            people.approve(approval["approvalId"])

        run = client.call_workflow("write")
        approve_a()
        failed = client.call_workflow("write", task=run.task_id).pause
        client.call_tool("mail", {"to": "a"}, task=run.task_id)
        approve_a()
        client.call_tool("mail", {"to": "a"}, task=run.task_id)
        is_paused = client.task(run.task_id).paused
        last_run = client.call_workflow("write", task=run.task_id)

    assert (failed.failed_count, failed.unapproved_count) == (1, 1)
    assert failed.error == (
        "1 of 2 calls failed; the call for element 0: a has no mailbox; 1 more was not made without approval"
    )
    assert not is_paused
    assert (last_run.pause.type, last_run.pause.step) == ("approvalRequired", "mail")


def test_only_the_failed_calls_of_a_long_list_are_suggested_beside_those_that_wait_for_approvals() -> None:
    server = Server("s")

    @server.tool(approval=Approval("people", when=lambda to: to < 29))
    def mail(to: int) -> None:
        if to == 29:
            raise ToolError("no mailbox")

    @server.workflow(description="Write to 30 people")
    def write() -> None:
        step(mail, each=list(range(30)))(to=item())

    with connect(server) as client:
        run = client.call_workflow("write")
        shown = client.call_tool("write", {"task_id": run.task_id, "task_action": "show"})

    for text in (run.text, shown.text):
        assert re.findall(r'mail with {"to": (\d+)', text) == ["29"]


def test_the_last_call_of_a_list_that_waits_for_an_approval_is_not_counted() -> None:
    server = Server("s")

    @server.tool(approval=Approval("people"))
    def mail(to: str) -> str:
        return to

    @server.workflow(description="Write to two people")
    def write() -> None:
        step(mail, each=["a", "b"])(to=item())

    with connect(server, owner="kim") as client:
        people = client.as_owner("ada", scopes=["people"])
        run = client.call_workflow("write")
        [approval] = [entry for entry in people.approvals() if entry["arguments"] == {"to": "b"}]
        people.approve(approval["approvalId"])
        client.call_tool("mail", {"to": "b"}, task=run.task_id)
        status = client.request("tasks/get", {"taskId": run.task_id})["statusMessage"]

    assert status == "paused: waits for an approval of people"


def test_a_failed_call_is_retried_for_its_element() -> None:
    sites = Sites(parallel=2, retry=Retry(attempts=3, first_s=0, max_s=0))
    with connect(sites.server) as client:
        client.tool_raises("notify", ToolError("down"), times=2)
        run = client.call_workflow("report")

    assert run.completed


def continue_element(client: E2EClient, table: Table, to: str) -> str:
    """Call the tool for an element of the only task. Return the task."""
    [item] = [item for item in table.items if item["sk"]["S"].startswith("TASK#")]
    task = item["sk"]["S"].removeprefix("TASK#")
    assert client.call_tool("notify", {"to": to, "text": "hello"}, task=task).meta["recorded"] is True
    return task


def test_a_continuation_during_the_run_is_kept_and_not_called_again(make_client: MakeClient, table: Table) -> None:
    sites = Sites(checkpoint=True)
    client = make_client(sites.server)
    sites.during_call["b"] = lambda: continue_element(client, table, "c")

    task = client.call_tool("report").task_id

    assert sites.calls() == ["a", "b", "c"]
    assert client.variables(task)["_workflow.result.notify"] == ["hello a", "hello b", "hello c"]


def test_a_list_is_completed_if_a_continuation_supplies_the_element_for_which_no_time_is_left(
    make_client: MakeClient, table: Table
) -> None:
    sites, clock = Sites(checkpoint_find=True), Clock()
    client = make_client(sites.server, remaining_ms=clock)

    def supply() -> None:
        continue_element(client, table, "c")
        clock.ms = 5_500

    sites.during_call["b"] = supply
    run = client.call_tool("report")

    assert run.statuses == ["completed", "completed", "pending"]
    assert client.variables(run.task_id)["_workflow.result.notify"] == ["hello a", "hello b", "hello c"]


@ON_MINISTACK
def test_concurrent_continuations_by_element_lose_nothing(make_client: MakeClient) -> None:
    sites = Sites()
    sites.found_sites = [f"s{number}" for number in range(16)]
    sites.down_sites = set(sites.found_sites)
    client = make_client(sites.server)
    task = client.get_prompt("report").task_id
    sites.down_sites = set()
    with ThreadPoolExecutor(16) as pool:
        answers = list(
            pool.map(lambda to: client.call_tool("notify", {"to": to, "text": "hello"}, task=task), sites.found_sites)
        )

    assert all(answer.meta["recorded"] is True for answer in answers)
    assert client.variables(task)["_workflow.result.notify"] == [f"hello {to}" for to in sites.found_sites]


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"each": step_output("find"), "parallel": 0}, "parallel=0 is not possible; give a whole number from 1 to 100"),
        ({"each": step_output("count")}, "each=count is number, and not a list; give it a list"),
        ({"each": step_output("find"), "resources": ["docs://a"]}, "the step has a tool and no resources"),
        ({"each": item()}, "item() is the current element of a list, for the arguments of a step with each=…"),
        ({"arguments": {"to": item()}}, "item() is the current element of a list"),
        (
            {"each": step_output("people"), "arguments": {"to": item("mail")}},
            "item('mail'): an element of the output of the tool 'people' has no 'mail'",
        ),
        ({"each": step_output("nothing")}, "refers to an unknown binding"),
        ({"after": ("later",)}, "after='later' names no earlier step"),
    ],
)
def test_mistakes_in_a_list_are_found_before_it_runs(options: dict[str, Any], cause: str) -> None:
    server = Server("s")

    @server.tool
    def find() -> list[str]:
        return []

    @server.tool
    def count() -> int:
        return 0

    @server.tool
    def people() -> list[Person]:
        return []

    @server.tool
    def notify(to: str) -> str:
        return to

    first_steps = [ToolStep("find", tool="find"), ToolStep("count", tool="count"), ToolStep("people", tool="people")]
    kind: Any = ListStep if "each" in options else ToolStep
    last_step = kind("notify", **{"tool": "notify", "arguments": {}, **options})
    server.add_workflow(Workflow(name="w", description="d", steps=[*first_steps, last_step]))

    with pytest.raises(WorkflowError) as error:
        server.check()
    assert cause in str(error.value)


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"parallel": 2}, "parallel is for a step with each=…; leave it out"),
        ({"each": ["a"], "resources": ["docs://a"]}, "the step has a tool and no resources; make two steps"),
    ],
)
def test_a_workflow_function_refuses_options_of_another_kind_of_step(options: dict[str, Any], cause: str) -> None:
    server = Server("s")

    def notify(to: str) -> str:
        return to

    def send() -> None:
        call: Any = step(notify, **options)
        call(to="b")

    server.add_tool(notify)
    with pytest.raises(WorkflowError) as error:
        server.workflow(send)
    assert cause in str(error.value)


def test_the_messages_of_a_prompt_name_the_list_once() -> None:
    sites = Sites()
    sites.down_sites = {"c"}
    with connect(sites.server) as client:
        texts = [message.text for message in client.get_prompt("report").messages]

    assert '2. notify, for each element of "find": Notify a site.' in texts[1]
    assert texts[-4:-2] == [
        'Calling notify for each element of "find"',
        "Error from notify: 1 of 3 calls failed; the call for element 2: c is down",
    ]


def test_calls_whose_results_were_too_large_to_store_are_not_repeated() -> None:
    sites = Sites()
    sites.down_sites = {"c"}
    with connect(sites.server) as client:
        client.tool_returns("notify", "x" * 5_000_000, times=2)
        run = client.call_workflow("report")
        first_calls = sites.calls()
        second_run = client.call_workflow("report", task=run.task_id)

    assert run.meta["oversized"] == [ITEMS]
    assert first_calls == ["c"]
    assert second_run.pause.error.startswith("each: the results of earlier calls are lost: ")
    assert sites.calls() == []


def test_a_view_of_the_task_counts_the_elements_that_are_done() -> None:
    sites = Sites()
    sites.down_sites = {"a", "c"}
    with connect(sites.server) as client:
        run = client.call_workflow("report")
        view: Any = client.request("tasks/get", {"taskId": run.task_id})
        show_run = client.call_workflow("report", {"task_action": "show", "task_id": run.task_id})
        sites.down_sites = set()
        client.call_workflow("report", task=run.task_id)
        last_state: Any = client.request("tasks/get", {"taskId": run.task_id})

    elements = {"done": 1, "total": 3}
    assert view["_meta"]["mcp-baton/elements"] == {"notify": elements}
    steps: Any = show_run.structured
    assert [step.get("elements") for step in steps["board"]["steps"]] == [None, elements, None]
    assert "mcp-baton/elements" not in last_state["_meta"]


def test_a_pause_names_at_most_twenty_failed_elements_and_counts_all() -> None:
    sites = Sites(parallel=8)
    sites.found_sites = [f"s{number}" for number in range(50)]
    sites.down_sites = set(sites.found_sites)
    with connect(sites.server) as client:
        run = client.call_workflow("report")

        sites.down_sites = set()
        for to in sites.found_sites[:21]:
            client.call_tool("notify", {"to": to, "text": "hello"}, task=run.task_id)
        pause = client.task(run.task_id).pause

    assert [entry["index"] for entry in run.pause.failed_items] == list(range(20))
    assert run.pause.failed_count == 50
    assert (pause.failed_count, pause.error) == (29, "29 of 50 calls failed")


def test_a_call_that_fails_again_stays_in_the_pause_reason() -> None:
    sites = Sites()
    sites.down_sites = {"b", "c"}
    with connect(sites.server) as client:
        run = client.call_workflow("report")
        client.call_tool("notify", {"to": "c", "text": "hello"}, task=run.task_id)
        sites.down_sites = {"c"}
        client.call_tool("notify", {"to": "b", "text": "hello"}, task=run.task_id)
        pause = client.task(run.task_id).pause

    assert pause is not None
    assert pause.failed_items == [{"index": 2, "error": "c is down"}]
    assert pause.error == "1 of 3 calls failed; the call for element 2: c is down"


def test_only_the_element_without_the_field_fails() -> None:
    with connect(members({"email": "a"}, {})) as client:
        run = client.call_workflow("write")

    assert run.pause.failed_items == [{"index": 1, "error": "no value for 'to': the element has no 'email'"}]


def test_finished_elements_are_stored_if_the_time_runs_out(make_client: MakeClient) -> None:
    sites, clock = Sites(), Clock()
    client = make_client(sites.server, remaining_ms=clock)
    sites.during_call["b"] = lambda: setattr(clock, "ms", 1_500)
    run = client.call_tool("report")
    first_calls, values = sites.calls(), client.variables(run.task_id)
    clock.ms = 30_000
    client.call_tool("report", {"task_id": run.task_id})

    assert run.meta["pause_reason"]["type"] == "deadlineExceeded"
    assert first_calls == ["a", "b"]
    assert values[ITEMS] == ["hello a", "hello b", None]
    assert sites.calls() == ["c"]


def test_the_elements_are_stored_even_if_none_of_them_has_a_result(make_client: MakeClient) -> None:
    sites, clock = Sites(), Clock()
    client = make_client(sites.server, remaining_ms=clock)
    sites.down_sites = {"a"}
    sites.during_call["a"] = lambda: setattr(clock, "ms", 5_500)

    run = client.call_tool("report")

    error = "1 of 3 calls failed; the call for element 0: a is down; 2 more have no result yet"
    assert run.meta["pause_reason"]["error"] == error
    assert client.variables(run.task_id)[ITEMS] == [None, None, None]
    sites.down_sites = set()
    second_call = client.call_tool("notify", {"to": "b", "text": "hello"}, task=run.task_id)
    assert second_call.meta["pause_reason"]["error"] == error.replace("2 more have", "1 more has")
    assert "pause_reason" not in client.call_tool("notify", {"to": "a", "text": "hello"}, task=run.task_id).meta


@pytest.mark.parametrize("ask", [False, True])
def test_a_list_that_lacks_an_argument_for_all_calls_pauses_for_it(ask: bool) -> None:
    server = Server("s")

    @server.tool
    def notify(to: str, text: str) -> str:
        """Notify."""
        return f"{text} {to}"

    step = ListStep("notify", tool="notify", arguments={"to": item()}, each=constant(["Ann", "Bob"]))
    server.add_workflow(Workflow(name="report", description="Report.", steps=[step], ask=ask))
    with connect(server) as client:
        client.answers({"To Report, step 'notify' needs these values.": {"text": "hello"}})
        run = client.call_workflow("report")
        if not ask:
            assert (run.pause.type, run.pause.missing_fields) == ("schemaMismatch", ["text"])
            for call, text in zip(run.next[:-1], ["hi", "hello"], strict=True):
                client.call_tool("notify", {**call["arguments"], "text": text})
            run = client.call_workflow("report", run.next[-1]["arguments"])

        assert run.completed
        assert client.calls("notify") == [
            {"to": "Ann", "text": "hello" if ask else "hi"},
            {"to": "Bob", "text": "hello"},
        ]


@pytest.mark.parametrize("checkpoint", [False, True])
def test_results_that_are_too_large_together_are_lost_as_a_whole(checkpoint: bool) -> None:
    server = Server("s")

    @server.tool
    def read(page: int) -> str:
        """Read a page."""
        return "x" * 2_000_000

    pages = constant([0, 1, 2, 3])
    step = ListStep("read", tool="read", arguments={"page": item()}, each=pages, checkpoint=checkpoint)
    server.add_workflow(Workflow(name="book", description="Read", steps=[step]))
    with connect(server) as client:
        run = client.call_workflow("book")
        result: Any = variables(client, run.task_id)["_workflow.result.read"]

    assert run.completed
    assert "read" in cast("list[str]", run.meta["oversized"])
    assert result["error"].startswith("result of 8000013 bytes exceeds the task's size limit")


def test_results_that_are_lost_are_not_sent_at_later_checkpoints(make_client: MakeClient, requests: Requests) -> None:
    server, writes = Server("s"), list[int]()

    @server.tool
    def read(page: int) -> str:
        writes.append(requests.take().count("UpdateItem"))
        return "x" * 2_000_000

    pages = constant(list(range(8)))
    step = ListStep("read", tool="read", arguments={"page": item()}, each=pages, checkpoint=True)
    server.add_workflow(Workflow(name="book", description="Read", steps=[step]))
    assert make_client(server).call_tool("book", {}).result["_meta"]["task_status"] == "completed"

    assert (any(writes[:5]), any(writes[5:])) == (True, False)


def test_a_list_whose_results_are_lost_can_only_be_cancelled() -> None:
    server = Server("s")

    @server.tool
    def read(page: int) -> str:
        """Read a page."""
        if page == 0:
            raise ToolError("no")
        return "x" * 3_100_000

    step = ListStep("read", tool="read", arguments={"page": item()}, each=constant([0, 1, 2]))
    server.add_workflow(Workflow(name="book", description="Read", steps=[step]))
    with connect(server) as client:
        run = client.call_workflow("book")
        for _ in range(2):
            assert run.next[-1]["arguments"] == {"task_id": run.task_id, "task_action": "cancel"}
            assert "To end the task, call book with" in run.text
            run = client.call_workflow("book", {"task_id": run.task_id})
        assert len(client.calls("read")) == 3


def test_calls_of_a_tool_that_asks_the_client_are_suggested_until_all_are_made() -> None:
    server = Server("s")

    @server.tool
    def paint(ctx: Context, what: str) -> str:
        """Paint."""
        return f"{what} {ctx.elicit('Which colour?', str, key='colour').data}"

    step = ListStep("paint", tool="paint", arguments={"what": item()}, each=constant(["door", "roof"]))
    server.add_workflow(Workflow(name="house", description="Paint", steps=[step]))
    with connect(server) as client:
        client.answers({"colour": {"value": "red"}})
        run = client.call_workflow("house")
        first_call, second_call, _ = run.next
        result = client.call_tool("paint", first_call["arguments"])

        assert "Its tool asks the client for input." in result.text
        assert f"Next: call paint with {json.dumps(second_call['arguments'])}" in result.text
        client.call_tool("paint", second_call["arguments"])
        assert client.call_workflow("house", {"task_id": run.task_id}).completed
        assert variables(client, run.task_id)["_workflow.result.paint"] == ["door red", "roof red"]


def test_a_list_says_that_some_of_its_calls_need_a_correction_and_others_ask_the_client() -> None:
    server = Server("s")

    @server.tool
    def paint(ctx: Context, what: str) -> str:
        """Paint."""
        if what == "moat":
            raise ToolError("water takes no paint")
        return f"{what} {ctx.elicit('Which colour?', str, key='colour').data}"

    step = ListStep("paint", tool="paint", arguments={"what": item()}, each=constant(["door", "moat", "roof"]))
    server.add_workflow(Workflow(name="house", description="Paint", steps=[step]))
    with connect(server) as client:
        client.answers({"colour": {"value": "red"}})
        run = client.call_workflow("house")
        calls = [call["arguments"] for call in run.next if call["tool"] == "paint"]
        mixed = (
            "In some of these calls its tool asks the client for input: make them as below. Correct the others first."
        )
        texts = [run.text, *(client.call_tool("paint", calls[index]).text for index in (1, 0, 2))]

    assert [mixed in text for text in texts] == [True, True, True, False]
    assert "This step is not retryable: correct the cause first." in texts[-1]


def test_the_calls_of_a_list_whose_results_are_lost_are_not_suggested() -> None:
    server = Server("s")

    @server.tool
    def find() -> list[int]:
        return [0, 1, 2]

    @server.tool
    def fail() -> None:
        raise ToolError("no")

    @server.tool
    def read(page: int) -> str:
        if page == 0:
            raise ToolError("no")
        return "x" * 3_100_000

    read_all = ListStep("read", {"page": item()}, tool="read", each=step_output("find"))
    steps = [ToolStep("find", tool="find"), read_all, ToolStep("fail", tool="fail")]
    server.add_workflow(Workflow(name="book", description="Read", tool=False, parallel=2, steps=steps))
    with connect(server) as client:
        run = client.get_prompt("book")
        text = client.get_prompt("book", task=run.task_id).handoff

    assert re.findall(r"[Cc]all (\w+) with", text) == ["fail"]


def test_an_empty_list_completes_the_step() -> None:
    sites = Sites()
    sites.found_sites = []
    with connect(sites.server) as client:
        run = client.call_workflow("report")

        assert run.completed
        assert variables(client, run.task_id)["_workflow.result.notify"] == []
    assert sites.calls() == []


def test_the_handoff_has_one_call_for_each_open_element_and_each_call_is_recorded() -> None:
    sites = Sites()
    sites.down_sites = {"a", "c"}
    with connect(sites.server) as client:
        run = client.call_workflow("report")
        calls = [json.loads(text) for text in re.findall(r"Call notify with (.*)", run.text)]
        sites.down_sites = set()
        texts = [client.call_tool("notify", call).text for call in calls]
        state = client.task(run.task_id)
        last_run = client.call_workflow("report", task=run.task_id)
        values = variables(client, run.task_id)

    assert [call["to"] for call in calls] == ["a", "c"]
    assert [call["tool"] for call in run.next] == ["report"]  # the failed calls would fail again
    assert "2 of 3 calls failed; the call for element 0" in run.text
    assert "Recorded as a call of step 'notify': 2 of its 3 elements have results" in texts[0]
    assert "Recorded as step 'notify'" in texts[1]
    assert state.steps["notify"] == "completed"
    assert not state.paused
    assert last_run.completed
    assert values["_workflow.result.notify"] == ["hello a", "hello b", "hello c"]


@pytest.mark.parametrize("each", [False, True], ids=["step", "list"])
def test_an_argument_that_the_schema_refuses_stays_a_placeholder_in_suggested_calls(each: bool) -> None:
    server = Server("colours", task_ids="text")

    @server.tool
    def paint(colour: Literal["red"], part: str) -> str:
        return f"{colour} {part}"

    options: Any = {"tool": "paint", "each": constant(["a", "b"])} if each else {"tool": "paint"}
    arguments = {"colour": constant("pink"), "part": item() if each else constant("a")}
    steps = [(ListStep if each else ToolStep)("paint it", arguments, **options)]
    server.add_workflow(Workflow(name="flow", description="paint", steps=steps))
    with connect(server) as client:
        run = client.call_workflow("flow")
        first, *rest = [call["arguments"] for call in run.next if call["tool"] == "paint"]
        texts = [client.call_tool("paint", first | {"colour": colour}).text for colour in ("blue", "red")]
        texts += [client.call_tool("paint", call | {"task_id": run.task_id, "colour": "red"}).text for call in rest]
        assert client.call_workflow("flow", task=run.task_id).completed

    assert first["colour"] == "<invalid: colour>"
    assert json.dumps(first) in run.text
    assert f"Next: call paint with {json.dumps(first)}" in texts[0]
    assert ["Next: call paint" in text for text in texts[1:]] == ([True, False] if each else [False])
