"""Each way in which a step is skipped: what a run, a resume and the checks make of it (docs/workflows.md, Conditions).

A new reason to skip a step must be added to the table here. Until then, a test fails.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

import pytest

from mcp_baton import Argument, Callback, Server, ToolError, ToolStep, Wait, Workflow, constant, prompt_arg, step_output
from mcp_baton.exceptions import WorkflowError
from mcp_baton.present.sentences import skipped_text
from mcp_baton.testing import Client, Run, connect
from mcp_baton.workflow.host import Skip
from mcp_baton.workflow.sources import Source
from mcp_baton.workflow.steps.step import Step

GO: Final = {"go": "no"}


def no_event(_client: Client) -> None:
    """The run itself skips the step."""


SKIPS: Final[Mapping[Skip, tuple[Callable[[], Step], Callable[[Client], object]]]] = {
    Skip.CONDITION: (
        lambda: ToolStep("s", {"value": constant("x")}, tool="work", when=prompt_arg("go") == "yes"),
        no_event,
    ),
    Skip.NO_CALLBACK: (
        lambda: Wait("s", Callback(str, timedelta(hours=1), on_timeout="skip")),
        lambda client: client.clock.advance(3601),
    ),
}
"""For each reason: the step `s` that is skipped, and what happens before the run that skips it."""


class Skipping:
    """A server whose workflow skips its step `s`. Its step `later` fails once, so that another run shows the skip."""

    def __init__(self, skip: Skip, value: Source) -> None:
        self.runs = 0
        self.server = Server("skips")
        for tool in (self.begin, self.work, self.later):
            self.server.add_tool(tool)
        self.step, self.event = SKIPS[skip][0](), SKIPS[skip][1]
        steps = [ToolStep(self.begin), self.step, ToolStep("later", {"value": value}, tool="later")]
        self.server.add_workflow(Workflow(name="flow", description="run", arguments=[Argument("go")], steps=steps))

    def begin(self) -> str:
        return "begun"

    def work(self, value: str) -> str:
        return value

    def later(self, value: str) -> str:
        """End."""
        self.runs += 1
        if self.runs == 1:
            raise ToolError("down")
        return value


def text_of(run: Run) -> str:
    return "\n".join(message.text for message in run.messages)


def test_the_table_has_every_reason_to_skip_a_step() -> None:
    assert SKIPS.keys() == set(Skip)


@pytest.mark.parametrize("skip", SKIPS)
def test_the_run_that_skips_a_step_and_a_resume_tell_the_same_reason(skip: Skip) -> None:
    skipping = Skipping(skip, constant("y"))
    with connect(skipping.server) as client:
        run = client.get_prompt("flow", GO)
        if run.steps["s"] != "skipped":
            skipping.event(client)
            run = client.get_prompt("flow", GO, task=run.task_id)
        resumed_run = client.get_prompt("flow", GO, task=run.task_id)

    assert run.steps == {"begin": "completed", "s": "skipped", "later": "failed"}
    assert resumed_run.completed
    for told in (run, resumed_run):
        assert skipped_text(skipping.step, skip) in text_of(told)


@pytest.mark.parametrize("skip", SKIPS)
def test_a_step_that_needs_the_result_of_a_step_that_may_be_skipped_is_refused(skip: Skip) -> None:
    with pytest.raises(WorkflowError, match="has no value if the step 's' is skipped"):
        Skipping(skip, step_output("s")).server.check()
