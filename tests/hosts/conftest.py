"""The eras, and the in-memory database of the servers under test."""

import pytest

from mcp_baton.testing import connecting
from mcp_baton.testing.mcp_client import Era
from tests.memory_dynamodb import memory_database


@pytest.fixture(params=["2025", "2026"])
def era(request: pytest.FixtureRequest) -> Era:
    return "2025" if request.param == "2025" else "2026"


@pytest.fixture(autouse=True)
def _connected_to_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the database in memory: what a model sees does not depend on the engine."""
    monkeypatch.setattr(connecting, "_database", memory_database)
