"""The stored tasks of all owners: which would continue under this code (`baton check --live`), and resumes of many of
them (`baton resume --all`), as docs/commands.md describes."""

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, override

from mcp_baton.cli.remote.errors import EXIT_DONE, EXIT_FAILED, EXIT_PAUSED, message_of
from mcp_baton.cli.remote.table_scan import Scan
from mcp_baton.exceptions import StoreError, StoreUnavailable, TaskFinished, TaskHeld, TaskNotFound
from mcp_baton.present.sentences import what_happened
from mcp_baton.present.view import view_of
from mcp_baton.protocol.envelope import STATELESS_REVISIONS, Envelope, Era
from mcp_baton.stores import DynamoDBStore
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.items import owner_of, task_id_of
from mcp_baton.tasks.dynamodb.listing import live_tasks
from mcp_baton.tasks.record import TaskRecord, paused_step, statuses_of
from mcp_baton.tools.schema.prompt_arguments import ArgumentRefused
from mcp_baton.transport.exchange import Exchange
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.ended_run import EndedRun
from mcp_baton.workflow.engine_host import ServerHost
from mcp_baton.workflow.execution import Execution
from mcp_baton.workflow.refusals import NOT_RESUMED, DefinitionChanged, TaskUnreadable
from mcp_baton.workflow.runs import resumed_input, run_workflow
from mcp_baton.workflow.server_view import ServerView
from mcp_baton.workflow.services import Services

