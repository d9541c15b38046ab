"""State keys in Secrets Manager: they are read when they are needed, and again when they may have been rotated."""

import logging
from typing import Any

import pytest

from mcp_baton.protocol.jsonrpc import INTERNAL_ERROR
from mcp_baton.protocol.state import ForgedState, KeyUnavailable, Seal, binding_of
from mcp_baton.state_keys import MAX_AGE_S, MIN_READ_INTERVAL_S, SecretKeys
from mcp_baton.telemetry import INTERNAL_ERRORS, Collector
from tests.fakes import Pauses
from tests.vault import Vault, new_vault

FIRST, SECOND, THIRD = "1" * 32, "2" * 32, "3" * 32
BINDING, NOW_S = binding_of("kim", "tools/call", "ask", {}), 1_000_000


@pytest.fixture
def clock() -> Pauses:
    return Pauses()


@pytest.fixture
def vault() -> Vault:
    """A secret that was never rotated."""
    return new_vault(FIRST)


def keys_in(vault: Vault, clock: Pauses, collector: Collector | None = None) -> SecretKeys:
    """Return the keys as a new process reads them."""
    return SecretKeys(vault.arn, lambda: vault.client, telemetry=collector or Collector(), clock=clock.monotonic)


def sealed(keys: SecretKeys, answer: str = "yes") -> str:
    return Seal(keys).seal({"name": answer}, BINDING, NOW_S)


def opened(keys: SecretKeys, state: str) -> Any:
    return Seal(keys).open(state, BINDING, NOW_S)


def test_keys_are_read_once_when_they_are_first_needed(vault: Vault, clock: Pauses) -> None:
    keys = keys_in(vault, clock)
    assert vault.take() == []

    state = sealed(keys)
    for _ in range(3):
        assert opened(keys, state) == {"name": "yes"}

    assert vault.take() == ["AWSCURRENT"]


def test_a_state_of_the_previous_key_is_accepted_but_not_an_older_one(vault: Vault, clock: Pauses) -> None:
    oldest = sealed(keys_in(vault, clock))
    vault.put(SECOND)
    old = sealed(keys_in(vault, clock))
    vault.put(THIRD)
    keys = keys_in(vault, clock)

    assert opened(keys, old) == {"name": "yes"}
    assert opened(keys, sealed(keys)) == {"name": "yes"}
    with pytest.raises(ForgedState, match="signature"):
        opened(keys, oldest)


def test_a_process_with_the_old_key_reads_the_new_one_to_check_a_signature(vault: Vault, clock: Pauses) -> None:
    keys = keys_in(vault, clock)
    sealed(keys)
    vault.put(SECOND)
    state = sealed(keys_in(vault, clock))
    vault.take()

    assert opened(keys, state) == {"name": "yes"}
    assert vault.take() == ["AWSCURRENT", "AWSPREVIOUS"]
    assert sealed(keys) == state


def test_a_key_is_read_again_after_its_maximum_age(vault: Vault, clock: Pauses) -> None:
    keys = keys_in(vault, clock)
    old = sealed(keys)
    vault.put(SECOND)
    clock.s = MAX_AGE_S - 1
    assert sealed(keys) == old
    clock.s = MAX_AGE_S + 1

    assert sealed(keys) != old
    assert opened(keys, old) == {"name": "yes"}


def test_forged_states_cannot_cause_frequent_reads(vault: Vault, clock: Pauses) -> None:
    keys = keys_in(vault, clock)
    forged = Seal(lambda: (b"f" * 32,)).seal({}, BINDING, NOW_S)

    def refused(times: int) -> list[str]:
        for _ in range(times):
            with pytest.raises(ForgedState):
                opened(keys, forged)
        return vault.take()

    assert refused(5) == ["AWSCURRENT", "AWSCURRENT", "AWSPREVIOUS"]
    clock.s = MIN_READ_INTERVAL_S - 1
    assert refused(5) == []
    clock.s = MIN_READ_INTERVAL_S
    assert refused(5) == ["AWSCURRENT", "AWSPREVIOUS"]


def test_a_failed_read_of_the_secret_is_logged_counted_and_tried_again_later(
    vault: Vault, clock: Pauses, caplog: pytest.LogCaptureFixture
) -> None:
    collector = Collector()
    keys = keys_in(vault, clock, collector)
    with vault.hushed():
        for clock.s in (0, MIN_READ_INTERVAL_S):
            with pytest.raises(KeyUnavailable, match="send the request again") as caught:
                sealed(keys)
            assert caught.value.code == INTERNAL_ERROR
    [first, _] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert vault.arn in first.getMessage()
    assert first.exc_info
    assert [(note.metric, note.value) for note in collector.take().measurements] == [(INTERNAL_ERRORS, 1)] * 2

    clock.s = 2 * MIN_READ_INTERVAL_S
    assert opened(keys, sealed(keys)) == {"name": "yes"}


def test_after_a_failed_read_not_every_request_reads_the_secret(vault: Vault, clock: Pauses) -> None:
    keys = keys_in(vault, clock)
    with vault.hushed():
        for _ in range(20):
            with pytest.raises(KeyUnavailable):
                sealed(keys)

    assert vault.take() == ["AWSCURRENT"]


def test_known_keys_are_used_for_ten_more_minutes_if_the_secret_cannot_be_read(vault: Vault, clock: Pauses) -> None:
    oldest = sealed(keys_in(vault, clock))
    vault.put(SECOND)
    keys = keys_in(vault, clock)
    state = sealed(keys)
    assert opened(keys, oldest) == {"name": "yes"}

    with vault.hushed():
        clock.s = MAX_AGE_S + 599
        assert sealed(keys) == state
        assert [opened(keys, known) for known in (state, oldest)] == [{"name": "yes"}] * 2
        clock.s = MAX_AGE_S + 600
        for _ in range(2):
            with pytest.raises(KeyUnavailable):
                sealed(keys)
        with pytest.raises(KeyUnavailable):
            opened(keys, state)
    clock.s += MIN_READ_INTERVAL_S
    assert sealed(keys) == state


def test_a_signature_that_cannot_be_checked_is_not_reported_as_forged(vault: Vault, clock: Pauses) -> None:
    keys = keys_in(vault, clock)
    old = sealed(keys_in(vault, clock))
    vault.put(SECOND)
    sealed(keys)
    with vault.hushed(), pytest.raises(KeyUnavailable):
        opened(keys, old)

    clock.s = MIN_READ_INTERVAL_S
    assert opened(keys, old) == {"name": "yes"}


@pytest.mark.parametrize("value", ["k" * 31, b"k" * 31])
def test_a_key_that_is_too_short_is_refused_and_logged(
    value: str | bytes, clock: Pauses, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(KeyUnavailable):
        sealed(keys_in(new_vault(value), clock))

    assert "32 characters or more" in caplog.text


def test_a_binary_secret_is_a_valid_key(clock: Pauses) -> None:
    keys = keys_in(new_vault(bytes(range(32))), clock)

    assert opened(keys, sealed(keys)) == {"name": "yes"}
