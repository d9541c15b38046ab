"""Placeholders of a handoff that a model sends back as arguments of a continuation
(docs/reference/workflow-rules.md, Placeholders)."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mcp_baton import (
    Argument,
    Context,
    Fetch,
    Header,
    RegistrationError,
    Server,
    ToolStep,
    Workflow,
    constant,
    prompt_arg,
    step_output,
    task_variable,
)
from mcp_baton.exceptions import StoreError, StoreUnavailable, ValueNotKept
from mcp_baton.tasks.record import CALL_PREFIX, PROGRESS, RESULT_PREFIX
from mcp_baton.tools.secrets import stored_arguments
from mcp_baton.workflow.placeholders import (
    MAX_PLACEHOLDER_CHARS,
    MAX_PLACEHOLDERS,
    PlaceholderLimits,
    ReplacedArguments,
    is_placeholder,
    replace_placeholders,
    unknown_text,
)
from mcp_baton.workflow.plan import Plan
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.sources import Source, TaskVariable
from tests.fakes import plan_of, task_of
from tests.noise import noise
from tests.questions.test_rounds import questions_and_state, talk
from tests.sent import Requests
from tests.support.client import Answer, Client, Clock, Era, JsonDict, task_meta
from tests.support.handler import MakeClient

LONG = "word " * 200
TEXT, NUMBER = "<field 'text' from read_page>", "<field 'pages.0' from read_page>"

SURE = {"sure": {"action": "accept", "content": {"value": True}}}

type Call = Callable[..., Answer]


class Press:
    """A server whose `print_page` needs the output of `read_page`. It records the calls of its tools."""

    def __init__(self) -> None:
        self.prints: list[JsonDict] = []
        self.keys: list[str] = []
        self.pages: list[Any] = [5]
        self.server = Server("press")
        for function in (self.read_page, self.print_page, self.file, self.ask):
            self.server.tool(function)
        arguments = [Argument("name", required=True), Argument("copies", type=int), Argument("note")]
        steps = [
            ToolStep("read", tool="read_page", arguments={"name": prompt_arg("name")}),
            ToolStep(
                "print",
                tool="print_page",
                arguments={
                    "text": step_output("read", "text"),
                    "page": step_output("read", "pages.0"),
                    "note": prompt_arg("note"),
                },
            ),
            ToolStep(
                "file", tool="file", arguments={"text": step_output("print", "done"), "into": step_output("read")}
            ),
            ToolStep("ask", tool="ask", arguments={"page": step_output("read", "pages.0")}),
        ]
        first = ToolStep("first", tool="print_page", arguments={"text": constant("title"), "page": constant(1)})
        for name, workflow_steps in (("publish", steps), ("pair", [steps[0], first, steps[1]])):
            self.server.add_workflow(Workflow(name=name, description=name, arguments=arguments, steps=workflow_steps))

    def read_page(self, name: str) -> dict[str, Any]:
        return {"text": f"{name} {LONG}", "pages": self.pages}

    def print_page(self, ctx: Context, text: str, page: int, note: str = "", more: Any = None) -> dict[str, Any]:
        self.prints.append({"text": text, "page": page, "note": note, "more": more})
        self.keys.append(ctx.idempotency_key)
        return {"done": "yes"}

    def file(self, text: Annotated[str, Header("Text")], into: dict[str, Any] | None = None) -> str:
        self.prints.append({"text": text, "into": into})
        return text

    def ask(self, ctx: Context, page: int) -> str:
        self.keys.append(ctx.idempotency_key)
        answer = ctx.elicit(f"Print page {page}?", bool, key="sure")
        return f"{page}: {answer.data}"


@pytest.fixture
def press() -> Press:
    return Press()


def start_task(
    make_client: MakeClient, press: Press, era: Era = "2025", workflow: str = "publish"
) -> tuple[Client, str]:
    """Return a task of which only the first step has run."""
    clock = Clock()
    client = make_client(press.server, remaining_ms=clock, era=era)
    clock.ms = 2_000
    task = client.get_prompt(workflow, {"name": "intro", "copies": "3"}).task_id
    clock.ms = 30_000
    assert client.call_tool("read_page", {"name": "intro"}, task=task).statuses[:2] == ["completed", "pending"]
    return client, task


def by_meta(client: Client, task: str, tool: str, **arguments: Any) -> Answer:
    return client.call_tool(tool, arguments, task=task)


def by_argument(client: Client, task: str, tool: str, **arguments: Any) -> Answer:
    return client.call_tool(tool, {**arguments, "task_id": task})


@pytest.fixture(params=[by_meta, by_argument])
def call(request: pytest.FixtureRequest) -> Call:
    """Call a tool with a task, which is named in `_meta` or in an argument."""
    selected_call: Call = request.param
    return selected_call


def test_placeholders_of_an_unknown_task_have_no_values(make_client: MakeClient, press: Press, call: Call) -> None:
    client, task = start_task(make_client, press)
    answer = call(client.as_owner("bob"), task, "print_page", text="short", page=NUMBER)
    assert answer.result["isError"]
    assert NUMBER in answer.result["content"][0]["text"]
    assert (answer.meta["recorded"], press.prints) == (False, [])


def test_a_mirrored_parameter_is_compared_with_the_placeholder(make_client: MakeClient, press: Press) -> None:
    client, task = start_task(make_client, press, "2026")
    params = {"name": "file", "arguments": {"text": TEXT, "into": "<output from read_page>", "task_id": task}}

    assert client.request("tools/call", params, headers={"Mcp-Param-Text": "other"}).refusal == (400, -32020)
    answer = client.request("tools/call", params, headers={"Mcp-Param-Text": TEXT})

    assert press.prints == [{"text": f"intro {LONG}", "into": {"text": f"intro {LONG}", "pages": [5]}}]
    assert answer.meta["recorded"] is True


def test_a_round_is_valid_only_for_its_task(make_client: MakeClient, press: Press) -> None:
    client, task = start_task(make_client, press, "2026")
    other_task = client.get_prompt("publish", {"name": "other"}).task_id
    _, state = questions_and_state(talk(client, name="ask", arguments={"page": 5, "task_id": task}).round())

    cases: list[tuple[JsonDict, JsonDict]] = [
        ({"task_id": task}, task_meta(task)),
        ({"task_id": other_task}, {}),
        ({}, task_meta(task)),
    ]
    for argument, meta in cases:
        ask_call = talk(client, meta=meta, name="ask", arguments={"page": 5, **argument})
        assert ask_call.round(state, SURE).refusal == (400, -32602)


def test_an_answer_is_refused_if_a_placeholders_value_has_changed(make_client: MakeClient, press: Press) -> None:
    client, task = start_task(make_client, press, "2026")
    ask_call = talk(client, name="ask", arguments={"page": NUMBER, "task_id": task})
    _, state = questions_and_state(ask_call.round())
    press.keys.clear()
    press.pages = [6]
    client.call_tool("read_page", {"name": "intro"}, task=task)

    answer = ask_call.round(state, SURE)

    assert answer.result["isError"]
    assert "have changed since the question was asked" in answer.result["content"][0]["text"]
    assert press.keys == []


class Library:
    """A server whose tools return and take texts of any size."""

    def __init__(self, **options: Any) -> None:
        self.prints: list[int] = []
        self.server = Server("library", **options)
        self.server.tool(self.write)
        self.server.tool(self.echo)
        self.server.tool(self.free)
        sizes = {"small": 9_000, "large": 1_100_000}
        steps = [
            ToolStep(name, tool="write", arguments={"seed": constant(seed), "size": constant(size)})
            for seed, (name, size) in enumerate(sizes.items())
        ]
        steps += [ToolStep(f"echo-{name}", tool="echo", arguments={"text": step_output(name)}) for name in sizes]
        self.server.add_workflow(Workflow(name="copy", description="copy", steps=steps))

    def write(self, seed: int, size: int) -> str:
        return noise(size, seed)

    def echo(self, text: str) -> int:
        self.prints.append(len(text))
        return len(text)

    def free(self, text: str) -> str:
        return text


def write_texts(client: Client, clock: Clock) -> str:
    """Return a task whose texts have been written."""
    clock.ms = 2_000
    task = client.get_prompt("copy").task_id
    clock.ms = 30_000
    for seed, size in enumerate((9_000, 1_100_000)):
        assert client.call_tool("write", {"seed": seed, "size": size}, task=task).meta["recorded"] is True
    return task


SMALL, LARGE = "<output from write (step 'small')>", "<output from write (step 'large')>"


def test_placeholders_of_a_call_are_limited_to_a_megabyte(make_client: MakeClient, requests: Requests) -> None:
    library, clock = Library(), Clock()
    client = make_client(library.server, remaining_ms=clock)
    task = write_texts(client, clock)
    requests.take()

    answer = by_argument(client, task, "echo", text=LARGE)

    assert requests.take() == ["GetItem"]
    assert (library.prints, answer.meta["recorded"]) == ([], False)
    assert answer.result["content"][0]["text"] == (
        "Not recorded: nothing was run.\n\n"
        f"Nothing was run. The argument 'text' is \"{LARGE}\": it stands for 1100002 bytes, more than placeholders may "
        f'put into one call; call copy with {{"task_id": "{task}"}} to let the server make it.'
    )
    assert "completed" in client.call_tool("copy", {"task_id": task}).result["structuredContent"]["task_status"]
    assert library.prints == [9_000, 1_100_000]


def test_next_lists_no_call_that_would_be_refused(make_client: MakeClient) -> None:
    clock = Clock()
    client = make_client(Library().server, remaining_ms=clock)
    task = write_texts(client, clock)
    answer = by_argument(client, task, "echo", text=SMALL)
    assert answer.meta["next"] == [{"tool": "copy", "arguments": {"task_id": task}}]
    assert f'Next: call copy with {{"task_id": "{task}"}}' in answer.result["content"][-1]["text"]


def test_a_server_can_set_the_limit_for_the_values_of_placeholders(make_client: MakeClient) -> None:
    library, clock = Library(placeholder_bytes=1_200_000), Clock()
    client = make_client(library.server, remaining_ms=clock)
    assert client.call_tool("echo", {"text": LARGE}, task=write_texts(client, clock)).meta["recorded"] is True
    assert library.prints == [1_100_000]


def test_a_call_is_compared_with_large_values_without_reading_them(make_client: MakeClient, requests: Requests) -> None:
    library, clock = Library(), Clock()
    client = make_client(library.server, remaining_ms=clock)
    task = write_texts(client, clock)
    requests.take()
    answer = client.call_tool("echo", {"text": SMALL}, task=task)
    assert answer.statuses == ["completed", "completed", "completed", "pending"]
    # The second read is that of the placeholder's value.
    assert requests.take() == ["GetItem", "GetItem", "UpdateItem"]
    assert client.call_tool("echo", {"text": "short"}, task=task).statuses == ["completed"] * 4
    assert requests.take() == ["GetItem", "UpdateItem"]


def test_a_large_value_from_a_client_is_compared_with_the_stored_one(make_client: MakeClient) -> None:
    library, clock = Library(), Clock()
    client = make_client(library.server, remaining_ms=clock)
    task = write_texts(client, clock)
    assert client.call_tool("echo", {"text": noise(1_100_000, 1)}, task=task).statuses[2:] == ["pending", "completed"]
    assert client.call_tool("echo", {"text": noise(9_000, 0)}, task=task).statuses[2:] == ["completed", "completed"]


@pytest.mark.parametrize("size", [-1, 1.5, True, None])
def test_an_invalid_limit_is_refused(size: Any) -> None:
    with pytest.raises(RegistrationError, match="placeholder_bytes="):
        Server("s", placeholder_bytes=size)


ROOM = PlaceholderLimits(1_000_000, 1_000_000)
ODD = "it's' from here"
FLOW = Workflow(
    name="flow",
    description="flow",
    arguments=[Argument("order"), Argument("note"), Argument("pin", secret=True)],
    steps=[
        ToolStep("fetch", tool="get", arguments={"id": prompt_arg("order")}, binding="it"),
        ToolStep("again", tool="get", arguments={"id": step_output("it", "lines.0.id")}),
        Fetch("read", resources=["docs://{x}"], template_bindings={"x": step_output("again", ODD)}),
        ToolStep("pay", tool="pay", arguments={"of": step_output("again"), "to": task_variable("who", "mail")}),
        ToolStep("mail", tool="mail", arguments={"of": step_output("pay", "id"), "v": task_variable("who")}),
        ToolStep("last", tool="mail", arguments={"of": step_output("read"), "to": prompt_arg("note")}),
    ],
)
"""Two steps call `get` and two call `mail`. One only reads a resource."""
STATUSES = "cccpfs"
VALUES: dict[str, Any] = {
    f"{RESULT_PREFIX}fetch": {"lines": [{"id": 7}]},
    f"{RESULT_PREFIX}again": {ODD: "odd", "of": {"a": [1.0, None]}},
    f"{RESULT_PREFIX}read": None,
    f"{RESULT_PREFIX}mail": {"error": "refused"},
    "who": {"mail": "kim@example.com"},
}


def plan(workflow: Workflow | None = FLOW, **other_variables: Any) -> Plan:
    return plan_of(task_of(FLOW, STATUSES, VALUES | other_variables), workflow, {"order": "A-17"})


def replace_in(text: Any, task_plan: Plan | None = None) -> ReplacedArguments:
    return replace_placeholders({"a": text, "b": 1}, task_plan or plan(), ROOM)


@pytest.mark.parametrize(
    ("source", "text", "value"),
    [
        (prompt_arg("order"), "<prompt arg order>", "A-17"),
        (step_output("it", "lines.0.id"), "<field 'lines.0.id' from get (step 'fetch')>", 7),
        (step_output("again"), "<output from get (step 'again')>", VALUES[f"{RESULT_PREFIX}again"]),
        (step_output("again", ODD), f"<field '{ODD}' from get (step 'again')>", "odd"),
        (step_output("read"), "<output from read>", None),
        (TaskVariable("who"), "<task variable who>", {"mail": "kim@example.com"}),
        (TaskVariable("who", "mail"), "<field 'mail' from task variable who>", "kim@example.com"),
    ],
)
def test_a_placeholder_of_a_handoff_is_replaced_by_its_value(source: Source, text: str, value: object) -> None:
    assert KnownValues(FLOW, {}, {}, {}, {}, {}).placeholder(source) == text
    assert replace_in(text).arguments == {"a": value, "b": 1}
    assert replace_in(text).unknown == ()
    assert replace_in(text).names == ("a",)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("<prompt arg note>", "started without its argument 'note'"),
        ("<output from pay>", "call pay first"),
        ("<field 'id' from pay>", "call pay first"),
        ("<output from mail (step 'mail')>", "step 'mail' is failed"),
        ("<output from mail (step 'last')>", "step 'last' is skipped"),
        ("<output from get>", "as in <output from get (step 'fetch')>"),
        ("<field 'lines.9' from get (step 'fetch')>", "has no 'lines.9'"),
        ("<field 'x' from task variable who>", "variable 'who'"),
        ("<missing: a>", "you must supply"),
        ("<invalid: a>", "you must supply"),
        ("<secret pin>", "is secret"),
    ],
)
def test_a_placeholder_without_a_value_is_named_with_a_correction(text: str, cause: str) -> None:
    [unknown] = replace_in(text).unknown
    assert (unknown.argument, unknown.placeholder) == ("a", text)
    assert cause in unknown.reason
    assert replace_in(text).arguments["a"] == text
    assert unknown_text((unknown,)) == f"Nothing was run. The argument 'a' is \"{text}\": {unknown.reason}."


def test_a_lost_value_is_not_known() -> None:
    readable_plan = plan()
    unreadable = Unreadable(readable_plan.task.variables, ValueNotKept(9, "exceeds the task's size limit"))
    task_plan = plan_of(replace(readable_plan.task, variables=unreadable), FLOW, {"order": "A-17"})
    [unknown] = replace_in("<output from get (step 'again')>", task_plan).unknown
    assert "is not available: result of 9 bytes exceeds the task's size limit; give the value itself" in unknown.reason


class Unreadable(dict[str, Any]):
    """A task's variables. Only the progress can be read."""

    def __init__(self, values: Mapping[str, Any], error: StoreError) -> None:
        super().__init__(values)
        self._error = error

    def __getitem__(self, name: str) -> Any:
        if name == PROGRESS:
            return super().__getitem__(name)
        raise self._error


