"""Which stored tasks of all owners would continue under this code (docs/commands.md, Check stored tasks)."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from mcp_baton.cli.remote.table import Scan
from mcp_baton.exceptions import StoreError, StoreUnavailable
from mcp_baton.stores import DynamoDBStore
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.items import owner_of, task_id_of
from mcp_baton.tasks.dynamodb.listing import live_tasks
from mcp_baton.tasks.record import TaskRecord, statuses_of
from mcp_baton.tools.schema.prompt_arguments import ArgumentRefused
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.refusals import DefinitionChanged
from mcp_baton.workflow.runs import resumed_values
from mcp_baton.workflow.server_view import ServerView

WOULD_CONTINUE, WOULD_BE_REFUSED = "continue", "would be refused"
KEEP_DEFINITIONS = "Keep these definitions, or complete or cancel these tasks before the deployment."


@dataclass
class Verdicts:
    """How many stored tasks have each outcome, and those that would be refused (`problems`). `is_complete` is whether
    the table was read to its end, `units` are the read units that DynamoDB has charged."""

    server: ServerView
    outcomes: dict[str, int] = field(default_factory=lambda: {WOULD_CONTINUE: 0, WOULD_BE_REFUSED: 0})
    problems: list[dict[str, str]] = field(default_factory=list)
    is_complete: bool = False
    units: float = 0.0

    def read(self, store: DynamoDBStore, read_units: float) -> None:
        """Read all tasks that have not ended, and note the outcome of each. Raises `StoreError` if the table cannot be
        read. The outcomes of the tasks before are kept."""
        with Scan(store.table, live_tasks(store.now_ms()), read_units) as scan:
            for item in scan.items():
                self._read(store, item)
                self.units = scan.units
                scan.describe(self._counts())
        self.is_complete = True

    def _read(self, store: DynamoDBStore, item: Item) -> None:
        target, owner = "a task", owner_of(item)
        try:
            task = store.record(owner, item)
            target = task.workflow or (task.job.work.tool if task.job else target)
            reason = why_refused(self.server, task)
        except StoreUnavailable:
            raise
        except StoreError as error:
            reason = str(error)
        outcome = WOULD_CONTINUE if reason is None else WOULD_BE_REFUSED
        self.outcomes[outcome] += 1
        if reason is not None:
            problem = {"task": task_id_of(item), "owner": owner, "what": target, "outcome": outcome, "why": reason}
            self.problems.append(problem)

    def to_json(self) -> dict[str, Any]:
        return {
            "tasks": sum(self.outcomes.values()),
            "outcomes": self.outcomes,
            "problems": self.problems,
            "whole": self.is_complete,
            "readUnits": self.units,
        }

    def _counts(self) -> str:
        count = sum(self.outcomes.values())
        tasks = f"{count} {'task' if count == 1 else 'tasks'}{'' if self.is_complete else ' so far'}"
        return f"{tasks}: {', '.join(f'{number} {outcome}' for outcome, number in self.outcomes.items())}"

    def __str__(self) -> str:
        """The counts, and one line for each reason, with the first task that has it."""
        by_reason = defaultdict[tuple[str, str], list[str]](list)
        for problem in self.problems:
            by_reason[problem["what"], problem["why"]].append(problem["task"])
        lines = []
        for (target, reason), (first, *others) in by_reason.items():
            more = f" and {len(others)} more" if others else ""
            lines.append(f"{target} {first}{more}: {reason}")
        if not lines:
            return self._counts()
        return f"{self._counts()}:{' ' if len(lines) == 1 else '\n  '}{'\n  '.join(lines)}\n{KEEP_DEFINITIONS}"


def why_refused(server: ServerView, task: TaskRecord) -> str | None:
    """Return why this code would refuse to resume a live task; `None` if the task would continue.

    The resume has no new arguments, except for secret ones: the client gives these again. A call in the background is
    refused if its tool is gone. Raises `StoreUnavailable` if arguments outside the task's item cannot be read now.
    """
    if task.job is not None:
        tool = task.job.work.tool
        is_known = tool in server.tools or server.workflow_tool(tool) is not None
        return None if is_known else f"the tool {tool!r} is gone"
    workflow = server.workflows.get(task.workflow or "")
    if workflow is None:
        return "its workflow is gone"
    try:
        resumed_values(workflow, task, {}, assumes_secrets=True)
    except StoreUnavailable:
        raise
    except DefinitionChanged as error:
        return "; ".join(_change_text(name, workflow, task) for name in error.steps)
    except ArgumentRefused as error:
        return error.problem
    except Exception as error:  # noqa: BLE001 - the types of arguments run code of the author
        return str(error) or type(error).__name__
    return None


def _change_text(name: str, workflow: Workflow, task: TaskRecord) -> str:
    change = "its definition changed" if workflow.step(name) else "it was removed"
    return f"step {name!r} is {statuses_of(task)[name].value} and {change}"