WOULD_CONTINUE, WOULD_BE_REFUSED = "continue", "would be refused"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which tasks to select: by default all. `pause` is the type of the pause reason, `step` the step that it names."""

    workflow: str | None = None
    pause: str | None = None
    step: str | None = None
    owner: str | None = None

    def has(self, task: TaskRecord, store: DynamoDBStore) -> bool:
        if self.owner not in (None, task.owner) or self.workflow not in (None, task.workflow):
            return False
        if self.pause is None and self.step is None:
            return True
        pauses = view_of(task, store.now_ms(), store).pauses
        return any(
            self.pause in (None, pause.get("type")) and self.step in (None, paused_step(pause)) for pause in pauses
        )


@dataclass
class Verdicts:
    """The verdicts on the stored tasks.

    Attributes:
        outcomes: How many tasks have each outcome.
        problems: The tasks with another outcome than the first one.
        after: The position after the tasks that were read, if the table was not read to its end.
        is_complete: Whether the table was read to its end.
        units: The read units that DynamoDB has charged.
    """

    NAMES: ClassVar[tuple[str, ...]] = (WOULD_CONTINUE, WOULD_BE_REFUSED)
    REMEDY: ClassVar = "Keep these definitions, or complete or cancel these tasks before the deployment."

    server: ServerView
    selection: Selection = Selection()
    outcomes: dict[str, int] = field(default_factory=dict)
    problems: list[dict[str, str]] = field(default_factory=list)
    after: str | None = None
    is_complete: bool = False
    units: float = 0.0

    @property
    def code(self) -> int:
        """The exit code: 1 if a task would be refused."""
        return EXIT_FAILED if self.problems else EXIT_DONE

    def read(self, store: DynamoDBStore, after: str | None, read_units: float) -> None:
        """Read all tasks that have not ended, and note the outcome of each that is selected.

        Raises:
            StoreError: the table cannot be read. The outcomes of the tasks before are kept.
        """
        self.outcomes = dict.fromkeys(self.NAMES, 0)
        with Scan(store.table, live_tasks(store.now_ms()), read_units, after) as scan:
            try:
                for item in scan.items():
                    self._read(store, item)
                    scan.describe(self._counts())
                self.is_complete = True
            finally:
                self.after, self.units = scan.token, scan.units

    def _read(self, store: DynamoDBStore, item: Item) -> None:
        target, owner = "a task", owner_of(item)
        try:
            task = store.record(owner, item)
            if not self.selection.has(task, store):
                return
            target = task.workflow or (task.job.work.tool if task.job else target)
            outcome, reason = self._outcome(store, task)
        except StoreUnavailable:
            raise
        except StoreError as error:
            outcome, reason = WOULD_BE_REFUSED, str(error)
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        if outcome != self.NAMES[0]:
            self.problems.append(
                {"task": task_id_of(item), "owner": owner, "what": target, "outcome": outcome, "why": reason}
            )

    def _outcome(self, _store: DynamoDBStore, task: TaskRecord) -> tuple[str, str]:
        """The outcome of a task, and the reason if it is a problem."""
        reason = why_refused(self.server, task)
        return (WOULD_CONTINUE, "") if reason is None else (WOULD_BE_REFUSED, reason)

    def to_json(self) -> dict[str, Any]:
        return {
            "tasks": sum(self.outcomes.values()),
            "outcomes": self.outcomes,
            "problems": self.problems,
            "whole": self.is_complete,
            "after": self.after,
            "readUnits": self.units,
        }

    def _counts(self) -> str:
        count = sum(self.outcomes.values())
        tasks = f"{count} {'task' if count == 1 else 'tasks'}{'' if self.is_complete else ' so far'}"
        return f"{tasks}: {', '.join(f'{number} {outcome}' for outcome, number in self.outcomes.items())}"

    def __str__(self) -> str:
        """The counts, and one line for each reason, with the first task that has it."""
        by_reason: dict[tuple[str, str], list[str]] = {}
        for problem in self.problems:
            by_reason.setdefault((problem["what"], problem["why"]), []).append(problem["task"])
        lines = [f"{target} {_first_task(tasks)}: {reason}" for (target, reason), tasks in by_reason.items()]
        if len(lines) == 1:
            return f"{self._counts()}: {lines[0]}\n{self.REMEDY}"
        return "\n  ".join([f"{self._counts()}:", *lines]) + f"\n{self.REMEDY}" if lines else self._counts()


def _first_task(tasks: list[str]) -> str:
    return tasks[0] if len(tasks) == 1 else f"{tasks[0]} and {len(tasks) - 1} more"


@dataclass
class Resumes(Verdicts):
    """Resumes of the selected tasks, one after the other, in this process."""

    NAMES: ClassVar[tuple[str, ...]] = ("completed", "paused", "refused", "not stored", "skipped")
    REMEDY: ClassVar = "To try the paused tasks again, run the same command again."

    services: Services = field(kw_only=True)
    workflow: Workflow = field(kw_only=True)
    interval_s: float = field(kw_only=True)
    """The least time between the starts of two resumes, seconds."""
    next_s: float = 0.0

    @property
    @override
    def code(self) -> int:
        """The exit code: 0 if all tasks are completed."""
        if self.outcomes["refused"] or self.outcomes["not stored"]:
            return EXIT_FAILED
        return EXIT_PAUSED if self.outcomes["paused"] else EXIT_DONE

    @override
    def _outcome(self, store: DynamoDBStore, task: TaskRecord) -> tuple[str, str]:
        table = store.table
        table.sleep(max(0.0, self.next_s - table.monotonic()))
        self.next_s = table.monotonic() + self.interval_s
        try:
            exchange = Exchange(f"resume of {task.task_id}")
            result = resume_stored(self.services, self.workflow, task.owner, task.task_id, exchange)
        except (TaskHeld, TaskFinished, TaskNotFound) as error:
            return "skipped", message_of(error)
        except (ArgumentRefused, *NOT_RESUMED) as error:
            cause = error.error if isinstance(error, TaskUnreadable) else error
            if isinstance(cause, StoreUnavailable):
                raise cause from error
            return "refused", refusal_text(cause, self.workflow, task)
        if not result.stored or result.persisted is not True:
            return "not stored", "its result is not stored: look at the task before you resume it again"
        if result.pause is not None:
            texts = [f"step {pause.step!r}: {pause.type}: {what_happened([pause])[0]}" for pause in result.pauses]
            return "paused", " ".join(texts)
        return ("completed", "") if result.over is None else ("skipped", "another request ended it or took it over")


def why_refused(server: ServerView, task: TaskRecord) -> str | None:
    """Return why this code would refuse to resume a live task; `None` if the task would continue.

    The resume has no new arguments, except for secret ones: the client gives these again. A call in the background has
    no workflow. It would be refused if its tool is gone.

    Raises:
        StoreUnavailable: arguments outside the task's item cannot be read now.
    """
    if task.job is not None:
        tool = task.job.work.tool
        is_known = tool in server.tools or server.workflow_tool(tool) is not None
        return None if is_known else f"the tool {tool!r} is gone"
    workflow = server.workflows.get(task.workflow or "")
    if workflow is None:
        return "its workflow is gone"
    try:
        resumed_input(workflow, task, {}, assumes_secrets=True)
    except StoreUnavailable:
        raise
    except Exception as error:  # noqa: BLE001 - the types of arguments run code of the author
        return refusal_text(error, workflow, task)
    return None


def refusal_text(error: Exception, workflow: Workflow, task: TaskRecord) -> str:
    """Return why a task was not resumed, as a text for the operator."""
    match error:
        case DefinitionChanged(steps=names):
            return "; ".join(_change_text(name, workflow, task) for name in names)
        case ArgumentRefused(problem=problem):
            return problem
        case _:
            return str(error) or type(error).__name__


def _change_text(name: str, workflow: Workflow, task: TaskRecord) -> str:
    change = "its definition changed" if workflow.step(name) else "it was removed"
    return f"step {name!r} is {statuses_of(task)[name].value} and {change}"


def resume_stored(services: Services, workflow: Workflow, owner: str, task_id: str, exchange: Exchange) -> EndedRun:
    """Resume a task in this process, for its owner and without a client.

    Raises:
        ArgumentRefused: an argument is missing or does not convert.
        NotResumed: the task could not be resumed. Nothing was run.
    """
    execution = Execution(
        services=services,
        server=services.server.full_view,
        store=services.store,
        owner=owner,
        claims=MappingProxyType({}),
        envelope=Envelope(Era.STATELESS, STATELESS_REVISIONS[0], {}, {}, None, None),
        # The run's notifications are dropped: the exchange has no stream.
        exchange=exchange,
        base_url=services.settings.base_url or "",
    )
    try:
        return run_workflow(execution, workflow, {}, task_id, ServerHost(execution))
    finally:
        execution.notify()
