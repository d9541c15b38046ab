"""A process that completes steps. test_races.py starts it and sends it orders as lines of JSON."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from mcp_baton.local.dynamodb import http_client
from mcp_baton.stores import DynamoDBStore
from mcp_baton.tasks.dynamodb.table import LazyClient, TaskTable
from mcp_baton.tasks.record import StepStatus, TaskRecord
from mcp_baton.tasks.store import Batch, StepWrite


def complete(store: DynamoDBStore, task: TaskRecord, step: int) -> None:
    """Complete one step that no other process writes."""
    write = StepWrite(step, f"s{step}", StepStatus.PENDING, StepStatus.COMPLETED, {"by": step})
    store.write(task, Batch(steps=(write,)))


def main(url: str) -> None:
    """Read orders from standard input. For each line, complete its steps at the same time and print `written`."""
    client = http_client(url)
    store = DynamoDBStore(TaskTable("tasks", LazyClient(lambda: client)))
    with ThreadPoolExecutor(4) as threads:
        for line in sys.stdin:
            order = json.loads(line)
            task = store.get(order["owner"], order["task_id"])
            list(threads.map(partial(complete, store, task), order["steps"]))
            sys.stdout.write("written\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
