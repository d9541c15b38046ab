"""What the commands do to one task behind a server."""

from typing import TYPE_CHECKING, Any, cast

import pytest

from mcp_baton import Server
from mcp_baton.cli.remote.ending import Failure
from mcp_baton.cli.remote.served import ServedTasks
from mcp_baton.testing import Client, connect

if TYPE_CHECKING:
    from mcp_baton.cli.remote.client import Remote


class Reached:
    """Sends what the commands send to a server in this process."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def request(self, method: str, params: Any, meta: Any = None) -> Any:
        return self._client.request(method, params, meta)


def test_a_tools_task_is_completed_once_and_says_that_a_client_did_it() -> None:
    server = Server("s")

    @server.tool(task="required")
    def count() -> str:
        return "counted"

    with connect(server, era="2026") as client:
        client.dispatch_fails()  # so that the worker does not come before the client
        task = client.start_task("count").task_id
        tasks = ServedTasks(cast("Remote", Reached(client)))
        state = tasks.complete(task, {"content": [], "by": "hand"})

        assert (state.status, state.result_by, state.result["by"]) == ("completed", "client", "hand")
        assert state.to_json()["resultBy"] == "client"
        with pytest.raises(Failure, match="is completed: nothing changes it"):
            tasks.complete(task, {"by": "hand"})
