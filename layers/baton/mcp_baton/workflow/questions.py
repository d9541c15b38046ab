"""Questions of a workflow to the model and the user (docs/workflows.md, Questions). Pure."""

from collections.abc import Callable, Iterator

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import StepStatus
from mcp_baton.workflow.definition import ANSWERS, Argument, Step, Workflow
from mcp_baton.workflow.pause import AnswersRequired, PauseReason, Question
from mcp_baton.workflow.resolve import Known, Schemas, resolve_texts
from mcp_baton.workflow.sources import fill

type SchemaOf = Callable[[Argument], JsonObject]
"""Gives the JSON Schema of an answer."""


def question_text(step: Step, workflow: Workflow, known: Known) -> str | None:
    """The question of a step, with its values; `None` if a value is not known yet. Secrets are hidden."""
    if step.ask is None:
        return None
    values = resolve_texts(step.template_bindings, step, workflow, known)
    return fill(step.ask.question, {**known.shown_texts, **values}) if isinstance(values, dict) else None


def open_questions(workflow: Workflow, known: Known, schema_of: SchemaOf) -> Iterator[Question]:
    """The questions without an answer whose values are known, in order."""
    arguments = {argument.name: argument for argument in workflow.questions}
    for step in workflow.steps:
        if step.ask is None or known.statuses[step.name] is StepStatus.COMPLETED:
            continue
        text = question_text(step, workflow, known)
        if text is not None:
            yield Question(step.name, text, dict(schema_of(arguments[step.name])), step.ask.of)


def answers_to_give(workflow: Workflow, known: Known) -> JsonObject:
    """The `answers` argument of the call that answers all open questions, with the questions as placeholders."""
    texts = {
        step.name: question_text(step, workflow, known)
        for step in workflow.steps
        if step.ask is not None and known.statuses[step.name] is not StepStatus.COMPLETED
    }
    given: dict[str, Json] = {name: f"<{text}>" for name, text in texts.items() if text is not None}
    return {ANSWERS: given} if given else {}


def answer_call(workflow: Workflow, known: Known, naming: JsonObject | None) -> JsonObject | None:
    """The call that answers all open questions, as `next` lists it; `None` if there is none.

    Args:
        workflow: The workflow.
        known: What is known by now.
        naming: The arguments that name the task. Without them, the call has the workflow's own arguments: it may have
            to start the workflow.
    """
    answers = answers_to_give(workflow, known)
    if not answers:
        return None
    return {"tool": workflow.name, "arguments": {**(known.shown_texts if naming is None else naming), **answers}}


def unanswered(step: Step, workflow: Workflow, known: Known, schemas: Schemas) -> PauseReason:
    """Why a run stops at a question that has no answer."""
    values = resolve_texts(step.template_bindings, step, workflow, known)
    if not isinstance(values, dict):
        return values
    questions = tuple(open_questions(workflow, known, schemas.answer_schema))
    return AnswersRequired(step.name, questions, workflow.name)
