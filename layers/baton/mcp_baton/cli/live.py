"""`baton check --live`: which stored tasks would continue under this code (docs/commands.md, Check stored tasks)."""

from dataclasses import dataclass, field
from typing import Any

from mcp_baton.cli.remote.table_scan import Scan
from mcp_baton.exceptions import StoreError
from mcp_baton.server.view import ServerView
from mcp_baton.server.workflows.stored_tasks import why_refused
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.items import owner_of, task_id_of
from mcp_baton.tasks.dynamodb.listing import live_tasks
from mcp_baton.tasks.dynamodb.store import DynamoDBTaskStore

REMEDY = "Keep these definitions, or complete or cancel these tasks before the deployment."


@dataclass(slots=True)
class Verdicts:
    """The verdicts on the stored tasks.

    Attributes:
        after: The position behind the tasks that were judged, if the table was not read to its end.
        whole: Whether the table was read to its end.
        units: The read units that DynamoDB has charged.
    """

    server: ServerView
    tasks: int = 0
    refused: list[dict[str, str]] = field(default_factory=list)
    after: str | None = None
    whole: bool = False
    units: float = 0.0

    def check(self, store: DynamoDBTaskStore, after: str | None, read_units: float) -> None:
        """Read all tasks, and judge those that have not ended.

        Raises:
            StoreError: the table cannot be read. The verdicts on the tasks before are kept.
        """
        with Scan(store.table, live_tasks(store.now_ms()), read_units, after) as scan:
            try:
                for item in scan.items():
                    self._judge(store, item)
                self.whole = True
            finally:
                self.after, self.units = scan.token, scan.units

    def _judge(self, store: DynamoDBTaskStore, item: Item) -> None:
        owner, what = owner_of(item), "a task"
        try:
            task = store.record(owner, item)
            what = task.workflow or (task.job.work.tool if task.job else what)
            why = why_refused(self.server, task)
        except StoreError as damaged:
            why = str(damaged)
        self.tasks += 1
        if why is not None:
            self.refused.append({"task": task_id_of(item), "owner": owner, "what": what, "why": why})

    def to_json(self) -> dict[str, Any]:
        return {
            "tasks": self.tasks,
            "continue": self.tasks - len(self.refused),
            "refused": self.refused,
            "whole": self.whole,
            "after": self.after,
            "readUnits": self.units,
        }

    def __str__(self) -> str:
        """The counts, and one line for each reason, with the first task that has it."""
        tasks = f"{self.tasks} {'task' if self.tasks == 1 else 'tasks'}{'' if self.whole else ' so far'}"
        counts = f"{tasks}: {self.tasks - len(self.refused)} continue, {len(self.refused)} would be refused"
        by_reason: dict[tuple[str, str], list[str]] = {}
        for refused in self.refused:
            by_reason.setdefault((refused["what"], refused["why"]), []).append(refused["task"])
        lines = [f"{what} {_first(ids)}: {why}" for (what, why), ids in by_reason.items()]
        if not lines:
            return counts
        return (
            f"{counts}: {lines[0]}\n{REMEDY}"
            if len(lines) == 1
            else "\n  ".join([f"{counts}:", *lines]) + f"\n{REMEDY}"
        )


def _first(ids: list[str]) -> str:
    return ids[0] if len(ids) == 1 else f"{ids[0]} and {len(ids) - 1} more"
