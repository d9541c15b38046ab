"""Events that start workflows in the background: of EventBridge, Scheduler, Pipes or S3 (docs/events.md)."""

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mcp_baton.background.creating import create_workflow_job
from mcp_baton.exceptions import BatonError, EventError, OutcomeUnknown, StoreError, TaskNotFound
from mcp_baton.protocol.envelope import STATELESS_REVISIONS, Envelope, Era
from mcp_baton.protocol.http import START_EVENT as START
from mcp_baton.protocol.json import MAX_DEPTH, Json, JsonObject, dumps, is_deeper_than
from mcp_baton.tasks.ids import text_digest
from mcp_baton.tasks.keys import digest_of
from mcp_baton.tasks.record import TaskStatus
from mcp_baton.tasks.store import Start, TaskStore
from mcp_baton.tasks.texts import MAX_OWNER_BYTES, to_text
from mcp_baton.telemetry import EVENTS_STARTED
from mcp_baton.tools.schema.prompt_arguments import ArgumentRefused
from mcp_baton.transport.exchange import Exchange
from mcp_baton.workflow.dispatching import dispatch
from mcp_baton.workflow.execution import Execution
from mcp_baton.workflow.lease import lease_end
from mcp_baton.workflow.refusals import InvalidToolArguments
from mcp_baton.workflow.runs import new_run
from mcp_baton.workflow.services import Services
from mcp_baton.workflow.workflow_tool import WorkflowTool

logger = logging.getLogger(__name__)

START_MEMBERS: Final = ("workflow", "arguments", "owner", "id", "scopes")

REPEATS_KNOWN_MS: Final = 7 * 86_400_000
"""How long a repeated delivery starts nothing, milliseconds."""


class StartEvent(Struct, frozen=True):
    workflow: str
    arguments: JsonObject
    owner: str
    id: str
    scopes: tuple[str, ...]


class StillStarting(BatonError):
    """Another delivery of the event is creating the task. Lambda delivers the event again later."""


def start_workflows(services: Services, event: object, exchange: Exchange) -> JsonObject:
    """Start the workflow of an event, or those of an array of events. Returns the outcome, for the log: `started`, or
    `repeated` for an event that has started its workflow before.

    Raises:
        EventError: an event is invalid; names the field. The valid ones of an array have started.
        StillStarting: another delivery of an event is being processed.
        StoreError: the store does not answer.
    """
    if not isinstance(event, list):
        return _start(services, event, exchange)
    outcomes: list[Json] = []
    errors: dict[int, str] = {}
    for index, member in enumerate(event):
        try:
            outcomes.append(_start(services, member, exchange))
        except BatonError as error:
            errors[index] = str(error)
        except Exception as error:  # a validator of the author may raise anything
            logger.exception("event %d of %d cannot be read", index, len(event))
            errors[index] = f"{type(error).__name__}: {error}"
    if errors:
        problems = "; ".join(f"event {index}: {error}" for index, error in errors.items())
        raise EventError(f"{len(errors)} of {len(event)} events started nothing, the others have started: {problems}")
    return {"events": outcomes}


def _start(services: Services, event: object, exchange: Exchange) -> dict[str, Json]:
    request = _read(event)
    tool, execution, store = _target(services, request, exchange)
    try:
        arguments = tool.first_arguments(request.arguments, of_event=True)
        _, task = new_run(execution, tool.workflow, arguments)
    except ArgumentRefused as error:
        raise EventError(f"`{START}.arguments`: {error.problem}") from error
    except InvalidToolArguments as error:
        raise EventError(f"`{START}.arguments`: {error}") from error
    key = text_digest(dumps(["event", request.owner, request.workflow, request.id]))
    call = digest_of(tool.canonical(arguments))
    start = Start(store.new_task_id(), store.now_ms(), lease_end(store, exchange.remaining_ms), call)
    earlier = None
    while (found := store.starts.begin(request.owner, key, start, earlier, REPEATS_KNOWN_MS)) is not None:
        if found.created or _has_task(store, request, found):
            if not found.created:
                # Also if this delivery has other arguments: the next one may come when the task is gone.
                store.starts.confirm(key, found)
            if found.call != call:
                raise EventError(
                    f"`{START}.id`: an event with the id {request.id!r} has started this workflow with other arguments"
                )
            logger.info(
                "task %s: the event %r has started the workflow %s before", found.task_id, request.id, request.workflow
            )
            return {"id": request.id, "taskId": found.task_id, "outcome": "repeated"}
        earlier = found
    try:
        job = create_workflow_job(execution, store, tool, task, arguments, None, start)
    except StoreError as error:
        if not isinstance(error, OutcomeUnknown):
            store.starts.forget(key, start)
        raise
    try:
        store.starts.confirm(key, start)
    except StoreError:
        logger.warning("task %s: a repeated event finds it only while it lives", job.task_id, exc_info=True)
    dispatch(services, job)
    services.telemetry.add(EVENTS_STARTED)
    logger.info("task %s: the event %r has started the workflow %s", job.task_id, request.id, request.workflow)
    return {"id": request.id, "taskId": job.task_id, "outcome": "started"}


