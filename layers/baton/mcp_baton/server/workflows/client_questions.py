"""Asking the client's user for the values that a paused run lacks (docs/workflows.md, Asking for what is missing)."""

import logging
import math
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct, field

from mcp_baton.exceptions import Abandoned, BatonError, ProtocolError, ToolError
from mcp_baton.protocol.envelope import PREFIXED_TASK_ID_KEY, RELATED_TASK_KEY, TASK_ID_KEY
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.jsonrpc import INVALID_PARAMS
from mcp_baton.protocol.state import ForgedState, binding_of
from mcp_baton.server.asking.asker import InputRequired, declares
from mcp_baton.server.asking.questions import PRIMITIVES, Elicited, elicitation, inlined, is_choice_of_several
from mcp_baton.server.request import Request
from mcp_baton.server.running.tool_threads import KEEP_ALIVE_S
from mcp_baton.server.workflows.engine_host import ServerHost
from mcp_baton.tasks.record import TaskRecord
from mcp_baton.workflow.definition import Step
from mcp_baton.workflow.pause import AnswersRequired, PauseReason, UnresolvableParams
from mcp_baton.workflow.resolve import Known
from mcp_baton.workflow.run import EndedRun
from mcp_baton.workflow.secrets import mentions
from mcp_baton.workflow.sources import Found

FORMATS: Final = frozenset({"email", "uri", "date", "date-time"})
MEMBERS: Final[Mapping[str, frozenset[str]]] = {
    "string": frozenset({"enum", "minLength", "maxLength", "format"}),
    "number": frozenset({"minimum", "maximum"}),
    "integer": frozenset({"minimum", "maximum"}),
    "boolean": frozenset(),
    "array": frozenset({"items", "minItems", "maxItems"}),
}
"""The members of a form's fields, by type (MCP client/elicitation, Requested Schema)."""


class Missing(Struct, frozen=True):
    """What a step lacks.

    Attributes:
        step: The step's name.
        fields: The names of the missing arguments of its tool, or of the questions.
        message: What to tell the person.
        schema: The form.
        questions: Whether the fields are questions of the workflow, and not arguments of the step's tool.
    """

    step: str
    fields: tuple[str, ...]
    message: str
    schema: JsonObject
    questions: bool = False

    def answers(self, content: JsonObject) -> dict[str, Json]:
        """The arguments in a person's answer: those that were asked for, and nothing else."""
        return {name: content[name] for name in self.fields if content.get(name) is not None}


def unanswered_in(run: EndedRun) -> Missing | None:
    """The open questions to the user, as one form; `None` if no question fits into a form."""
    if not isinstance(run.pause, AnswersRequired):
        return None
    fields: dict[str, Json] = {}
    texts: list[str] = []
    for question in run.pause.questions:
        field = _field(question.schema, question.schema.get("$defs", {})) if question.of == "user" else None
        if field is not None:
            fields[question.name] = {**field, "description": question.question}
            texts.append(question.question)
    if not fields:
        return None
    message = texts[0] if len(texts) == 1 else f"To {run.workflow.description.rstrip('.')}, answer these questions."
    schema: JsonObject = {"type": "object", "properties": fields, "required": list(fields)}
    return Missing(run.pause.step, tuple(fields), message, schema, questions=True)


def missing_in(run: EndedRun, input_schema: JsonObject) -> Missing | None:
    """What a person can be asked for, so that the run goes on; `None` where that is not all that it lacks.

    Args:
        run: The run, which has ended.
        input_schema: That of the tool of the step at which it stopped.
    """
    step = run.workflow.step(run.pause.step) if run.pause else None
    if step is None or run.pause is None:
        return None
    names = _lacking(run.pause, step, run.known)
    properties, definitions = input_schema.get("properties", {}), input_schema.get("$defs", {})
    if not names or not isinstance(properties, Mapping) or not isinstance(definitions, Mapping):
        return None
    fields: dict[str, Json] = {}
    for name in names:
        field = _field(properties.get(name), definitions)
        if field is None or mentions(step.arguments.get(name), run.workflow.secrets):
            return None
        fields[name] = field
    message = f"To {run.workflow.description.rstrip('.')}, step '{step.name}' needs what is not known yet."
    schema: JsonObject = {"type": "object", "properties": fields, "required": list(names)}
    return Missing(step.name, names, message, schema)


