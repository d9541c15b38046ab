"""The addresses of callbacks in the table (ARCHITECTURE.md, Items)."""

import pytest

from mcp_baton.exceptions import StoreError
from mcp_baton.tasks.store import CallbackTarget
from tests.store.conftest import Clock
from tests.store.fixture_types import Store


def test_an_address_belongs_to_its_step_until_it_expires(store: Store, owner: str, clock: Clock) -> None:
    digest, until_ms = f"of-{owner}", clock.ms + 60_000
    pointers = {
        digest: CallbackTarget(f"{owner} é\ud800", "task-1", "signed"),
        f"{digest}-job": CallbackTarget(owner, "task-2", "signed", "job-1"),
    }
    for key, pointer in pointers.items():
        store.callbacks.add(key, pointer, until_ms)
        assert store.callbacks.find(key) == pointer
    assert store.callbacks.find(f"{digest}-other") is None
    clock.ms = until_ms + 1_000
    assert [store.callbacks.find(key) for key in pointers] == [None, None]


def test_a_token_belongs_to_one_step(store: Store, owner: str, clock: Clock) -> None:
    pointer = CallbackTarget(owner, "task-1", "signed")
    store.callbacks.add(f"of-{owner}", pointer, clock.ms + 60_000)
    with pytest.raises(StoreError, match="the callback's token is taken"):
        store.callbacks.add(f"of-{owner}", CallbackTarget("mallory", "task-1", "signed"), clock.ms + 60_000)
    assert store.callbacks.find(f"of-{owner}") == pointer
