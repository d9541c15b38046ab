"""Types of the fixtures, and marks that select a test's engines.

Without a mark, a test runs on the in-memory DynamoDB that other tests use, on moto, which `baton serve` embeds, and on
DynamoDB Local, or on MiniStack if the machine cannot run DynamoDB Local.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from mcp_baton.stores import DynamoDBStore
from mcp_baton.tasks.record import Claim, TaskRecord

type Store = DynamoDBStore
type Stores = Callable[..., DynamoDBStore]
type Begin = Callable[..., TaskRecord]
type HeldJob = Callable[..., tuple[TaskRecord, Claim]]
type MakeClaim = Callable[[str], Claim]
type Threads = ThreadPoolExecutor
type Rounds = Callable[[int], range]


def run_on(*engines: str) -> pytest.MarkDecorator:
    """Run a test on these engines only."""
    return pytest.mark.parametrize("engine", engines, indirect=True)


ON_MEMORY = run_on("memory")
"""For rules that do not depend on the engine."""
NOT_ON_MOTO = run_on("memory", "dynamodb_local")
"""For tests that are slow on moto."""
