"""Runs of workflows: starting one, and resuming a task."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import structs

from mcp_baton.exceptions import (
    ClaimLost,
    Conflict,
    StoreBusy,
    StoreError,
    TaskFinished,
    TaskHeld,
    TaskNotFound,
    TooLarge,
)
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.tasks.record import RESULT_PREFIX, NewTask, StepStatus, TaskRecord, pauses_of, waiting_jobs
from mcp_baton.tasks.store import Batch, TaskStore
from mcp_baton.telemetry import RECORDINGS_LOST, RUNS_COMPLETED, RUNS_PAUSED, STEP_RETRIES, STEPS_FAILED, STEPS_RUN
from mcp_baton.tools.approval import AFTER_WAITS_MS
from mcp_baton.tools.outcomes import Failed, Succeeded
from mcp_baton.tools.schema.prompt_arguments import (
    ArgumentRefused,
    check_answers,
    check_arguments,
    is_empty,
    named,
    with_defaults,
)
from mcp_baton.tools.secrets import secret_placeholder
from mcp_baton.tools.templates import as_text
from mcp_baton.workflow.definition import ANSWERS, Workflow
from mcp_baton.workflow.definition_changes import conflicting_steps, declared_arguments, given_secrets, statuses_under
from mcp_baton.workflow.ended_run import EndedRun
from mcp_baton.workflow.engine_host import ServerHost
from mcp_baton.workflow.execution import Execution
from mcp_baton.workflow.host import Skipped
from mcp_baton.workflow.lease import release_claim
from mcp_baton.workflow.pause import has_failed_calls, waits_or_asks
from mcp_baton.workflow.refusals import CallFailed, DefinitionChanged, WrongWorkflow, unreadable
from mcp_baton.workflow.request import Request
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.run import WorkflowRun
from mcp_baton.workflow.run_task import changed_arguments, new_task, take_task
from mcp_baton.workflow.steps.question import Question
from mcp_baton.workflow.stored_pauses import parse_pauses
from mcp_baton.workflow.times import milliseconds
from mcp_baton.workflow.workflow_tool import takes_null

if TYPE_CHECKING:
    from mcp_baton.workflow.repetitions import Starter


def answer_with_run(
    request: Request,
    workflow: Workflow,
    arguments: JsonObject,
    task_id: str | None,
    host: ServerHost,
    ttl_ms: int | None = None,
    starter: "Starter | None" = None,
    takes_over: bool = False,
) -> EndedRun:
    """`run_workflow` for a request. The client's user may be asked for missing values (`Workflow.ask`).

    Args:
        takes_over: Whether the call repeats the one whose run has died. It does not name the task itself.
    """
    named = task_id is not None and not takes_over
    start = partial(run_workflow, request, workflow, host=host, ttl_ms=ttl_ms, starter=starter, named=named)
    if not workflow.ask and not any(isinstance(step, Question) and step.of == "user" for step in workflow.steps):
        return start(arguments, task_id, takes_over=takes_over)
    from mcp_baton.workflow.client_questions import run_asking

    def run(task_id: str | None, arguments: JsonObject, answers: Mapping[str, JsonObject]) -> EndedRun:
        nonlocal takes_over
        # Only the first run replaces the dead one. Later runs continue after an answer, when the claim is released.
        is_takeover, takes_over = takes_over, False
        return start(arguments, task_id, answers=answers, takes_over=is_takeover)

    return run_asking(request, workflow, task_id, arguments, host, run)


def run_workflow(
    execution: Execution,
    workflow: Workflow,
    arguments: JsonObject,
    task_id: str | None,
    host: ServerHost,
    *,
    ttl_ms: int | None = None,
    lives_ms: int | None = None,
    answers: Mapping[str, JsonObject] = MappingProxyType({}),
    starter: "Starter | None" = None,
    named: bool = False,
    takes_over: bool = False,
    goes_on: bool = False,
) -> EndedRun:
    """Run a workflow as far as possible.

    Args:
        arguments: Its arguments; for a resume only those that are given again.
        task_id: The task to resume. `None` starts a new one.
        ttl_ms: The lifetime that the client wants for a new task.
        lives_ms: The least time that a resumed task must live from now on. `None` does not change its lifetime.
        answers: Arguments that the user has given, by step.
        starter: Finds the task of an equal call instead of starting a new one (`RepeatedCall`).
        named: Whether the call names the task, so that its client has the id.
        takes_over: Whether the task is only resumed if its run has died.
        goes_on: Whether it continues after a wait by itself. Raises `CallFailed` if a call has failed meanwhile.
    """
    services = execution.services
    open_run = partial(WorkflowRun, host, execution.store, clock=services.clock, sleep=services.sleep)
    with services.telemetry.span(f"workflow {workflow.name}"):
        if task_id is None:
            run = _start(open_run, *new_run(execution, workflow, arguments, ttl_ms), starter)
        else:
            task = _claim(execution, workflow, host, task_id, named=named, takes_over=takes_over)
            if goes_on and execution.store is not None and has_failed_calls(parse_pauses(pauses_of(task))):
                release_claim(execution.store, task)
                raise CallFailed(structs.replace(task, claim=None))
            run = _resume(execution, workflow, open_run, arguments, task, answers, lives_ms)
    if run.task is not None and waiting_jobs(run.task.variables):
        _wake_waiting_jobs(execution, run, run.task)
    _add_metrics(execution, run)
    return run


def _start(
    open_run: Callable[[KnownValues], WorkflowRun], known: KnownValues, task: NewTask, starter: "Starter | None"
) -> EndedRun:
    start = starter.begin() if starter else None
    try:
        run = open_run(known).start(task, start)
    except StoreBusy:
        if starter and start:
            starter.forget(start)
        raise
    if starter and start and run.task is None:
        starter.forget(start)
    return run


def _wake_waiting_jobs(execution: Execution, run: EndedRun, task: TaskRecord) -> None:
    """Wake the other jobs that wait with the task of a run: they end if the task has ended, or a call has failed. If
    the run has settled a step and now waits, they wait for what it waits for."""
    has_ended = task.status.terminal or has_failed_calls(run.pauses)
    is_waiting = waits_or_asks(run.pauses)
    has_continued = any(not trace.replayed and isinstance(trace.outcome, Succeeded | Skipped) for trace in run.traces)
    if execution.store is not None and (has_ended or (is_waiting and has_continued)):
        from mcp_baton.workflow.dispatching import wake_waiting_jobs

        wake_waiting_jobs(execution.services, execution.store, task, but=execution.job_id)


def new_run(
    execution: Execution, workflow: Workflow, arguments: JsonObject, ttl_ms: int | None = None
) -> tuple[KnownValues, NewTask]:
    """Return what is known before a new run, and its task, to be created. Raises `ArgumentRefused`."""
    arguments, answers = split_answers(workflow, arguments)
    wait_ms = execution.server.waits_ms(workflow)
    if workflow.ttl is not None:
        ttl_ms = ttl_ms or milliseconds(workflow.ttl)
    if wait_ms:
        ttl_ms = max(ttl_ms or execution.services.settings.default_ttl_ms, wait_ms + AFTER_WAITS_MS)
    known = _known(workflow, arguments, answers)
    stored_arguments = with_defaults(workflow.arguments, arguments)
    return known, new_task(known, execution.owner, ttl_ms, stored_arguments, is_salted=wait_ms > 0)


def split_answers(
    workflow: Workflow, arguments: JsonObject, *, is_resume: bool = False
) -> tuple[JsonObject, dict[str, JsonObject]]:
    """Return the arguments without the answers to the workflow's questions; and the converted answers, each as
    `{question: answer}` by the name of the question's step."""
    questions = workflow.questions
    _refuse_placeholders(workflow, {name: value for name, value in arguments.items() if name != ANSWERS}, "argument")
    if not questions or ANSWERS not in arguments:
        return arguments, {}
    answers = arguments[ANSWERS]
    if not isinstance(answers, Mapping):
        names = ", ".join(question.name for question in questions)
        raise ArgumentRefused(f"{ANSWERS} is an object with one value for each question: {names}")
    # At the start, null is what strict modes of models send for a question that nobody has asked yet.
    takes_nulls = is_resume and None in answers.values()
    nullable = {question.name for question in questions if takes_nulls and takes_null(question)}
    _refuse_placeholders(workflow, answers, "answer")
    values = check_answers(
        questions,
        {name: value for name, value in answers.items() if not is_empty(value) or (value is None and name in nullable)},
    )
    other_arguments = {name: value for name, value in arguments.items() if name != ANSWERS}
    return other_arguments, {name: {name: value} for name, value in values.items()}


