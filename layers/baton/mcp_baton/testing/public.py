"""The public names of `mcp_baton.testing` (docs/testing.md)."""

from mcp_baton.testing.answers import Unanswered
from mcp_baton.testing.async_client import AsyncClient, AsyncStartedTask
from mcp_baton.testing.client import Client, StartedTask
from mcp_baton.testing.connecting import aconnect, connect
from mcp_baton.testing.fixture_type import Connect
from mcp_baton.testing.function import Kill, Killed
from mcp_baton.testing.mcp_client import Era, JsonRpcError
from mcp_baton.testing.results import Contents, Message, Pause, Result, Run, Task, TaskState
from mcp_baton.testing.workers import WaitingEvent, WorkerRun, Workers

__all__ = [
    "AsyncClient",
    "AsyncStartedTask",
    "Client",
    "Connect",
    "Contents",
    "Era",
    "JsonRpcError",
    "Kill",
    "Killed",
    "Message",
    "Pause",
    "Result",
    "Run",
    "StartedTask",
    "Task",
    "TaskState",
    "Unanswered",
    "WaitingEvent",
    "WorkerRun",
    "Workers",
    "aconnect",
    "connect",
]
