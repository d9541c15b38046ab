"""The servers of the simulations: a few workflows, before and after a deployment that changes a step.

Tools are created once. A tool finds the current simulation through its thread, and the simulation decides what a call
does.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from mcp_baton import Approval, Argument, Context, Retry, Server, ToolStep, Workflow, constant, prompt_arg, step_output
from mcp_baton.protocol.json import Json
from mcp_baton.workflow.sources import Constant
from mcp_baton.workflow.steps.step import Step

type CallHandler = Callable[[str, dict[str, Json], Context], dict[str, Json]]
"""What a simulation does for a tool call: receives its name, its arguments and its context."""


@dataclass(slots=True)
class Stage:
    call_handler: CallHandler | None = None

    def call(self, tool: str, arguments: dict[str, Json], ctx: Context) -> dict[str, Json]:
        assert self.call_handler is not None, "no simulation is under way"
        return self.call_handler(tool, arguments, ctx)


STAGE = Stage()


def look(key: str, ctx: Context) -> dict[str, Json]:
    return STAGE.call("look", {"key": key}, ctx)


def pay(amount: int, ctx: Context) -> dict[str, Json]:
    return STAGE.call("pay", {"amount": amount}, ctx)


def mail(to: str, ctx: Context, text: str = "") -> dict[str, Json]:
    return STAGE.call("mail", {"to": to, "text": text}, ctx)


def weigh(of: int, ctx: Context) -> dict[str, Json]:
    return STAGE.call("weigh", {"of": of}, ctx)


@dataclass(frozen=True, slots=True)
class Plan:
    """A workflow, and the calls that a model may make of its steps' tools."""

    name: str
    calls: tuple[tuple[str, dict[str, Json]], ...]


PLANS = (
    Plan("one", (("look", {"key": "A"}), ("look", {"key": "B"}))),
    Plan(
        "order",
        (
            ("look", {"key": "A"}),
            ("pay", {"amount": 7}),
            ("pay", {"amount": 8}),
            ("mail", {"to": "ann", "text": "paid"}),
            ("mail", {"to": "bob", "text": "paid"}),
            ("weigh", {"of": 1}),
        ),
    ),
    Plan("mails", (("mail", {"to": "ann"}), ("mail", {"to": "bob"}), ("mail", {"to": "cy"}), ("mail", {"to": "zoe"}))),
    Plan("careful", (("pay", {"amount": 1}), ("pay", {"amount": 2}), ("look", {"key": "A"}), ("pay", {"amount": 3}))),
    Plan("heavy", (("weigh", {"of": 1}), ("weigh", {"of": 2}), ("look", {"key": "A"}), ("weigh", {"of": 3}))),
)


def server_of(
    workflows: Mapping[str, list[Step]], guarded: Mapping[str, Approval] | None = None, **options: Any
) -> Server:
    """Return a server with the tools of all simulations and these workflows."""
    server = Server("simulated")
    for tool in (look, pay, mail, weigh):
        server.add_tool(tool, approval=(guarded or {}).get(tool.__name__))
    key = [Argument("key", "What to look up", required=True)]
    for name, steps in workflows.items():
        server.add_workflow(Workflow(name=name, description=f"do {name}", arguments=key, steps=steps, **options))
    server.check()
    return server


@cache
def workflow_server(*, edited: bool, parallel: int = 1) -> Server:
    """Return the server before or after the deployment that changes each workflow. `parallel` steps run at once."""
    return server_of(workflows(edited=edited), parallel=parallel)


def workflows(*, edited: bool) -> dict[str, list[Step]]:
    """Return the steps of each workflow. The deployment changes steps that may fail, and adds one."""
    return {
        "one": [ToolStep("only", tool=look, arguments={"key": constant("A") if edited else prompt_arg("key")})],
        "order": [
            ToolStep("look", tool=look, arguments={"key": prompt_arg("key")}),
            ToolStep("pay", tool=pay, arguments={"amount": constant(8) if edited else step_output("look", "n")}),
            ToolStep("ann", tool=mail, arguments={"to": constant("ann"), "text": constant("paid")}),
            ToolStep("bob", tool=mail, arguments={"to": constant("bob"), "text": constant("paid")}),
        ],
        "mails": [
            ToolStep("ann", tool=mail, arguments={"to": constant("ann")}),
            *([ToolStep("dora", tool=mail, arguments={"to": constant("dora")})] if edited else []),
            ToolStep("bob", tool=mail, arguments={"to": constant("bob"), "text": constant("edited" if edited else "")}),
            ToolStep("cy", tool=mail, arguments={"to": constant("cy")}),
        ],
        "careful": [
            ToolStep(
                "first", tool=pay, arguments={"amount": constant(1)}, checkpoint=True, retry=Retry(3, first_s=1.0)
            ),
            ToolStep("second", tool=pay, arguments={"amount": constant(5 if edited else 2)}, checkpoint=True),
            ToolStep("look", tool=look, arguments={"key": prompt_arg("key")}, retryable=True),
        ],
        "heavy": [
            ToolStep("one", tool=weigh, arguments={"of": constant(1)}),
            ToolStep("two", tool=weigh, arguments={"of": constant(4 if edited else 2)}, checkpoint=True),
            ToolStep("look", tool=look, arguments={"key": prompt_arg("key")}, retry=Retry(2, first_s=20.0)),
        ],
    }


def constants_of(step: Step) -> dict[str, Json]:
    return {name: source.value for name, source in step.arguments.items() if isinstance(source, Constant)}
