"""Asking the client's user for the values that a paused run lacks (docs/workflows.md, Asking for what is missing)."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct, structs

from mcp_baton.exceptions import Abandoned, BatonError, ToolError
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.protocol.jsonrpc import InvalidParams
from mcp_baton.questions.rounds import Rounds
from mcp_baton.tasks.ids import short_digest
from mcp_baton.tasks.record import TaskRecord
from mcp_baton.tools.asking import Identity, declares
from mcp_baton.tools.questions import Elicited, Field, elicitation, form_field, inline_references
from mcp_baton.tools.quoting import escaped
from mcp_baton.tools.schema.prompt_arguments import ArgumentRefused, is_empty
from mcp_baton.transport.exchange import KEEP_ALIVE_S
from mcp_baton.workflow.definition import ANSWERS, Workflow
from mcp_baton.workflow.ended_run import EndedRun
from mcp_baton.workflow.engine_host import ServerHost
from mcp_baton.workflow.pause import AnswersRequired, PauseReason, UnresolvableParams
from mcp_baton.workflow.request import Request
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.secrets import contains_argument
from mcp_baton.workflow.source_values import Missing
from mcp_baton.workflow.steps.question import Question
from mcp_baton.workflow.steps.step import Step

logger = logging.getLogger(__name__)


class MissingValues(Struct, frozen=True):
    """What a step lacks: arguments of its tool, or answers to `questions` of the workflow.

    Attributes:
        message: The text for the person.
        fields: The form's fields, by name.
        required: The fields that must have a value.
        answer: The question whose answer is an object with these fields; `None` if each field is a value of its own.
    """

    step: str
    message: str
    fields: Mapping[str, Field]
    required: tuple[str, ...]
    questions: bool = False
    answer: str | None = None

    @property
    def schema(self) -> JsonObject:
        properties: JsonObject = {name: field.schema for name, field in self.fields.items()}
        return {"type": "object", "properties": properties, "required": list(self.required)}

    @property
    def key(self) -> str:
        """Distinguishes this form from the others of its task."""
        return short_digest(dumps([self.message, self.schema]))

    def answers(self, content: JsonObject) -> dict[str, Json]:
        """Return the arguments in a person's answer: only those that were asked for. An empty text is declined."""
        return _answers_in(content, self.fields, self.answer)


def _answers_in(content: JsonObject, fields: Mapping[str, Field], answer: str | None) -> dict[str, Json]:
    values = {name: field.value(content[name]) for name, field in fields.items() if not is_empty(content.get(name))}
    return {answer: values} if answer is not None and content else dict(values)


MAX_FORM_QUESTION_CHARS = 50_000
"""Characters up to which a form has the whole question. In a longer one, long values are cut."""


def unanswered_questions(run: EndedRun) -> MissingValues | None:
    """Return open questions to the user as one form; `None` if no question fits into a form. A question whose answer is
    an object has a form of its own."""
    pause = next((pause for pause in run.pauses if isinstance(pause, AnswersRequired)), None)
    if pause is None:
        return None
    questions = [question for question in pause.questions if question.of == "user"]
    fields: dict[str, Field] = {}
    texts: list[str] = []
    for question in questions:
        text = run.known.question_text(run.workflow.step(question.name), whole=True)
        if not text or len(text) > MAX_FORM_QUESTION_CHARS:
            text = escaped(question.question)
        own_form = _object_form(question.schema)
        if own_form is not None and not fields:
            return MissingValues(question.name, text, *own_form, questions=True, answer=question.name)
        field = _field(question.schema, question.schema.get("$defs", {}))
        if field is not None:
            fields[question.name] = Field({**field.schema, "description": text}, field.choices)
            texts.append(text)
    if not fields:
        return None
    message = texts[0] if len(texts) == 1 else f"To {run.workflow.description.rstrip('.')}, answer these questions."
    return MissingValues(pause.step, message, fields, tuple(fields), questions=True)


def _object_form(schema: Mapping[str, Any]) -> tuple[dict[str, Field], tuple[str, ...]] | None:
    """Return the fields and the required ones of an object; `None` if one of them does not fit into a form."""
    definitions = schema.get("$defs", {})
    inline_schema = inline_references(dict(schema), definitions)
    properties = inline_schema.get("properties")
    if inline_schema.get("type") != "object" or not properties:
        return None
    fields = {name: _field(property_schema, definitions) for name, property_schema in properties.items()}
    if any(field is None for field in fields.values()):
        return None
    return {name: field for name, field in fields.items() if field}, tuple(inline_schema.get("required", ()))


