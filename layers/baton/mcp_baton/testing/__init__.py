"""For the tests of those who write tools and workflows: a client of a server, in this process (docs/testing.md).

```python
from mcp_baton.testing import connect

with connect(server) as client:
    run = client.get_prompt("refund_order", {"order_id": "A-17"})
```

Each name is imported when it is first used: pytest loads the plugin, and with it this module, wherever Baton is
installed.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp_baton.testing.answers import Unanswered
    from mcp_baton.testing.async_client import AsyncClient, AsyncStartedTask
    from mcp_baton.testing.client import Client
    from mcp_baton.testing.connecting import aconnect, connect
    from mcp_baton.testing.invocations import Kill, Killed
    from mcp_baton.testing.plugin import Connect
    from mcp_baton.testing.results import Contents, Message, Pause, Result, Run, Task, TaskState
    from mcp_baton.testing.started import StartedTask
    from mcp_baton.testing.wire import Era, JsonRpcError
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

_HOMES = {
    "answers": ("Unanswered",),
    "async_client": (
        "AsyncClient",
        "AsyncStartedTask",
    ),
    "client": ("Client",),
    "connecting": (
        "aconnect",
        "connect",
    ),
    "invocations": (
        "Kill",
        "Killed",
    ),
    "results": (
        "Pause",
        "Contents",
        "Message",
        "Result",
        "Run",
        "Task",
        "TaskState",
    ),
    "plugin": ("Connect",),
    "started": ("StartedTask",),
    "wire": (
        "Era",
        "JsonRpcError",
    ),
    "workers": (
        "WaitingEvent",
        "WorkerRun",
        "Workers",
    ),
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