def test_a_value_that_cannot_be_read_is_not_known_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    task = task_of(FLOW, STATUSES, {**VALUES, f"{CALL_PREFIX}fetch": {"id": "A-17"}})
    task_plan = plan_of(replace(task, variables=Unreadable(task.variables, StoreUnavailable("down"))), FLOW)
    with caplog.at_level("WARNING"):
        assert task_plan.known is not None
        assert "again" not in task_plan.known.outputs
        assert not task_plan.was_called_with("fetch", task_plan.call_arguments("get", {"id": "A-17"}))
    assert [record.getMessage() for record in caplog.records] == [
        "task t: the result of step again cannot be read",
        "task t: the call of step fetch cannot be read",
    ]


def test_the_placeholder_of_a_secret_has_no_value() -> None:
    task = replace(plan().task, large_values={"arguments": stored_arguments({"order": "A-17", "pin": "4711"}, ["pin"])})
    task_plan = plan_of(task, FLOW, {"order": "A-17", "pin": "<secret pin>"})
    [unknown] = replace_in("<prompt arg pin>", task_plan).unknown
    assert "is secret" in unknown.reason


def test_a_value_that_looks_like_a_secrets_placeholder_is_a_value() -> None:
    variables: dict[str, Any] = {"who": "<secret pin>"}
    assert replace_in("<task variable who>", plan(**variables)).arguments["a"] == "<secret pin>"