def _has_task(store: TaskStore, event: StartEvent, found: Start) -> bool:
    """Whether an earlier delivery has created its task, and not cancelled it again; otherwise it died before that.

    Raises:
        StillStarting: the earlier delivery may still create the task.
    """
    # The time is taken before the read: this delivery may stand still after it, and the task be created meanwhile.
    now_ms = store.now_ms()
    try:
        task = store.get(event.owner, found.task_id)
    except TaskNotFound:
        if now_ms < found.until_ms:
            raise StillStarting(
                f"`{START}.id`: another delivery of the event {event.id!r} is being processed"
            ) from None
        return False
    # A delivery that was too slow cancels its task (`create_workflow_job`). It may have died after that. Nothing else
    # writes a message before a worker has claimed the task.
    return task.status is not TaskStatus.CANCELLED or task.claim is not None or task.status_message is None


def _read(event: object) -> StartEvent:
    members = event.get(START) if isinstance(event, Mapping) else None
    if not isinstance(members, Mapping):
        raise EventError(f"`{START}` must be an object with {', '.join(START_MEMBERS[:4])}, and perhaps scopes")
    unknown = sorted(str(name) for name in members if name not in START_MEMBERS)
    if unknown:
        raise EventError(f"`{START}` has no member {unknown[0]!r}; its members are {', '.join(START_MEMBERS)}")
    texts: dict[str, str] = {}
    for name in ("workflow", "owner", "id"):
        value = members.get(name)
        if not isinstance(value, str) or not value:
            raise EventError(f"`{START}.{name}` must be a text that is not empty")
        texts[name] = value
    if len(to_text(texts["owner"]).encode()) > MAX_OWNER_BYTES:
        raise EventError(f"`{START}.owner` has more than {MAX_OWNER_BYTES} bytes")
    arguments, scopes = members.get("arguments", {}), members.get("scopes", [])
    if not isinstance(arguments, Mapping):
        raise EventError(f"`{START}.arguments` must be an object")
    if is_deeper_than(arguments, MAX_DEPTH):
        raise EventError(f"`{START}.arguments` is nested deeper than {MAX_DEPTH} levels")
    try:
        dumps(arguments)
    except ValueError as error:  # Lambda's runtime reads NaN and infinities
        raise EventError(f"`{START}.arguments` is not JSON: {error}") from None
    if not isinstance(scopes, list) or not all(isinstance(scope, str) and scope for scope in scopes):
        raise EventError(f"`{START}.scopes` must be a list of texts")
    return StartEvent(arguments=arguments, scopes=tuple(scopes), **texts)


def _target(services: Services, event: StartEvent, exchange: Exchange) -> tuple[WorkflowTool, Execution, TaskStore]:
    claims: dict[str, object] = {"scope": list(event.scopes)}
    server, store = services.for_caller(claims, exchange)
    if store is None or services.dispatcher is None:
        raise EventError(f"`{START}` needs a table and a worker: set BATON_TABLE and BATON_WORKER")
    workflow = services.server.workflows.get(event.workflow)
    if workflow is None:
        from mcp_baton.hints import did_you_mean

        similar = did_you_mean(event.workflow, services.server.workflows)
        raise EventError(f"`{START}.workflow`: there is no workflow {event.workflow!r}{similar}")
    tool = server.workflow_tool(event.workflow)
    if tool is None and event.workflow not in server.workflows:
        tools = [services.server.tools[step.tool] for step in workflow.steps if step.tool]
        missing = sorted(frozenset[str]().union(*(tool.requires for tool in tools)) - set(event.scopes))
        raise EventError(f"`{START}.scopes`: the workflow {event.workflow!r} needs {', '.join(missing)}")
    if tool is None or workflow.secrets:
        problem = "has secret arguments, which are not stored" if workflow.secrets else "is not durable or has no tool"
        raise EventError(f"`{START}.workflow`: {event.workflow!r} {problem}, so no event can start it")
    base_url = services.settings.base_url
    if workflow.callbacks and not base_url:  # a request says the address of the API, and an event does not
        raise EventError(
            f"`{START}.workflow`: {event.workflow!r} waits for a callback, so it needs PublicUrl (BATON_BASE_URL)"
        )
    execution = Execution(
        services=services,
        server=server,
        store=store,
        owner=event.owner,
        claims=MappingProxyType(claims),
        # Nobody is connected: questions to the user pause the workflow.
        envelope=Envelope(Era.STATELESS, STATELESS_REVISIONS[0], {}, {}, None, None),
        exchange=exchange,
        base_url=base_url,
    )
    return tool, execution, store