def _refuse_placeholders(workflow: Workflow, values: JsonObject, kind: str) -> None:
    if "<" not in dumps(values):
        return
    from mcp_baton.tools.quoting import quoted_error
    from mcp_baton.workflow.placeholders import unreplaced_in_own_call

    unknown = unreplaced_in_own_call(values, workflow)
    if unknown is not None:
        raise ArgumentRefused(
            f"the {kind} {unknown.argument!r} has {quoted_error(unknown.placeholder)}, {unknown.reason}"
        )


def _known(
    workflow: Workflow,
    arguments: JsonObject,
    answers: Mapping[str, JsonObject],
    placeholders: Mapping[str, str] = MappingProxyType({}),
) -> KnownValues:
    declarations = [argument for argument in workflow.arguments if argument.name not in placeholders]
    texts, values = check_arguments(declarations, arguments)
    return KnownValues.before_run(workflow, {**texts, **placeholders}, {**values, **placeholders}, answers)


def _new_answers(workflow: Workflow, task: TaskRecord, answers: Mapping[str, JsonObject]) -> dict[str, JsonObject]:
    """Return the answers that the task does not have yet. Raises `ArgumentRefused` if an answer differs from one that a
    step has used."""
    statuses = statuses_under(task, workflow)
    new_answers: dict[str, JsonObject] = {}
    for name, answer in answers.items():
        if statuses[name] is StepStatus.SKIPPED:
            continue
        if statuses[name] is StepStatus.COMPLETED:
            if task.variables[f"{RESULT_PREFIX}{name}"] == answer[name]:
                continue
            question = workflow.step(name)
            using_steps = [
                step.name
                for step in workflow.steps
                if question and step.uses(question.binding) and statuses[step.name] is not StepStatus.PENDING
            ]
            if using_steps:
                raise ArgumentRefused(
                    f"the answer {name!r} cannot be changed: the step {using_steps[0]!r} has used it; leave it out, "
                    "or give the same answer"
                )
        new_answers[name] = answer
    return new_answers


