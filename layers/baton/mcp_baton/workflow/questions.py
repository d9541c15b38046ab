"""Questions of a workflow to the model and the user (docs/workflows.md, Questions). Pure."""

from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.record import StepStatus
from mcp_baton.workflow.definition import ANSWERS, Step, Workflow
from mcp_baton.workflow.pause import AnswersRequired, PauseReason, Question
from mcp_baton.workflow.resolve import Known, Schemas, resolve_texts
from mcp_baton.workflow.sources import fill


def question_text(step: Step, workflow: Workflow, known: Known) -> str | None:
    """The question of a step, with its values; `None` if a value is not known yet. Secrets are hidden."""
    if step.ask is None:
        return None
    values = resolve_texts(step.template_bindings, step, workflow, known)
    return fill(step.ask.question, {**known.shown_texts, **values}) if isinstance(values, dict) else None


def _open(workflow: Workflow, known: Known) -> dict[str, str]:
    """The questions without an answer whose values are known, in order, by the names of their steps."""
    left = (step for step in workflow.steps if step.ask and known.statuses[step.name] is not StepStatus.COMPLETED)
    texts = {step.name: question_text(step, workflow, known) for step in left}
    return {name: text for name, text in texts.items() if text is not None}


def answer_call(workflow: Workflow, known: Known, naming: JsonObject | None) -> JsonObject | None:
    """The call that answers all open questions, as `next` lists it; `None` if there is none.

    Args:
        workflow: The workflow.
        known: What is known by now.
        naming: The arguments that name the task. Without them, the call has the workflow's own arguments: it may have
            to start the workflow.
    """
    answers: JsonObject = {name: f"<{text}>" for name, text in _open(workflow, known).items()}
    if not answers:
        return None
    named: JsonObject = known.shown_texts if naming is None else naming
    return {"tool": workflow.name, "arguments": {**named, ANSWERS: answers}}


def unanswered(step: Step, workflow: Workflow, known: Known, schemas: Schemas) -> PauseReason:
    """Why a run stops at a question that has no answer."""
    values = resolve_texts(step.template_bindings, step, workflow, known)
    if not isinstance(values, dict):
        return values
    texts, asked = _open(workflow, known), {step.name: step.ask for step in workflow.steps if step.ask}
    questions = tuple(
        Question(answer.name, texts[answer.name], dict(schemas.answer_schema(answer)), asked[answer.name].of)
        for answer in workflow.questions
        if answer.name in texts
    )
    return AnswersRequired(step.name, questions, workflow.name)