def missing_arguments(run: EndedRun, pause: PauseReason, input_schema: JsonObject) -> MissingValues | None:
    """Return what a person can be asked for, so that a step continues; `None` if it also lacks something else.

    Args:
        pause: Why the step has stopped.
        input_schema: The input schema of its tool.
    """
    step = run.workflow.step(pause.step)
    if step is None:
        return None
    names = _missing_names(pause, step, run.known)
    properties, definitions = input_schema.get("properties", {}), input_schema.get("$defs", {})
    if not names or not isinstance(properties, Mapping) or not isinstance(definitions, Mapping):
        return None
    fields: dict[str, Field] = {}
    for name in names:
        field = _field(properties.get(name), definitions)
        if field is None or contains_argument(step.arguments.get(name), run.workflow.secrets):
            return None
        fields[name] = field
    message = f"To {run.workflow.description.rstrip('.')}, step '{step.name}' needs these values."
    return MissingValues(step.name, message, fields, names)


def _missing_names(pause: PauseReason, step: Step, known: KnownValues) -> tuple[str, ...]:
    """Return the arguments that the step lacks; none if something else is wrong, too."""
    names = pause.missing_arguments
    if not isinstance(pause, UnresolvableParams):
        return names
    # A name may belong to a URI's placeholder: no argument gives it a value.
    unset = step.arguments.keys() - known.answers.get(step.name, {}).keys()
    return tuple(name for name in names if name in unset and isinstance(known.resolve(step.arguments[name]), Missing))


def _field(schema: Any, definitions: Mapping[str, Any]) -> Field | None:
    """Convert a parameter's schema to a form's field; `None` if no form can have it, or if it is a secret."""
    if not isinstance(schema, Mapping):
        return None
    inline_schema = inline_references(dict(schema), definitions)
    if inline_schema.get("writeOnly") or inline_schema.get("format") == "password":
        return None  # MCP client/elicitation, Security Considerations: forms must not ask for secrets
    field = form_field(schema, definitions)
    # A default would be sent as if the person had chosen it.
    return None if field is None else Field({k: v for k, v in field.schema.items() if k != "default"}, field.choices)


def with_answers(arguments: JsonObject, answers: JsonObject) -> JsonObject:
    """Add answers to the arguments of the workflow's tool."""
    if not answers:
        return arguments
    earlier_answers = arguments.get(ANSWERS)
    return {**arguments, ANSWERS: {**(earlier_answers if isinstance(earlier_answers, Mapping) else {}), **answers}}


type Run = Callable[[str | None, JsonObject, Mapping[str, JsonObject]], EndedRun]
"""Runs the workflow: with the task to resume, its arguments, and answers by the step that lacked them."""


def run_asking(
    request: Request, workflow: Workflow, task_id: str | None, arguments: JsonObject, host: ServerHost, start: Run
) -> EndedRun:
    """Run a workflow. If it pauses for values that a person can give, ask for them and continue.

    In the 2026 era each round resumes the task. Answers to the workflow's questions are passed to that run. If
    arguments were asked for, the run stops at the same step again, and then continues with the answers.
    """
    rounds, earlier_answers = request.rounds(), dict[str, Json]()
    if rounds is not None and rounds.earlier_identity is not None:
        if task_id not in (None, rounds.earlier_identity.task):
            raise InvalidParams("`requestState` cannot be used: it belongs to another task")
        task_id = rounds.earlier_identity.task
        earlier_answers = _earlier_answers(rounds, workflow, host)
    run = _run_with(earlier_answers, partial(start, task_id), arguments)
    arguments = with_answers(arguments, earlier_answers)
    answers_by_step: dict[str, dict[str, Json]] = {}
    while (missing_values := _missing_values(request, run)) is not None and run.task is not None:
        known_answers = answers_by_step.setdefault(missing_values.step, {})
        task = run.task
        new_answers = _ask_person(request, rounds, host, task, missing_values)
        if not new_answers.keys() - known_answers.keys():
            break
        known_answers |= new_answers
        if missing_values.questions:
            arguments = with_answers(arguments, new_answers)
        step_answers = {} if missing_values.questions else {missing_values.step: known_answers}
        try:
            run = start(task.task_id, arguments, step_answers)
        except BatonError as error:
            if isinstance(error, ArgumentRefused):
                return structs.replace(run, wrong_answer=error.problem)
            if rounds is not None:
                raise
            # Another run has continued the task meanwhile, or the task cannot be read. The results so far remain.
            logger.info("task %s: it was not resumed with the answers", task.task_id, exc_info=True)
            break
    return run