def _resume(
    execution: Execution,
    workflow: Workflow,
    open_run: Callable[[KnownValues], WorkflowRun],
    arguments: JsonObject,
    task: TaskRecord,
    answers: Mapping[str, JsonObject],
    lives_ms: int | None,
) -> EndedRun:
    """Resume a claimed task. If that fails, the claim is released at once."""
    try:
        known, replacing, ignored = resumed_values(workflow, task, arguments)
        changed = changed_arguments(known, task, replacing)
        if changed is not None and execution.store is not None:
            # Before the first call, so that each later text, also after a kill, names what the calls of this run have.
            task = _with_arguments(execution.store, task, changed)
        if lives_ms is not None and execution.store is not None:
            task = execution.store.jobs.extend(task, lives_ms)
        known = structs.replace(known, answers={**known.answers, **answers})
        run = open_run(known).resume(task)
        return structs.replace(run, ignored=ignored)
    except (TaskFinished, TaskNotFound):
        raise
    except ClaimLost as error:
        # This run was slow, and another run has claimed the task.
        raise TaskHeld(error.current.claim.until_ms if error.current.claim else 0, error.current) from error
    except Exception as error:
        if execution.store is not None:
            release_claim(execution.store, task)
        if isinstance(error, StoreError):
            raise unreadable(task.task_id, error) from error
        raise


def _with_arguments(store: TaskStore, task: TaskRecord, arguments: JsonObject) -> TaskRecord:
    try:
        return store.write(task, Batch(arguments=arguments, claim=task.claim))
    except TooLarge as error:
        problem = "the arguments are too large to be stored with the task; shorten them, or pass links"
        raise ArgumentRefused(problem) from error


