"""The parts of the testing kit."""

from threading import Thread

import pytest

from mcp_baton.protocol.json import JsonObject
from mcp_baton.testing.function import FUNCTION_TIMEOUT_S, Clock, Invocations, Killed
from mcp_baton.testing.mcp_client import result_in
from mcp_baton.testing.wire import Stream


def test_two_readings_of_the_clock_differ() -> None:
    clock = Clock()
    readings = [clock.now_ms() for _ in range(1000)]
    assert readings == sorted(set(readings))


def test_advance_changes_both_times() -> None:
    clock = Clock()
    start_ms, start_s = clock.now_ms(), clock.monotonic_s()
    clock.advance(1.5)
    assert clock.now_ms() - start_ms >= 1500
    assert clock.monotonic_s() - start_s >= 1.5
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1)
    with pytest.raises(ValueError, match="or a timedelta"):
        clock.advance("1h")  # type: ignore[arg-type]


def test_each_invocation_has_its_full_time() -> None:
    clock = Clock()
    invocations = Invocations(clock)
    clock.advance(1000)
    with invocations.begin(is_repeat=False) as first_invocation:
        assert first_invocation.get_remaining_time_in_millis() > (FUNCTION_TIMEOUT_S - 10) * 1000
        clock.advance(FUNCTION_TIMEOUT_S)
        assert first_invocation.get_remaining_time_in_millis() == 0
        with invocations.begin(is_repeat=False) as second_invocation:
            assert second_invocation.get_remaining_time_in_millis() > 0
        invocations.remaining_s(50)
        assert 40_000 < first_invocation.get_remaining_time_in_millis() <= 50_000


def test_a_thread_without_an_invocation_uses_the_newest() -> None:
    invocations, actions = Invocations(Clock()), []

    def work() -> None:
        try:
            invocations.note_action("work")
        except Killed as killed:
            actions.append(killed.after)

    kill = invocations.kill_after("work")
    assert invocations.current is None
    work()
    with invocations.begin(is_repeat=False), invocations.begin(is_repeat=False) as last_invocation:
        thread = Thread(target=work)
        thread.start()
        thread.join()
        assert (actions, last_invocation.killed_after, kill.happened) == (["work"], "work", True)


def test_a_stream_can_be_read_in_chunks_of_any_size() -> None:
    messages: list[JsonObject] = []
    stream = Stream(messages.append)
    events = ['event: message\ndata: {"id": 1,\ndata: "method": "roots/list"}', ": keep-alive", 'data: {"result": "ü"}']
    for byte in "".join(f"{event}\n\n" for event in events).encode():
        stream.write(bytes([byte]))
    assert messages == [{"id": 1, "method": "roots/list"}, {"result": "ü"}]


def test_an_invalid_answer_is_an_error() -> None:
    with pytest.raises(TypeError, match="HTTP 500"):
        result_in({"error": "internal error"}, 500)
    with pytest.raises(TypeError, match="HTTP 202"):
        result_in({}, 202)
