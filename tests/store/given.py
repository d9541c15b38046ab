"""What the fixtures give, and on which engines a test runs.

Without a mark it runs on the DynamoDB in memory that other tests run over, on the embedded one of `baton serve`, and on
Amazon's DynamoDB Local. MiniStack stands in for the last where a machine cannot have it.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from mcp_baton.tasks.dynamodb.store import DynamoDBTaskStore
from mcp_baton.tasks.record import Claim, TaskRecord

type Store = DynamoDBTaskStore
type Stores = Callable[..., DynamoDBTaskStore]
type Begin = Callable[..., TaskRecord]
type HeldJob = Callable[..., tuple[TaskRecord, Claim]]
type MakeClaim = Callable[[str], Claim]
type Threads = ThreadPoolExecutor
type Rounds = Callable[[int], range]


def on(*engines: str) -> pytest.MarkDecorator:
    """Runs a test on these engines only."""
    return pytest.mark.parametrize("engine", engines, indirect=True)


ON_MEMORY = on("memory")
"""For what the store decides by itself: the engine has no say in it."""
BUT_EMBEDDED = on("memory", "dynamodb_local")
"""For what takes long on the embedded engine, which is asked the same in less."""
OVER_S3 = on("memory", "ministack")
"""For values in a bucket: S3 is moto's, and then MiniStack's over HTTP."""