def resumed_values(
    workflow: Workflow, task: TaskRecord, arguments: JsonObject, *, assumes_secrets: bool = False
) -> tuple[KnownValues, JsonObject, tuple[str, ...]]:
    """Return what is known before a resume: the stored arguments, replaced by those that are given again. Also return
    the latter, and the names of the arguments that do not replace the stored ones, and of empty answers.

    Args:
        assumes_secrets: Whether to assume that the secret arguments of the earlier calls are given again.

    Raises:
        DefinitionChanged: the definition of a settled step has changed.
        ArgumentRefused: an argument is missing or does not convert.
    """
    changed_steps = conflicting_steps(workflow, task)
    if changed_steps:
        raise DefinitionChanged(changed_steps)
    stored_arguments = declared_arguments(workflow, task)
    arguments, ignored = _replacing(workflow, stored_arguments, arguments)
    arguments, answers = split_answers(workflow, arguments, is_resume=True)
    answers = _new_answers(workflow, task, answers)
    all_arguments = {**stored_arguments, **arguments}
    secrets = sorted(given_secrets(workflow, task) - arguments.keys())
    if secrets and (assumes_secrets or all(status.settled for status in statuses_under(task, workflow).values())):
        # Without an open step, the run only completes the task, so no call needs a secret.
        placeholders = {name: secret_placeholder(name) for name in secrets}
        return _known(workflow, all_arguments, answers, placeholders), arguments, ignored
    if secrets:
        names = ", ".join(map(repr, secrets))
        raise ArgumentRefused(f"secret arguments are not stored; give them again to resume the task: {names}", secrets)
    return _known(workflow, all_arguments, answers), arguments, ignored


def _replacing(workflow: Workflow, stored: JsonObject, given: JsonObject) -> tuple[JsonObject, tuple[str, ...]]:
    """Return the arguments of a resume without those that mean "left out": strict modes of models, and some frameworks,
    send null, an empty value or the default for these. Also return the names of those that differ from the stored ones,
    and of empty answers."""
    declared = {argument.name: argument for argument in workflow.arguments}
    defaults = {name: as_text(item.default) for name, item in declared.items() if item.default is not None}
    replacing: dict[str, Json] = {}
    ignored: list[str] = []
    for name, value in named(workflow.arguments, given).items():
        argument = declared.get(name)
        if argument is None:
            replacing[name] = value
        elif name not in stored:
            if not is_empty(value) or not (argument.secret or (value is None and not takes_null(argument))):
                replacing[name] = value
        elif is_empty(value) or value in ([], {}) or as_text(value) == defaults.get(name):
            if as_text(value) != as_text(stored[name]):
                ignored.append(name)
        else:
            replacing[name] = value
    answers = given.get(ANSWERS)
    if isinstance(answers, Mapping):
        ignored += [f"{ANSWERS}.{name}" for name, value in answers.items() if value is not None and is_empty(value)]
    return replacing, tuple(ignored)


def _claim(
    execution: Execution, workflow: Workflow, host: ServerHost, task_id: str, *, named: bool, takes_over: bool
) -> TaskRecord:
    _, owner = execution.own_tasks()
    try:
        execution.check_own(task_id)
        return take_task(host, execution.store, workflow, owner, task_id, named=named, takes_over=takes_over)
    except (TaskNotFound, TaskFinished, TaskHeld, StoreBusy):
        raise
    except StoreError as error:
        if isinstance(error, Conflict) and error.current.workflow != workflow.name:
            raise WrongWorkflow(error.current) from error
        raise unreadable(task_id, error) from error


def _add_metrics(execution: Execution, run: EndedRun) -> None:
    """Add the metrics of a run (docs/operating.md)."""
    outcomes = [trace.outcome for trace in run.traces if not trace.replayed and not isinstance(trace.outcome, Skipped)]
    if outcomes:
        execution.services.telemetry.add(STEPS_RUN, len(outcomes))
        failed = sum(isinstance(outcome, Failed) for outcome in outcomes)
        if failed:
            execution.services.telemetry.add(STEPS_FAILED, failed)
    retries = sum(trace.attempts - trace.calls for trace in run.traces if trace.attempts)
    if retries:
        execution.services.telemetry.add(STEP_RETRIES, retries)
    if run.pause:
        execution.services.telemetry.add(RUNS_PAUSED, of=run.pause.type)
    elif run.over is None:
        execution.services.telemetry.add(RUNS_COMPLETED)
    no_task = run.task is None and run.workflow.durable and execution.store is not None and execution.owner is not None
    # After the end of its task, no recording was lost.
    if no_task or not (run.stored or run.over):
        execution.services.telemetry.add(RECORDINGS_LOST)
