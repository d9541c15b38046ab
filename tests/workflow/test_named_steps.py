"""Calls that name their step by `task_id`: `ID/refund`, or `ID/notify/3` (docs/reference/workflow-rules.md, Which step
a continuation means). Here each combination with the features of steps goes through the real handler.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Literal
from urllib.parse import quote

import pytest

from mcp_baton import (
    Approval,
    Argument,
    Context,
    ListStep,
    Server,
    ToolError,
    ToolStep,
    Workflow,
    constant,
    item,
    prompt_arg,
    step_output,
)
from mcp_baton.protocol.json import Json
from mcp_baton.testing import Client, JsonRpcError, Result, connect

RESULT, EXTRA = "_workflow.result.", "_workflow.extra."
ODD_NAME = "mail/to 100% é\u2028"


class Post:
    """A server with the tools `mail`, `fetch` and `count`, and a workflow `write` of some steps."""

    def __init__(self, steps: list[ToolStep], **options: Any) -> None:
        self.keys: list[str] = []
        self.broken: set[str] = set()
        self.steps, self.options = steps, options
        self.guards: dict[str, Any] = {name: options.pop(name) for name in ("only_in", "approval") if name in options}
        self.server = self.deployed(steps)

    def deployed(self, steps: list[ToolStep]) -> Server:
        server = Server("post")
        server.add_tool(self.mail, **self.guards)
        server.add_tool(self.fetch)
        arguments = [] if "background" in self.options else [Argument("pin", secret=True)]
        workflow = Workflow(name="write", description="write", steps=steps, arguments=arguments, **self.options)
        server.add_workflow(workflow)
        return server

    def mail(self, ctx: Context, to: str, pin: str = "") -> str:
        self.keys.append(ctx.idempotency_key)
        if to in self.broken:
            raise ToolError(f"no such address: {to} {pin}")
        return f"mailed {to}"

    def fetch(self) -> dict[str, Any]:
        if "fetch" in self.broken:
            raise ToolError("down")
        return {"people": ["ann", "bob", "carl"], "total": 30}


FETCH = ToolStep("fetch", tool="fetch", retryable=True)


def mail(name: str, to: str | None = None, **options: Any) -> ToolStep:
    return ToolStep(name, tool="mail", arguments={"to": constant(to or name)}, **options)


def missing(name: str, **options: Any) -> ToolStep:
    """A step whose argument no step provides."""
    return ToolStep(name, tool="mail", arguments={"to": step_output("fetch", "missing")}, **options)


LIST = ListStep("all", tool="mail", arguments={"to": item()}, each=step_output("fetch", "people"))


class Task:
    """A task of a client that continues it."""

    def __init__(self, client: Client, task_id: str) -> None:
        self.client, self.id = client, task_id

    def mail(self, to: str, name: str = "", **arguments: Json) -> Result:
        """Mail a person, as the step of this name."""
        task_id = f"{self.id}/{name}" if name else self.id
        return self.client.call_tool("mail", {"to": to, **arguments, "task_id": task_id})

    @property
    def variables(self) -> dict[str, Any]:
        return dict(self.client.task(self.id).variables)

    def result(self, step: str) -> Any:
        return self.variables.get(f"{RESULT}{step}")

    @property
    def statuses(self) -> list[str]:
        return list(self.client.task(self.id).steps.values())

    def resume(self) -> Any:
        return self.client.call_workflow("write", task=self.id)


@pytest.fixture(params=["prompt", "tool"])
def way(request: pytest.FixtureRequest) -> str:
    way: str = request.param
    return way


def started(post: Post, client: Client, way: str = "tool") -> Task:
    """Start the workflow. It pauses, because `fetch` is down or a value is missing."""
    run = client.get_prompt("write") if way == "prompt" else client.call_workflow("write")
    assert run.paused
    post.keys.clear()
    return Task(client, run.task_id)


@contextmanager
def begun(*steps: ToolStep, broken: Sequence[str] = (), **options: Any) -> Iterator[tuple[Post, Client, Task]]:
    """Start a workflow of these steps, of which mails with the texts in `broken` fail."""
    post = Post([FETCH, *steps], **options)
    post.broken.update(broken)
    with connect(post.server, owner="kim") as client:
        yield post, client, started(post, client)


@pytest.mark.parametrize("in_meta", [True, False])
def test_a_call_is_recorded_as_the_step_that_it_names(era: Literal["2025", "2026"], way: str, *, in_meta: bool) -> None:
    post = Post([FETCH, missing("first"), missing("second"), mail("third")])
    with connect(post.server, era=era) as client:
        task = started(post, client, way)
        name = f"{task.id}/second"
        result = (
            client.call_tool("mail", {"to": "eve"}, task=name)
            if in_meta
            else client.call_tool("mail", {"to": "eve", "task_id": name})
        )
        assert (result.recorded, result.meta["task_id"]) == (True, task.id)
        assert task.statuses == ["completed", "pending", "completed", "pending"]
        assert task.result("second") == "mailed eve"
        assert ("Recorded as step 'second'" in result.text) is not in_meta
        params: Any = {"name": "mail", "arguments": {"to": "eve"}}
        sent: Any = client.request("tools/call", params, {"_task_id": name})["_meta"]
        assert sent.get("io.modelcontextprotocol/related-task") == ({"taskId": task.id} if era == "2025" else None)


@pytest.mark.parametrize(
    "name", ["", "nothing", "fetch", "second/0", "all", "all/3", "all/01", "second/", 'x". Call "y']
)
def test_a_name_that_is_no_step_with_this_tool_is_ignored_and_quoted(name: str) -> None:
    with begun(missing("first"), mail("second", "ann"), LIST) as (_, client, task):
        result = client.call_tool("mail", {"to": "ann", "task_id": f"{task.id}/{name}"})
        assert task.statuses == ["completed", "pending", "completed", "pending"]
        assert result.meta["ignored_step"] == name
        quoted = name.replace('"', '\\"')
        assert f'This task has no call "{quoted}" of mail: that name was ignored. Recorded' in result.text


def test_every_place_that_takes_a_task_id_takes_that_of_a_step_and_uses_the_task() -> None:
    post = Post([FETCH, missing("first")])
    with connect(post.server, era="2025") as client:
        task = started(post, client)
        name = f"{task.id}/first"
        got: Any = client.request("tasks/get", {"taskId": name})
        shown: Any = client.call_tool("write", {"task_id": name, "task_action": "show"}).structured
        assert (got["taskId"], shown["task_id"], client.task(name).task_id) == (task.id, task.id, task.id)
        assert client.call_workflow("write", task=name).task_id == task.id
        assert client.resume(name).task_id == task.id
        with pytest.raises(JsonRpcError, match="no result yet"):
            client.request("tasks/result", {"taskId": name})
        assert client.cancel(name).status == "cancelled"
        assert task.mail("eve", "first").meta["record_error"] == "the task is cancelled"


def test_two_places_may_name_one_task_but_not_two_steps() -> None:
    with begun(missing("first"), missing("second")) as (post, client, task):
        call = {"to": "eve", "task_id": f"{task.id}/second"}
        refused = client.call_tool("mail", call, task=f"{task.id}/first")
        assert (refused.is_error, post.keys) == (True, [])
        assert client.call_tool("mail", call, task=task.id).recorded
        assert task.result("second") == "mailed eve"


# Results


def test_a_named_call_replaces_the_result_of_a_completed_step_if_it_succeeds() -> None:
    with begun(mail("first"), missing("second")) as (post, _, task):
        assert task.mail("eve", "first").recorded
        assert task.result("first") == "mailed eve"
        post.broken.add("joe")
        failed = task.mail("joe", "first")
        assert failed.recorded
        assert (task.result("first"), task.statuses) == ("mailed eve", ["completed", "completed", "pending"])
        assert task.variables[f"{EXTRA}mail"] == {"error": "no such address: joe "}


# Conditions


@pytest.mark.parametrize("parallel", [1, 4])
@pytest.mark.parametrize(("limit", "status"), [(100, "skipped"), (10, "completed")])
def test_the_result_of_an_early_call_counts_only_if_the_condition_holds(limit: int, status: str, parallel: int) -> None:
    steps = [mail("first", when=step_output("fetch", "total") > limit), mail("last")]
    with begun(*steps, broken=["fetch"], parallel=parallel) as (post, _, task):
        assert task.mail("eve", "first").recorded
        assert task.statuses[1] == "completed"
        post.broken.clear()
        assert task.resume().completed
        assert task.statuses == ["completed", status, "completed"]
        assert (task.result("first"), task.variables.get(f"{EXTRA}mail")) == (
            (None, "mailed eve") if status == "skipped" else ("mailed eve", None)
        )
        assert len(post.keys) == 2 - (parallel > 1)


# Lists


def test_a_call_is_recorded_as_the_element_that_it_names() -> None:
    with begun(LIST, broken=["bob", "carl"]) as (post, _, task):
        post.broken.add("eve")
        assert task.mail("eve", "all/0").recorded  # fails, and element 0 has a result
        assert task.variables[f"{EXTRA}mail"] == {"error": "no such address: eve "}
        assert task.mail("new ann", "all/0").recorded
        second = task.mail("robert", "all/1")
        assert "Recorded as a call of step 'all': 2 of its 3 elements have results" in second.text
        assert f'"task_id": "{task.id}/all/2"' in second.text
        third = task.mail("charles", "all/2")
        assert third.meta["steps"] == [{"name": "fetch", "status": "completed"}, {"name": "all", "status": "completed"}]
        assert task.result("all") == ["mailed new ann", "mailed robert", "mailed charles"]
        task.mail("bobby", "all/1")
        task.mail("eve", "all/1")
        assert task.result("all") == ["mailed new ann", "mailed bobby", "mailed charles"]
        assert task.resume().completed


# Guards


@pytest.fixture
def guarded() -> Iterator[tuple[Post, Client, Task]]:
    approval = Approval("people", message="Mail {to}?", expires=timedelta(hours=1))
    with begun(missing("first"), missing("second", approval=approval), mail("third")) as task:
        yield task


def test_the_named_step_decides_which_approval_a_call_needs(guarded: tuple[Post, Client, Task]) -> None:
    post, client, task = guarded
    people = client.as_owner("ada", scopes=["people"])
    assert task.mail("eve", "first").recorded
    asked = task.mail("eve", "second")
    assert (asked.is_error, asked.recorded, post.keys) == (True, False, post.keys[:1])
    [approval] = people.approvals()
    assert (approval["step"], approval["arguments"]["to"]) == ("second", "eve")
    people.approve(approval["approvalId"])
    assert task.mail("eve", "second").recorded
    assert task.statuses == ["completed", "completed", "completed", "pending"]
    assert task.mail("eve", "second").recorded is False  # the approval was used once


def test_a_denied_or_expired_approval_of_a_named_step_stops_only_that_step(guarded: tuple[Post, Client, Task]) -> None:
    post, client, task = guarded
    people = client.as_owner("ada", scopes=["people"])
    task.mail("eve", "second")
    client.clock.advance(3_601)
    assert people.approvals() == []
    task.mail("eve", "second")
    [approval] = people.approvals()
    people.deny(approval["approvalId"], reason="no")
    denied = task.mail("eve", "second")
    assert (denied.is_error, denied.recorded, post.keys) == (True, False, [])
    assert f"{task.id}/second" not in repr(denied.meta["next"])
    assert task.mail("eve", "first").recorded


def test_a_bare_call_does_not_avoid_the_approval_of_another_step(guarded: tuple[Post, Client, Task]) -> None:
    _, client, task = guarded
    people = client.as_owner("ada", scopes=["people"])
    assert task.mail("third").recorded  # equals the call of `third`, which needs none
    asked = task.mail("eve")  # would be `first`, of which nothing is known
    assert (asked.is_error, asked.recorded) == (True, False)
    [approval] = people.approvals()
    people.approve(approval["approvalId"])
    assert task.mail("eve").recorded
    assert task.statuses == ["completed", "completed", "pending", "completed"]


# Other states


def test_the_name_of_a_step_of_another_definition_is_ignored() -> None:
    with begun(missing("first"), missing("second")) as (post, client, task):
        renamed = post.deployed([FETCH, missing("new"), missing("second")])
        task.client = client.deployed(renamed)
        # The task has its old steps until the next run.
        ignored = task.mail("eve", "new")
        assert ignored.meta["ignored_step"] == "new"
        assert task.mail("joe", "second").recorded
        assert (task.result("first"), task.result("second")) == ("mailed eve", "mailed joe")


def test_a_named_call_with_a_secret_is_recorded_without_it() -> None:
    def secret(name: str) -> ToolStep:
        return ToolStep(name, tool="mail", arguments={"to": step_output("fetch", "missing"), "pin": prompt_arg("pin")})

    post = Post([FETCH, secret("first"), secret("second")])
    with connect(post.server) as client:
        run = client.call_workflow("write", {"pin": "4711-secret"})
        task = Task(client, run.task_id)
        assert run.next[0]["arguments"]["task_id"] == f"{task.id}/first"
        post.broken.add("eve")
        for name, to in [("second", "eve"), ("first", "ann"), ("second", "ann")]:
            task.mail(to, name, pin="4711-secret")
        assert task.statuses == ["completed"] * 3
        assert "4711-secret" not in repr(client.task(task.id).variables)
        assert len(set(post.keys)) == 3


@pytest.mark.parametrize("name", ["first", "second", "third", "nothing", ""])
def test_a_secret_that_is_given_to_another_step_is_neither_stored_nor_shown(name: str) -> None:
    pin, missing_to = prompt_arg("pin"), step_output("fetch", "missing")
    approval = Approval("people", message="Mail {to}?", when=lambda to, **_: to == "joe")
    secret = ToolStep("second", tool="mail", arguments={"to": missing_to, "pin": pin}, approval=approval)
    skipped = ToolStep("third", tool="mail", arguments={"to": missing_to}, when=step_output("fetch", "total") > 100)
    post = Post([FETCH, missing("first", approval=approval), secret, skipped])
    with connect(post.server, owner="kim") as client:
        task = Task(client, client.call_workflow("write", {"pin": "4711-secret"}).task_id)
        post.broken.add("eve")
        for to in ("eve", "ann", "joe"):
            task.mail(to, name, pin="4711-secret")
        assert "4711-secret" not in repr(task.variables)
        assert "4711-secret" not in repr(client.as_owner("ada", scopes=["people"]).approvals())


def test_equal_calls_with_a_bare_id_at_once_are_one_call_with_one_key() -> None:
    post = Post([FETCH, missing("first"), mail("ann"), mail("again", "ann")])
    with connect(post.server) as client:
        task = started(post, client)
        client.during("mail", lambda: task.mail("ann"))
        assert task.mail("ann").recorded
        assert task.statuses == ["completed", "pending", "completed", "pending"]
        assert len(set(post.keys)) == 1
        task.mail("ann")
        assert task.statuses == ["completed", "pending", "completed", "completed"]
        assert len(set(post.keys)) == 2


def test_a_bare_call_that_is_no_element_says_which_elements_are_open() -> None:
    post = Post([FETCH, LIST, missing("other")], parallel=4)
    post.broken |= {"bob", "carl"}
    with connect(post.server) as client:
        task = started(post, client)
        result = task.mail("eve")
        assert "Recorded as step 'other'" in result.text
        ids = f'"{task.id}/all/1", "{task.id}/all/2"'
        assert f"A call of an element of step 'all' names it by task_id: {ids}." in result.text
        assert "names it by" not in task.mail("eve", "other").text


def test_the_suggested_calls_name_their_steps_and_work_as_they_are() -> None:
    post = Post([FETCH, missing(ODD_NAME), mail("last")])
    with connect(post.server) as client:
        run = client.call_workflow("write")
        named = f"{run.task_id}/{quote(ODD_NAME, safe='')}"
        assert f'"task_id": "{named}"' in run.text
        [call, resume] = run.next
        assert call == {"tool": "mail", "arguments": {"to": "<missing: to>", "task_id": named}}
        meta: Any = client.request("tasks/get", {"taskId": run.task_id}, {"mcp-baton/next": True})["_meta"]
        assert meta["mcp-baton/next"][0]["task_id"] == named
        client.call_tool("mail", {**call["arguments"], "to": "eve"})
        assert client.call_workflow("write", resume["arguments"]).completed
        assert client.task(run.task_id).variables[f"{RESULT}{ODD_NAME}"] == "mailed eve"


def test_two_calls_that_name_one_step_at_once_are_both_made_and_the_last_one_stays() -> None:
    with begun(missing("first"), missing("second")) as (post, client, task):
        client.during("mail", lambda: task.mail("inner", "first"))
        assert task.mail("outer", "first").recorded
        assert (task.result("first"), task.statuses) == ("mailed outer", ["completed", "completed", "pending"])
        assert len(set(post.keys)) == 2


def test_the_named_step_and_the_arguments_decide_the_key() -> None:
    with begun(missing("first"), missing("second"), broken=["eve"]) as (post, client, task):
        for name, to in [("first", "eve"), ("first", "eve"), ("second", "eve"), ("first", "joe")]:
            task.mail(to, name)
        client.cancel(task.id)
        task.mail("eve", "first")
        first, again, second, joe, late = post.keys
        assert first == again == late
        assert len({first, second, joe}) == 3


def test_each_element_has_a_key_of_its_own() -> None:
    with begun(LIST, broken=["bob", "carl"]) as (post, _, task):
        for name in ("all/1", "all/1", "all/2"):
            task.mail("bob", name)
        first, again, other = post.keys
        assert first == again != other


def test_a_skipped_step_takes_no_call() -> None:
    skipped = mail("first", when=step_output("fetch", "total") > 100)
    with begun(skipped, missing("second")) as (_, _, task):
        assert "Recorded as an extra call, not as a step" in task.mail("first", "first").text
        assert (task.statuses, task.variables[f"{EXTRA}mail"]) == (["completed", "skipped", "pending"], "mailed first")


def test_a_call_settles_a_step_whose_condition_has_no_value_when_it_is_its_turn() -> None:
    undecided = mail("first", when=step_output("fetch", "missing") > 1)
    with begun(undecided, mail("last"), broken=["fetch"]) as (post, _, task):
        task.mail("eve", "first")
        post.broken.clear()
        run = task.resume()
        assert (run.pause.type, run.pause.step) == ("unresolvableParams", "first")
        assert run.next[0]["arguments"]["task_id"] == f"{task.id}/first"
        task.mail("eve", "first")
        assert task.resume().completed
        assert task.result("first") == "mailed eve"


def test_only_in_needs_the_turn_of_the_named_step() -> None:
    with begun(missing("first"), missing("second"), only_in=["write"]) as (post, _, task):
        early = task.mail("eve", "second")
        assert (early.is_error, early.recorded, post.keys) == (True, False, [])
        assert task.mail("eve", "first").recorded
        assert task.mail("eve", "first").is_error  # it is completed
        assert task.mail("eve", "second").recorded
        assert task.resume().completed


def test_a_call_names_a_step_of_a_workflow_in_the_background() -> None:
    post = Post([FETCH, missing("first"), missing("second"), mail("last")], background=True)
    with connect(post.server) as client:
        call = client.start_task("write", {}).wait()
        task = Task(client, str(call.result.meta["task_id"]))
        assert call.result.meta["task_status"] == "working"
        for name in ("second", "first"):
            assert task.mail(f"of {name}", name).recorded
        assert (task.result("first"), task.result("second")) == ("mailed of first", "mailed of second")
        last_call = client.start_task("write", {"task_id": f"{task.id}/first"}).wait()
        assert last_call.result.meta["task_status"] == "completed"


def test_a_step_that_is_removed_during_its_call_leaves_an_extra_call() -> None:
    with begun(missing("first"), missing("second")) as (post, client, task):
        other = client.deployed(post.deployed([FETCH, missing("second")]))
        client.during("mail", lambda: other.call_workflow("write", task=task.id))
        assert task.mail("eve", "first").recorded
        assert (task.statuses, task.variables[f"{EXTRA}mail"]) == (["completed", "pending"], "mailed eve")


@pytest.mark.parametrize("parallel", [1, 4])
def test_calls_name_parallel_steps_in_any_order(parallel: int) -> None:
    names = ["second", "last", "first"]
    with begun(missing("first"), missing("second"), mail("last"), parallel=parallel) as (_, _, task):
        assert all(task.mail(f"of {name}", name).recorded for name in names)
        assert [task.result(name) for name in names] == [f"mailed of {name}" for name in names]
        assert task.resume().completed


def test_a_reply_to_a_bare_call_names_the_first_open_elements_and_counts_the_others() -> None:
    people: list[Json] = [f"person {number}" for number in range(8)]
    of_people = ListStep("all", tool="mail", arguments={"to": item()}, each=constant(people))
    with begun(of_people, broken=[str(person) for person in people]) as (_, _, task):
        assert f'"{task.id}/all/3", "{task.id}/all/4" and 3 more.' in task.mail("eve").text
