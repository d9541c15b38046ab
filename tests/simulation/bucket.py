"""The S3 client of one process: an `ObjectStore`. A fault may hit each of its requests."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcp_baton.exceptions import StoreUnavailable
from mcp_baton.tasks.dynamodb.s3 import ObjectMissing
from tests.simulation.faults import Fault
from tests.simulation.scheduler import current_actor

if TYPE_CHECKING:
    from tests.simulation.world import World

S3_S = 1.0
SILENT = frozenset({Fault.LOST_REQUEST, Fault.LOST_REPLY, Fault.LATE})


@dataclass(frozen=True, slots=True)
class PlainBucket:
    """A bucket without faults."""

    objects: dict[str, bytes]

    def put(self, key: str, data: bytes, digest: bytes) -> None:  # noqa: ARG002 - required by the protocol
        self.objects[key] = data

    def get(self, key: str, most: int) -> bytes:  # noqa: ARG002 - required by the protocol
        if key not in self.objects:
            raise ObjectMissing
        return self.objects[key]


class SimulatedBucket:
    """The bucket of a container. Faults hit its requests."""

    def __init__(self, world: "World") -> None:
        assert world.bucket is not None
        self._plain = PlainBucket(world.bucket)
        self._world = world

    def put(self, key: str, data: bytes, digest: bytes) -> None:
        fault = self._point("PutObject")
        if fault not in {Fault.LOST_REQUEST, Fault.THROTTLED}:
            self._plain.put(key, data, digest)
            self._world.object_times_ms[key] = self._world.scheduler.now_ms
        self._after(fault, "PutObject")

    def get(self, key: str, most: int) -> bytes:
        fault = self._point("GetObject")
        self._after(fault, "GetObject")
        return self._plain.get(key, most)

    def _point(self, operation: str) -> Fault | None:
        world, actor = self._world, current_actor()
        fault = world.weather.next_fault()
        if fault is not None:
            world.processes[actor.process.name].faults.append(fault)
        world.point(actor)
        if fault is Fault.KILLED_BEFORE:
            world.kill(actor, f"killed before {operation}")
        world.note(actor, operation)
        return fault

    def _after(self, fault: Fault | None, operation: str) -> None:
        if fault is Fault.KILLED_AFTER:
            self._world.kill(current_actor(), f"killed after {operation}")
        if fault in SILENT:
            self._world.sleep(S3_S)
        if fault in SILENT or fault in {Fault.THROTTLED, Fault.BROKEN}:
            raise StoreUnavailable(f"{operation}: simulated")