@pytest.mark.parametrize(
    "value",
    [
        "<prompt arg nobodys>",
        "<output from nobodys>",
        "<field 'x' from nobodys>",
        "<output from get (step 'nobodys')>",
        "<task variable nobodys>",
        "<secret nobodys>",
        "<missing: nobodys>",
        "<invalid: b>",
        "<output from >",
        "<b>",
        "<output of pay>",
        "<prompt argument note>",
        "<output from pay",
        "<output from " + "p" * MAX_PLACEHOLDER_CHARS + ">",
        None,
        5,
        "",
    ],
)
def test_texts_that_are_no_placeholder_of_the_workflow_are_not_changed(value: object) -> None:
    result = replace_in(value)
    assert (result.arguments, result.unknown, result.names, result.digest) == ({"a": value, "b": 1}, (), (), None)


@pytest.mark.parametrize("task_plan", [None, plan(workflow=None)])
def test_without_a_task_or_a_workflow_no_value_is_known(task_plan: Plan | None) -> None:
    result = replace_placeholders({"a": "<prompt arg order>", "b": 1}, task_plan, ROOM)
    assert [item.argument for item in result.unknown] == ["a"]
    assert replace_placeholders({"a": "order"}, task_plan, ROOM).arguments == {"a": "order"}


def test_a_digest_changes_only_with_the_values() -> None:
    text = "<output from get (step 'again')>"
    new_result: dict[str, Any] = {f"{RESULT_PREFIX}again": 8}
    assert replace_in(text).digest == replace_placeholders({"a": text, "b": 2}, plan(), ROOM).digest
    assert replace_in(text).digest != replace_in(text, plan(**new_result)).digest


