"""Placeholders of a handoff that a model sends back as arguments of a continuation (docs/workflows.md, Placeholders
sent back).

A pure function finds the value of each placeholder. It is tested in tests/workflow/test_placeholders_rules.py.
"""

from collections.abc import Callable
from typing import Annotated, Any

import pytest

from mcp_baton import (
    Argument,
    Context,
    Header,
    RegistrationError,
    Server,
    ToolStep,
    Workflow,
    constant,
    prompt_arg,
    step_output,
)
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
