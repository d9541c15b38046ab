"""Simulations of workflows that ask questions. Clients answer them: also twice, at once, and with other answers."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from mcp_baton import Question, Server, ToolStep, prompt_arg, step_output
from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.envelope import TASK_ID_KEY
from mcp_baton.protocol.json import Json, JsonObject, loads
from mcp_baton.tasks.record import RESULT_PREFIX
from mcp_baton.workflow.steps.step import Step
from tests.simulation.dynamodb.database import Change
from tests.simulation.dynamodb.paths import Item
from tests.simulation.heads import SETTLED, TERMINAL, serial_in, status_of, steps_of, value_of, variables_of
from tests.simulation.invariants import Judge
from tests.simulation.invocations import Trigger
from tests.simulation.journal import Process
from tests.simulation.servers import Plan, look, mail, pay, server_of
from tests.simulation.world import World

WHO = Question("who", "Who for {key}?", returns=str, of="model")
MUCH = Question("much", "How much for {who}?", returns=int, of="user", template_bindings={"who": step_output("who")})
FLOWS: Mapping[str, list[Step]] = {
    "one_question": [WHO, ToolStep("mail", tool=mail, arguments={"to": step_output("who")})],
    "two_questions": [
        ToolStep("look", tool=look, arguments={"key": prompt_arg("key")}),
        WHO,
        ToolStep("mail", tool=mail, arguments={"to": step_output("who")}, checkpoint=True),
        MUCH,
        ToolStep("pay", tool=pay, arguments={"amount": step_output("much")}),
    ],
}
USES = {"who": ("mail", "to"), "much": ("pay", "amount")}
"""By question: the step that uses the answer, and the argument that receives it."""

ANSWERS: Mapping[str, tuple[Json, ...]] = {"who": ("ann", "ann", "bob"), "much": (7, 7, 8)}
CALLS: tuple[tuple[str, dict[str, Json]], ...] = (
    ("mail", {"to": "ann"}),
    ("mail", {"to": "bob"}),
    ("pay", {"amount": 7}),
)
KINDS: tuple[str, ...] = ("resume",) * 12 + ("call",) * 2 + ("poll",) * 2 + ("cancel",)
REFUSED = "cannot be changed"
HELD = "Another run holds this task"


@cache
def asking_server() -> Server:
    return server_of(FLOWS)


class QuestionJudge(Judge):
    world: "QuestionWorld"

    def _check_head(self, number: int, change: Change, process: Process | None, now_ms: float) -> None:
        super()._check_head(number, change, process, now_ms)
        after = change.after
        assert after is not None
        for question in self._questions():
            old = self._answer(change.before, question)
            new = self._answer(after, question)
            if old is not None and new != old:
                self.world.incidents.add("an answer was replaced")
                if new is None or self._keeps_a_use(change.before, after, question):
                    self.wrong(
                        18, f"write #{number} replaces the answer {old!r} to {question}, which was used, by {new!r}"
                    )
            if process is not None and process.is_run:
                self._check_used(number, change.before, after, question, new)

    def _check_used(self, number: int, before: Item | None, after: Item, question: str, answer: Json) -> None:
        """Check that a step which a run has completed used the stored answer."""
        step, argument = USES[question]
        if steps_of(after).get(step) != "completed" or (before and steps_of(before).get(step) == "completed"):
            return
        serial = serial_in(value_of(after, RESULT_PREFIX + step, self.world.stored))
        if serial is not None and self.world.calls[serial - 1].process.is_run:
            used = self.world.calls[serial - 1].arguments[argument]
            if used != answer:
                self.wrong(
                    18, f"write #{number} completes {step} with {used!r}, but the answer to {question} is {answer!r}"
                )

    def check_reply(self, process: Process) -> None:
        super().check_reply(process)
        given_answers = self.world.given_answers.get(process.name)
        reply = process.answer
        if not given_answers or isinstance(reply, ProtocolError) or reply is None:
            return
        items = [item for item in self.versions(process) if item is not None]
        text = str(reply.get("content"))
        if REFUSED in text:
            self.world.incidents.add("an answer was refused")
            if not any(self._refuses(item, given_answers) for item in items):
                self.wrong(18, f"{process.name} cannot give the answers {dict(given_answers)}, but no answer was used")
            return
        if not self._accepts(process, reply):
            return
        self.world.incidents.add("an answer was accepted")
        for question, value in given_answers.items():
            if value not in [self._answer(item, question) for item in items]:
                self.wrong(18, f"{process.name} accepts the answer {value!r} to {question}, but does not store it")

    def _accepts(self, process: Process, reply: JsonObject) -> bool:
        """Return whether a reply says that a run took its answers and stored everything."""
        meta = process.meta
        # A run claims its task, or creates it. Other replies say that another run has the task, or that it ended. One
        # that never learned of its claim, and lost it since, says so, too.
        claims = any(request.write_numbers for request in process.requests)
        has_run = claims and not reply.get("isError") and HELD not in str(reply.get("content"))
        is_stored = meta.get("persisted") not in {False, "unknown"} and not meta.get("superseded")
        return has_run and is_stored and meta.get("task_status", "cancelled") != "cancelled"

    def _refuses(self, item: Item, given_answers: Mapping[str, Json]) -> bool:
        return any(
            self._answer(item, question) not in {None, value} and self._used(item, question)
            for question, value in given_answers.items()
        )

    def _keeps_a_use(self, before: Item | None, after: Item, question: str) -> bool:
        """Return whether a step keeps the result that it made with the previous answer."""
        step, _ = USES[question]
        if before is None or steps_of(before).get(step) not in ("completed", "failed"):
            return False
        old_result, new_result = (value_of(item, RESULT_PREFIX + step, self.world.stored) for item in (before, after))
        return bool(old_result == new_result)

    def _questions(self) -> list[str]:
        return [step.name for step in self.world.steps() if isinstance(step, Question)]

    def _used(self, item: Item | None, question: str) -> bool:
        statuses = steps_of(item) if item else {}
        uses = [step.name for step in self.world.steps() if step.uses(question)]
        return any(statuses[name] != "pending" for name in uses)

    def _answer(self, item: Item | None, question: str) -> Json:
        attribute: Any = variables_of(item).get(RESULT_PREFIX + question) if item else None
        return None if attribute is None else loads(attribute["S"])

    def check_end(self, head: Item | None) -> None:
        """Check the end: the faults have stopped and every question was answered, so the task is completed."""
        super().check_end(head)
        is_live = head is not None and status_of(head) not in TERMINAL and self.head is not None
        if is_live and self.head and status_of(self.head) != "completed":
            self.wrong(10, f"every question is answered, but the task is {status_of(self.head)}")


class QuestionWorld(World):
    judge_type = QuestionJudge

    def _set_up(self) -> None:
        super()._set_up()
        self.plan = Plan(self.rng.choice(sorted(asking_server().workflows)), CALLS)
        self.kinds = KINDS
        self.given_answers: dict[str, Mapping[str, Json]] = {}

    def server(self, *, edited: bool) -> Server:  # noqa: ARG002 - this simulation has only one version of the workflows
        return asking_server()

    def message(self, process: Process, trigger: Trigger) -> tuple[str, dict[str, Json]]:
        """Return the method and the params of a client's request. Runs are calls of the workflow's tool."""
        if trigger.kind not in {"start", "resume"} or process.is_unrelated:
            return super().message(process, trigger)
        answers = self.given_answers[process.name] = self._answers(last=trigger.last)
        arguments: dict[str, Json] = {"answers": dict(answers)} if answers else {}
        if trigger.kind == "start":
            return "tools/call", {"name": self.plan.name, "arguments": {"key": "A", **arguments}}
        return "tools/call", {"name": self.plan.name, "arguments": arguments, "_meta": {TASK_ID_KEY: self.task_id}}

    def _answers(self, *, last: bool) -> dict[str, Json]:
        """Return a client's answers: to some questions, or with `last`, to those that are still open."""
        questions = [step.name for step in self.steps() if isinstance(step, Question)]
        if last and self.judge.head is not None:
            statuses = steps_of(self.judge.head)
            return {name: ANSWERS[name][0] for name in questions if statuses[name] not in SETTLED}
        return {name: self.rng.choice(ANSWERS[name]) for name in questions if self.rng.random() < 0.6}
