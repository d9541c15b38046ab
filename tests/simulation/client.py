"""The DynamoDB client of one process. A fault may hit each attempt of a request."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from mcp_baton import clients
from tests.simulation.dynamodb.database import Database
from tests.simulation.dynamodb.refusals import ConditionFalse, Refusal
from tests.simulation.faults import Fault
from tests.simulation.scheduler import current_actor

if TYPE_CHECKING:
    from tests.simulation.journal import Process
    from tests.simulation.world import World

HTTP_STATUS = {"InternalServerError": 500}
THROTTLES = ("ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded")
RETRYABLE = frozenset({*THROTTLES, "InternalServerError"})
LATE_S = (0.5, 5.0, 20.0)
URL = "https://dynamodb.simulated"


class ConditionalCheckFailedException(ClientError):
    """Stands in for the exception class that botocore generates from the service's model."""


class Exceptions:
    ConditionalCheckFailedException = ConditionalCheckFailedException


@dataclass(slots=True)
class SentRequest:
    """A request as its process sees it.

    Attributes:
        write_numbers: The numbers of the writes that the request made.
        has_outcome: Whether the process has received a response that states the outcome.
    """

    operation: str
    partition: str
    process: "Process"
    began_ms: float
    attempts: int = 0
    has_outcome: bool = False
    write_numbers: list[int] = field(default_factory=list)


@cache
def _operation(method: str) -> str:
    return "".join(map(str.capitalize, method.split("_")))


class PlainClient:
    """A client of the simulated DynamoDB without faults."""

    exceptions = Exceptions

    def __init__(self, database: Database) -> None:
        self.database = database

    def __getattr__(self, method: str) -> Callable[..., dict[str, Any]]:
        """Return a method of botocore's client. `put_item` sends a `PutItem`."""
        operation = _operation(method)
        return lambda **request: self._send(operation, request)

    def _send(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        return self.database.request(operation, request)


class SimulatedClient(PlainClient):
    """The client of a container. A request belongs to the process whose thread sends it."""

    def __init__(self, world: "World") -> None:
        super().__init__(world.database)
        self._world = world
        self._burst_fault: Fault | None = None
        self._burst_left = 0

    def _send(self, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request, with as many attempts as botocore's configuration allows."""
        params = self._world.rewrite_request(operation, params)
        request = self._world.register_request(operation, _partition(params))
        attempts = clients.DYNAMODB_ATTEMPTS
        while True:
            request.attempts += 1
            try:
                answer = self._attempt(operation, params, request)
            except (ReadTimeoutError, EndpointConnectionError):
                if request.attempts >= attempts:
                    raise
            except ClientError as error:
                code = error.response["Error"]["Code"]
                request.has_outcome = request.has_outcome or code not in RETRYABLE
                if request.attempts >= attempts or code not in RETRYABLE:
                    raise
            else:
                request.has_outcome = True
                return answer
            self._world.sleep(self._world.rng.random())

    def _attempt(self, operation: str, params: Mapping[str, Any], request: SentRequest) -> dict[str, Any]:
        world, actor = self._world, current_actor()
        fault = self._next_fault(request)
        if fault is not None:
            world.incidents.add(fault.description)
            request.process.faults.append(fault)
        if fault is Fault.STALLED_BEFORE:
            world.note(actor, "stalls")
            world.stall(actor)
        world.point(actor)
        self._before(fault, operation, params, request)
        answer = self._make(operation, params, request)
        self._after(fault, operation)
        if isinstance(answer, Refusal):
            raise refused(answer, operation)
        return answer

    def _before(self, fault: Fault | None, operation: str, params: Mapping[str, Any], request: SentRequest) -> None:
        world, actor = self._world, current_actor()
        match fault:
            case Fault.KILLED_BEFORE:
                world.kill(actor, f"killed before {operation}")
            case Fault.LOST_REQUEST:
                self._silence(f"{operation} is lost")
            case Fault.LATE:
                world.run_later(actor, world.rng.choice(LATE_S), lambda: self._run_late(operation, params, request))
                self._silence(f"{operation} is on its way")
            case Fault.THROTTLED | Fault.HOT:
                world.note(actor, f"{operation} is throttled")
                raise refused(Refusal(world.rng.choice(THROTTLES), "simulated"), operation)
            case Fault.BROKEN if world.rng.random() < 0.5:
                world.note(actor, f"{operation} fails with 500")
                raise refused(Refusal("InternalServerError", "simulated"), operation)

    def _after(self, fault: Fault | None, operation: str) -> None:
        world, actor = self._world, current_actor()
        match fault:
            case Fault.KILLED_AFTER:
                world.kill(actor, f"killed after {operation}")
            case Fault.STALLED_AFTER:
                world.note(actor, "stalls")
                world.stall(actor)
            case Fault.LOST_REPLY:
                self._silence(f"the reply to {operation} is lost")
            case Fault.BROKEN:
                world.note(actor, f"{operation} fails with 500, and was made")
                raise refused(Refusal("InternalServerError", "simulated"), operation)

    def _make(self, operation: str, params: Mapping[str, Any], request: SentRequest) -> dict[str, Any] | Refusal:
        try:
            return self._world.make_request(operation, params, request)
        except ConditionFalse as refusal:
            self._world.note(request.process.actor, f"{operation} is refused")
            return refusal
        except Refusal as refusal:
            self._world.note(request.process.actor, f"{operation} is refused: {refusal}")
            return refusal

    def _run_late(self, operation: str, params: Mapping[str, Any], request: SentRequest) -> None:
        self._make(operation, params, request)

    def _next_fault(self, request: SentRequest) -> Fault | None:
        if self._burst_left and self._burst_fault is not None and not self._world.weather.is_over:
            self._burst_left -= 1
            return self._burst_fault
        fault = self._world.choose_fault(request)
        repeats = fault in {Fault.LOST_REQUEST, Fault.LOST_REPLY, Fault.THROTTLED, Fault.BROKEN}
        self._burst_fault, self._burst_left = (fault, self._world.weather.burst) if repeats else (None, 0)
        return fault

    def _silence(self, description: str) -> NoReturn:
        self._world.note(current_actor(), description)
        self._world.sleep(clients.READ_TIMEOUT_S)
        raise ReadTimeoutError(endpoint_url=URL)


def _partition(request: Mapping[str, Any]) -> str:
    key = request.get("Key") or request.get("Item")
    if key is not None:
        return str(key["pk"]["S"])
    values = request["ExpressionAttributeValues"]
    return str(next(values[name] for name in (":owner", ":pk", ":list") if name in values)["S"])


def refused(refusal: Refusal, operation: str) -> ClientError:
    response: Any = {
        "Error": {"Code": refusal.code, "Message": refusal.message},
        "ResponseMetadata": {"HTTPStatusCode": HTTP_STATUS.get(refusal.code, 400)},
    }
    if refusal.item is not None:
        response["Item"] = refusal.item
    kind: Callable[[Any, str], ClientError] = (
        ConditionalCheckFailedException if isinstance(refusal, ConditionFalse) else ClientError
    )
    return kind(response, operation)
