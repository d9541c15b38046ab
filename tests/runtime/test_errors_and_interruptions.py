import base64
import json
from pathlib import Path
from typing import Any

import pytest

from emulators.delivery import PATIENCE_S, Delivery, Reaction
from emulators.runtime_api import RuntimeApi
from tests.runtime.conftest import Start

ERROR_TYPE = "lambda-runtime-function-error-type"
ERROR_BODY = "lambda-runtime-function-error-body"


def test_an_error_before_a_stream_is_posted_as_an_error(api: RuntimeApi, start: Start) -> None:
    start("plain.failing")
    answer = api.invoke({"message": "no such order"}).wait()
    error: Any = answer.json()
    assert answer.kind == "error"
    assert (error["errorType"], error["errorMessage"]) == ("ValueError", "no such order")


def test_an_error_within_a_stream_ends_it_with_trailers(api: RuntimeApi, start: Start) -> None:
    function = start("plain.failing")
    answer = api.invoke({"parts": ["half an"], "message": "no such order"}).wait()
    error = _error_of(answer)
    assert (answer.kind, answer.whole, answer.streamed) == ("response", True, b"half an")
    assert answer.trailers[ERROR_TYPE] == "ValueError"
    assert (error["errorType"], error["errorMessage"]) == ("ValueError", "no such order")
    assert error["requestId"] == "00000000-0000-4000-8000-000000000001"
    assert "raise ValueError(message)" in error["stackTrace"][-1]
    assert b"no such order" in function.log.read_bytes()


def test_a_large_error_is_shortened_to_valid_json_in_the_trailers_and_the_connection_is_kept(
    api: RuntimeApi, start: Start
) -> None:
    start("plain.failing")
    connections = set()
    for message, depth in (("ö" * 100_000, 0), ('"\\\n' * 5_000, 0), ("deep", 500), ("both" * 9_000, 500)):
        answer = api.invoke({"parts": ["half"], "message": message, "depth": depth}).wait()
        connections.add(answer.connection)
        error = _error_of(answer)
        assert sum(len(name) + len(value) + 4 for name, value in answer.trailers.items()) < 3_072
        assert message.startswith(error["errorMessage"].rstrip("…"))
        assert len(error["errorMessage"]) == len(message) or error["errorMessage"].endswith("…")
        assert depth == 0 or error["stackTrace"] == [] or "raise ValueError" in error["stackTrace"][-1]
    assert len(connections) == 1


@pytest.mark.parametrize("reaction", [Reaction(after_chunks=2, hang_up=True), Reaction(after_chunks=2, status=413)])
@pytest.mark.parametrize("is_raised", [False, True])
def test_a_disconnect_raises_in_the_handler_and_the_next_invocation_is_served(
    api: RuntimeApi, start: Start, gate: Path, reaction: Reaction, is_raised: bool
) -> None:
    start("plain.interrupted")
    answer = api.invoke({"parts": ["a", "b"], "gate": str(gate), "raise": is_raised}, reaction).wait()
    gate.write_bytes(b"")
    assert not answer.whole
    assert api.invoke({}).wait().json() == ["client gone"]
    streamed = api.invoke({"parts": ["c", "d"]}).wait()
    assert (streamed.streamed, streamed.connection != answer.connection) == (b"cd", True)


@pytest.mark.parametrize("reaction", [Reaction(hang_up=True), Reaction(status=403)])
def test_an_unconfirmed_response_does_not_stop_the_runtime(api: RuntimeApi, start: Start, reaction: Reaction) -> None:
    function = start("plain.streamed")
    api.invoke({"parts": ["a"]}, reaction).wait()
    assert api.invoke({"parts": ["b"]}).wait().streamed == b"b"
    assert function.process.poll() is None
    assert (b"status 403" in function.log.read_bytes()) == (reaction.status == 403)


def test_an_error_that_cannot_be_posted_does_not_stop_the_runtime(api: RuntimeApi, start: Start) -> None:
    function = start("plain.failing")
    api.invoke({"message": "one"}, Reaction(status=500)).wait()
    api.invoke({"message": "two", "parts": ["a"]}, Reaction(status=500)).wait()
    error: Any = api.invoke({"message": "three"}).wait().json()
    assert error["errorMessage"] == "three"
    assert b"could not be posted" in function.log.read_bytes()


def test_a_function_that_cannot_be_imported_is_an_init_error(api: RuntimeApi, start: Start) -> None:
    function = start("broken.handler")
    path, body = api.reports.get(timeout=PATIENCE_S)
    assert path == "/2018-06-01/runtime/init/error"
    assert json.loads(body)["errorMessage"] == "no table is configured"
    assert function.process.wait(PATIENCE_S) == 1


def _error_of(answer: Delivery) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(base64.b64decode(answer.trailers[ERROR_BODY], validate=True))
    return error
