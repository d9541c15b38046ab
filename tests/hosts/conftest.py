"""The eras, and the table behind a server under test for what only an operator can do."""

import pytest

from mcp_baton.local.dynamodb import embedded_client
from mcp_baton.testing import connecting
from mcp_baton.testing.connecting import TABLE
from mcp_baton.testing.wire import Era
from tests.e2e.support import Table


@pytest.fixture(params=["2025", "2026"])
def era(request: pytest.FixtureRequest) -> Era:
    """Each era in turn."""
    return "2025" if request.param == "2025" else "2026"


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> list[Table]:
    """The table of each client that the test connects, from here on."""
    made: list[Table] = []

    def kept() -> object:
        client = embedded_client()
        made.append(Table(client, TABLE))
        return client

    monkeypatch.setattr(connecting, "embedded_client", kept)
    return made
