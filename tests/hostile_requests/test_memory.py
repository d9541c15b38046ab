"""Memory for large hostile bodies: it is at most a fixed multiple of their size, and it is released."""

import gc
import json
import tracemalloc
from collections.abc import Iterator

import pytest

from tests.hostile_requests.conftest import MAX_BODY_BYTES
from tests.hostile_requests.wire import HostileClient

PEAK = 60
"""The maximum multiple of the body limit. Python needs 24 for the densest JSON (`[{},{},…]`), and the body is kept as
text and as bytes."""

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
LARGE = {
    "lists": "[" + "[]," * 60_000 + "[]]",
    "objects": "[" + "{}," * 60_000 + "{}]",
    "numbers": "[" + "1," * 90_000 + "1]",
    "floats": "[" + "1.5," * 45_000 + "1]",
    "levels": "[" * 190_000,
    "keys": json.dumps({str(number): number for number in range(12_000)}),
    "pings": json.dumps([PING] * 3_500),
    "escapes": '"' + "\\ud800" * 30_000 + '"',
    "a name": json.dumps({**PING, "method": "x" * 190_000}),
    "an id": json.dumps({**PING, "id": "💥" * 15_000}),
    "a tool's arguments": json.dumps(
        {**PING, "method": "tools/call", "params": {"name": "order", "arguments": {"lines": [{}] * 40_000}}}
    ),
    "unknown arguments": json.dumps(
        {
            **PING,
            "method": "tools/call",
            "params": {"name": "echo", "arguments": {f"{number}": 1 for number in range(10_000)}},
        }
    ),
}


@pytest.fixture
def _traced_no_longer() -> Iterator[None]:
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("_traced_no_longer")
@pytest.mark.parametrize("body", LARGE.values(), ids=LARGE)
def test_the_memory_for_a_large_body_is_bounded_and_released(hostile: HostileClient, body: str) -> None:
    assert len(body) <= MAX_BODY_BYTES
    # The first request loads and caches data, so it is not measured. Tracing makes a request three times slower.
    hostile.post(body)
    gc.collect()
    tracemalloc.start()
    for _ in range(2):
        hostile.post(body)
    _, peak_bytes = tracemalloc.get_traced_memory()
    gc.collect()
    remaining_bytes, _ = tracemalloc.get_traced_memory()
    assert peak_bytes < PEAK * MAX_BODY_BYTES
    assert remaining_bytes < MAX_BODY_BYTES
