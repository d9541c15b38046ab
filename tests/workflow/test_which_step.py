"""The step in which a call is recorded, what is stored of the call, and its idempotency key (docs/workflows.md).

Pure functions make these decisions. They are tested in test_matching.py and test_stored_calls.py in tests/workflow.
"""

import re
from typing import Any

import pytest

from mcp_baton import (
    Argument,
    Context,
    Retry,
    Server,
    ToolError,
    ToolStep,
    Workflow,
    constant,
    prompt_arg,
)
from mcp_baton.workflow.steps.step import Step
from tests.questions.test_rounds import talk
from tests.support.client import Answer, Client, Clock, Era, begin, task_meta
from tests.support.handler import MakeClient


class Post:
    """A server whose tool `mail` records the key and the attempt of each call."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.attempts: list[int] = []
        self.failures = 0
        self.server = Server("post")
        self.server.tool(self.mail)
        self.server.tool(self.ask)
        for name, steps in WORKFLOWS.items():
            arguments = [Argument("copies", type=int)]
            self.server.add_workflow(Workflow(name=name, description="write", steps=steps, arguments=arguments))

    def mail(self, ctx: Context, to: str, copies: int = 1, cc: str | None = None) -> str:  # noqa: ARG002
        self.keys.append(ctx.idempotency_key)
        self.attempts.append(ctx.attempt)
        if self.failures:
            self.failures -= 1
            raise ToolError("no such address")
        return f"mailed to {to}"

    def ask(self, ctx: Context, to: str) -> str:
        self.keys.append(ctx.idempotency_key)
        answer = ctx.elicit("Sure?", bool, key="sure")
        return f"{to}: {answer.data}"

    def take(self) -> list[str]:
        keys, self.keys = self.keys, []
        return keys


def mail(name: str, **options: Any) -> Step:
    return ToolStep(name, tool="mail", arguments={"to": constant(name)}, **options)


WORKFLOWS: dict[str, list[Step]] = {
    "one": [mail("ann", retry=Retry(attempts=3, first_s=0, max_s=0))],
    "copies": [
        ToolStep("one", tool="mail", arguments={"to": constant("ann"), "copies": prompt_arg("copies")}),
        mail("bob"),
    ],
    "asking": [ToolStep("ask", tool="ask", arguments={"to": constant("ann")})],
}


def start_task(make_client: MakeClient, workflow: str, era: Era = "2025") -> tuple[Post, Client, str]:
    """Return a task whose steps are all pending."""
    post, clock = Post(), Clock()
    client = make_client(post.server, remaining_ms=clock, era=era)
    return post, client, begin(client, clock, workflow)


@pytest.mark.parametrize("copies", [2, "2"])
def test_arguments_are_compared_as_the_tool_receives_them(make_client: MakeClient, copies: object) -> None:
    post, clock = Post(), Clock(ms=2_000)
    client = make_client(post.server, remaining_ms=clock)
    task = client.get_prompt("copies", {"copies": "2"}).task_id
    clock.ms = 30_000

    answer = client.call_tool("mail", {"to": "ann", "copies": copies, "cc": None}, task=task)

    assert answer.statuses == ["completed", "pending"]
    assert post.server.tools["mail"].canonical({"to": "ann", "copies": "1", "cc": None}) == {"to": "ann"}


def test_attempts_resumes_and_matching_calls_have_the_steps_key(make_client: MakeClient) -> None:
    post, clock = Post(), Clock()
    client = make_client(post.server, remaining_ms=clock)
    post.failures = 7
    task = client.get_prompt("one").task_id
    assert client.get_prompt("one", task=task).statuses == ["failed"]
    assert post.attempts == [1, 2, 3, 1, 2, 3]
    client.call_tool("mail", {"to": "ann"}, task=task)
    client.call_tool("mail", {"to": "ann", "copies": "1"}, task=task)

    keys = post.take()
    assert len(keys) == 8
    [key] = set(keys)
    assert re.fullmatch(r"[0-9a-f]{32}", key)


def ask(client: Client, task: str | None, answer: Answer | None = None) -> Answer:
    """Call `ask`. With an earlier answer, send the next round."""
    call = talk(client, name="ask", arguments={"to": "ann"}, meta=task_meta(task))
    responses = {"sure": {"action": "accept", "content": {"value": True}}}
    return call.round() if answer is None else call.round(answer.result["requestState"], responses)


@pytest.mark.parametrize("with_task", [True, False])
def test_a_call_keeps_its_key_in_all_of_its_rounds(make_client: MakeClient, with_task: bool) -> None:
    post, client, task = start_task(make_client, "asking", "2026")
    task_id = task if with_task else None

    question = ask(client, task_id)
    for _ in range(2):
        answer = ask(client, task_id, question)

    assert answer.result["content"][0]["text"] == "ann: True"
    assert len(post.keys) == 3
    assert len(set(post.take())) == 1
    ask(client, None)
    ask(client, None)
    assert len(set(post.take())) == 2
