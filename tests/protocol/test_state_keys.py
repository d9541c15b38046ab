"""State keys in Secrets Manager: they are read when they are needed, and again when they may have been rotated."""

import logging
from typing import Any

import pytest

from mcp_baton.protocol.jsonrpc import INTERNAL_ERROR
from mcp_baton.protocol.state import ForgedState, KeyUnavailable, Seal, binding_of
from mcp_baton.state_keys import MAX_KEY_AGE_S, MIN_READ_INTERVAL_S, SecretKeys
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


def seal(keys: SecretKeys, answer: str = "yes") -> str:
    return Seal(keys).seal({"name": answer}, BINDING, NOW_S)


def open_state(keys: SecretKeys, state: str) -> Any:
    return Seal(keys).open(state, BINDING, NOW_S)


def test_keys_are_read_once_when_they_are_first_needed(vault: Vault, clock: Pauses) -> None:
    keys = keys_in(vault, clock)
    assert vault.take() == []

    state = seal(keys)
    for _ in range(3):
        assert open_state(keys, state) == {"name": "yes"}

    assert vault.take() == ["AWSCURRENT"]


def test_a_state_of_the_previous_key_is_accepted_but_not_an_older_one(vault: Vault, clock: Pauses) -> None:
    oldest_state = seal(keys_in(vault, clock))
    vault.put(SECOND)
    old_state = seal(keys_in(vault, clock))
    vault.put(THIRD)
    keys = keys_in(vault, clock)

    assert open_state(keys, old_state) == {"name": "yes"}
    assert open_state(keys, seal(keys)) == {"name": "yes"}
    with pytest.raises(ForgedState, match="signature"):
        open_state(keys, oldest_state)


def test_a_process_with_the_old_key_reads_the_new_one_to_check_a_signature(vault: Vault, clock: Pauses) -> None:
    keys = keys_in(vault, clock)
    seal(keys)
    vault.put(SECOND)
    state = seal(keys_in(vault, clock))
    vault.take()

    assert open_state(keys, state) == {"name": "yes"}
    assert vault.take() == ["AWSCURRENT", "AWSPREVIOUS"]
    assert seal(keys) == state


def test_a_key_is_read_again_after_its_maximum_age(vault: Vault, clock: Pauses) -> None:
    keys = keys_in(vault, clock)
    old_state = seal(keys)
    vault.put(SECOND)
    clock.s = MAX_KEY_AGE_S - 1
    assert seal(keys) == old_state
    clock.s = MAX_KEY_AGE_S + 1

    assert seal(keys) != old_state
    assert open_state(keys, old_state) == {"name": "yes"}


def test_forged_states_cannot_cause_frequent_reads(vault: Vault, clock: Pauses) -> None:
    keys = keys_in(vault, clock)
    forged_state = Seal(lambda: (b"f" * 32,)).seal({}, BINDING, NOW_S)

    def reads_of_forged_states(times: int) -> list[str]:
        for _ in range(times):
            with pytest.raises(ForgedState):
                open_state(keys, forged_state)
        return vault.take()

    assert reads_of_forged_states(5) == ["AWSCURRENT", "AWSCURRENT", "AWSPREVIOUS"]
    clock.s = MIN_READ_INTERVAL_S - 1
    assert reads_of_forged_states(5) == []
    clock.s = MIN_READ_INTERVAL_S
    assert reads_of_forged_states(5) == ["AWSCURRENT", "AWSPREVIOUS"]


def test_a_failed_read_of_the_secret_is_logged_counted_and_tried_again_later(
    vault: Vault, clock: Pauses, caplog: pytest.LogCaptureFixture
) -> None:
    collector = Collector()
    keys = keys_in(vault, clock, collector)
    with vault.hushed():
        for clock.s in (0, MIN_READ_INTERVAL_S):
            with pytest.raises(KeyUnavailable, match="send the request again") as error_info:
                seal(keys)
            assert error_info.value.code == INTERNAL_ERROR
    [first_record, _] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert vault.arn in first_record.getMessage()
    assert first_record.exc_info
    assert [(note.metric, note.value) for note in collector.take().measurements] == [(INTERNAL_ERRORS, 1)] * 2

    clock.s = 2 * MIN_READ_INTERVAL_S
    assert open_state(keys, seal(keys)) == {"name": "yes"}


def test_after_a_failed_read_not_every_request_reads_the_secret(vault: Vault, clock: Pauses) -> None:
    keys = keys_in(vault, clock)
    with vault.hushed():
        for _ in range(20):
            with pytest.raises(KeyUnavailable):
                seal(keys)

    assert vault.take() == ["AWSCURRENT"]


def test_known_keys_are_used_for_ten_more_minutes_if_the_secret_cannot_be_read(vault: Vault, clock: Pauses) -> None:
    oldest_state = seal(keys_in(vault, clock))
    vault.put(SECOND)
    keys = keys_in(vault, clock)
    state = seal(keys)
    assert open_state(keys, oldest_state) == {"name": "yes"}

    with vault.hushed():
        clock.s = MAX_KEY_AGE_S + 599
        assert seal(keys) == state
        assert [open_state(keys, known_state) for known_state in (state, oldest_state)] == [{"name": "yes"}] * 2
        clock.s = MAX_KEY_AGE_S + 600
        for _ in range(2):
            with pytest.raises(KeyUnavailable):
                seal(keys)
        with pytest.raises(KeyUnavailable):
            open_state(keys, state)
    clock.s += MIN_READ_INTERVAL_S
    assert seal(keys) == state


def test_a_signature_that_cannot_be_checked_is_not_reported_as_forged(vault: Vault, clock: Pauses) -> None:
    keys = keys_in(vault, clock)
    old_state = seal(keys_in(vault, clock))
    vault.put(SECOND)
    seal(keys)
    with vault.hushed(), pytest.raises(KeyUnavailable):
        open_state(keys, old_state)

    clock.s = MIN_READ_INTERVAL_S
    assert open_state(keys, old_state) == {"name": "yes"}


@pytest.mark.parametrize("value", ["k" * 31, b"k" * 31])
def test_a_key_that_is_too_short_is_refused_and_logged(
    value: str | bytes, clock: Pauses, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(KeyUnavailable):
        seal(keys_in(new_vault(value), clock))

    assert "32 characters or more" in caplog.text


def test_a_binary_secret_is_a_valid_key(clock: Pauses) -> None:
    keys = keys_in(new_vault(bytes(range(32))), clock)

    assert open_state(keys, seal(keys)) == {"name": "yes"}
