"""Counts the billed units of requests to DynamoDB, with event handlers of the boto3 client.

DynamoDB returns the units if `ReturnConsumedCapacity` is set. For an engine that does not, they are computed from the
sizes of the items by DynamoDB's rules
(https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html).
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil
from threading import Lock, local
from time import process_time, thread_time
from typing import TYPE_CHECKING, Any

from mcp_baton.tasks.dynamodb.values import item_size

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

WRITE_BYTES, READ_BYTES = 1_024, 4_096
WRITES, READS = ("PutItem", "UpdateItem", "DeleteItem"), ("GetItem", "Query")
CONDITION_FAILED = "ConditionalCheckFailedException"


type Units = tuple[float, float]
"""Write units and read units."""


class Unmetered(Exception):
    """The meter does not support this kind of request. Without it, the numbers would be too low."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The resources that some work has used.

    Attributes:
        writes: DynamoDB's write units, of 1 KB.
        reads: DynamoDB's read units, of 4 KB.
        requests: The number of requests to DynamoDB.
        keys: The write and read units of each partition key, without those of queries.
        cpu_s: The CPU time of the process, without that of the emulator of DynamoDB.
        http: The number of requests of the client.
    """

    writes: float = 0
    reads: float = 0
    requests: int = 0
    keys: Mapping[str, "Units"] = field(default_factory=dict)
    cpu_s: float = 0
    http: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.writes + other.writes,
            self.reads + other.reads,
            self.requests + other.requests,
            {key: _sum(self.keys.get(key), other.keys.get(key)) for key in {**self.keys, **other.keys}},
            self.cpu_s + other.cpu_s,
            self.http + other.http,
        )


class EmulatorTime:
    """Measures the CPU time of the emulator, which does not belong to the handler."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._lock = Lock()
        self._thread = local()

    def begin(self) -> None:
        """Begin an emulated part in this thread. Parts may be nested."""
        depth = getattr(self._thread, "depth", 0)
        self._thread.depth = depth + 1
        if depth == 0:
            self._thread.start_s = thread_time()

    def end(self) -> None:
        """End the innermost part."""
        self._thread.depth -= 1
        if self._thread.depth == 0:
            with self._lock:
                self.seconds += thread_time() - self._thread.start_s

    @contextmanager
    def __call__(self) -> Iterator[None]:
        self.begin()
        try:
            yield
        finally:
            self.end()


class Meter:
    """Counts the cost of the requests of a client.

    Args:
        dynamodb: The handler's DynamoDB client.
        emulator_time: The CPU time of the emulator.
        reader: Another client of the same DynamoDB, which reads items if the engine does not return units.
    """

    def __init__(
        self,
        dynamodb: "DynamoDBClient",
        emulator_time: EmulatorTime,
        reader: "DynamoDBClient | None" = None,
    ) -> None:
        self._emulator_time, self._reader = emulator_time, reader
        self._lock = Lock()
        self._usage = Usage()
        # Registered first, because a handler of Baton's own client for the same event encodes the request.
        dynamodb.meta.events.register_first("provide-client-params.dynamodb", self._before_call)
        dynamodb.meta.events.register("after-call.dynamodb", self._after_call)

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count one request of the client, with the CPU time of the block."""
        start_s, emulator_start_s = process_time(), self._emulator_time.seconds
        yield
        self._count(Usage(cpu_s=process_time() - start_s - (self._emulator_time.seconds - emulator_start_s), http=1))

    def take(self) -> Usage:
        """Return the usage since the last call."""
        with self._lock:
            usage, self._usage = self._usage, Usage()
        return usage

    def _count(self, usage: Usage) -> None:
        with self._lock:
            self._usage += usage

    def _before_call(self, params: dict[str, Any], model: Any, context: dict[str, Any], **_: object) -> None:
        with self._emulator_time():
            operation = model.name
            if operation not in (*WRITES, *READS):
                raise Unmetered(operation)
            context["meter_params"] = params
            context["size_before"] = self._item_bytes(params) if operation in WRITES else 0
            if self._reader is None:
                # The parameters are changed in place: botocore uses only the first value that a handler returns.
                params["ReturnConsumedCapacity"] = "TOTAL"

    def _after_call(self, parsed: dict[str, Any], model: Any, context: dict[str, Any], **_: object) -> None:
        with self._emulator_time():
            operation, params = model.name, context["meter_params"]
            units = self._units(operation, params, context["size_before"], parsed)
            key = params.get("Key") or params.get("Item")
            writes, reads = (0.0, units) if operation in READS else (units, 0.0)
            keys = {key["pk"]["S"]: (writes, reads)} if key else {}
            self._count(Usage(writes, reads, requests=1, keys=keys))

    def _units(self, operation: str, params: dict[str, Any], size_before: int, parsed: dict[str, Any]) -> float:
        if "Error" in parsed:
            # DynamoDB bills a failed condition like the write, but its response has no units.
            is_condition_failed = parsed["Error"]["Code"] == CONDITION_FAILED
            return _write_units(max(size_before, item_size(parsed.get("Item", {})))) if is_condition_failed else 0
        if self._reader is None:
            units: float = parsed["ConsumedCapacity"]["CapacityUnits"]
            return units
        if operation in WRITES:
            return _write_units(max(size_before, self._item_bytes(params)))
        share = 1.0 if params.get("ConsistentRead") else 0.5
        return share * max(1, ceil(self._read_bytes(operation, params) / READ_BYTES))

    def _item_bytes(self, params: Mapping[str, Any]) -> int:
        """Return the current size of the item that a request names."""
        if self._reader is None:
            return 0
        key = params.get("Key") or {name: params["Item"][name] for name in ("pk", "sk")}
        return item_size(self._reader.get_item(TableName=params["TableName"], Key=key).get("Item", {}))

    def _read_bytes(self, operation: str, params: dict[str, Any]) -> int:
        """Return the size of all items that a read evaluates: whole items, whatever the response contains."""
        if operation == "GetItem" or self._reader is None:
            return self._item_bytes(params)
        # A filter or a projection shortens the response but does not reduce its price.
        query = {
            name: value for name, value in params.items() if name not in ("ProjectionExpression", "FilterExpression")
        }
        for parameter in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
            names = params.get(parameter, {})
            used_names = {name: names[name] for name in names if _mentions(name, params["KeyConditionExpression"])}
            query.pop(parameter, None)
            if used_names:
                query[parameter] = used_names
        return sum(item_size(item) for item in self._reader.query(**query)["Items"])


def _sum(first: "Units | None", second: "Units | None") -> "Units":
    (writes, reads), (more_writes, more_reads) = first or (0, 0), second or (0, 0)
    return writes + more_writes, reads + more_reads


def _mentions(name: str, expression: str) -> bool:
    return re.search(rf"{re.escape(name)}\b", expression) is not None


def _write_units(size: int) -> int:
    return max(1, ceil(size / WRITE_BYTES))