def _lacking(pause: PauseReason, step: Step, known: Known) -> tuple[str, ...]:
    """The arguments that the step lacks; none if something else is wrong, too."""
    names = pause.missing_arguments
    if isinstance(pause, UnresolvableParams):
        # The name may be the placeholder of a URI, for which no argument gives a value.
        return tuple(name for name in names if _has_no_value(name, step, known))
    return names


def _has_no_value(name: str, step: Step, known: Known) -> bool:
    if name not in step.arguments or name in known.answers.get(step.name, {}):
        return False
    return not isinstance(known.resolve(step.arguments[name]), Found)


def _field(schema: Any, definitions: Mapping[str, Any]) -> JsonObject | None:
    """A parameter as a form's field; `None` where no form can have it, or where it must not be typed into one."""
    if not isinstance(schema, Mapping):
        return None
    shown = inlined(dict(schema), definitions)
    kind = shown.get("type")
    if shown.get("writeOnly") or shown.get("format") == "password":
        return None  # MCP client/elicitation, Security Considerations: forms are no place for secrets
    if kind not in PRIMITIVES and not is_choice_of_several(shown):
        return None
    members = MEMBERS[str(kind)] | {"type", "title", "description"}
    made = {name: value for name, value in shown.items() if name in members}
    if made.get("format") not in FORMATS:
        made.pop("format", None)
    return made


logger = logging.getLogger(__name__)

type Answers = dict[str, Json]
"""Arguments that a person has given."""

type Run = Callable[[str | None, Mapping[str, Answers]], EndedRun]
"""Runs the workflow: with the task to go on with, and the answers by the step that lacked them."""


class Round(Struct, frozen=True):
    """A question of an earlier request, and what became of it.

    Attributes:
        task_id: The task that lacks something.
        step: The step that does.
        answers: The arguments that a person has given for it so far.
        declined: The person has not said what was asked for, and is not asked again.
        questions: Whether these are answers to questions of the workflow.
    """

    task_id: str
    step: str
    answers: Answers = field(default_factory=dict)
    declined: bool = False
    questions: bool = False

    @property
    def by_step(self) -> dict[str, Answers]:
        """The answers by the steps that they are for."""
        if self.questions:
            return {name: {name: value} for name, value in self.answers.items()}
        return {self.step: self.answers}


def run_asking(request: Request, task_id: str | None, host: ServerHost, run: Run) -> EndedRun:
    """Run a workflow. If it pauses for values that a person can give, ask for them and continue.

    Args:
        request: On whose behalf.
        task_id: The task that it names; `None` for a new one.
        host: What the workflow runs in.
        run: Runs it.

    Raises:
        InputRequired: the client must ask its user first (2026 era).
        ProtocolError: the request's `requestState` cannot be used.
    """
    earlier = _earlier_round(request)
    record = run(task_id, {}) if earlier is None else run(earlier.task_id, earlier.by_step)
    while earlier is None or not earlier.declined:
        missing = _missing(request, record)
        if missing is None or record.task is None:
            break
        given = earlier.answers if earlier is not None and earlier.step == missing.step else {}
        if request.stateless:
            raise InputRequired(_asking(request, record.task, missing, given))
        new = _ask(request, host, missing)
        if not new.keys() - given.keys():
            break
        earlier = Round(record.task.task_id, missing.step, given | new, questions=missing.questions)
        try:
            record = run(earlier.task_id, earlier.by_step)
        except BatonError:
            # Somebody else has gone on with the task meanwhile, or it cannot be read. What this run did still stands.
            logger.info("task %s: it was not resumed with the answers", earlier.task_id, exc_info=True)
            break
    return record


def _missing(request: Request, run: EndedRun) -> Missing | None:
    """What the client's user can be asked for now."""
    stored = run.task is not None and run.stored
    able = request.envelope.is_known and declares(request.envelope.capabilities, "elicitation")
    if not stored or not able or not (request.stateless or request.reply.may_ask):
        return None
    tool = request.server.tools.get(_tool_of(run))
    if tool is None or not run.workflow.ask:
        return unanswered_in(run)
    return missing_in(run, tool.input_schema)