def _run_with(answers: JsonObject, start: Callable[..., EndedRun], arguments: JsonObject) -> EndedRun:
    """Run a workflow with the answers in a form; without them if one is wrong."""
    try:
        return start(with_answers(arguments, answers), {})
    except ArgumentRefused as error:
        if not answers:
            raise
        return structs.replace(start(arguments, {}), wrong_answer=error.problem)


def _earlier_answers(rounds: Rounds, workflow: Workflow, host: ServerHost) -> dict[str, Json]:
    schemas: dict[str, Mapping[str, Any]] = {
        question.name: host.answer_schema(question) for question in workflow.questions
    }
    answers: dict[str, Json] = {}
    for key, answer in rounds.answers.items():
        step = workflow.step(key.rsplit("-", 2)[0])
        content = answer.get("content") if isinstance(answer, Mapping) and answer.get("action") == "accept" else None
        if not isinstance(step, Question) or not isinstance(content, Mapping):
            continue
        own_form = _object_form(schemas[step.name])
        if own_form is not None:
            answers |= _answers_in(content, own_form[0], step.name)
            continue
        fields = {name: _field(schema, schema.get("$defs", {})) for name, schema in schemas.items()}
        answers |= _answers_in(content, {name: field for name, field in fields.items() if field}, None)
    return answers


def _missing_values(request: Request, run: EndedRun) -> MissingValues | None:
    may_ask = run.task is not None and run.may_ask
    can_ask = request.envelope.is_known and declares(request.envelope.capabilities, "elicitation")
    if not may_ask or not can_ask or not (request.stateless or request.exchange.may_ask):
        return None
    for pause in run.pauses:
        step = run.workflow.step(pause.step)
        tool = request.server.tools.get(step.tool or "") if step and run.workflow.ask else None
        missing = missing_arguments(run, pause, tool.input_schema) if tool else None
        missing = unanswered_questions(run) if isinstance(pause, AnswersRequired) else missing
        if missing is not None:
            return missing
    return None


def _ask_person(
    request: Request, rounds: Rounds | None, host: ServerHost, task: TaskRecord, missing: MissingValues
) -> dict[str, Json]:
    """Ask a person. Returns the answers; none if the person declined or, in the handshake era, did not answer."""
    key = f"{missing.step}-{task.task_id[-12:]}-{missing.key}"
    lifetime_s = None
    if rounds is not None:
        rounds.identity = Identity(task=task.task_id)
        lifetime_s = max((task.created_ms + task.ttl_ms - request.now_ms()) / 1_000, 1)
    question = elicitation(key, missing.message, missing.schema, timeout_s=lifetime_s)
    asker = request.asking(rounds)(request.exchange.request, _wait_condition(request, host))
    try:
        answer: Elicited = question.read(asker.ask((question,))[0])
    except (ToolError, Abandoned) as error:
        if rounds is not None:
            raise InvalidParams(f"`inputResponses.{key}`: {error}") from error
        logger.info("request %s: the missing values were not given: %s", request.exchange.request_id, error)
        return {}
    return missing.answers(answer.content)


def _wait_condition(request: Request, host: ServerHost) -> Callable[[], bool]:
    """Return a function that returns whether to wait longer for an answer: the client is connected, and a step could
    still start. The function also keeps the quiet stream alive."""
    clock = request.services.clock
    last_sent_s = clock()

    def keeps_waiting() -> bool:
        nonlocal last_sent_s
        if clock() - last_sent_s >= KEEP_ALIVE_S:
            last_sent_s = clock()
            request.exchange.keep_alive()
        return not request.exchange.gone and host.may_start()

    return keeps_waiting
