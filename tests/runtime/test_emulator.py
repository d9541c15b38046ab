"""The same runtime with AWS's own runtime interface emulator, which checks every request against the real state
machine.

The emulator returns streamed responses whole, including the prelude, and drops trailers.
"""

import json
import platform
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from emulators.delivery import PATIENCE_S
from tests.processes import missing
from tests.runtime.conftest import FUNCTIONS, Start

_ARCHITECTURE = {"x86_64": "x86_64", "aarch64": "arm64"}
_GET_IT = "uv sync --project tests/sam --frozen"

type Invoke = Any
"""`invoke(handler, *events)` returns the bytes of each response."""


@pytest.fixture(scope="module")
def emulator() -> Path:
    """The emulator's binary. In CI, its absence is a failure."""
    name = f"aws-lambda-rie-{_ARCHITECTURE.get(platform.machine(), platform.machine())}"
    binaries = sorted(
        (Path(__file__).parents[1] / "sam" / ".venv").glob(f"lib/python*/site-packages/samcli/local/rapid/{name}")
    )
    if sys.platform != "linux" or not binaries:
        missing(f"AWS's runtime interface emulator ({name}, Linux) is not here; get it with `{_GET_IT}`")
    binaries[0].chmod(0o755)
    return binaries[0]


@pytest.fixture
def invoke(emulator: Path, wrapper: Path, start: Start) -> Iterator[Invoke]:
    """Invoke a handler under the emulator, through the exec wrapper."""
    with httpx.Client(timeout=PATIENCE_S, transport=httpx.HTTPTransport(retries=10)) as client:

        def invoke_all(handler: str, *events: object, **environment: str) -> list[bytes]:
            runtime_api, address = _free_address(), _free_address()
            command = [str(emulator), "--runtime-api-address", runtime_api]
            command += ["--runtime-interface-emulator-address", address]
            command += [str(wrapper), sys.executable, "/var/runtime/bootstrap.py"]
            start(handler, command, LAMBDA_TASK_ROOT=str(FUNCTIONS), **environment)
            url = f"http://{address}/2015-03-31/functions/function/invocations"
            return [client.post(url, json=event).content for event in events]

        yield invoke_all


def test_the_emulator_accepts_consecutive_streamed_responses(invoke: Invoke) -> None:
    events = [{"headers": {"X-Number": str(number)}, "parts": ["one ", str(number)]} for number in range(5)]
    answers = invoke("plain.streamed", *events)
    for number, answer in enumerate(answers):
        prelude, body = answer.split(b"\0" * 8)
        assert json.loads(prelude) == {"statusCode": 200, "headers": {"X-Number": str(number)}}
        assert body == b"one %d" % number


def test_the_emulator_accepts_alternating_whole_and_streamed_responses(invoke: Invoke) -> None:
    whole_answer, streamed_answer, last_answer = invoke(
        "plain.large", {"whole": True, "size": 3}, {"count": 2, "size": 500_000}, {"whole": True, "size": 4}
    )
    assert (json.loads(whole_answer), json.loads(last_answer)) == ("xxx", "xxxx")
    assert streamed_answer.split(b"\0" * 8, 1)[1] == b"\0" * 500_000 + b"\1" * 500_000


def test_the_emulator_continues_after_errors_before_and_within_a_stream(invoke: Invoke) -> None:
    error_in_stream, error_before_stream, large_error_in_stream = invoke(
        "plain.failing", {"parts": ["half"], "message": "a"}, {"message": "b"}, {"parts": ["h"], "message": "c" * 9_000}
    )
    assert error_in_stream.endswith(b"\0half")
    assert json.loads(error_before_stream)["errorMessage"] == "b"
    assert large_error_in_stream.endswith(b"\0h")


def _free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"