def _tool_of(run: EndedRun) -> str:
    step = run.workflow.step(run.pause.step) if run.pause else None
    return step.tool or "" if step else ""


def _asking(request: Request, task: TaskRecord, missing: Missing, given: Answers) -> JsonObject:
    """The `InputRequiredResult` (MCP 2026-07-28, basic/patterns/mrtr). Its state names the task, and lives as long."""
    question = elicitation(f"{missing.step}-{task.task_id[-12:]}", missing.message, missing.schema)
    content: dict[str, Json] = {
        "task": task.task_id,
        "step": missing.step,
        "fields": list(missing.fields),
        "key": question.key,
        "answers": given,
        "questions": missing.questions,
    }
    ends_ms = datetime.fromisoformat(task.created_at).timestamp() * 1_000 + task.ttl_ms
    lifetime_s = max(math.ceil((ends_ms - request.now_ms()) / 1_000), 1)
    state = request.services.seal.seal(content, _binding(request), int(time.time()), lifetime_s)
    requests: dict[str, Json] = {question.key: {"method": question.method, "params": question.params}}
    return {"resultType": "input_required", "inputRequests": requests, "requestState": state}


def _earlier_round(request: Request) -> Round | None:
    """The round that a request answers; `None` for a first request, and in the handshake era."""
    state = request.params.get("requestState") if request.stateless else None
    if state is None:
        return None
    try:
        content = request.services.seal.open(
            state if isinstance(state, str) else "", _binding(request), int(time.time())
        )
    except ForgedState as error:
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: `requestState` cannot be used: {error}") from error
    match content:
        case {
            "task": str(task_id),
            "step": str(step),
            "fields": [*fields],
            "key": str(key),
            "answers": Mapping() as given,
            "questions": bool(questions),
        }:
            missing = Missing(step, tuple(str(name) for name in fields), "", {})
            response = request.object("inputResponses").get(key)
            if response is None:  # it will be asked again
                return Round(task_id, step, dict(given), questions=questions)
            answer = _read(response, key)
            new = missing.answers(answer.content)
            return Round(task_id, step, dict(given) | new, declined=not new, questions=questions)
        case _:
            raise ProtocolError(INVALID_PARAMS, "Invalid params: `requestState` cannot be used: it is of another kind")


def _read(response: Json, key: str) -> Elicited:
    try:
        if not isinstance(response, Mapping):
            raise ToolError("It must be an object.")
        read: Elicited = elicitation(key, "", None).read(response)
    except ToolError as error:
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: `inputResponses.{key}`: {error}") from error
    return read


def _binding(request: Request) -> str:
    """The binding of a state: the caller, the request, and the task that it names."""
    meta = request.envelope.meta
    named: list[Json] = ["workflow", meta.get(TASK_ID_KEY, meta.get(PREFIXED_TASK_ID_KEY)), meta.get(RELATED_TASK_KEY)]
    name, arguments = request.called()
    return binding_of(request.owner, request.message.method, name, arguments, named)


def _ask(request: Request, host: ServerHost, missing: Missing) -> Answers:
    """Ask over the request's stream, and wait (revisions up to 2025-11-25). Without an answer the result is empty."""
    question = elicitation(missing.step, missing.message, missing.schema)
    asker = request.asking(None)(request.reply.request, _Waiting(request, host))
    try:
        answer: Elicited = question.read(asker.ask((question,))[0])
    except (ToolError, Abandoned) as error:
        logger.info("request %s: the missing values were not given: %s", request.exchange.request_id, error)
        return {}
    return missing.answers(answer.content)


class _Waiting:
    """Whether to wait for an answer any longer: the client is connected, and a step could still start. Keeps the quiet
    stream alive."""

    def __init__(self, request: Request, host: ServerHost) -> None:
        self._request = request
        self._host = host
        self._said_s = request.services.clock()

    def __call__(self) -> bool:
        if self._request.services.clock() - self._said_s >= KEEP_ALIVE_S:
            self._said_s = self._request.services.clock()
            self._request.reply.keep_alive()
        return not self._request.reply.gone and self._host.may_start()