def test_a_value_is_a_copy() -> None:
    value: Any = replace_in("<output from get (step 'again')>").arguments["a"]
    value["of"]["a"].append("changed")
    assert VALUES[f"{RESULT_PREFIX}again"] == {ODD: "odd", "of": {"a": [1.0, None]}}


@given(st.text(max_size=40), st.text(min_size=1, max_size=20))
def test_any_text_can_be_checked_for_placeholders(text: str, name: str) -> None:
    for shape in ("<output from {}>", "<field '{}' from {}>", "<prompt arg {}>", "<task variable {}>", "<{}: {}>"):
        candidate = shape.format(*(text, name)[: shape.count("{}")])
        assert isinstance(is_placeholder(candidate), bool)
        assert len(replace_in(candidate).unknown) <= 1


def test_a_call_with_too_many_placeholders_is_refused() -> None:
    arguments = {f"a{number:03}": "<prompt arg order>" for number in range(MAX_PLACEHOLDERS + 1)}

    assert replace_placeholders(dict(list(arguments.items())[:MAX_PLACEHOLDERS]), plan(), ROOM).unknown == ()
    [refused] = replace_placeholders(arguments, plan(), ROOM).unknown
    assert refused.argument == f"a{MAX_PLACEHOLDERS:03}"
    assert f"at most {MAX_PLACEHOLDERS} placeholders" in unknown_text((refused,))
