"""Lambda's queue of asynchronous invocations: events are taken or not, lost, doubled, late, and delivered again.

AWS Lambda Developer Guide, "How Lambda handles errors and retries with asynchronous invocation".
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcp_baton.exceptions import NotDispatched
from mcp_baton.protocol.json import JsonObject
from tests.simulation.faults import Fault
from tests.simulation.scheduler import here

if TYPE_CHECKING:
    from tests.simulation.jobs.world import JobWorld

AGAIN_AFTER_S = (60.0, 120.0)
"""How long Lambda waits before it delivers an event again whose invocation failed."""

LATE_S = (0.0, 0.0, 0.05, 1.0, 20.0, 46.0, 100.0, 400.0)
SILENCE_S = 1.0


@dataclass(slots=True)
class Queue:
    """The queue: a `Dispatcher`.

    Attributes:
        world: The simulation.
    """

    world: "JobWorld"

    def dispatch(self, event: JsonObject) -> None:
        """Hand an event over.

        Raises:
            NotDispatched: it was not taken, or that is not known.
        """
        world, actor = self.world, here()
        fault = world.weather.strikes()
        if fault is not None:
            world.processes[actor.process.name].faults.append(fault)
            world.struck.add(f"as an event was sent: {fault.reported}")
        if fault is Fault.STALLED_BEFORE:
            world.stall(actor)
        world.point(actor)
        if fault is Fault.KILLED_BEFORE:
            world.kill(actor, "killed before its event is sent")
        if fault in {Fault.LOST_REQUEST, Fault.THROTTLED}:
            world.note(actor, f"{event} is not taken")
            world.sleep(SILENCE_S)
            raise NotDispatched("simulated")
        world.note(actor, f"sends {event}")
        world.deliver(event)
        if fault is Fault.KILLED_AFTER:
            world.kill(actor, "killed after its event was sent")
        if fault is Fault.STALLED_AFTER:
            world.stall(actor)
        if fault in {Fault.LOST_REPLY, Fault.LATE, Fault.BROKEN}:
            world.sleep(SILENCE_S)
            raise NotDispatched("simulated, and it was taken")
